"""The artifact store: results under keys that hash everything they depend on.

`store` finds and writes artifacts, `artifact` is one on disk, `contents` lists the files of each kind, `file_formats`
validates them, `locks` synchronizes processes, `costs` remembers what stages cost. Not here: computing artifacts
(`computing`), run folders (`runs`), and cleaning up (`plugins/upkeep`).
"""

#: What those may build on who read what is stored, besides the interfaces.
PUBLIC = (
    "artifact",
    "checkpoints",
    "code_listings",
    "contents",
    "costs",
    "file_formats",
    "outcomes",
    "store",
)
