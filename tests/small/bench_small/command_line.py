"""The command line in this process: no process starts, and torch is imported already."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from bench_core.commands.main import main


def bench_here(*words: object, folder: Path | None = None, **environment: str) -> CompletedProcess[str]:
    """Run `bench` with these words in this process, in a folder; return what it printed and its exit code."""
    command = ["bench", *map(str, words)]
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with (
        contextlib.chdir(folder or Path.cwd()),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        mock.patch.object(sys, "argv", command),
        mock.patch.dict(os.environ, {"COLUMNS": "200", **environment}),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code
    out, errors = (stream.buffer.getvalue().decode("utf-8") for stream in streams)
    return CompletedProcess(command, code, out, errors)
