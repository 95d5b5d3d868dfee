"""Tasks from your own data, defined by settings alone.

`settings` selects the data and fields of each split, `templates` fills templates with fields, `records` reads files,
`data_sets` data sets of the library datasets, `test_sets` test sets of sacrebleu, `reading` converts records to
examples, `tasks` has the tasks, and `api` is the interface for other plugins.
"""
