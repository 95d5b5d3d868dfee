"""Checks that every name used in a suite is defined."""

from __future__ import annotations

from bench_core.suites.choice_check import check_choices
from bench_core.suites.figure_check import check_figures
from bench_core.suites.names import Names
from bench_core.suites.schema import Select
from bench_core.suites.table_check import check_tables


def check_names(names: Names) -> None:
    """Report every undefined name."""
    for number, skip in enumerate(names.suite.skip):
        for axis, skipped in skip:
            names.known(("skip", number, axis), axis, skipped)
    check_choices(names)
    check_tables(names)
    check_figures(names)
    for name, entry in names.suite.models.items():
        for anywhere in entry.all:
            _check_select(names, name, anywhere.training.select)
    if names.suite.claims:
        from bench_core.suites.claim_check import check_claims  # only suites with claims pay for it

        check_claims(names)


def _check_select(names: Names, name: str, select: Select) -> None:
    own = "training" in names.source.data["models"].get(name, {})
    keys = [*(("models", name) if own else ()), "training", "select"]
    if select.metric != "loss":
        names.known([*keys, "metric"], "metric", [select.metric])
    if select.decoder is not None:
        names.known([*keys, "decoder"], "decoder", [select.decoder])
