"""`bench check --contracts`: a line for each part of a suite, and exit code 1 for a broken contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import bench_broken.plugin
import bench_small.plugin
import pytest
import torch
from click.testing import CliRunner

from bench_authors import checker, target_check
from bench_authors.checker import BUILT, IMPORTED, Trial
from bench_authors.testing import leaks, models, stepping, toys, trials
from bench_authors.testing.toy_models import ToyRecurrent
from bench_authors.testing.toy_parts import Letters
from bench_core import PluginError, hookimpl, registry
from bench_core.commands.main import bench, main
from bench_core.execution.failures import StageFailed

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
    "ok  model lstm: 25 contracts",
    "ok  model codes: 24 contracts",
    "ok  decoder greedy with lstm: 9 contracts",
    "ok  decoder draw with lstm: 6 contracts",
    "ok  decoder greedy with codes: 9 contracts",
    "ok  task letters: 12 contracts",
    "ok  task stream: 12 contracts",
    "ok  metric match: 7 contracts",
]


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks the contracts of a suite with changed sections; it returns exit code and lines."""
    monkeypatch.chdir(tmp_path)

    def run(*words, **sections):
        (tmp_path / "suite.yaml").write_text(json.dumps({**SUITE, **sections}))
        with registry.extra(toys, bench_small.plugin, bench_broken.plugin):
            done = CliRunner().invoke(
                bench, ["check", "--contracts", "--same-process", "suite.yaml", *words], standalone_mode=False
            )
        assert done.exception is None, done.output
        return done.return_value, done.output.splitlines()

    return run


def small(**model):
    """Return the sections of a suite with small parts and a given model."""
    return {
        "tasks": {"words": {"name": "letters"}},
        "models": {"mine": model},
        "decoders": {"greedy": {"name": "argmax"}},
        "metrics": {"ended": {"name": "ended"}},
        "skip": [],
    }


def test_each_part_and_each_decoder_with_its_models_has_a_line(check):
    code, lines = check()
    assert lines == ["suite.yaml: no problem found (3 cells).", *OK]
    assert code == 0


@pytest.mark.slow
def test_a_part_is_tested_once_for_all_profiles_with_the_same_settings(check):
    profiles = {"same": {"seeds": 2}, "other": {"models": {"codes": {"name": "toy-codes", "bits": 9}}}}
    code, lines = check(profiles=profiles)
    assert lines[3:] == [
        "suite.yaml:",
        *OK,
        "suite.yaml --profile same:",
        "suite.yaml --profile other:",
        "ok  model codes: 24 contracts",
        "ok  decoder greedy with codes: 9 contracts",
    ]
    assert code == 0


def test_untrained_models_need_no_gradient(check):
    _, lines = check(training={"updates": 0})
    assert "ok  model lstm: 16 contracts" in lines


def test_exempt_contracts_are_listed_with_the_reason(check, monkeypatch):
    why = {
        "probabilities_sum_to_one_at_every_step": "half is enough",
        "the_score_is_the_sum_of_its_steps": "so is this",
    }
    monkeypatch.setattr(bench_broken.plugin.BrokenConfig, "exempt", lambda self: why)
    code, lines = check(**small(name="broken", way="step half"))
    assert code == 0
    assert lines[1:4] == [
        "ok  model mine: 23 contracts",
        "  exempt  probabilities sum to one at every step: half is enough",
        "  exempt  the score is the sum of its steps: so is this",
    ]


@pytest.mark.slow
def test_broken_contracts_are_listed_and_other_parts_are_still_tested(check):
    code, lines = check(**small(name="broken", way="step half"))
    assert code == 1
    assert lines[1:] == [
        "broken  model mine: 2 of 25 contracts",
        "  probabilities sum to one at every step: log of the sum of probabilities: Tensor-likes are not close!",
        "  the score is the sum of its steps: score vs. sum of the steps along `chain`: Tensor-likes are not close!",
        "ok  decoder greedy with mine: 9 contracts",
        "ok  task words: 12 contracts",
        "ok  metric ended: 7 contracts",
    ]


def test_a_model_that_cannot_be_built_on_a_tiny_vocabulary_is_not_broken(check):
    code, lines = check(**small(name="bigram", breaks="building"))
    assert [line for line in lines if not line.startswith("ok")][1:] == [
        "not tried  model mine: ValueError: cannot be built",
        "not tried  decoder greedy with mine: ValueError: cannot be built",
    ]
    assert code == 0


class FileLetters(Letters):
    """Letters with words from a file."""

    def prepare(self, data):
        self.config = self.config.model_copy(update={"words": tuple(self.config.file.read_text().split())})
        return super().prepare(data)


