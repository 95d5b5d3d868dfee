"""Recorded outputs of any system, beside models of a suite; and scores of files without a suite.

`reading` holds the formats of files, `matching` finds the output of each example, and `system` is the model that
gives them back. `references` is a task of references alone, on which `scoring` scores files for `bench score`.
"""
