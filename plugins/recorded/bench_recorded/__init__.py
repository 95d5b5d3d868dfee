"""Recorded outputs of any system, as models of a suite or scored without a suite.

`reading` parses file formats, `matching` assigns outputs to examples, and `system` is the model that returns them.
`references` is a task that has only references; `scoring` uses it to score files for `bench score`.
"""
