"""A compiled training ends as the plain one, and one that cannot be compiled is exactly that."""

from __future__ import annotations

import pytest
import torch
from bench_small.trainings import CPU, Lines, Net, ended, same, trainer
from torch import nn

from bench_core import Loss, Rng, TaskInfo
from bench_training.trainer import Trainer


class Compiler:
    """Stands for torch.compile: a function of the loss that it is to compile."""

    def __init__(self, model, works=0, error="no graph of this"):
        self.model, self.works, self.error, self.calls = model, works, error, 0

    def __call__(self, batch, training):
        self.calls += 1
        if self.calls > self.works:
            torch.rand(3)  # as far as it came
            raise RuntimeError(f"{self.error}\nand much more of it")
        return self.model.loss(batch, training)


def compiled(model, compiler, **settings):
    """Return a training whose compiler is a pretended one, and its warnings."""
    model.compiled_loss = lambda: compiler
    warnings = []
    one = trainer(model, compile=True, **settings)
    one.gradient.loss.warn = warnings.append
    return one, warnings


def seeded(one):
    torch.manual_seed(7)
    return ended(one)


@pytest.mark.parametrize("works", [0, 1, 5])
def test_a_compilation_that_fails_at_any_update_leaves_the_plain_training(works):
    model = Net(0.3)
    compiler = Compiler(model, works)
    one, warnings = compiled(model, compiler)
    same(seeded(one), seeded(trainer(Net(0.3))))
    assert compiler.calls == works + 1, "it is not tried again"
    assert warnings == ["compile: Net is trained uncompiled because torch.compile failed: no graph of this"]


def test_a_failed_compilation_does_not_advance_the_generator_of_dropout():
    model, states = Net(0.3), []
    loss = model.loss
    model.loss = lambda batch, training: (states.append(torch.get_rng_state()), loss(batch, training))[1]
    one, _ = compiled(model, Compiler(model), updates=1)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    one.run()
    assert torch.equal(states[0], state)


def test_an_error_without_words_is_named_by_its_class():
    model = Net()
    one, warnings = compiled(model, Compiler(model, error=""))
    one.gradient.loss.loss = lambda batch, training: (_ for _ in ()).throw(NotImplementedError)
    one.run()
    assert warnings == ["compile: Net is trained uncompiled because torch.compile failed: NotImplementedError"]


def test_an_error_of_the_loss_itself_is_raised_without_a_warning():
    class Broken(Net):
        def loss(self, batch, training):
            if training.step == 3:
                raise ZeroDivisionError("of the loss")
            return super().loss(batch, training)

    model = Broken()
    one, warnings = compiled(model, Compiler(model, works=100))
    with pytest.raises(ZeroDivisionError, match="of the loss"):
        one.run()
    assert warnings == []


def test_a_backward_pass_that_cannot_be_compiled_is_found_at_the_first_update():
    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            return value.clone()

        @staticmethod
        def backward(context, gradient):
            raise RuntimeError("no backward pass")

    model, warnings = Net(0.3), []
    plain = model.loss

    def lost(batch, training):
        found = plain(batch, training)
        return Loss(Backward.apply(found.value), found.weight, found.parts)

    model.compiled_loss = lambda: lost
    one = trainer(model, compile=True)
    one.gradient.loss.warn = warnings.append
    found, wanted = seeded(one), seeded(trainer(Net(0.3)))
    same(found, wanted)
    assert warnings == ["compile: Net is trained uncompiled because torch.compile failed: no backward pass"]


# With the compiler of torch


class Recurrent(Net):
    """Reads tokens by an LSTM."""

    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(6, 6, batch_first=True)

    def loss(self, batch, training):
        units, _ = self.inner(self.embed(batch.gold))
        costs = nn.functional.cross_entropy(self.top(units).transpose(1, 2), (batch.gold + 1) % 5, reduction="none")
        tokens = batch.length.sum()
        return Loss((costs * batch.mask).sum() / tokens, tokens)


def alike(found, wanted):
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-4, atol=1e-5)
    for one, other in zip(found[0], wanted[0], strict=True):
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [Net, Recurrent])
def test_a_compiled_training_ends_as_the_plain_one_up_to_rounding(kind):
    warnings = []
    one = trainer(kind(), compile=True, updates=6, evaluate_every=3)
    one.gradient.loss.warn = warnings.append
    alike(ended(one), ended(trainer(kind(), updates=6, evaluate_every=3)))
    assert warnings == []
    assert one.gradient.loss.compiled


@pytest.mark.nightly
def test_a_compiled_state_space_model_ends_as_the_plain_one_up_to_rounding():
    plugin = pytest.importorskip("bench_ssm.plugin")
    config = plugin.DeepSSMConfig(state=3, reader=4, posterior=5, steps=6, information_draws=2, logged=2)

    def trained(**settings):
        torch.manual_seed(3)
        model, warnings = config.load()(config, TaskInfo(["</w>", *"abcd"])), []
        base = trainer(updates=6, evaluate_every=3, lr=0.01, **settings)
        selection = base.selection.__class__(lambda model: 0.0, -1, "nothing")
        one = Trainer(model, Lines(None, None), base.config, Rng(1), CPU, selection, warn=warnings.append)
        found = ended(one)
        assert warnings == []
        return found

    alike(trained(compile=True), trained())


@pytest.mark.slow
def test_a_loss_that_torch_cannot_compile_is_trained_without():
    class Refused(Net):
        def compiled_loss(self):
            def lost(batch, training):
                torch._dynamo.graph_break()
                return self.loss(batch, training)

            return torch.compile(lost, fullgraph=True)

    warnings = []
    one = trainer(Refused(0.3), compile=True)
    one.gradient.loss.warn = warnings.append
    same(seeded(one), seeded(trainer(Refused(0.3))))
    (said,) = warnings
    assert said.startswith("compile: Refused is trained uncompiled because torch.compile failed: ")
