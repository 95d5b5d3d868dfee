"""Tasks from a user's own data, by settings alone.

`settings` says where data come from and which field is what, `templates` makes texts of fields, `records` reads
files, `data_sets` those of the library datasets, `test_sets` those of sacrebleu, `reading` makes examples of records,
`tasks` has the tasks, and `api` what other plugins may import.
"""
