"""Second looks at what parts return while stages are computed: some of it is computed, or read, again.

`models` decodes and scores some `rows` again, alone and in other batches, and follows the steps of the model;
`metrics` measures some outcomes again, `tasks` reads prepared data again. Each has a `LOOK`, which the core uses
where this distribution is installed. What differs is refused; no look changes a result.
"""
