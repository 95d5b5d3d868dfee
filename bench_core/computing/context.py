"""What a stage has access to: the store, its request, and the cached task and model.

A fingerprint of the model tells whether a stage has left it as it found it.
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
from bench_core.noise import Noise
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Stage, StageRequest
from bench_core.registry import configured
from bench_core.storage.store import Artifact, Store

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from bench_core.computing.evaluate import Examples

Tell = Callable[[str, float], None]  # what is going on, and the share that is done


@dataclass
class StageContext:
    """What stages work with against a store; the last task and model are kept for those that follow."""

    store: Store
    data: Path
    tell: Tell = lambda text, share: None
    request: StageRequest | None = None  # what is being performed, and for how long
    begun: Callable[[], None] = lambda: None  # hears that there is nothing left to wait for
    home: str = field(default_factory=os.getcwd)  # the working directory of every stage
    kept: dict[str, tuple[str, Any]] = field(default_factory=dict)  # role -> key and what was loaded

    def input(self, stage: Stage, role: str) -> Artifact:
        """Return a stored artifact that a stage reads."""
        return self.store.get(*stage.inputs[role])

    def task(self, stage: Stage) -> tuple[CheckedTask, TaskInfo]:
        """Return the prepared task that a stage works on, and its facts."""
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
        """Return the trained model that a stage works with, its task and the device."""
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
        """Yield the trained model of a stage, to be evaluated, and the examples that it is tried on."""
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
        """Return facts that tell a model where the files of its Config are."""
        config = configured("model", model)
        return replace(info, files=config.files(self.data))

    def warn(self, text: str) -> None:
        """Tell of something odd about the stage that is under way."""
        self.store.warn(f"{self.request.stage.label}: {text}" if self.request else text)

    def told(self, done: int, total: int) -> None:
        """Tell of examples; raise Stopped when time is up."""
        if self.request and self.request.until is not None and time.time() >= self.request.until:
            raise Stopped
        self.tell(f"{done:,} examples", done / total if total else 0)


@dataclass(frozen=True)
class Fingerprint:
    """Digests of the weights of a model, and what else could be seen to change in its modules."""

    weights: Mapping[str, str]
    rest: Mapping[str, Any]

    def changed(self, other: Fingerprint) -> list[str]:
        """Return the names of the weights (parameters and buffers) that are not the same in both."""
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
    """Yield the attributes of all modules: settings, hooks, methods that were replaced, what a model remembers."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                yield f"{path}.{name}", _plain(value)


def _plain(value: Any) -> Any:
    """Return something that is equal as long as a value is, for all that can be seen without knowing it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return (_Itself(value), len(value)) if isinstance(value, (dict, set)) else _Itself(value)


@dataclass(eq=False)
class _Itself:
    """Equal to the same object alone; holds it, so that no other comes to lie where it was."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value
