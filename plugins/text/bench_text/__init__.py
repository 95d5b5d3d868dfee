"""Text for tasks: corpora by name, their files, and reading them line by line.

`corpora` knows places, digests and licences, `commands` are those of the command line. Other plugins build on `api`.
"""