class FileLettersConfig(toys.LettersConfig):
    """Spell the words of a file."""

    name, target = "file-letters", f"{__name__}:FileLetters"
    file: Path


def test_files_of_settings_are_also_searched_in_the_data_directory(check, tmp_path):
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
    monkeypatch.setattr(toys.ToyRecurrentConfig, "target", "bench_authors.testing.toy_models:ToyLatent")
    code, lines = check()
    (line,) = (line for line in lines if line.startswith("broken  model lstm"))
    assert "RecurrentConfig: it declares the capability Stepper; " in line
    assert code == 1


def test_a_large_task_is_not_tested(check, monkeypatch):
    monkeypatch.setattr(trials, "MAX_EXAMPLES", 5)
    code, lines = check()
    (line,) = (line for line in lines if "task letters" in line)
    assert line.startswith("not tried  task letters: its split 'train' has more than 5 examples; contracts read")
    assert code == 0


def with_scores(score):
    """Return a plugin with a recurrent toy model whose `score` is replaced."""

    class ChangedConfig(toys.ToyRecurrentConfig):
        """A recurrent model with another score."""

        name = "changed"

        @classmethod
        def load(cls):
            return type("Changed", (ToyRecurrent,), {"score": score})

    module = ModuleType("bench_changed")
    module.bench_models = hookimpl(lambda: [ChangedConfig])
    module.bench_models.__module__ = "bench_changed"
    return module


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(0), "SystemExit: 0"),
        (MemoryError(), "MemoryError"),
        (RecursionError("too deep\nby far"), "RecursionError: too deep"),
        (
            type("Silent", (Exception,), {"__str__": lambda error: sys.exit(0)})(),
            "Silent, whose text raises SystemExit",
        ),
        (AssertionError("x" * 10_000), "x" * 500),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_exception_in_a_contract_breaks_only_that_contract(check, error, reason):
    def score(model, batch, scoring):
        raise error

    with registry.extra(with_scores(score)):
        code, lines = check(models={"lstm": {"name": "changed"}}, skip=[])
    assert code == 1
    assert f"  a row scores alike alone and in a batch: {reason}" in lines
    assert [line for line in lines if line.startswith("broken")] == ["broken  model lstm: 6 of 25 contracts"]
    assert "ok  decoder greedy with lstm: 9 contracts" in lines


@pytest.mark.slow
def test_accelerator_contracts_do_not_break_parts_of_a_suite_on_the_cpu(check):
    def score(model, batch, scoring):
        scores = ToyRecurrent.score(model, batch, scoring)
        return replace(scores, log_probs=scores.log_probs * torch.ones(len(batch)))

    with registry.extra(with_scores(score)):
        result = [
            check("--elsewhere", models={"lstm": {"name": "changed"}}, hardware={"device": device}, skip=[])
            for device in ("cpu", "cuda")
        ]
    sentence = "it scores on an accelerator as on the cpu: on an accelerator: "
    for (code, lines), start, due in zip(result, ("  correct on the CPU only  ", "  "), (0, 1), strict=True):
        assert code == due
        assert any(line.startswith(f"{start}{sentence}") for line in lines), lines


def test_text_generators_are_not_tested(check, writers):
    sections = {"models": {"echo": {"name": "echo"}}, "decoders": {"echoed": {"name": "as-echoed"}}, "skip": []}
    code, lines = check(**sections, metrics={"length": {"name": "text-length"}})
    assert (
        "not tried  model echo: it generates texts. Test it with `bench_authors.testing.check_text_generator`."
        in lines
    )
    assert code == 0


def test_a_module_that_cannot_be_imported_is_broken_unless_it_lacks_another(check, monkeypatch):
    lines = {}
    for error in (NameError("name 'x' is not defined"), ModuleNotFoundError("No module named 'x'", name="x")):

        def load(kind, error=error):
            raise error

        monkeypatch.setattr(toys.ToyRecurrentConfig, "load", classmethod(load))
        monkeypatch.setattr(target_check, "target_problem", lambda kind: None)
        code, result = check()
        lines[code] = [line for line in result if line.partition("  ")[2].startswith("model lstm")]
    assert lines[1] == ["broken  model lstm, while it was imported: NameError: name 'x' is not defined"]
    assert lines[0] == ["not tried  model lstm: ModuleNotFoundError: No module named 'x'"]


