"""The output of `bench score` as text and as JSON data."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tabulate import tabulate

from bench_core.terminal import visible
from bench_recorded.scoring.request import TABLE, ScoreRequest
from bench_recorded.scoring.sacrebleu_tests import SystemResult
from bench_recorded.scoring.scores import ScoreResult
from bench_reports.api import table_records, tables_text

TESTS = {"bootstrap": "paired bootstrap resampling", "permutation": "paired approximate randomization"}

ONE_TAILED = "  This bootstrap test is one-tailed; p-values of the two-tailed test above are at least twice as large."


def as_text(request: ScoreRequest, result: ScoreResult, width: int) -> str:
    """Return the table with our tests, followed by sacrebleu's tests, for a terminal of `width` characters."""
    parts = ["\n".join([tables_text(result.run, width).rstrip(), *(f"  {note}." for note in _changes(request))])]
    if result.tests:
        notes = [f"  {name}: {test.signature}" for name, test in result.tests.items()]
        parts.append(f"sacrebleu's own {TESTS[request.test]}, as printed by its command:")
        parts.append(_tests_table(request, result))
        parts.append("\n".join([*notes, *([ONE_TAILED] if request.test == "bootstrap" else [])]))
    return "\n\n".join(parts)


def as_data(request: ScoreRequest, result: ScoreResult) -> dict[str, Any]:
    """Return the numbers of the table and of sacrebleu's tests as JSON data."""
    return {
        "systems": dict(zip(request.names, map(str, request.outputs), strict=True)),
        "pieces": dict(zip(request.names, request.all_pieces, strict=True)),
        "reference_pieces": request.reference_pieces,
        "thinking": request.thinking,
        "scores": table_records(result.run)[TABLE],
        "sacrebleu": {
            name: {
                "signature": test.signature,
                "systems": dict(zip(request.names, map(asdict, test.systems), strict=True)),
            }
            for name, test in result.tests.items()
        },
    }


def _changes(request: ScoreRequest) -> Iterator[str]:
    """Yield notes on how scored texts differ from the texts in the files."""
    pairs = zip(request.names, request.all_pieces, strict=True)
    for name, pieces in (*pairs, ("References", request.reference_pieces)):
        if pieces:
            yield f"{visible(name)}: {'pieces not joined' if pieces == 'none' else f'{pieces} pieces joined'}"
    if request.thinking != "refuse":
        yield f"Thinking in outputs: {request.thinking}"


def _tests_table(request: ScoreRequest, result: ScoreResult) -> str:
    columns = [map(_entry, test.systems) for test in result.tests.values()]
    rows = zip(map(visible, request.names), *columns, strict=True)
    return str(tabulate(rows, ["System", *result.tests], disable_numparse=True))


def _entry(test: SystemResult) -> str:
    """Return the score, mean, half width and p-value of a system, rounded as by sacrebleu."""
    interval = "" if test.mean is None or test.half_width is None else f" ({test.mean:.1f} ± {test.half_width:.1f})"
    return f"{test.score:.1f}{interval}" + ("" if test.p is None else f", p = {test.p:.4f}")
