"""What a stage has access to: the store, its request, and the cached task and model.

A fingerprint of the model detects whether a stage changed it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_core.computing.building import built, device_of, load_weights
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.data import TaskInfo
from bench_core.errors import Stopped
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage, StageRequest
from bench_core.random_numbers import Noise
from bench_core.registry import configured
from bench_core.storage.store import Artifact, Store

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from bench_core.computing.evaluate import Examples

Tell = Callable[[str, float], None]  # what is going on, and the share that is done


@dataclass
class StageContext:
    """What stages work with; the last task and model stay loaded for the next stages."""

    store: Store
    data: Path
    tell: Tell = lambda text, share: None
    request: StageRequest | None = None  # what is being performed, and for how long
    begun: Callable[[], None] = lambda: None  # hears that there is nothing left to wait for
    home: str = field(default_factory=os.getcwd)  # the working directory of every stage
    kept: dict[str, tuple[str, Any]] = field(default_factory=dict)  # role -> key and what was loaded

    def input(self, stage: Stage, role: str) -> Artifact:
        """Return an input artifact of a stage."""
        return self.store.get(*stage.inputs[role])

    def task(self, stage: Stage) -> tuple[CheckedTask, TaskInfo]:
        """Return the prepared task of a stage, and its information."""
        artifact = self.input(stage, "task")
        if self.kept.get("task", ("",))[0] != stage.inputs["task"][1]:
            artifact.check()
            task = built(
                "task", artifact.manifest["ingredients"]["settings"]["task"], (artifact.folder / "data").absolute()
            )
            self.kept["task"] = stage.inputs["task"][1], task
        info = TaskInfo(**artifact.json("facts.json"))
        return CheckedTask(self.kept["task"][1], info), info

    def model(self, stage: Stage) -> tuple[Any, CheckedTask, torch.device]:
        """Return the trained model of a stage, its task and the device."""
        task, info = self.task(stage)
        device = device_of(stage.settings)
        artifact = self.input(stage, "model")
        if self.kept.get("model", ("",))[0] != stage.inputs["model"][1]:
            described = artifact.manifest["ingredients"]["settings"]["model"]
            settings = placed(described, stage.settings.get("places", {}))
            model = built("model", settings, self.with_files(info, settings))
            load_weights(model, artifact.file("weights.safetensors"))
            self.kept["model"] = stage.inputs["model"][1], (model.to(device), fingerprint(model))
        return self.kept["model"][1][0], task, device

    @contextmanager
    def examples(self, stage: Stage, purpose: str) -> Iterator[tuple[Any, Examples]]:
        """Yield the trained model of a stage in evaluation mode, and the examples."""
        from bench_core.computing.evaluate import Examples
        from bench_core.computing.train import evaluating

        settings, rows = stage.settings, self.request.rows if self.request else None
        model, task, device = self.model(stage)
        examples = Examples(
            task, settings["split"], Noise(settings["seed"]).fork(purpose), device, settings["batch_size"],
            settings["examples"], self.told, self.warn, len(task.info.vocabulary), rows,
        )  # fmt: skip
        with evaluating(model):
            yield model, examples

    def with_files(self, info: TaskInfo, model: Mapping[str, Any]) -> TaskInfo:
        """Return the information of a task with the files of the model's Config."""
        config = configured("model", model)
        return replace(info, files=config.files(self.data))

    def warn(self, text: str) -> None:
        """Warn about the current stage."""
        self.store.warn(f"{self.request.stage.label}: {text}" if self.request else text)

    def told(self, done: int, total: int) -> None:
        """Report progress; raise Stopped at the time limit."""
        if self.request and self.request.until is not None and time.time() >= self.request.until:
            raise Stopped
        self.tell(f"{done:,} examples", done / total if total else 0)


@dataclass(frozen=True)
class Fingerprint:
    """Digests of the weights of a model, and the attributes of its modules."""

    weights: Mapping[str, str]
    rest: Mapping[str, Any]

    def changed(self, other: Fingerprint) -> list[str]:
        """Return the names of weights (parameters and buffers) that differ."""
        names = {**self.weights, **other.weights}
        return [name for name in names if self.weights.get(name) != other.weights.get(name)]


def fingerprint(model: nn.Module) -> Fingerprint:
    """Return the fingerprint of a model; it takes 0.08 s for 100 MB of weights."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return Fingerprint({name: _digest(tensor) for name, tensor in tensors.items()}, dict(_rest(model)))


def _digest(tensor: Tensor) -> str:
    import torch

    plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return f"{tensor.dtype} {tuple(tensor.shape)} {sha256(plain.numpy().data).hexdigest()}"


def _rest(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of all modules: settings, hooks, replaced methods, memories."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                yield f"{path}.{name}", _plain(value)


def _plain(value: Any) -> Any:
    """Return something comparable that changes if a value does, as far as that is visible."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return (_Itself(value), len(value)) if isinstance(value, (dict, set)) else _Itself(value)


@dataclass(eq=False)
class _Itself:
    """Equal only to the same object; keeps it alive, so that its id is not reused."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value
