"""Planning: from a suite to its stages, each once, with the cache keys of their artifacts.

`plan` derives `stages` from cells, `keys` computes cache keys, `path_settings` replaces files by digests, `hardware`
finds devices, `availability` checks that files and devices are here. Not here: what is stored (`storage`), and
the execution of stages (`execution`).
"""
