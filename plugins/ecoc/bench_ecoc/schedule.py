"""The schedule by which the share of predicted inputs grows during training."""

from __future__ import annotations

from bench_core import Training


def rising(share: float, top: float) -> float:
    """Return top / (1 + exp(-ep / delta)), where `share` of training is done: 0 in its first epoch, 1 in its last.

    For epoch i of N that is share = i / (N - 1), ep = N (share - 1/2) and delta = N / (2 ln 249), so N drops out.
    """
    return float(top / (1 + 249 ** (1 - 2 * share)))


def done(training: Training) -> float:
    """Return the share of training that is done, the same for all updates of an epoch.

    Where it is planned in updates, and `epochs` counts but those begun so far, or where there is one epoch alone, the
    updates tell it.
    """
    if training.epochs > 1 and training.step * training.epochs >= training.steps * training.epoch:
        return training.epoch / (training.epochs - 1)
    return training.step / max(1, training.steps - 1)
