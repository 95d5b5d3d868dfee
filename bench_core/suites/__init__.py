"""The language of suite files, and the checks that a suite is valid.

`schema` is the language, `yaml_source` reads files and remembers the place of every value, `grids` expands
hyper-parameter grids, `parts` looks parts up, `load` combines all of this into a `suite` of `cells`; the files called
`check` find problems. What is invalid is absent from a suite, or `partial`: reading it stops the one check that needs
it, so that no mistake hides another. Not here: planning a run (`planning`), and tables, figures, claims and choices,
which are sections of a plugin.
"""

#: What readers of finished runs may build on, besides the interfaces.
PUBLIC = (
    "axes", "cells", "check", "grids", "load", "names", "parts", "problems", "partial", "schema", "sections",
    "setting_values", "suite", "training", "value_messages", "yaml_source",
)  # fmt: skip
