"""From a suite to the stages that it takes, each once, and the keys of what they leave.

`plan` makes `stages` of cells, `keys` says what an artifact depends on, `path_settings` puts digests in the place of
files, `hardware` looks for devices. Not here: whether something is stored (`storage`), and who performs it
(`execution`).
"""
