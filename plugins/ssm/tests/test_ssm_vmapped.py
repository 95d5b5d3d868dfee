"""Seeds of deep state space models and of their baseline, trained as one: each as it would be alone."""

import warnings
from dataclasses import replace

import pytest
import torch

from bench_core import Batch, Rng, Size, Task, TaskInfo
from bench_ssm.model import _steps_and_rows
from bench_ssm.plugin import CharGRUConfig, DeepSSMConfig
from bench_training.evaluation import Selection
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer
from bench_training.vmapped import JointTrainer, Stack

INFO = TaskInfo(["</w>", *"abcd"])
SMALL = {"state": 3, "reader": 4, "posterior": 5, "steps": 6, "information_draws": 2, "logged": 2}
MODELS = {
    "tril": DeepSSMConfig(**SMALL),
    "2xtril, K=3": DeepSSMConfig(**SMALL, generative="2xtril", samples=3),
    "diag, id": DeepSSMConfig(**SMALL, generative="diag", inference="id", q_sees_state=True),
    "id, tril": DeepSSMConfig(**SMALL, generative="id", inference="tril"),
    "bidi, K=2, shared": DeepSSMConfig(**SMALL, generative="2xtril", samples=2, bidirectional=True, shared=True),
    "real-nvp, K=2": DeepSSMConfig(**SMALL, generative="real-nvp", masks=(1, 2), samples=2),
    "char-gru": CharGRUConfig(state=3, steps=6),
}
RNGS = [Rng(seed).fork("train") for seed in (5, 2, 6)]
CPU = torch.device("cpu")
SELECTION = Selection(lambda model: 0.0, -1, "nothing")


class Words(Task):
    """Words of one to five letters, in the order of the file."""

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, rng=None):
        generator = torch.Generator().manual_seed(0)
        length = torch.randint(2, 7, (24,), generator=generator)
        gold = torch.randint(1, 5, (24, 6), generator=generator) * (torch.arange(6) < length[:, None] - 1)
        for rows in torch.arange(24).split(size.number):
            yield Batch(rows, gold[rows, :1] * 0, gold[rows], length[rows])


def begun(config, seed):
    torch.manual_seed(seed)
    return config.load()(config, INFO)


def trained(config, plan):
    """Return the weights of three copies after some updates together, and of each after the same alone."""
    stack = Stack([begun(config, seed) for seed in range(3)])
    JointTrainer(stack, Words(None, None), plan, RNGS[0], CPU, SELECTION, rngs=RNGS, selections=[SELECTION] * 3).run()
    alone = [begun(config, seed) for seed in range(3)]
    for model, rng in zip(alone, RNGS, strict=True):
        Trainer(model, Words(None, None), plan, rng, CPU, SELECTION).run()
    return [dict(stack.at(copy).named_parameters()) for copy in range(3)], [
        dict(model.named_parameters()) for model in alone
    ]


PLAN = TrainingConfig(updates=4, evaluate_every=2, batch_size=12, clip=0.5, schedule="linear", lr=0.01)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", MODELS)
def test_copies_end_as_they_do_alone(name):
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(action="error", category=UserWarning):  # such as of a slow way through vmap
            together, alone = trained(MODELS[name], PLAN)
    finally:
        torch.set_default_dtype(torch.float32)
    for found, wanted in zip(together, alone, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["2xtril, K=3", "char-gru"])
def test_in_float32_too(name):
    together, alone = trained(MODELS[name], PLAN)
    for found, wanted in zip(together, alone, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def by_falling_length():
    (batch,) = Words(None, None).batches("train", None, Size(24))
    batch = batch.select(batch.length.argsort(descending=True))
    return batch, [int((batch.length > t).sum()) for t in range(6)]


@pytest.mark.parametrize("more", [0, 1, 24])
def test_a_reader_takes_the_same_steps_in_a_loop(more):
    """Also where rows take steps after their ends, as those of another copy go on."""
    model = begun(MODELS["bidi, K=2, shared"], 0)
    batch, rows = by_falling_length()
    rows = [min(24, number + more) for number in rows]
    steps, who = _steps_and_rows(rows)
    read = model.posterior.read(batch.gold, batch.length)
    walked = model.posterior.walk(batch.gold, batch.length, rows, steps, who)
    real = steps < batch.length[who]
    torch.testing.assert_close(walked[real], read[who, steps][real])


@pytest.mark.parametrize("more", [0, 1, 24])
@pytest.mark.parametrize("name", ["tril", "bidi, K=2, shared"])
def test_steps_of_rows_that_have_ended_change_no_bound(name, more):
    model = begun(MODELS[name], 0).double()
    batch, rows = by_falling_length()
    batch = batch.select(torch.randperm(24, generator=torch.Generator().manual_seed(3)))
    samples = MODELS[name].samples
    wanted = model.bound(batch, Rng(4), samples)
    found = model.padded_bound(batch, Rng(4), samples, [min(24, number + more) for number in rows])
    torch.testing.assert_close(vars(replace(found, kl=wanted.kl)), vars(wanted))
