"""Tasks from your own data, defined by settings alone.

`settings` selects the data and fields of each split, and `templates` fills templates with fields. `records` reads
files, `data_sets` reads data sets of the library `datasets`, and `test_sets` reads test sets of sacrebleu. `reading`
converts records to examples, `tasks` has the tasks, and `api` is the interface for other plugins.
"""
