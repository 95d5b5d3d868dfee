"""The tasks of the shipped suites keep the laws of tasks, which each run asks of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench_authors.looks.tasks import TaskLook
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.laws import Laws
from bench_core.errors import DataError
from bench_core.suites import yaml_source as located
from bench_core.suites.load import load

SUITES = Path(__file__).parent.parent / "suites"
FILES = [path for path in sorted(SUITES.rglob("*.yaml")) if path.parent.name != "references"]
DATA = Path(os.environ.get("BENCH_DATA", "data"))


tried = set[str]()  # settings, many of which several suites share


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SUITES).with_suffix("")))
def test_every_task_of_a_shipped_suite_keeps_the_laws(path, tmp_path):
    if "smoke" not in located.read(path).data.get("profiles", {}):
        pytest.skip("it has no profile `smoke`")
    for name, config in load(path, "smoke").tasks.items():
        folder, settings = tmp_path / name, f"{config.name} {config.model_dump_json()}"
        if settings in tried:
            continue
        tried.add(settings)
        folder.mkdir()
        task = config.load()(config, folder)
        try:
            info = task.prepare(DATA)
        except DataError as error:
            pytest.skip(str(error))
        TaskLook(CheckedTask(task, info), Laws(config.exempt())).at_examples()
