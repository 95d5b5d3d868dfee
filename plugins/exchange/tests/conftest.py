"""Where numbers of an import are measured again: in this process, unless a test asks for a worker."""

from __future__ import annotations

import pytest

from bench_core.execution.executor import InProcess
from bench_core.storage.store import Store
from bench_exchange import verifying


@pytest.fixture
def in_worker():
    """Measure in a process of its own, as users do; the plugin of the test is not there."""


@pytest.fixture(autouse=True)
def same_process(request, monkeypatch):
    """Measure in this process, where the plugin of the test is."""
    workers = verifying.Workers

    def performing(number, store, data, isolate):
        return workers(number, store, data, isolate=True) if isolate else InProcess(Store(store), data)

    if "in_worker" not in request.fixturenames:
        monkeypatch.setattr(verifying, "Workers", performing)
