"""Second looks: checks that recompute some results of parts while stages run.

`models` decodes and scores some `rows` again, alone and in other batches, and replays the steps of the model;
`metrics` scores some predictions again; `tasks` reads prepared data again. The core uses `LOOK` of each module if
this distribution is installed. Results that differ are rejected; looks never change results.
"""
