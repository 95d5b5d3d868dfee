"""What `bench score` prints."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tabulate import tabulate

from bench_core.terminal import visible
from bench_recorded.scoring.request import TABLE, Scoring
from bench_recorded.scoring.sacrebleu_tests import SystemResult
from bench_recorded.scoring.scores import Scores
from bench_reports.api import table_records, tables_text

TESTS = {"bootstrap": "paired bootstrap resampling", "permutation": "paired approximate randomization"}

ONE_TAIL = "  Its bootstrap counts one tail, so that these p-values are about half of those of the table."


def as_text(scoring: Scoring, found: Scores, width: int) -> str:
    """Return the table with our tests, then the tests of sacrebleu, for a terminal."""
    parts = ["\n".join([tables_text(found.run, width).rstrip(), *(f"  {one}." for one in _altered(scoring))])]
    if found.tests:
        notes = [f"  {name}: {result.signature}" for name, result in found.tests.items()]
        parts.append(f"sacrebleu's own {TESTS[scoring.test]}, as its command prints it:")
        parts.append(_tests_table(scoring, found))
        parts.append("\n".join([*notes, *([ONE_TAIL] if scoring.test == "bootstrap" else [])]))
    return "\n\n".join(parts)


def as_data(scoring: Scoring, found: Scores) -> dict[str, Any]:
    """Return the numbers of the table, and of sacrebleu, as JSON data."""
    return {
        "systems": dict(zip(scoring.names, map(str, scoring.outputs), strict=True)),
        "pieces": dict(zip(scoring.names, scoring.all_pieces, strict=True)),
        "reference_pieces": scoring.reference_pieces,
        "thinking": scoring.thinking,
        "scores": table_records(found.run)[TABLE],
        "sacrebleu": {
            name: {
                "signature": result.signature,
                "systems": dict(zip(scoring.names, map(asdict, result.systems), strict=True)),
            }
            for name, result in found.tests.items()
        },
    }


def _altered(scoring: Scoring) -> Iterator[str]:
    """Yield how texts are compared otherwise than as they stand in their files."""
    pairs = zip(scoring.names, scoring.all_pieces, strict=True)
    for name, pieces in (*pairs, ("References", scoring.reference_pieces)):
        if pieces:
            yield f"{visible(name)}: pieces {'as they are' if pieces == 'none' else f'of {pieces}, joined'}"
    if scoring.thinking != "refuse":
        yield f"Thinking in outputs: {scoring.thinking}"


def _tests_table(scoring: Scoring, found: Scores) -> str:
    columns = [map(_entry, result.systems) for result in found.tests.values()]
    rows = zip(map(visible, scoring.names), *columns, strict=True)
    return str(tabulate(rows, ["System", *found.tests], disable_numparse=True))


def _entry(one: SystemResult) -> str:
    """Return a score, the mean and the half width of its interval, and its p-value, as sacrebleu rounds them."""
    interval = "" if one.mean is None or one.half_width is None else f" ({one.mean:.1f} ± {one.half_width:.1f})"
    return f"{one.score:.1f}{interval}" + ("" if one.p is None else f", p = {one.p:.4f}")
