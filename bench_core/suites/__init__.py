"""The language of suite files, and the checks that a suite is valid.

`schema` is the language, `yaml_source` reads files, `grids` expands hyper-parameter grids, `parts` looks parts up,
`load` combines all of this into a `suite` of `cells`; `check` finds problems. What is invalid is absent from a suite,
or cannot be read, which stops the one check that needs it, so that no mistake hides another. Not here: places and
validation of settings (the library `placed_settings`), planning a run (`planning`), and tables, figures, claims and
choices, which are sections of a plugin.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = (
    "axes", "cells", "check", "grids", "load", "names", "parts", "schema", "sections", "suite", "training",
    "yaml_source",
)  # fmt: skip
