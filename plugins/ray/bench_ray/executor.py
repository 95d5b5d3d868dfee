"""The executor on Ray: one task per stage, with its CPUs and GPU."""

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

PAUSE = 0.5  # seconds between two looks at a stage
PATIENCE = 10.0  # seconds that a stage has to clean up
OBJECTS = 80 * 2**20  # bytes for what goes through Ray: texts
AGAIN = "Run the suite again to continue."


@dataclass
class Ray(Executor):
    """So many stages at a time, each where there is room for it; Ray ends with it if it was started for it."""

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
        # Ray lets a process that had a GPU go after one stage: its memory is free again for others.
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
        """Start Ray or join a cluster; raise SuiteError where there is none."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # it would tell its makers
        address, settings = self.config.address, dict[str, Any](log_to_driver=False, logging_level=logging.ERROR)
        what = "Ray does not start here" if address is None else f"no Ray cluster answers at {address!r}"
        if address is None:
            # Not in $TMPDIR: names of sockets must be short.
            place = "/tmp" if Path("/tmp").is_dir() else None
            self.folder = TemporaryDirectory(prefix="ray-", dir=place, ignore_cleanup_errors=True)
            settings |= {"include_dashboard": False, "object_store_memory": OBJECTS, "_temp_dir": self.folder.name}
        try:
            if address and address != "auto":
                _knock(address)
            ray.init(address or "local", **settings)
        except (RayError, OSError, RuntimeError, ValueError, ImportError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise SuiteError(
                f"{what}: {reason}. Start one by `ray start --head`, and give its address by --with address=..., or "
                "none to have Ray started here."
            ) from None

    def _work(self, request: StageRequest, tell: Tell) -> None:
        """Have a stage performed; raise StageFailed, also where its process dies."""
        needs = self._needs(request)
        tell(f"waiting for {_words(needs)}", 0.0)
        self._check_room(needs)
        reference = self._begun(request, needs)
        while not ray.wait([reference], timeout=PAUSE)[0]:
            if self.closed.is_set():
                ray.cancel(reference)
                if not ray.wait([reference], timeout=PATIENCE)[0]:  # in which it cleans up
                    ray.cancel(reference, force=True)
                break
            with suppress(RayError):  # what it says is not worth a failure
                if said := ray.get(self.board.last.remote(request.stage.key), timeout=PAUSE):
                    tell(*said)
                self._hear_events(request)
        with suppress(RayError):
            self._hear_events(request)
        answer = _answer(reference)
        for text in answer["warned"]:
            self.warn(text)
        check_answer(answer)
        if not request.build:
            await_artifact(self.store, request.stage)

    def _hear_events(self, request: StageRequest) -> None:
        """Pass on the events of a stage since the last time."""
        if request.observed:
            for event in ray.get(self.board.take.remote(request.stage.key), timeout=PATIENCE):
                self.hear(request.stage, event_from_json(json.loads(event)))

    def _begun(self, request: StageRequest, needs: Mapping[str, float]) -> Any:
        """Return the reference of the task of a stage."""
        memory = {"memory": int(needs["memory"])} if "memory" in needs else {}
        name = f"{request.stage.kind} {request.stage.label}"
        own = {"name": name, "num_cpus": needs["CPU"], "num_gpus": needs.get("GPU", 0), **memory}
        task = self.tasks["GPU" in needs].options(**own)
        return task.remote(json.dumps(request.to_json()), str(self.store), str(self.data), self.board)

    def _needs(self, request: StageRequest) -> dict[str, float]:
        """Return what is set aside for a stage, as Ray calls it."""
        settings = {} if request.build else request.stage.settings
        devices = settings.get("devices", 1)
        cpus = self.config.cpus or settings.get("threads", 1) * devices
        if self.config.address is None:  # as elsewhere, more threads than processors are slow, and possible
            cpus = min([cpus, *(int(room.get("CPU", cpus)) for room in _rooms())])
        needs: dict[str, float] = {"CPU": cpus}
        if settings.get("device") == "cuda":
            needs["GPU"] = devices if devices > 1 else self.config.gpus or 1 / self.per_gpu
        if self.config.memory is not None:
            needs["memory"] = self.config.memory * 1e9
        return needs

    def _check_room(self, needs: Mapping[str, float]) -> None:
        """Raise StageFailed if Ray of this machine can never take a stage; warn if a cluster has yet to grow."""
        if any(all(room.get(name, 0) >= number for name, number in needs.items()) for room in _rooms()):
            return
        if self.config.address is None:
            raise StageFailed(f"Ray has no {_words(needs)} on this machine.", expected=True)
        self.warn(f"no machine of the Ray cluster has {_words(needs)}; the stage waits for one to join.")


def _knock(address: str) -> None:
    """Raise OSError where nobody listens; Ray itself would try for many minutes."""
    place = urlsplit(address if "//" in address else f"//{address}")
    socket.create_connection((place.hostname or "", place.port or 0), timeout=PATIENCE).close()


def _answer(reference: Any) -> dict[str, Any]:
    """Return what a stage answered; raise StageFailed if its process did not live to do so."""
    try:
        return json.loads(ray.get(reference))  # type: ignore[no-any-return]
    except TaskCancelledError:
        raise StageFailed(f"it was interrupted. {AGAIN}", expected=True) from None
    except OutOfMemoryError as error:
        hint = "Give stages more room by --with memory=GIGABYTES, or use fewer --workers."
        raise StageFailed(f"Ray ended it, as its machine was out of memory. {hint}", str(error)) from None
    except WorkerCrashedError as error:
        hint = "The machine may be out of memory."
        raise StageFailed(f"the Ray process that performed it died. {hint} {AGAIN}", str(error)) from None
    except RayError as error:
        first = str(error).strip().partition("\n")[0]
        raise StageFailed(f"Ray could not perform it: {first}", str(error)) from None


def _rooms() -> list[dict[str, float]]:
    """Return what each machine has in all."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _words(needs: Mapping[str, float]) -> str:
    """Return for people what a stage needs."""
    number = f"{needs['CPU']:g} CPU" + ("s" if needs["CPU"] != 1 else "")
    gpu = [f"{needs['GPU']:g} GPU"] if "GPU" in needs else []
    memory = [f"{needs['memory'] / 1e9:g} GB of memory"] if "memory" in needs else []
    return ", ".join([number, *gpu, *memory])
