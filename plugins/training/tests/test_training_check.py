"""`bench check` refuses every setting of a training that cannot work, at its own place and all at once."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import bench_small.plugin
import pytest
from bench_small.suites import SUITE
from click.testing import CliRunner

from bench_core import registry
from bench_core.commands.main import bench
from bench_core.planning.code_digests import forget_code
from bench_core.planning.plan import plan
from bench_core.suites.load import load
from bench_training.named_classes import REFUSED, class_of, names
from bench_training.training_check import COMMON, GIVEN

TRAINING = "training: {epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}"


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return a function that checks a suite and returns the problems found, as (line, column, text)."""
    monkeypatch.chdir(tmp_path)

    def run(text):
        (tmp_path / "suite.yaml").write_text(text)
        found = CliRunner().invoke(bench, ["check", "suite.yaml"], standalone_mode=False)
        assert found.exception is None, found.exc_info
        lines = [re.fullmatch(r"suite\.yaml:(\d+):(\d+): (.*)", line) for line in found.stderr.splitlines()]
        problems = [(int(one[1]), int(one[2]), one[3]) for one in lines if one]
        assert found.return_value == (2 if problems else 0), found.stderr
        return problems

    with registry.extra(bench_small.plugin):
        yield run


def with_training(text, old=TRAINING):
    """Return the suite with another training, in flow style."""
    assert old in SUITE
    return SUITE[: SUITE.index("profiles:")].replace(old, f"training: {text}")


