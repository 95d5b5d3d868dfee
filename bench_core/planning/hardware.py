"""The devices and versions of this machine, detected without importing torch."""

import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench_core.errors import SuiteError
from bench_core.optional import AUTHORS, is_installed
from bench_core.planning import cache_keys as keys
from bench_core.planning.stages import Stage
from bench_core.suites.suite import Suite

ARITHMETIC_VARIABLES = ("ATEN_CPU_CAPABILITY", "LC_ALL", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "TZ")


def check_devices(suite: Suite, stages: Iterable[Stage]) -> None:
    """Raise SuiteError if stages need a device that is not available here."""
    devices = {hardware.device for hardware in suite.hardware.values()}
    if text := missing_device(devices & {stage.settings.get("device") for stage in stages}):
        raise SuiteError(f"{text} Nothing was started.")


def missing_device(names: Iterable[str], certainly: bool = False) -> str:
    """Return advice if one of these devices is not available, else "".

    Imports torch only for cuda, and not if CUDA is `certainly` unavailable.
    """
    if "cuda" not in names:
        return ""
    if not certainly:
        import torch

        if torch.cuda.is_available():
            return ""
    return (
        "hardware.device cuda: torch finds no CUDA device here. Set `hardware: {device: cpu}`, run the suite on a "
        "machine with a GPU, or see `bench doctor`."
    )


@cache
def device_kind() -> str:
    """Return "cuda" if torch could use an NVIDIA GPU, else "cpu"."""
    try:
        cpu_build = version("torch").endswith("+cpu")
    except PackageNotFoundError:
        cpu_build = True
    return "cuda" if not cpu_build and any(Path("/dev").glob("nvidia[0-9]*")) else "cpu"


@cache
def device_name(kind: str) -> str:
    """Return the model name of a device of this machine, without importing torch; costs depend on it."""
    cores = f"{platform.machine()} x {os.cpu_count()}"
    if kind == "cuda":
        models = [_value(path, "Model") for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))]
        return ", ".join(dict.fromkeys(filter(None, models))) or f"{kind} of {cores}"
    return f"{_value(Path('/proc/cpuinfo'), 'model name') or platform.processor() or kind} ({cores})"


def _value(path: Path, name: str) -> str:
    """Return the first value of a name in a file with lines `name: value`, or ""."""
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def environment(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the factors, besides keys, that may affect results; they do not identify the machine."""
    versions = {"python": platform.python_version(), "torch": keys.library("torch")}
    computing = {name: settings[name] for name in ("device", "precision", "threads") if name in settings}
    looks = {} if is_installed(AUTHORS) else {"second looks": f"none, since {AUTHORS} was not installed"}
    return {**versions, "bench": keys.library("bench-core"), **computing, **looks, "process": _process_environment()}


def _process_environment() -> dict[str, str]:
    """Return the environment variables that affect arithmetic and sorting, and torch's CPU backend if loaded."""
    names = {*ARITHMETIC_VARIABLES, *(name for name in os.environ if name.startswith(("OMP_", "MKL_", "ATEN_")))}
    settings = {f"${name}": os.environ.get(name, "not set") for name in sorted(names)}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "backends"):  # else torch is still being imported
        settings["CPU capability"] = torch.backends.cpu.get_cpu_capability()
        library = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
        settings["BLAS"] = library[1] if library else "unknown"
    return settings
