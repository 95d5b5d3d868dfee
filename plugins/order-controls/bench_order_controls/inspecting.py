"""Compares the length of a control with the planned updates of its models, without torch."""

from bench_core import Inspection
from bench_order_controls.plugin import OrderControlConfig

#: Rows of training per table entry, given the right order: measured with 64 dimensions, six digits took about 60.
ROWS_PER_LOOKUP = 50


def inspect(config: OrderControlConfig, inspection: Inspection) -> None:
    """Warn if the planned updates of some models are too few for the longest targets."""
    needed = ROWS_PER_LOOKUP * config.lookups()
    few = {model: rows for model, rows in inspection.rows.items() if rows < needed}
    if few:
        inspection.warnings.append(
            f"the planned updates of {', '.join(map(repr, few))} read {min(few.values()):,} rows or more, but "
            f"targets of {config.most} tokens look up {config.lookups():,} table entries, which take about "
            f"{needed:,} rows to learn. Increase `updates`, or reduce `most`."
        )
