"""Verification of reports and of this plugin's files in runs, independent of the code that wrote them.

`written_tables` reads tables back from Markdown, LaTeX and HTML, `report` compares the files of a report with its run
and with one another, and `run` compares example files of figures and permutation tests with the store.
"""
