"""The deeds of one part that may change what others compute, and harmless ones beside them."""

from __future__ import annotations

from bench_deeds.doing import Case
from bench_deeds.harmless import HARMLESS
from bench_deeds.processes import PROCESSES
from bench_deeds.replaced_code import REPLACED_CODE
from bench_deeds.replaced_parts import REPLACED_PARTS
from bench_deeds.settings_changed import SETTINGS

HARMFUL: tuple[Case, ...] = (*REPLACED_CODE, *REPLACED_PARTS, *SETTINGS, *PROCESSES)
CASES: dict[str, Case] = {case.name: case for case in (*HARMFUL, *HARMLESS)}
assert len(CASES) == len(HARMFUL) + len(HARMLESS), "names of cases are unique"
