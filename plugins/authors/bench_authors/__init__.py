"""The toolkit for authors of parts and suites: contracts of the interfaces, templates, and descriptions of settings.

`testing` has the contracts as tests, toy parts, and the mutants that the contracts must catch. `checker` tests
contracts in a worker process, for all parts of a suite (`suite_contracts`, used by `bench check --contracts`) or for
a model before it is first trained (`contracts_once`). `looks` recomputes some results of stages. `suite_checks`
collects what `bench check` checks beyond the suite file: `target_check`, `availability`, `inspector`.
`settings_words` describes settings, and `commands` has `bench new`, `describe` and `schema`. The core imports these
modules by name if this distribution is installed.
"""
