"""What a suite says: its keys, its names, and whether all of it fits together.

`schema` is the language, `yaml_source` reads files with the places of what stands there, `grids` expands models with
grids, `parts` looks parts up, `load` brings all of it together into a `suite` of `cells`; the files called `check`
find mistakes. Not here: what a suite takes to be carried out (`planning`), and what is made of its tables, figures
and claims (a plugin).
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = (
    "cells", "expressions", "grids", "heatmap_axes", "load", "parts", "problems", "published", "schema",
    "yaml_source",
)  # fmt: skip
