"""TensorBoard event files, written by TensorBoard itself, without TensorFlow or torch."""

import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from bench_core import Evaluation, Event, Number, Observer, RunStarted, StageEnded, TrainingStarted, Update
from bench_trackers.names import KEY_CHARACTERS, curves, file_name, number_name, training_folder
from bench_trackers.plugin import TensorBoardConfig

FLUSH_SECONDS = 10


class TensorBoard(Observer):
    """Writes one folder per training run, shared by all suite runs, and one for the numbers of a suite run, by seed.

    If training resumes from a checkpoint, TensorBoard discards later steps of the earlier run.
    """

    def __init__(self, config: TensorBoardConfig) -> None:
        self.config = config
        self.suite = config.dir
        self.numbers = "numbers"
        self.writers: dict[str, EventFileWriter] = {}  # folder -> open writer

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.suite = self.config.dir / file_name(event.suite)
            self.numbers = f"numbers/{file_name(event.run)}"
        elif isinstance(event, TrainingStarted):
            # TensorBoard discards this and later steps; the checkpoint's own step was written before
            restart = SessionLog(status=SessionLog.START)
            step = event.step + 1 if event.step else 0
            self._write(
                training_folder(event.training), Record(wall_time=time.time(), step=step, session_log=restart)
            )
        elif isinstance(event, Update | Evaluation):
            for name, value in curves(event):
                self._write(training_folder(event.training), _point(name, event.step, value))
        elif isinstance(event, Number):
            self._write(self.numbers, _point(number_name(event), int(event.cell["seed"]), event.value))
        elif isinstance(event, StageEnded):
            self._close([name for name in self.writers if name.endswith(f"-{event.key[:KEY_CHARACTERS]}")])

    def close(self) -> None:
        self._close([*self.writers])

    def _write(self, folder: str, record: Record) -> None:
        if folder not in self.writers:
            self.writers[folder] = EventFileWriter(str(Path(self.suite, folder)), flush_secs=FLUSH_SECONDS)
        self.writers[folder].add_event(record)

    def _close(self, folders: list[str]) -> None:
        for folder in folders:
            self.writers.pop(folder).close()


def _point(name: str, step: int, value: float) -> Record:
    """Return a point of a curve."""
    summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
    return Record(wall_time=time.time(), step=step, summary=summary)
