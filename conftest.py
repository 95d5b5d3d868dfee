"""What holds for all tests: some interrupt what they start, also where signals to interrupt were ignored (nohup)."""

from __future__ import annotations

import signal
from importlib.util import find_spec
from pathlib import Path

# plugins that are not installed, as those for clusters are not by `make setup`
collect_ignore = [
    str(package.parent.relative_to(Path(__file__).parent))
    for package in Path(__file__).parent.glob("plugins/*/bench_*")
    if find_spec(package.name) is None
]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
