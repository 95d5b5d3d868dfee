"""The checkpoints of training runs in a store."""

from contextlib import suppress

from bench_core.errors import StoreError
from bench_core.planning import cache_keys as keys
from bench_core.storage.store import Store

CHECKPOINT = "checkpoint"  #: the kind of checkpoint artifacts
PLACES = (0, 1)  #: places used alternately, so that one checkpoint is always intact


def checkpoint_key(training: str, place: int) -> str:
    """Return the key of the checkpoint at one of the two places of a training run."""
    return keys.key_of({"checkpoint of": training, "place": place})


def last_step(store: Store, training: str) -> int | None:
    """Return the step of a training run's last checkpoint, from its manifest; None without a checkpoint."""
    steps = []
    for place in PLACES:
        with suppress(StoreError, KeyError):
            steps.append(int(store.get(CHECKPOINT, checkpoint_key(training, place)).manifest["step"]))
    return max(steps, default=None)
