"""An additional process for training on several devices, started by `process_group`.

The process reads its task from the first line of its input, and ends when its input is closed.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from threading import Thread
from typing import IO

from bench_core.computing.context import Peer
from bench_core.computing.stage_runner import StageRunner
from bench_core.errors import BenchError, Stopped
from bench_core.planning.stage_code import meaning_of
from bench_core.planning.stages import StageRequest
from bench_core.storage.store import Store


def main() -> None:
    """Participate in training; process 0 writes the weights."""
    task = json.loads(sys.stdin.buffer.readline())
    Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    request = StageRequest.from_json(task["request"])
    runner = StageRunner(Store(Path(task["store"])), Path(task["data"]), request=request)
    runner.peer = Peer(task["rank"], task["place"])
    with tempfile.TemporaryDirectory() as folder:
        try:
            with meaning_of(request.stage):
                runner.perform(request.stage, Path(folder))
        except Stopped:  # process 0 stops at the time limit, too
            return
        except BenchError as error:
            sys.exit(str(error))


def _end_with(pipe: IO[bytes]) -> None:
    """End this process when the pipe is closed."""
    while pipe.read(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
