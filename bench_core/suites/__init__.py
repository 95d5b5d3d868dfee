"""The language of suite files, and the checks that a suite is valid.

`schema` defines the language, `yaml_source` reads files, `grids` expands hyperparameter grids, `parts` finds parts,
`load` combines all of this into a `suite` of `cells`; `check` finds problems. Invalid sections of a suite are absent
or unreadable; only the checks that need them are skipped, so that no mistake hides another. Not here: places
and validation of settings (the library `placed_settings`), planning a run (`planning`), and tables, figures, claims
and choices, which are sections of a plugin.
"""

#: Modules that readers of finished runs may use, besides the interfaces.
PUBLIC = (
    "axes", "cells", "check", "grids", "load", "names", "parts", "schema", "sections", "suite", "training",
    "yaml_source",
)  # fmt: skip
