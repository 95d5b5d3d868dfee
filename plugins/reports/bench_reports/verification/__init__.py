"""Verification of reports and of what this plugin adds to runs: nothing here trusts the code that wrote them.

`written_tables` reads tables back from Markdown, LaTeX and HTML, `report` compares the files of a report with its run
and with each other, `run` compares what figures show of examples, and permutation tests, with the store of a run.
"""
