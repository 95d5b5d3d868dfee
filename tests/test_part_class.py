"""A class that is not what its Config declares is refused before anything is trained, in a sentence."""

from __future__ import annotations

import sys
from types import ModuleType

import bench_small.plugin
import pytest
from bench_small import parts
from bench_small.plugin import ArgmaxConfig, BigramConfig, BlindConfig
from click.testing import CliRunner

from bench_core import Decoder, Kind, Model, PluginError, Sampler, Scorer, Stepper, TaskInfo, registry
from bench_core.commands.main import bench
from bench_core.computing.building import built_on_meta
from bench_core.computing.part_class import part_class


class Half(Model):
    """A model that steps, as it says nowhere, and neither scores nor learns."""

    def __init__(self, config, info): ...
    def start(self, batch): ...
    def step(self, state, actions): ...
    def sample(self, batch, max_tokens, rng): ...


class Learner(Half):
    def loss(self, batch, training): ...


class Undecided(Decoder):
    """A decoder that does not decode."""


def refused(base, target, **declared):
    """Return the message of the error for a Config that builds `target` and declares these class variables."""
    target = target if ":" in target else f"{__name__}:{target}"
    config = type("MineConfig", (base,), {"__module__": __name__, "target": target, **declared})
    with pytest.raises(PluginError) as error:
        part_class(config())
    return str(error.value)


def test_parts_that_are_what_they_declare_load():
    assert part_class(BigramConfig()) is parts.Bigram
    assert part_class(ArgmaxConfig()) is parts.Argmax


def test_methods_that_are_missing_are_named():
    assert refused(BlindConfig, "Half", capabilities={Model}) == (
        f"{__name__}.MineConfig: {__name__}.Half lacks the method `loss`. Implement all abstract methods of its base classes."
    )
    assert f"{__name__}.Undecided lacks the method `decode`." in refused(ArgmaxConfig, "Undecided")


def test_a_capability_that_the_class_lacks_is_named_with_its_methods():
    found = refused(BigramConfig, "Learner", capabilities={Scorer}, likelihoods={"exact": Kind.EXACT})
    assert f"it declares the capability Scorer; {__name__}.Learner lacks the method `score`." in found
    assert (
        found.endswith("Let the class inherit Scorer, or correct `capabilities`.")
        or "correct `capabilities`" in found
    )


def test_a_class_that_has_the_methods_and_inherits_nothing_is_told_so():
    found = refused(BigramConfig, "Learner", capabilities={Stepper}, likelihoods={})
    assert (
        f"capability Stepper; {__name__}.Learner has its methods, but does not inherit from it. Inherit from Stepper"
        in found
    )


def test_likelihoods_are_those_of_scorers():
    found = refused(BigramConfig, "Learner", capabilities=set(), likelihoods={"exact": Kind.EXACT})
    assert f"it declares likelihoods, but {__name__}.Learner is not a Scorer." in found
    found = refused(BigramConfig, "bench_small.parts:Bigram", likelihoods={})
    assert "it declares no likelihoods, but bench_small.parts.Bigram is a Scorer." in found


def test_a_target_that_is_not_there_is_named():
    found = refused(BigramConfig, "Nothing")
    assert f"its target is '{__name__}:Nothing', but {__name__} has no Nothing." in found
    found = refused(BigramConfig, "bench_small.model:Bigram")
    assert "its target is 'bench_small.model:Bigram', but there is no module bench_small.model." in found


def test_errors_inside_of_the_module_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, line, error in (
        ("imports_nothing", "import bench_nowhere", ModuleNotFoundError),
        ("looks_up_nothing", "import math; math.nowhere", AttributeError),
    ):
        (tmp_path / f"{name}.py").write_text(line)
        config = type("MineConfig", (BigramConfig,), {"target": f"{name}:Bigram"})
        with pytest.raises(error):
            part_class(config())
        assert name not in sys.modules


SUITE = """
suite: tests/classes
tasks: {words: {name: letters}}
models: {mine: {name: mine}}
decoders: {draw: {name: draw}}
metrics: {ended: {name: ended}}
training: {epochs: 1}
seeds: 1
hardware: {device: cpu}
tables: [{id: one, caption: One, rows: [model], columns: [task], values: [ended]}]
"""


@pytest.mark.parametrize("command", [("check", "--build"), ("run", "--workers", "0")])
def test_the_command_line_says_it_before_anything_is_trained(command, tmp_path, monkeypatch):
    class MineConfig(BlindConfig):
        """A model that claims too much."""

        name, target = "mine", f"{__name__}:Learner"
        capabilities = {Sampler}

    module = ModuleType("bench_mine")
    module.bench_models = registry.hooks.hookimpl(lambda: [MineConfig])
    module.bench_models.__module__ = "bench_mine"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    with registry.extra(bench_small.plugin, module):
        done = CliRunner().invoke(bench, [*command, "suite.yaml"], standalone_mode=False)
    assert done.return_value in (1, 2)
    assert "MineConfig: it declares the capability Sampler" in done.output
    assert "Traceback" not in done.output


def test_tensors_of_a_module_have_values_after_its_model_was_built_on_the_meta_device(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "holds_ones.py").write_text(
        "import torch\nfrom bench_small.parts import Bigram\nONES = torch.ones(2)\nclass Holder(Bigram): ...\n"
    )

    class HolderConfig(BigramConfig):
        """A model whose module has a tensor."""

        name, target = "holder", "holds_ones:Holder"

    module = ModuleType("bench_holder")
    module.bench_models = registry.hooks.hookimpl(lambda: [HolderConfig])
    module.bench_models.__module__ = "bench_holder"
    with registry.extra(bench_small.plugin, module):
        model = built_on_meta({"name": "holder"}, TaskInfo(["<stop>", "a", "b"]))
    assert {tensor.device.type for tensor in model.parameters()} == {"meta"}
    assert sys.modules.pop("holds_ones").ONES.sum() == 2
