"""What stages compute; every file here is in the keys of what it made.

`stages` does each kind of them, `train` and `evaluate` are the loops, `checkpoint` makes a training go on where it
stopped, `vmap_training` trains several seeds at once, `resampling` draws samples of examples; the files called
`guard` check what parts return. Not here: processes and machines (`execution`).
"""