@pytest.mark.parametrize("words", [["check"], ["run", "--workers", "0"]], ids=" ".join)
def test_a_part_that_exits_while_reading_settings_does_not_set_the_exit_code(words, tmp_path, monkeypatch, capsys):
    (tmp_path / "suite.yaml").write_text(json.dumps(SUITE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(toys.ToyRecurrentConfig, "is_pretrained", lambda config: sys.exit(0))
    monkeypatch.setattr(sys, "argv", ["bench", *words, "suite.yaml"])
    with registry.extra(toys), pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "a plugin called sys.exit(0)" in capsys.readouterr().err


class Scripted:
    """A worker with scripted answers: lists of messages, each optionally ending with an error."""

    def __init__(self, *script):
        self.script, self.requests = [*script], []

    def ask(self, request):
        self.requests.append(request["skip"])
        for message in self.script.pop(0):
            if isinstance(message, Exception):
                raise message
            yield message


def trying(name):
    return {"begun": True, "trying": name}


def test_after_a_crash_the_other_contracts_are_tested_in_a_new_process():
    begin, lost = (
        [trying(IMPORTED), trying(BUILT), {"due": ["a", "b", "c"], "exempt": {"d": "why"}}],
        StageFailed("lost"),
    )
    worker = Scripted(
        [*begin, trying("a"), {"kept": "a"}, trying("b"), lost], [*begin, trying("c"), {"kept": "c"}, {"done": True}]
    )
    result = checker._verdict(worker, 60.0, Trial("metric", []))
    assert (result.kept, result.broken, result.exempt, result.left_out) == (
        ["a", "c"],
        {"b": "lost"},
        {"d": "why"},
        [],
    )
    assert worker.requests == [[], ["a", "b"]]


@pytest.mark.parametrize("step", [IMPORTED, BUILT])
def test_a_part_that_crashes_before_any_contract_is_not_tested_again(step):
    worker = Scripted([trying(step), StageFailed("lost")])
    assert checker._verdict(worker, 60.0, Trial("metric", [])).broken == {step: "lost"}


def test_a_second_crash_without_remaining_contracts_ends_the_trial():
    begin = [trying(IMPORTED), trying(BUILT), {"due": ["a"]}]
    worker = Scripted([*begin, trying("a"), {"kept": "a"}, StageFailed("lost")], [*begin, StageFailed("again")])
    result = checker._verdict(worker, 60.0, Trial("metric", []))
    assert result.kept == []
    assert result.broken == {"a": "lost", BUILT: "again"}


def test_after_two_timeouts_the_remaining_contracts_are_skipped():
    begin = [trying(IMPORTED), {"due": ["a", "b", "c"]}]
    worker = Scripted([*begin, trying("a"), StageFailed("slow")], [*begin, trying("b"), StageFailed("slow")])
    result = checker._verdict(worker, 0.0, Trial("metric", []))
    assert (result.broken, result.left_out) == ({"a": "slow", "b": "slow"}, ["c"])


def test_a_worker_that_cannot_start_is_an_error():
    with pytest.raises(PluginError, match="cannot start"):
        checker._verdict(Scripted([StageFailed("cannot start")]), 60.0, Trial("metric", []))


def test_quick_trials_find_broken_contracts_without_training(monkeypatch, tmp_path):
    def per_token(model, batch, scoring):
        scores = ToyRecurrent.score(model, batch, scoring)
        return replace(scores, log_probs=scores.log_probs / batch.length)

    monkeypatch.setattr(leaks, "leak", lambda case, by: pytest.fail("a model is trained"))
    monkeypatch.setattr(stepping, "leak", leaks.leak)
    monkeypatch.setattr(models, "SAMPLES", 20_000)  # as for users
    with registry.extra(toys, with_scores(per_token)):
        assert trials.verdict_here(Trial("model", [{"name": "toy-recurrent"}], quick=True), tmp_path).broken == {}
        broken = trials.verdict_here(Trial("model", [{"name": "changed"}], quick=True), tmp_path).broken
    assert {*broken} == {
        "the_score_is_the_sum_of_its_steps", "samples_occur_as_often_as_their_score_says",
        "windows_of_a_stream_score_as_the_whole_does",
    }  # fmt: skip


def test_parts_of_invalid_suites_are_not_tested(check):
    code, lines = check(models={"lstm": {"name": "toy-latent"}})
    assert code == 2
    assert not any(line.startswith(("ok", "broken")) for line in lines)


@pytest.mark.slow
def test_without_contracts_torch_is_not_imported(tmp_path):
    (tmp_path / "suite.yaml").write_text(json.dumps({**SUITE, **small(name="bigram")}))
    environment = {**os.environ, "PYTHONPATH": str(Path(bench_small.__file__).parent.parent), "OMP_NUM_THREADS": "1"}
    program = (
        "import sys\nimport bench_small.plugin\n"
        "from bench_core import registry\nfrom bench_core.commands.main import bench\n"
        "with registry.extra(bench_small.plugin):\n"
        "    assert not bench.main(['check', 'suite.yaml'], standalone_mode=False)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env=environment)
