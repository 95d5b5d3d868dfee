"""Waits of the CPU for a simulated GPU are recorded with their line of code, without false positives."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from bench_authors.testing import Case, tiny_batch, toys
from bench_authors.testing.accelerators import moved
from bench_authors.testing.pretended import GPU, Pretended, synchronisations, undeclared
from bench_core import Rng, by_host, cached_on_host, on_host, to_device, waits_for_device
from bench_training.evaluation import Selection
from bench_training.log import READ_EVERY
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer


@pytest.fixture(autouse=True)
def gpu():
    with Pretended():
        yield


def there(*shape):
    return torch.ones(*shape, device="cuda")


def number():
    return torch.ones((), device="cuda")


def places(*values):
    return to_device(torch.tensor(values), "cuda")


WAITING = {
    "a number that is read": lambda: there(1).item(),
    "float": lambda: float(number()),
    "int": lambda: int(number()),
    "an index of a list": lambda: [1, 2][places(1)[0]],
    "a condition": lambda: 1 if number() else 2,
    "not": lambda: not number(),
    "and": lambda: number() and 1,
    "a list": lambda: there(2).tolist(),
    "a text": lambda: f"{number()}",
    "what is printed": lambda: str(there(2)),
    "max of Python": lambda: max(there(3)),
    "in": lambda: 1.0 in there(2),
    "a copy to the CPU": lambda: there(2).cpu(),
    "to": lambda: there(2).to("cpu"),
    "a module to the CPU": lambda: nn.Linear(1, 1).cuda().cpu(),
    "a copy into main memory": lambda: torch.zeros(2).copy_(there(2)),
    "a copy to the GPU": lambda: torch.ones(2).to("cuda"),
    "cuda": lambda: torch.ones(2).cuda(),
    "a copy from main memory": lambda: there(2).copy_(torch.ones(2)),
    "a list that becomes a tensor": lambda: torch.tensor([1, 2], device="cuda"),
    "a new tensor": lambda: there(1).new_tensor([1.0]),
    "numbers that become a tensor": lambda: torch.tensor([number(), number()]),
    "a tensor of a tensor elsewhere": lambda: torch.as_tensor(np.ones(2), device="cuda"),
    "nonzero": lambda: there(2).nonzero(),
    "where alone": lambda: torch.where(there(2) > 0),
    "argwhere": lambda: torch.argwhere(there(2)),
    "a mask as an index": lambda: there(2)[there(2) > 0],
    "a mask among indices": lambda: there(2, 2)[:, there(2) > 0],
    "a mask that is filled": lambda: there(2).__setitem__(there(2) > 0, there(2)),
    "masked_select": lambda: there(2).masked_select(there(2) > 0),
    "a number as an index": lambda: there(2)[places(1)[0]],
    "a number as the end of a slice": lambda: there(2)[: places(1)[0]],
    "places in main memory": lambda: there(2)[torch.tensor([0, 1])],
    "a list of places": lambda: there(2)[[0, 1]],
    "values from main memory": lambda: there(2).__setitem__(slice(0, 2), torch.ones(2)),
    "unique": lambda: there(2).unique(),
    "unique with places": lambda: torch.unique(there(2), return_inverse=True),
    "unique in a row": lambda: torch.unique_consecutive(there(2)),
    "bincount": lambda: places(0, 1).bincount(),
    "repeat_interleave by a tensor": lambda: there(2).repeat_interleave(places(1, 2)),
    "one_hot of anything": lambda: one_hot(places(0, 1)),
    "equal": lambda: torch.equal(there(2), there(2)),
    "allclose": lambda: torch.allclose(there(2), there(2)),
    "assert_close": lambda: torch.testing.assert_close(there(2), there(2)),
    "a size from the GPU": lambda: torch.zeros(3).new_zeros(places(2)[0]),
    "a range to a number on the GPU": lambda: torch.arange(places(2)[0]),
    "multinomial": lambda: there(2).multinomial(1),
    "a sparse gradient that is put together": lambda: there(2, 2).to_sparse().coalesce(),
    "synchronize": lambda: torch.cuda.synchronize(),
    "an event": lambda: torch.cuda.Event().synchronize(),
    "a gradient that looks at its input": lambda: _gradient(lambda x: x.prod()),
    "an argument that is checked": lambda: torch.distributions.Categorical(logits=there(3)),
}


def _gradient(compute):
    given = torch.zeros(2, device="cuda").requires_grad_()
    torch.autograd.backward(compute(given))


@pytest.mark.parametrize("what", WAITING)
def test_waits_are_recorded_at_their_line(what):
    work = WAITING[what]
    with synchronisations() as recorded:
        work()
    ours = [wait for wait in recorded if wait.file == __file__]
    assert ours, recorded
    first = inspect.getsourcelines(work)[1]
    known = {first, *range(*_lines_of(_gradient))}  # of the test, or of what it calls
    assert {wait.line for wait in ours} <= known


def _lines_of(function):
    source, first = inspect.getsourcelines(function)
    return first, first + len(source)


FREE = {
    "arithmetic": lambda: there(2) * 2 + there(2).sum() - torch.tensor(1.0),
    "a comparison": lambda: (there(2) > 1) & (there(2) < number()),
    "a product": lambda: there(2, 2) @ there(2, 2),
    "an embedding": lambda: nn.functional.embedding(places(0, 1), there(2, 3)),
    "a loss": lambda: cross_entropy(there(2, 3), places(0, 1)),
    "a gradient": lambda: _gradient(lambda x: (x @ there(2, 2)).square().sum()),
    "places on the GPU": lambda: there(3)[places(0, 2)],
    "places that are filled": lambda: there(3).index_copy(0, places(0, 2), there(2)),
    "a slice": lambda: there(3)[1:],
    "a number of Python as an index": lambda: there(3)[1],
    "a condition on the GPU": lambda: torch.where(there(2) > 0, there(2), 0.0),
    "a mask that is filled with a number": lambda: there(2).masked_fill(there(2) > 0, 1.0),
    "a mask that is scattered to": lambda: there(2).masked_scatter(there(2) > 0, there(2)),
    "repeat_interleave by a number": lambda: there(2).repeat_interleave(2),
    "repeat_interleave with its size": lambda: there(2).repeat_interleave(places(1, 2), output_size=3),
    "one_hot of so many": lambda: one_hot(places(0, 1), 3),
    "a shape": lambda: (len(there(2)), there(2).shape, there(2).numel(), there(2).dtype),
    "rows one by one": lambda: [row * 2 for row in there(2, 2)],
    "zeros": lambda: there(2).new_zeros(3) + torch.zeros(3, device="cuda"),
    "a tensor of a tensor there": lambda: torch.as_tensor(there(2), device="cuda"),
    "a number read in main memory": lambda: float(torch.ones(2).sum()) + len(torch.ones(2).unique()),
    "a copy that nobody waits for": lambda: torch.ones(2).pin_memory().to("cuda", non_blocking=True),
    "a move within the GPU": lambda: there(2).to("cuda").double(),
    "an update": lambda: _update(torch.optim.Adam),
    "a fused update": lambda: _update(lambda weights: torch.optim.AdamW(weights, fused=True)),
    "an LSTM": lambda: nn.LSTM(2, 3).to("meta").to_empty(device="cuda")(there(4, 1, 2)),
    "clipping": lambda: nn.utils.clip_grad_norm_([nn.Parameter(there(2))], 1.0),
    "an average that is reported later": lambda: there(2).mean().detach().double(),
}


def _update(kind):
    weights = nn.Parameter(there(2))
    weights.grad = there(2)
    kind([weights]).step()


@pytest.mark.parametrize("what", FREE)
def test_other_operations_are_not_recorded(what):
    with synchronisations() as recorded:
        FREE[what]()
    assert [str(wait) for wait in recorded] == []


def test_declared_waits_have_their_own_reason():
    @waits_for_device("the whole function")
    def reads():
        return number().item()

    with synchronisations() as recorded:
        with waits_for_device("the outer"):
            number().item()
            with waits_for_device("the inner"):
                number().item()
            number().item()
        reads()
        number().item()
    assert [wait.reason for wait in recorded] == ["the outer", "the inner", "the outer", "the whole function", ""]
    assert undeclared(recorded) == recorded[-1:]
    assert f"{Path(__file__).name}:" in str(recorded[-1])


def test_an_asynchronous_copy_cannot_be_read_before_a_synchronization():
    copy = there(2).to("cpu", non_blocking=True)
    assert copy.shape == (2,)
    with pytest.raises(RuntimeError, match="before a synchronization"):
        copy.sum()
    with pytest.raises(RuntimeError, match="before a synchronization"):
        copy.tolist()
    torch.cuda.synchronize()
    assert copy.tolist() == [1, 1]
    into = torch.zeros(2)
    into.copy_(there(2), non_blocking=True)
    with pytest.raises(RuntimeError, match="before a synchronization"):
        into.sum()
    event = torch.cuda.Event()
    event.record()
    assert event.query()
    assert into.tolist() == [1, 1]


def test_the_host_copy_is_the_original_until_a_tensor_changes():
    here = torch.arange(3)
    moved_ = to_device(here, "cuda")
    with synchronisations() as recorded:
        assert on_host(moved_) is here
        assert on_host(to_device(moved_, "cuda")) is here
        twice = by_host(lambda tensor: 2 * tensor, moved_)
        assert on_host(twice).tolist() == [0, 2, 4]
    assert twice.device == GPU
    assert not recorded
    moved_ += 1
    with synchronisations() as recorded:
        assert on_host(moved_).tolist() == [1, 2, 3]
        assert on_host(moved_.clone()).tolist() == [1, 2, 3]
    assert len(recorded) == 2


def test_a_copy_of_a_modified_tensor_has_its_own_host_copy():
    from copy import deepcopy

    first = torch.zeros(2, device="cuda")
    first += 1
    assert cached_on_host(first).tolist() == [1, 1]
    other = deepcopy(first)
    other += 1
    assert on_host(other).tolist() == [2, 2]
    assert cached_on_host(first).tolist() == [1, 1]


@pytest.mark.parametrize("change", ["moved", "replaced", "selected"])
def test_a_batch_knows_its_real_tokens_wherever_it_is(change):
    batch = tiny_batch()
    values = torch.arange(batch.gold.numel() * 2).view(*batch.gold.shape, 2)
    wanted = values[batch.mask]
    there_ = batch.to("cuda")
    with synchronisations() as recorded:
        assert there_.real.device == GPU
        assert on_host(there_.real).tolist() == batch.real.tolist() == batch.mask.flatten().nonzero()[:, 0].tolist()
        assert there_.at_real(there_.gold).device == GPU
        assert on_host(there_.at_real(there_.gold)).tolist() == batch.gold[batch.mask].tolist()
    assert not recorded
    assert there_.at_real(to_device(values, "cuda")).tolist() == wanted.tolist() == batch.at_real(values).tolist()
    if change == "replaced":
        from dataclasses import replace

        shorter = replace(there_, gold=there_.gold[:, :2], length=there_.length.clamp(max=2))
        assert shorter.real.tolist() == shorter.mask.flatten().nonzero()[:, 0].tolist()
    if change == "selected":
        rows = places(1, 0)
        assert there_.select(rows).real.tolist() == batch.select(torch.tensor([1, 0])).real.tolist()


def trained(model, updates, folder, kind=Trainer, precision="fp32", **settings):
    """Return the waits of training updates, without evaluations."""
    config = toys.LettersConfig()
    task = config.load()(config, folder)
    task.prepare(folder)
    case = moved(Case.of(model), "cuda")
    plan = TrainingConfig(updates=updates, batch_size=4, evaluate_every=1000, **settings)
    with waits_for_device("an evaluation is no update"):
        trainer = kind(
            case.model.float(),
            task,
            plan,
            Rng(0),
            torch.device("cuda"),
            Selection(lambda model: 0.0, -1, "nothing"),
            precision,
        )
    with synchronisations() as recorded:
        trainer.run()
    return undeclared(recorded)


OPTIONS = [
    {},
    {"clip": 1.0},
    {"clip": {"each": 0.1}},
    {"clip": {"value": 0.1}},
    {"accumulate": 2},
    {"average": "exponential"},
    {"average": "uniform"},
    {"label_smoothing": 0.1},
    {"schedule": {"name": "OneCycleLR", "max_lr": 0.1, "total_steps": 60}},
    {"groups": [{"match": "*.bias", "optimizer": "sgd"}]},
    {"optimizer": {"name": "sgd", "momentum": 0.9}},
    {"precision": "bf16"},
]


@pytest.mark.quick(2, 3)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_update_of_the_trainer_does_not_wait(options, tmp_path):
    few, many = (trained(toys.ToyRecurrentConfig(), updates, tmp_path, **options) for updates in (3, READ_EVERY - 1))
    assert [*map(str, few)] == [*map(str, many)], "as often however many updates there are"


@pytest.mark.slow
def test_the_trainer_waits_once_for_each_reading_of_its_log(tmp_path):
    none, two = (len(trained(toys.CodesConfig(), updates, tmp_path)) for updates in (3, 2 * READ_EVERY + 3))
    assert two == none + 2


def test_an_update_that_waits_is_recorded(tmp_path):
    class Waiting(Trainer):
        def _step(self):
            super()._step()
            next(self.model.parameters()).sum().item()

    few, many = (trained(toys.ToyRecurrentConfig(), updates, tmp_path, Waiting) for updates in (3, 9))
    assert len(many) == len(few) + 6
