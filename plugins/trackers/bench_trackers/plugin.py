"""The Configs and hooks of this plugin; imports neither TensorBoard nor Weights & Biases."""

from collections.abc import Set
from pathlib import Path

from bench_core import ObserverConfig, hookimpl


class JsonLinesConfig(ObserverConfig):
    """All events as JSON lines, one file per run: DIR/RUN.jsonl."""

    name, target = "jsonl", "bench_trackers.jsonl:JsonLines"

    dir: Path = Path("observed")  #: folder of the files


class TensorBoardConfig(ObserverConfig):
    """TensorBoard event files, one folder per training run: DIR/SUITE/TRAINING."""

    name, target = "tensorboard", "bench_trackers.tensorboard:TensorBoard"

    dir: Path = Path("tensorboard")  #: folder for `tensorboard --logdir`

    def extras(self) -> Set[str]:
        return {"tensorboard"}


class WandbConfig(ObserverConfig):
    """Weights & Biases, always offline: one run per training run, grouped by suite; `wandb sync` uploads them."""

    name, target = "wandb", "bench_trackers.wandb:WeightsAndBiases"

    dir: Path = Path("wandb-offline")  #: folder of wandb's files
    project: str = "bench"  #: project of Weights & Biases
    entity: str | None = None  #: user or team of Weights & Biases

    def extras(self) -> Set[str]:
        return {"wandb"}


@hookimpl
def bench_observers() -> list[type[ObserverConfig]]:
    """Return all observers."""
    return [JsonLinesConfig, TensorBoardConfig, WandbConfig]
