"""The toolkit for authors of parts and suites: contracts of the interfaces, templates, and descriptions of settings.

`testing` has the contracts as tests, toy parts, and the mutants that the contracts must catch. `checker` tests
contracts in a worker process: of all parts of a suite (`suite_contracts`, for `bench check --contracts`) or of a
model before its first training (`contracts_once`). `looks` recomputes some results of stages. `suite_checks` collects
the checks of `bench check` beyond the suite file: `target_check`, `availability`, `inspector`. `settings_words`
describes settings, `commands` has `bench new`, `describe` and `schema`. The core imports these modules by name if
this distribution is installed.
"""
