"""Events as JSON lines."""

import json
import math
from typing import IO, Any

from bench_core import Event, Observer, RunStarted, event_to_json
from bench_trackers.names import file_name
from bench_trackers.plugin import JsonLinesConfig


class JsonLines(Observer):
    """Writes each event immediately as one line; infinities and NaN become strings, as Python prints them."""

    def __init__(self, config: JsonLinesConfig) -> None:
        self.config = config
        self.file: IO[str] | None = None

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.config.dir.mkdir(parents=True, exist_ok=True)
            place = self.config.dir / f"{file_name(event.run)}.jsonl"
            self.file = place.open("a", encoding="utf-8", buffering=1)
        if self.file is not None:
            line = json.dumps(_plain(event_to_json(event)), ensure_ascii=False, allow_nan=False, default=str)
            self.file.write(f"{line}\n")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def _plain(value: Any) -> Any:
    """Return data in which infinities and NaN, which JSON lacks, are strings."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
