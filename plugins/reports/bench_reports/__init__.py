"""Reports, made from the run folder alone.

`document.py` defines the document between content and output formats. `statistics` has intervals and significance
tests, `content` fills the document, `figures` draws, `render` writes files, `diff` compares two cells, and `commands`
has the commands of the command line. `api.py` is for plugins that add kinds of figures.
"""
