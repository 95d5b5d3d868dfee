"""Planning: from a suite to its stages, each once, with the cache keys of their artifacts.

`plan` derives `stages` from cells: the `planner` decides which, the `stage_maker` makes them, with keys of
`cache_keys`. `path_settings` replaces files by digests, `hardware` finds devices, `cost_keys` says which stages take
equally long, `code_digests` what is behind stages to the library of that name, which computes the digests. Not here:
what is stored (`storage`), and executing stages (`execution`).
"""

#: What those may build on who perform stages, besides the interfaces.
PUBLIC = (
    "cache_keys", "code_digests", "cost_keys", "hardware", "path_settings", "plan", "stage_code",
    "stages",
)  # fmt: skip
