"""Reports, from what a run left on disk and nothing else.

`document.py` is the document of a report, between its content and the output formats. `statistics` has intervals and
significance tests, `content` fills that document, `figures` draws, `render` writes files, `diff` compares two cells,
and `commands` are those of the command line. `api.py` is for plugins that add kinds of figures.
"""
