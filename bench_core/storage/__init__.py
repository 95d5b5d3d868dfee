"""The artifact store: results, each under a key that hashes everything it depends on.

`store` finds and writes artifacts, `artifact` reads a single artifact, `contents` lists the files of each kind,
`file_formats` validates them, `locks` synchronizes processes, `costs` records the cost of stages. Not here: computing
artifacts (`computing`), run folders (`runs`), and cleaning up (`plugins/upkeep`).
"""

#: Modules that code reading stored artifacts may use, in addition to the interfaces.
PUBLIC = ("artifact", "checkpoints", "code_listings", "contents", "costs", "file_formats", "predictions", "store")
