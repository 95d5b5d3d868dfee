"""The parts that this plugin provides, as Configs and hooks; imports neither TensorBoard nor Weights & Biases."""

from collections.abc import Set
from pathlib import Path

from bench_core import ObserverConfig, hookimpl


class JsonLinesConfig(ObserverConfig):
    """All events as JSON lines, in a file for each run: DIR/RUN.jsonl."""

    name, target = "jsonl", "bench_trackers.jsonl:JsonLines"

    dir: Path = Path("observed")  #: folder of the files


class TensorBoardConfig(ObserverConfig):
    """Event files of TensorBoard, in a folder for each training: DIR/SUITE/TRAINING."""

    name, target = "tensorboard", "bench_trackers.tensorboard:TensorBoard"

    dir: Path = Path("tensorboard")  #: what `tensorboard --logdir` is given

    def extras(self) -> Set[str]:
        return {"tensorboard"}


class WandbConfig(ObserverConfig):
    """Weights & Biases, always offline: a run for each training, grouped by suite; `wandb sync` uploads them."""

    name, target = "wandb", "bench_trackers.wandb:WeightsAndBiases"

    dir: Path = Path("wandb-offline")  #: folder in which `wandb` writes its own
    project: str = "bench"  #: of Weights & Biases
    entity: str | None = None  #: a user or team of Weights & Biases

    def extras(self) -> Set[str]:
        return {"wandb"}


@hookimpl
def bench_observers() -> list[type[ObserverConfig]]:
    """Return all observers."""
    return [JsonLinesConfig, TensorBoardConfig, WandbConfig]
