"""A process that performs stages: `python -m bench_core.execution.worker STORE DATA`.

It reads an order a line, as JSON, and answers with lines of its own: `{"tell": [text,
share]}` and `{"warn": text}` while it works, then `{"done": true}` or `{"failed": {...}}`. When its input ends, so
does it, whatever it is doing: nobody is left to ask for it. It is told to stop by SIGTERM, and leaves nothing
half-written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, TextIO

PATIENCE = 30.0  # seconds to clean up


def main() -> None:
    """Perform stages until there are no more."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    store, data = (Path(word) for word in sys.argv[1:3])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what plugins print is no answer
    lines: Queue[str] = Queue()
    Thread(target=_listen, args=(lines,), daemon=True).start()

    from bench_core.computing.stages import Workshop
    from bench_core.execution.executor import carry_out
    from bench_core.storage.store import Store

    kept = Store(store, warn=lambda text: _answer(answers, {"warn": text}))
    workshop = Workshop(kept, data, lambda text, share: _answer(answers, {"tell": [text, share]}))
    while True:
        _answer(answers, carry_out(json.loads(lines.get()), workshop))


def _listen(lines: Queue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(1)


def _answer(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
