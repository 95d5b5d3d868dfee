"""Planning: the distinct stages of a suite, with the cache keys of their artifacts.

`plan` derives `stages` from cells: the `planner` decides which are needed, and the `stage_maker` creates them, with
keys from `cache_keys`. `path_settings` replaces files with digests, `hardware` finds devices, `cost_keys` identifies
stages of equal cost, and `code_digests` configures the library of that name, which computes the digests of the code
behind stages. Not here: stored artifacts (`storage`), and the execution of stages (`execution`).
"""

#: Modules that may be used by code that performs stages, besides the interfaces.
PUBLIC = (
    "cache_keys", "code_digests", "cost_keys", "hardware", "path_settings", "plan", "stage_code",
    "stages",
)  # fmt: skip