def place(text, mark):
    """Return the line and column at which a mark begins, from 1."""
    before = text[: text.index(mark)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


#: What is written, where the problem is, and what is said of it.
WRONG = {
    "an unknown optimizer": ("{optimizer: adma}", "optimizer:", ["no optimizer is called 'adma'", "Did you mean", "'adam'"]),
    "an unknown one with settings": ("{optimizer: {eps: 1e-6, name: adma}}", "name: adma", ["no optimizer is called"]),
    "an unknown schedule": ("{schedule: {name: stepl, step_size: 3}}", "name: stepl", ["no schedule is called", "StepLR"]),
    "a schedule of ours misspelt": ("{schedule: cosin}", "schedule:", ["Did you mean 'cosine'"]),
    **{
        f"{name}, which cannot be used": (f"{{{sort}: {{name: {name}}}}}", f"name: {name}", [f"{sort} '{name}' {why}"])
        for sort, several in {
            "optimizer": ("lbfgs", "sparseadam"),
            "schedule": [one for one in REFUSED if one not in ("lbfgs", "sparseadam")],
        }.items()
        for name in several
        for why in [REFUSED[name]]
    },
    "an unknown setting": (
        "{optimizer: {name: adamw, beta: [0.9, 0.99]}}", "beta:", ["has no setting 'beta'. Did you mean 'betas'"]),
    "a setting of another optimizer": ("{optimizer: {name: adam, momentum: 0.9}}", "momentum:", ["'momentum'"]),
    "a rate in the optimizer": ("{optimizer: {name: adam, lr: 0.1}}", "lr: 0.1}}", ["`lr` is set by the trainer"]),
    "weights in the optimizer": ("{optimizer: {name: sgd, params: 1}}", "params:", ["`params` is set by"]),
    "a schedule's optimizer": ("{schedule: {name: StepLR, step_size: 1, optimizer: sgd}}", "optimizer:", ["set by"]),
    "text for a number": ("{optimizer: {name: adam, eps: small}}", "eps:", ["'eps' must be a number (found 'small')"]),
    "a number for a truth": ("{optimizer: {name: adam, amsgrad: 1}}", "amsgrad:", ["must be true or false"]),
    "a truth for a number": ("{optimizer: {name: adam, eps: true}}", "eps:", ["must be a number (found true)"]),
    "one number for a tuple": ("{optimizer: {name: adam, betas: 0.9}}", "betas:", ["must be a list (found 0.9)"]),
    "a tuple too long": ("{optimizer: {name: adam, betas: [0.9, 0.9, 0.9]}}", "betas:", ["must have at most 2 entries"]),
    "text in a tuple": ("{optimizer: {name: adam, betas: [0.9, x]}}", "betas:", ["'betas' must be a number (found 'x')"]),
    "no member of a literal": (
        "{schedule: {name: CyclicLR, base_lr: 0.1, max_lr: 1, mode: circle}}", "schedule:", ["cannot be built with these settings: mode is invalid"]),
    "no member of a union": ("{optimizer: {name: adam, foreach: 2}}", "foreach:", ["must be true or false"]),
    "a decay of moments above 1": ("{optimizer: {name: adam, betas: [0.9, 1.5]}}", "betas:", ["must be less than 1 (found 1.5)"]),
    "a decay of weights below 0": ("{optimizer: {name: adamw, weight_decay: -1}}", "weight_decay:", ["at least 0"]),
    "a look ahead without momentum": ("{optimizer: {name: sgd, nesterov: true}}", "optimizer:", ["needs `momentum` above 0"]),
    "a value that its class refuses": ("{optimizer: {name: rmsprop, alpha: -1}}", "optimizer:", ["Invalid alpha value: -1"]),
    "no step size": ("{schedule: StepLR}", "schedule:", ["schedule 'StepLR' needs `step_size`"]),
    "two that are missing": ("{schedule: CyclicLR}", "schedule:", ["needs `base_lr` and `max_lr`"]),
    "the second of a sequence": (
        "{schedule: [{name: linear, updates: 3}, {name: StepLR, gama: 0.1, step_size: 2}]}", "gama:", ["'gamma'"]),
    "a setting of our schedule": ("{schedule: {name: linear, ende: 0.1}}", "ende:", ["has no setting 'ende'. Its settings: e"]),
    "one that has none": ("{warmup: 2, schedule: {name: inverse-sqrt, power: 2}}", "power:", ["It has no settings."]),
    "a plateau that does not fall": ("{schedule: {name: plateau, factor: 1.5}}", "factor:", ["at least 0 and below 1"]),
    "epochs for our schedule": ("{schedule: {name: linear, every: epoch}}", "every:", ["`every` applies only to torch"]),
    "a group's setting": ("{groups: [{match: '*', momentun: 0.1}]}", "momentun:", ["has no setting 'momentun'"]),
    "a group's own optimizer": (
        "{groups: [{match: a, lr: 1}, {match: '*', optimizer: sgd, amsgrad: true}]}", "amsgrad:", ["optimizer 'sgd'"]),
    "an unknown one of a group": ("{groups: [{match: '*', optimizer: sdg}]}", "optimizer: sdg", ["no optimizer is called 'sdg'"]),
    "a phase's optimizer": (
        "{phases: [{updates: 1}, {updates: 1, optimizer: {name: sgd, nesterof: true}}]}", "nesterof:", ["'nesterov'"]),
    "a phase's schedule": (
        "{phases: [{updates: 1}, {updates: 1, schedule: {name: ExponentialLR}}]}", "schedule:", ["needs `gamma`"]),
    "two ways to clip": ("{clip: {norm: 1, value: 2}}", "clip:", ["one of `norm`, `each` and `value`"]),
    "no way to clip": ("{clip: {}}", "clip:", ["one of `norm`, `each` and `value`"]),
    "a sequence without lengths": ("{schedule: [linear, cosine]}", "training:", ["needs a length"]),
    "an evaluation with updates": ("{mode: evaluate, updates: 5}", "training:", ["`mode: evaluate` does not train"]),
    "an evaluation in phases": ("{mode: evaluate, phases: [{updates: 5}]}", "training:", ["does not train"]),
    "labels that are not smoothed": ("{label_smoothing: 0.1}", "label_smoothing:", ["bigram does not support label smoothing"]),
    "all smoothed": ("{label_smoothing: 1.0}", "label_smoothing:", ["must be less than 1"]),
    "an average that never moves": ("{average: {decay: 1.0}}", "decay:", ["must be less than 1"]),
    "an unknown average": ("{average: mean}", "average:", ["Known: exponential, uniform"]),
    "stopping by an unknown metric": ("{stop: {metric: nat}}", "metric: nat}", ["nat"]),
    "stopping by text without a decoder": ("{stop: {metric: ended}}", "stop:", ["decoder"]),
    "stopping by an unknown decoder": ("{stop: {metric: ended, decoder: argmix}}", "decoder: argmix", ["argmax"]),
    "no module": ("{optimizer: 'nowhere.at_all:Adam'}", "optimizer:", ["cannot be imported: No module named 'nowhere'"]),
    "no class": ("{optimizer: 'torch.optim:'}", "optimizer:", ["has no attribute ''"]),
    "no class there": ("{optimizer: 'bench_core.errors:SuitError'}", "optimizer:", ["no attribute 'SuitError'", "Did you mean 'SuiteError'"]),
    **{
        f"together with {one}": (f"{{vmap_seeds: true, {one}}}", "training:", ["vmapped seeds share every"])
        for one in (
            "patience: 2", "stop: {metric: nats}", "schedule: plateau", "phases: [{updates: 1, reset: [top]}]",
            "optimizer: muon", "batch_size: auto", "batch_unit: tokens", "accumulate: 2",
            "phases: [{updates: 1, schedule: plateau}]", "groups: [{match: '*', optimizer: adafactor}]",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_trained_is_refused_at_its_place(check, name):
    written, mark, words = WRONG[name]
    text = with_training(written)
    (*found, said), *others = check(text)
    assert others == []
    assert all(word in said for word in words), said
    assert tuple(found) == place(text, mark), said


@pytest.mark.parametrize("name", names("optimizer"))
def test_every_optimizer_of_torch_is_accepted_by_name_in_any_case(check, name):
    for one in (name, name.lower(), name.upper()):
        assert check(with_training(f"{{optimizer: {one}}}")) == []


@pytest.mark.parametrize("sort", ["optimizer", "schedule"])
@pytest.mark.parametrize("setting", sorted(GIVEN))
def test_what_the_training_gives_is_refused_in_settings(check, sort, setting):
    settings = "name: sgd" if sort == "optimizer" else "name: StepLR, step_size: 2"
    ((_, _, said),) = check(with_training(f"{{{sort}: {{{settings}, {setting}: 1}}}}"))
    assert f"`{setting}` is set by the trainer. Remove it." in said


@pytest.mark.parametrize("name", COMMON)
def test_settings_that_are_checked_without_torch_are_those_of_torch_with_its_defaults(name):
    found = inspect.signature(class_of("optimizer", name)).parameters
    wanted = {one.name: one.default for one in found.values() if one.name not in GIVEN}
    assert COMMON[name]().model_dump() == {**wanted, **({"weight_decay": 0} if name == "adamw" else {})}


@pytest.mark.parametrize(
    ("training", "told"),
    [
        ("{epochs: 2, groups: [{match: [embedding.*]}]}", "groups: no weights match 'embedding.*'"),
        (
            "{phases: [{epochs: 1}, {epochs: 1, reset: [head]}]}",
            "phases: cannot reset 'head'. The model's modules are",
        ),
        ("{vmap_seeds: true, groups: [{match: [embedding.*]}]}", "groups: no weights match 'embedding.*'"),
    ],
)
def test_weights_that_a_model_lacks_are_named_before_anything_is_trained(check, training, told):
    assert check(with_training(training)) == []
    found = CliRunner().invoke(bench, ["check", "suite.yaml"], standalone_mode=False)
    assert "not checked: whether models have the weights that `groups` and `reset` name (see --build)" in found.stdout
    built = CliRunner().invoke(bench, ["check", "suite.yaml", "--build"], standalone_mode=False)
    assert (built.return_value, told in built.stderr) == (2, True), built.stderr
    assert "not checked" not in built.stdout
    assert not any(Path(".bench/store").glob("train/*"))


def test_all_problems_of_all_trainings_are_told_in_one_pass(check):
    text = with_training("{optimizer: {name: adam, epps: 1}, schedule: [{name: linear, updates: 1, low: 1}, StepLR]}")
    text += "profiles:\n  tiny: {training: {epochs: 1}}\n"
    for old, new in {
        "one: {name: bigram}": "one: {name: bigram, training: {optimizer: rmspropp}}",
        "two: {name: bigram, scale: 2.0}": (
            "two: {name: bigram, by_task: {words: {training: {groups: [{match: '*', optimizer: agard}]}}}}"
        ),
        "training: {epochs: 1}": "training: {phases: [{updates: 1, optimizer: {name: sgd, dampenning: 1}}]}",
    }.items():
        assert old in text
        text = text.replace(old, new)
    found = check(text)
    for mark, word in {
        "optimizer: rmspropp": "'rmsprop'", "optimizer: agard": "'adagrad'", "epps:": "'eps'", "low: 1": "'low'",
        "dampenning:": "'dampening'", "StepLR]": "`step_size`",
    }.items():  # fmt: skip
        told = [one for one in found if word in one[2]]
        assert len(told) == 1, (mark, found)
        assert told[0][:2] == place(text, mark), (mark, found)


# Classes of other modules

STEADY = """
import torch

class Plain(torch.optim.Optimizer):
    def __init__(self, params, lr: float = 0.1, *, decay: float = 0.0, mode: str = "a"):
        super().__init__(params, {"lr": lr, "decay": decay})

    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                if each.grad is not None:
                    each.data.sub_(group["lr"] * each.grad)

class Derived(Plain):
    pass

class Stuck(object):
    pass
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that writes a module which suites can name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source=STEADY, name="steady"):
        (tmp_path / f"{name}.py").write_text(source)
        sys.modules.pop(name, None)
        forget_code()

    yield write
    forget_code()
    sys.modules.pop("steady", None)


@pytest.mark.parametrize("name", ["Plain", "Derived"])
def test_a_class_of_a_module_is_found_and_its_settings_are_checked(check, module, name):
    module()
    assert check(with_training(f"{{optimizer: 'steady:{name}'}}")) == []
    assert check(with_training(f"{{optimizer: {{name: 'steady:{name}', decay: 0.1}}}}")) == []
    ((_, _, said),) = check(with_training(f"{{optimizer: {{name: 'steady:{name}', decays: 0.1}}}}"))
    assert "has no setting 'decays'. Did you mean 'decay'" in said


def test_a_class_without_steps_is_refused(check, module):
    module()
    ((_, _, said),) = check(with_training("{optimizer: 'steady:Stuck'}"))
    assert "optimizer 'steady:Stuck' has no method `step`." in said


def test_a_module_that_python_cannot_read_is_named(check, module):
    module("class Plain(:\n")
    ((_, _, said),) = check(with_training("{optimizer: 'steady:Plain'}"))
    assert "steady" in said
    assert "cannot be imported: invalid syntax (steady.py, line 1)" in said


def test_a_module_that_ends_the_process_does_not_end_the_check(check, module):
    module("import sys\nsys.exit(0)\n")
    ((_, _, said),) = check(with_training("{optimizer: 'steady:Plain'}"))
    assert "optimizer 'steady:Plain' cannot be imported" in said


def test_a_module_without_a_file_is_no_module_of_a_suite(check, monkeypatch):
    monkeypatch.setitem(sys.modules, "nofile", ModuleType("nofile"))
    ((_, _, said),) = check(with_training("{optimizer: 'nofile:Adam'}"))
    assert "module 'nofile' has no attribute 'Adam'" in said


def planned_keys(tmp_path):
    found = {}
    for stage in plan(load(tmp_path / "suite.yaml"), tmp_path).stages.values():
        found.setdefault((stage.kind, str(stage.settings.get("training", {}).get("optimizer"))), set()).add(stage.key)
    return found


def test_the_code_of_a_class_is_in_the_keys_of_its_trainings_and_of_no_others(tmp_path, module):
    text = with_training("{epochs: 1, select: {metric: nats}}").replace(
        "one: {name: bigram}", "one: {name: bigram, training: {optimizer: 'steady:Plain'}}"
    )
    (tmp_path / "suite.yaml").write_text(text)
    with registry.extra(bench_small.plugin):
        module()
        before = planned_keys(tmp_path)
        module(STEADY.replace('group["lr"] * each.grad', '2 * group["lr"] * each.grad'))
        after = planned_keys(tmp_path)
        module(STEADY.replace("class Stuck(object)", "class Stucked(object)"))
        same = planned_keys(tmp_path)
    assert before.keys() == after.keys()
    trainings = {kind for kind in before if kind[0] == "train"}
    assert len(trainings) == 2
    for kind in trainings:
        assert (before[kind] == after[kind]) == ("steady" not in kind[1]), kind
        assert before[kind].isdisjoint(after[kind]) == ("steady" in kind[1]), kind
    assert before[("prepare", "None")] == after[("prepare", "None")]
    assert same == before, "another class of the module is not its code"


def test_checking_the_usual_optimizers_imports_no_torch(tmp_path):
    text = with_training(
        "{optimizer: {name: adamw, eps: x, betas: [0.9, 0.98]}, schedule: [{name: linear, updates: 2}, cosine], "
        "groups: [{match: '*', optimizer: {name: sgd, momentun: 0.9}}]}"
    )
    (tmp_path / "suite.yaml").write_text(text)
    code = (
        "import sys, bench_small.plugin\nfrom bench_core import registry\nfrom bench_core.commands.main import bench\n"
        "with registry.extra(bench_small.plugin):\n"
        f"    code = bench(['check', {str(tmp_path / 'suite.yaml')!r}], standalone_mode=False)\n"
        "assert code == 2, code\nassert 'torch' not in sys.modules"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd="tests/small", check=False
    )
    assert found.returncode == 0, found.stderr
    for words in ("'eps' must be a number", "no setting 'momentun'"):
        assert words in found.stderr, found.stderr
