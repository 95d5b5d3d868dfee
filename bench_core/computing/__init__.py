"""What stages compute; every file here is in the keys of what it made.

`stage_runner` performs them, `stages` and `training_stages` say what each kind does with its `context`, `building`
makes parts from settings, `train` and `evaluate` are the loops, `checkpoint` makes a training go on where it stopped,
`vmap_training` trains several seeds at once, `resampling` draws samples of examples; the files called `guard` check
what parts return. Not here: processes and machines (`execution`).
"""
