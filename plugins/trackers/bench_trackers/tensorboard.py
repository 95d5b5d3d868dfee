"""TensorBoard: event files, written by TensorBoard itself, without TensorFlow or torch."""

import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from bench_core import Evaluation, Event, Number, Observer, RunStarted, StageEnded, TrainingStarted, Update
from bench_trackers.names import LETTERS, curves, file_name, number_name, training_folder
from bench_trackers.plugin import TensorBoardConfig

SECONDS = 10  # between two flushes


class TensorBoard(Observer):
    """A folder for each training, which every run of it continues, and one for the numbers of a run, by seed.

    Where a training goes on from a checkpoint, TensorBoard forgets what an earlier run wrote of later steps.
    """

    def __init__(self, config: TensorBoardConfig) -> None:
        self.config = config
        self.suite = config.dir
        self.numbers = "numbers"
        self.writers: dict[str, EventFileWriter] = {}  # open ones, by folder

    def hear(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.suite = self.config.dir / file_name(event.suite)
            self.numbers = f"numbers/{file_name(event.run)}"
        elif isinstance(event, TrainingStarted):
            # TensorBoard drops what it has of this step and later; those of a checkpoint's own were written before
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
            self._close([name for name in self.writers if name.endswith(f"-{event.key[:LETTERS]}")])

    def close(self) -> None:
        self._close([*self.writers])

    def _write(self, folder: str, record: Record) -> None:
        if folder not in self.writers:
            self.writers[folder] = EventFileWriter(str(Path(self.suite, folder)), flush_secs=SECONDS)
        self.writers[folder].add_event(record)

    def _close(self, folders: list[str]) -> None:
        for folder in folders:
            self.writers.pop(folder).close()


def _point(name: str, step: int, value: float) -> Record:
    """Return a point of a curve."""
    summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
    return Record(wall_time=time.time(), step=step, summary=summary)
