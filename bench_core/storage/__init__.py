"""What is kept: artifacts under keys made of all that they depend on.

`store` finds and writes them, `artifact` is one on disk, `file_formats` checks what is in their files, `locks` keeps
processes apart, `garbage` cleans up. Not here: how an artifact is computed (`computing`), and run folders (`runs`).
"""

#: What those may build on who read what is stored, besides the interfaces.
PUBLIC = ("artifact", "contents", "csv_files", "draws", "file_formats", "outcomes", "store")
