"""What holds for all tests: some interrupt what they start, also where signals to interrupt were ignored (nohup)."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
