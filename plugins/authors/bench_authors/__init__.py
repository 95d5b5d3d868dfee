"""The kit of authors of parts and suites: contracts of the interfaces, templates, and descriptions of settings.

`testing` has the contracts as tests, the toys and the mutants that contracts must catch. `checker` tries contracts in
a worker process, `suite_contracts` all of a suite (`bench check --contracts`), `contracts_once` those of a model
before its first training; `looks` has second looks at results. `suite_checks` is what `bench check` looks for
besides mistakes in a suite: `target_check`, `availability`, `inspector`. `settings_words` describes settings,
`commands` has `bench new`, `describe` and `schema`. The core finds these modules by their names where this
distribution is installed.
"""
