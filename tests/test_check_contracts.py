"""`bench check --contracts`: a line for each part of a suite, and exit code 1 if a contract is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import bench_broken.plugin
import bench_small.plugin
import pytest
from click.testing import CliRunner

from bench_core import hookimpl, registry
from bench_core.commands.main import bench
from bench_core.testing import suite_contracts, toys
from bench_core.testing.toy_parts import Letters

SUITE = {
    "suite": "tests/contracts",
    "tasks": {"letters": {"name": "toy-letters"}, "stream": {"name": "toy-stream"}},
    "models": {"lstm": {"name": "toy-recurrent"}, "codes": {"name": "toy-codes"}},
    "decoders": {"greedy": {"name": "toy-greedy"}, "draw": {"name": "toy-ancestral"}},
    "metrics": {"match": {"name": "toy-exact-match"}},
    "training": {"epochs": 1},
    "skip": [{"model": "codes", "decoder": "draw"}, {"task": "stream"}],
}
OK = [
    "ok  model lstm: 22 contracts",
    "ok  model codes: 21 contracts",
    "ok  decoder greedy with lstm: 9 contracts",
    "ok  decoder draw with lstm: 6 contracts",
    "ok  decoder greedy with codes: 9 contracts",
    "ok  task letters: 12 contracts",
    "ok  task stream: 12 contracts",
    "ok  metric match: 7 contracts",
]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks the contracts of a suite, with other sections, and returns exit code and lines."""
    monkeypatch.chdir(tmp_path)

    def run(*words, **sections):
        (tmp_path / "suite.yaml").write_text(json.dumps({**SUITE, **sections}))
        with registry.extra(toys, bench_small.plugin, bench_broken.plugin):
            done = CliRunner().invoke(bench, ["check", "--contracts", "suite.yaml", *words], standalone_mode=False)
        assert done.exception is None, done.output
        return done.return_value, done.output.splitlines()

    return run


def small(**model):
    """Return the sections of a suite of small and broken parts."""
    return {
        "tasks": {"words": {"name": "letters"}},
        "models": {"mine": model},
        "decoders": {"greedy": {"name": "argmax"}},
        "metrics": {"ended": {"name": "ended"}},
        "skip": [],
    }


def test_parts_that_keep_the_contracts_have_a_line_each_with_the_decoders_that_they_meet(check):
    code, lines = check()
    assert lines == ["suite.yaml: 3 cells can run.", *OK]
    assert code == 0


def test_a_part_is_tried_once_for_all_profiles_unless_its_settings_differ(check):
    profiles = {"same": {"seeds": 2}, "other": {"models": {"codes": {"name": "toy-codes", "bits": 9}}}}
    code, lines = check(profiles=profiles)
    assert lines[3:] == [
        "suite.yaml:",
        *OK,
        "suite.yaml --profile same:",
        "suite.yaml --profile other:",
        "ok  model codes: 21 contracts",
        "ok  decoder greedy with codes: 9 contracts",
    ]
    assert code == 0


def test_what_is_never_trained_needs_no_gradient(check):
    _, lines = check(training={"updates": 0})
    assert "ok  model lstm: 21 contracts" in lines


def test_contracts_from_which_a_config_is_exempt_are_named_with_the_reason(check, monkeypatch):
    why = {
        "probabilities_sum_to_one_at_every_step": "half is enough",
        "the_score_is_the_sum_of_its_steps": "so is this",
    }
    monkeypatch.setattr(bench_broken.plugin.BrokenConfig, "exempt", lambda self: why)
    code, lines = check(**small(name="broken", way="step half"))
    assert code == 0
    assert lines[1:4] == [
        "ok  model mine: 20 contracts",
        "  exempt  probabilities sum to one at every step: half is enough",
        "  exempt  the score is the sum of its steps: so is this",
    ]


def test_a_broken_model_is_said_in_sentences_and_the_others_are_tried_too(check):
    code, lines = check(**small(name="broken", way="step half"))
    assert code == 1
    assert lines[1:] == [
        "broken  model mine: 2 of 22 contracts",
        "  probabilities sum to one at every step: log of the sum of probabilities: Tensor-likes are not close!",
        "  the score is the sum of its steps: score, and sum of the steps along `chain`: Tensor-likes are not close!",
        "ok  decoder greedy with mine: 9 contracts",
        "ok  task words: 12 contracts",
        "ok  metric ended: 7 contracts",
    ]


def test_a_model_that_cannot_be_built_on_a_tiny_vocabulary_is_not_tried_and_not_broken(check):
    code, lines = check(**small(name="bigram", breaks="building"))
    assert [line for line in lines if not line.startswith("ok")][1:] == [
        "not tried  model mine: ValueError: cannot be built",
        "not tried  decoder greedy with mine: ValueError: cannot be built",
    ]
    assert code == 0


class FileLetters(Letters):
    """Letters whose words are in a file."""

    def prepare(self, data):
        self.config = self.config.model_copy(update={"words": tuple(self.config.file.read_text().split())})
        return super().prepare(data)


class FileLettersConfig(toys.LettersConfig):
    """Spell the words of a file."""

    name, target = "file-letters", f"{__name__}:FileLetters"
    file: Path


def test_files_of_settings_are_looked_for_in_the_data_directory_too(check, tmp_path):
    module = ModuleType("bench_file")
    module.bench_tasks = hookimpl(lambda: [FileLettersConfig])
    module.bench_tasks.__module__ = "bench_file"
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "words.txt").write_text(" ".join(toys.LettersConfig().words))
    with registry.extra(module):
        tasks = {"letters": {"name": "file-letters", "file": "words.txt"}}
        code, lines = check("--data", "corpora", tasks=tasks, skip=[])
    assert "ok  task letters: 12 contracts" in lines
    assert code == 0


def test_a_class_that_is_not_what_its_config_declares_is_broken(check, monkeypatch):
    monkeypatch.setattr(toys.RecurrentConfig, "target", "bench_core.testing.toy_models:Latent")
    code, lines = check()
    (line,) = (line for line in lines if line.startswith("broken  model lstm"))
    assert "RecurrentConfig: it declares the capability Stepper; " in line
    assert code == 1


def test_a_task_that_is_too_large_is_not_tried(check, monkeypatch):
    monkeypatch.setattr(suite_contracts, "MOST_EXAMPLES", 5)
    code, lines = check()
    (line,) = (line for line in lines if "task letters" in line)
    assert line.startswith("not tried  task letters: its split 'train' has more than 5 examples, and contracts read")
    assert code == 0


def test_nothing_is_tried_of_suites_that_cannot_run(check):
    code, lines = check(models={"lstm": {"name": "toy-latent"}})
    assert code == 2
    assert not any(line.startswith(("ok", "broken")) for line in lines)


def test_without_contracts_torch_is_not_imported(tmp_path):
    (tmp_path / "suite.yaml").write_text(json.dumps({**SUITE, **small(name="bigram")}))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent / "small"), "OMP_NUM_THREADS": "1"}
    program = (
        "import sys\nimport bench_small.plugin\n"
        "from bench_core import registry\nfrom bench_core.commands.main import bench\n"
        "with registry.extra(bench_small.plugin):\n"
        "    assert not bench.main(['check', 'suite.yaml'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env=environment)
