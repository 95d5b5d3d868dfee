"""Reports, from what a run left on disk and nothing else.

`statistics` tests and resamples, `content` says what stands in a report, `figures` draws, `render` writes files,
`diff` compares two cells, `commands` are those of the command line. `api` is for plugins that add kinds of figures.
"""
