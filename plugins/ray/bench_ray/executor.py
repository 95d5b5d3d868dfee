"""The Ray executor: one task per stage, with its CPUs and GPU."""

import json
import logging
import os
import socket
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.exceptions import OutOfMemoryError, RayError, TaskCancelledError, WorkerCrashedError

from bench_core import (
    Executor,
    StageFailed,
    StageRequest,
    SuiteError,
    Tell,
    await_artifact,
    check_answer,
    event_from_json,
)
from bench_ray.plugin import RayConfig
from bench_ray.tasks import Board, work

POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 10.0  # time that a stage has for cleanup
OBJECT_STORE_BYTES = 80 * 2**20  # small, because Ray transfers only texts
RUN_AGAIN = "Run the suite again to continue."


@dataclass
class Ray(Executor):
    """Runs up to `capacity` stages at a time as resources permit; shuts down Ray only if it started Ray."""

    config: RayConfig
    store: Path
    data: Path
    capacity: int
    shares_gpus = True

    def __post_init__(self) -> None:
        self.folder: TemporaryDirectory[str] | None = None
        self.ours = not ray.is_initialized()
        if self.ours:
            self._connect()
        self.board = ray.remote(num_cpus=0)(Board).remote()
        # Ray ends processes with a GPU after a single stage, which frees the GPU memory.
        self.tasks = {False: ray.remote(max_retries=0)(work), True: ray.remote(max_retries=0, num_gpus=1)(work)}
        self.closed = Event()
        self.threads = ThreadPoolExecutor(self.capacity)

    def submit(self, request: StageRequest, tell: Tell) -> Future[None]:
        return self.threads.submit(self._work, request, tell)

    def close(self) -> None:
        self.closed.set()
        self.threads.shutdown(cancel_futures=True)
        if self.ours:
            ray.shutdown()
        else:
            ray.kill(self.board)
        if self.folder:
            self.folder.cleanup()

    def _connect(self) -> None:
        """Start Ray or join a cluster; raise SuiteError if this fails."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # disables telemetry
        address, settings = self.config.address, dict[str, Any](log_to_driver=False, logging_level=logging.ERROR)
        what = "Ray cannot be started" if address is None else f"no Ray cluster responds at {address!r}"
        if address is None:
            # Not in $TMPDIR, because paths of sockets must be short.
            place = "/tmp" if Path("/tmp").is_dir() else None
            self.folder = TemporaryDirectory(prefix="ray-", dir=place, ignore_cleanup_errors=True)
            settings |= {
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE_BYTES,
                "_temp_dir": self.folder.name,
            }
        try:
            if address and address != "auto":
                _check_connection(address)
            ray.init(address or "local", **settings)
        except (RayError, OSError, RuntimeError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise SuiteError(
                f"{what}: {reason}. Start a cluster with `ray start --head` and give its address with --with "
                "address=..., or omit the address to start Ray on this machine."
            ) from None

    def _work(self, request: StageRequest, tell: Tell) -> None:
        """Run a stage; raise StageFailed if it fails or its process dies."""
        needs = self._needs(request)
        tell(f"waiting for {_describe(needs)}", 0.0)
        self._check_resources(needs)
        reference = self._start_task(request, needs)
        while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
            if self.closed.is_set():
                ray.cancel(reference)
                if not ray.wait([reference], timeout=TIMEOUT_SECONDS)[0]:  # after time for cleanup
                    ray.cancel(reference, force=True)
                break
            with suppress(RayError):  # progress is optional
                if progress := ray.get(self.board.last.remote(request.stage.key), timeout=POLL_SECONDS):
                    tell(*progress)
                self._forward_events(request)
        with suppress(RayError):
            self._forward_events(request)
        answer = _answer(reference)
        for text in answer["warned"]:
            self.warn(text)
        check_answer(answer)
        if not request.build:
            await_artifact(self.store, request.stage)

    def _forward_events(self, request: StageRequest) -> None:
        """Forward the new events of a stage."""
        if request.observed:
            for event in ray.get(self.board.take.remote(request.stage.key), timeout=TIMEOUT_SECONDS):
                self.hear(request.stage, event_from_json(json.loads(event)))

    def _start_task(self, request: StageRequest, needs: Mapping[str, float]) -> Any:
        """Submit the task of a stage and return its reference."""
        memory = {"memory": int(needs["memory"])} if "memory" in needs else {}
        name = f"{request.stage.kind} {request.stage.label}"
        options = {"name": name, "num_cpus": needs["CPU"], "num_gpus": needs.get("GPU", 0), **memory}
        task = self.tasks["GPU" in needs].options(**options)
        return task.remote(json.dumps(request.to_json()), str(self.store), str(self.data), self.board)

    def _needs(self, request: StageRequest) -> dict[str, float]:
        """Return the resources reserved for a stage, by their names in Ray."""
        settings = {} if request.build else request.stage.settings
        devices = settings.get("devices", 1)
        cpus = self.config.cpus or settings.get("threads", 1) * devices
        if self.config.address is None:  # as in other executors, threads may outnumber processors
            cpus = min([cpus, *(int(node.get("CPU", cpus)) for node in _node_resources())])
        needs: dict[str, float] = {"CPU": cpus}
        if settings.get("device") == "cuda":
            needs["GPU"] = devices if devices > 1 else self.config.gpus or 1 / self.per_gpu
        if self.config.memory is not None:
            needs["memory"] = self.config.memory * 1e9
        return needs

    def _check_resources(self, needs: Mapping[str, float]) -> None:
        """Raise StageFailed if a local Ray instance can never run a stage; warn if a cluster cannot run it yet."""
        if any(all(node.get(name, 0) >= number for name, number in needs.items()) for node in _node_resources()):
            return
        if self.config.address is None:
            raise StageFailed(f"Ray has no {_describe(needs)} on this machine.", expected=True)
        self.warn(f"no machine of the Ray cluster has {_describe(needs)}; the stage waits for one to join.")


def _check_connection(address: str) -> None:
    """Raise OSError if no server listens at an address; Ray itself would retry for many minutes."""
    place = urlsplit(address if "//" in address else f"//{address}")
    socket.create_connection((place.hostname or "", place.port or 0), timeout=TIMEOUT_SECONDS).close()


def _answer(reference: Any) -> dict[str, Any]:
    """Return the answer of a stage; raise StageFailed if its process died first."""
    try:
        return json.loads(ray.get(reference))  # type: ignore[no-any-return]
    except TaskCancelledError:
        raise StageFailed(f"it was interrupted. {RUN_AGAIN}", expected=True) from None
    except OutOfMemoryError as error:
        hint = "Reserve more memory with --with memory=GIGABYTES, or use fewer --workers."
        raise StageFailed(f"Ray ended it because the machine was out of memory. {hint}", str(error)) from None
    except WorkerCrashedError as error:
        hint = "The machine may be out of memory."
        raise StageFailed(f"its Ray process died. {hint} {RUN_AGAIN}", str(error)) from None
    except RayError as error:
        first = str(error).strip().partition("\n")[0]
        raise StageFailed(f"Ray could not run it: {first}", str(error)) from None


def _node_resources() -> list[dict[str, float]]:
    """Return the total resources of each machine."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _describe(needs: Mapping[str, float]) -> str:
    """Return the resources that a stage needs, as text."""
    number = f"{needs['CPU']:g} CPU" + ("s" if needs["CPU"] != 1 else "")
    gpu = [f"{needs['GPU']:g} GPU"] if "GPU" in needs else []
    memory = [f"{needs['memory'] / 1e9:g} GB of memory"] if "memory" in needs else []
    return ", ".join([number, *gpu, *memory])
