"""Process-wide state that may affect results: set before each stage and restored after it."""

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeAlias

from bench_core.wrapped_readers import after_imports, being_imported

#: The functions that read and write a process-wide setting.
Setting: TypeAlias = tuple[Callable[[], Any], Callable[[Any], Any]]

#: States of global generators, each with its restoring function.
States: TypeAlias = list[tuple[Callable[[Any], Any], Any]]

#: Settings of libraries in a fresh process; the folder, threads and tf32 depend on the stage.
FRESH: Mapping[str, Any] = {
    "numpy's error state": {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"},
    "torch's default dtype": "torch.float32",
    "torch's default device": "cpu",
    "torch's gradients": True,
    "torch's deterministic mode": 0,
    "torch's float32 precision": "highest",
    "torch's autocast": (False, False),
    "cuDNN's benchmark mode": False,
    "cuDNN's deterministic mode": False,
}


@contextmanager
def defined_state(threads: int, seed: int, folder: str, tell: Callable[[list[str]], None]) -> Iterator[None]:
    """Give a stage a fixed process state; afterwards restore the old state and `tell` the names of changed settings.

    Generators are seeded, including generators of libraries that the stage imports; gradients and floating-point
    settings are as in a fresh process. State that cannot be restored, such as replaced code, is not checked.
    """
    expected = {**FRESH, "cuDNN's tf32": False, "the number of threads": threads, "the working directory": folder}
    before, states, seeded = _present(), generators(), set[str]()
    _put(expected)
    seed_new = partial(_seed, seed, threads, seeded)
    seed_new()
    after_imports.append(seed_new)
    try:
        with ExitStack() as stack:
            if torch := sys.modules.get("torch"):
                stack.enter_context(torch.inference_mode(False))
            yield
    finally:
        after_imports.remove(seed_new)
        changed = _put(expected)
        _put({**FRESH, "cuDNN's tf32": True, **before})
        restore(states)
        if changed:
            tell(changed)


@contextmanager
def unchanged_state() -> Iterator[None]:
    """Restore settings that a block changes, for example by importing a module for the first time."""
    before = _present()
    try:
        yield
    finally:
        _put({**FRESH, **before})


def _settings() -> dict[str, Setting]:
    """Return the settings of this process and of imported libraries."""
    settings: dict[str, Setting] = {"the working directory": (_folder, os.chdir)}
    if numpy := sys.modules.get("numpy"):
        settings["numpy's error state"] = numpy.geterr, lambda value: numpy.seterr(**value)
    if (torch := sys.modules.get("torch")) and hasattr(torch, "nn"):  # else it is being imported
        settings |= _of_torch(torch)
    return settings


def _of_torch(torch: Any) -> dict[str, Setting]:
    kinds, cudnn = ("cpu", "cuda"), torch.backends.cudnn
    return {
        "torch's default dtype": (
            lambda: str(torch.get_default_dtype()),
            lambda name: torch.set_default_dtype(getattr(torch, name.removeprefix("torch."))),
        ),
        "torch's default device": (
            lambda: str(torch.get_default_device()),
            lambda name: torch.set_default_device(None if name == "cpu" else name),
        ),
        "torch's gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
        "torch's deterministic mode": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        "torch's float32 precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "torch's autocast": (
            lambda: tuple(map(torch.is_autocast_enabled, kinds)),
            lambda values: [*map(torch.set_autocast_enabled, kinds, values)],
        ),
        "cuDNN's tf32": (lambda: cudnn.allow_tf32, partial(setattr, cudnn, "allow_tf32")),
        "cuDNN's benchmark mode": (lambda: cudnn.benchmark, partial(setattr, cudnn, "benchmark")),
        "cuDNN's deterministic mode": (lambda: cudnn.deterministic, partial(setattr, cudnn, "deterministic")),
        "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    }


def _present() -> dict[str, Any]:
    return {name: read() for name, (read, _) in _settings().items()}


def _put(values: Mapping[str, Any]) -> list[str]:
    """Set settings to these values; return the names of changed settings."""
    settings = _settings()
    changed = [name for name, (read, _) in settings.items() if name in values and read() != values[name]]
    for name in changed:
        settings[name][1](values[name])
    return changed


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it has been deleted
        return ""


def restore(states: States) -> None:
    """Restore states of the global generators, as returned by `generators`."""
    for put, state in states:
        put(state)


def generators() -> States:
    """Return the states of the global generators, each with its restoring function."""
    states: States = [(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        states.append((numpy.random.set_state, numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append((torch.set_rng_state, torch.get_rng_state()))
    return states


def _seed(seed: int, threads: int, seeded: set[str]) -> None:
    """Seed generators that are not seeded yet; if a stage imports torch, set torch's threads and precision."""
    new = ({"random", "numpy", "torch"} & sys.modules.keys()) - being_imported() - seeded
    seeded |= new
    if "random" in new:
        random.seed(seed)
    if "numpy" in new and (numpy := sys.modules["numpy"]):
        numpy.random.seed(seed % 2**32)
    if "torch" in new and (torch := sys.modules["torch"]):
        # torch.manual_seed formats the stack for devices that this build of torch may have, which is slow
        (torch if torch.accelerator.current_accelerator() else torch.default_generator).manual_seed(seed)
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
        torch.backends.cudnn.allow_tf32 = False
