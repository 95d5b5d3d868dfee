"""Seeds that are trained as one: each ends as it would alone, and fails alone."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import bench_core
from bench_core import Batch, Loss, Rng, Task, Vmappable
from bench_core.commands.main import bench
from bench_core.computing.stage_runner import StageRunner
from bench_core.errors import PluginError, SuiteError, TrainingError
from bench_core.execution.failures import StageFailed
from bench_core.execution.performing import perform
from bench_core.execution.progress import ProgressDisplay
from bench_core.model import State, Training
from bench_core.planning.plan import plan
from bench_core.planning.stages import StageRequest
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_reports.render.report import write_report
from bench_training.checkpoint import Checkpoints
from bench_training.evaluation import Selection
from bench_training.settings import TrainingConfig
from bench_training.trainer import Trainer
from bench_training.vmapped import JointTrainer, Stack, StackedRngs, stacked

CPU = torch.device("cpu")
RNGS = [Rng(seed).fork("train") for seed in (3, 1, 4)]


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Rows(Task):
    """Ten rows in the order of the file, three batches an epoch; in one by noise if asked."""

    shuffled = False

    def prepare(self, data): ...
    def text(self, tokens): ...
    def references(self, split): ...

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(10)
        if self.shuffled:
            ids = ids[rng.uniform(ids).argsort()]
        for rows in ids.split(4):
            gold = rows[:, None] % 5
            yield Batch(rows, gold, gold, gold[:, 0] * 0 + 1)


class Net(nn.Module, Vmappable):
    """Draws noise, has tied weights and one that is never used, and breaks at an update that a buffer tells."""

    def __init__(self):
        super().__init__()
        self.embed, self.hidden, self.top = nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 5)
        self.top.weight = self.embed.weight
        self.scale, self.unused = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(2))
        self.register_buffer("fuse", torch.tensor(10_000))
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def loss(self, batch, training):
        words = batch.gold[:, 0]
        units = self.hidden(self.embed(words) + self.shift / 10).tanh() * self.scale
        units = units + 0.3 * training.rng.fork("units").normal(batch.ids, 0, 4)
        value = nn.functional.cross_entropy(self.top(units), (words + 1) % 5) * training.phase.get("weight", 1.0)
        value = value * torch.where(self.fuse > training.step, 1.0, torch.nan)
        return Loss(value, batch.length.sum(), {"half": value / 2})


def net(seed, fuse=10_000):
    torch.manual_seed(seed)
    model = Net()
    model.fuse.fill_(fuse)
    return model


def judge(model, seed):
    return model.embed.weight[seed, 0].item()


SELECTIONS = [Selection(partial(judge, seed=seed), -1, "size") for seed in range(3)]


def joint(config, nets=None, rngs=RNGS, selections=SELECTIONS, task=None, checkpoints=None):
    stack = Stack(nets or [net(seed) for seed in range(len(rngs))])
    task = task or Rows(None, None)
    return JointTrainer(
        stack, task, config, rngs[0], CPU, selections[0], checkpoints=checkpoints, rngs=rngs,
        selections=selections,
    )  # fmt: skip


def ended(trainer):
    """Return histories, failures, and the weights of all copies at the end."""
    trainer.run()
    copies = trainer.progress.copies
    return copies, [
        {name: t.clone() for name, t in trainer.model.at(n).state_dict().items()} for n in range(len(copies))
    ]


def same(found, wanted):
    return all(torch.equal(found[name], tensor) for name, tensor in wanted.items()) and found.keys() == wanted.keys()


CONFIGS = {
    "plain": {"epochs": 4, "lr": 0.02},
    "clipped": {"updates": 10, "clip": 0.2, "schedule": "linear", "warmup": 2, "lr": 0.05, "evaluate_every": 3},
    "sgd": {"updates": 9, "optimizer": {"name": "sgd", "momentum": 0.9}, "lr": 0.1, "clip": 0.5, "evaluate_every": 2},
    "phases": {"phases": [{"updates": 4, "weight": 2.0}, {"updates": 5, "lr": 0.1}], "optimizer": "adamw"},
}


def test_a_copy_that_cannot_be_judged_fails_and_the_others_end_as_they_would(double):
    def refuse(model):
        raise PluginError("no distribution")

    _, weights = ended(joint(TrainingConfig.model_validate(CONFIGS["plain"])))
    selections = [SELECTIONS[0], Selection(refuse, -1, "size"), SELECTIONS[2]]
    copies, found = ended(joint(TrainingConfig.model_validate(CONFIGS["plain"]), selections=selections))
    assert [copy.failure for copy in copies] == [None, "no distribution", None]
    assert same(found[0], weights[0])
    assert same(found[2], weights[2])
    with pytest.raises(TrainingError, match="all 3 seeds failed, the first at no distribution"):
        ended(joint(TrainingConfig.model_validate(CONFIGS["plain"]), selections=[selections[1]] * 3))


@pytest.mark.parametrize("name", CONFIGS)
def test_each_copy_ends_as_it_would_alone(name, double):
    config = TrainingConfig(**CONFIGS[name])
    copies, weights = ended(joint(config))
    for seed, (copy, own) in enumerate(zip(copies, weights, strict=True)):
        alone = Trainer(net(seed), Rows(None, None), config, RNGS[seed], CPU, SELECTIONS[seed])
        wanted = alone.run()
        torch.testing.assert_close(own, dict(alone.model.state_dict()), rtol=1e-10, atol=1e-12)
        assert [entry["best"] for entry in copy.history] == [entry["best"] for entry in wanted]
        assert [pytest.approx(entry, rel=1e-8) for entry in wanted] == copy.history
    assert len({tuple(entry["best"] for entry in copy.history) for copy in copies}) > 1, "each keeps its own best"


def test_in_float32_too():
    config = TrainingConfig(**CONFIGS["clipped"])
    _, weights = ended(joint(config))
    for seed, own in enumerate(weights):
        alone = Trainer(net(seed), Rows(None, None), config, RNGS[seed], CPU, SELECTIONS[seed])
        alone.run()
        torch.testing.assert_close(own, dict(alone.model.state_dict()), rtol=1e-5, atol=1e-5)


class Uneven(Rows):
    """Ten rows of different lengths by noise: batches of 4, 4 and 2 rows, the smallest of which comes at any place."""

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(10)
        ids = ids if rng is None else ids[rng.uniform(ids).argsort()]
        several = ids.split(4)
        order = range(3) if rng is None else rng.fork("places").uniform(torch.arange(3)).argsort().tolist()
        for rows in (several[number] for number in order):
            length = 1 + rows % 4
            most = int(length.max())
            gold = (rows[:, None] + torch.arange(most)) % 4 + 1
            yield Batch(rows, gold[:, :1] * 0, gold * (torch.arange(most) < length[:, None]), length)


class Words(nn.Module, Vmappable):
    """Costs of all words, masked."""

    def __init__(self):
        super().__init__()
        self.embed, self.top = nn.Embedding(5, 4), nn.Linear(4, 5)

    def loss(self, batch, training):
        units = self.embed(batch.gold) + training.rng.fork("units").normal(batch.ids, 0, 4)[:, None].float()
        costs = nn.functional.cross_entropy(self.top(units).transpose(1, 2), (batch.gold + 1) % 5, reduction="none")
        return Loss((costs * batch.mask).sum() / batch.mask.sum(), batch.mask.sum())


def test_each_copy_reads_its_own_batches_which_differ_in_rows_and_lengths(double):
    nets, alone = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        nets.append(Words())
        torch.manual_seed(seed)
        alone.append(Words())
    config, selections = TrainingConfig(epochs=3), [Selection(lambda model: 0.0, -1, "size")] * 3
    together = joint(config, nets, RNGS, selections, Uneven(None, None))
    orders = [
        [len(rows) for rows in Uneven(None, None).batches("train", None, None, n.fork("order").fork(0))] for n in RNGS
    ]
    assert len({*map(tuple, orders)}) > 1, "else no batch would be padded by rows"
    copies, weights = ended(together)
    for seed, own in enumerate(weights):
        trainer = Trainer(alone[seed], Uneven(None, None), config, RNGS[seed], CPU, selections[0])
        wanted = trainer.run()
        torch.testing.assert_close(own, dict(alone[seed].state_dict()), rtol=1e-10, atol=1e-12)
        assert [pytest.approx(entry, rel=1e-8) for entry in wanted] == copies[seed].history


def test_a_stack_tells_how_many_rows_go_on_at_each_step():
    """Of any copy, whatever the order of its rows; steps that no row takes are left out."""
    lengths = [torch.tensor(some) for some in ([2, 5, 1, 1], [3, 1, 3], [1, 3])]
    batches = [
        Batch(torch.arange(len(some)), some[:, None] * 0, torch.zeros(len(some), 7, dtype=torch.long), some)
        for some in lengths
    ]
    seen = []

    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def vmap_loss(self, batch, training):
            seen.append(training.rows)
            tokens = batch.length.sum()
            return Loss(self.weight * tokens, tokens)

    Stack([Looks() for _ in lengths]).losses(stacked(batches), Training(0, 1, 0, 1, Rng(0)), [0, 1, 2])
    assert seen == [tuple(max(int((some > t).sum()) for some in lengths) for t in range(5))]


def test_noise_in_a_stack_is_what_each_copy_has_alone():
    def drawn(rng):
        ids = torch.tensor([5, 0, 7])
        inner = rng.fork("one").fork(2)
        return inner.uniform(ids), inner.uniform(ids, 3, 2), rng.normal(ids, 1, 4), rng.shared("book", (2, 3))

    keys = tuple(rng.key for rng in RNGS)
    found = torch.func.vmap(lambda copy: drawn(StackedRngs(keys[0], keys, copy)))(torch.arange(3))
    for number, rng in enumerate(RNGS):
        assert all(torch.equal(mine[number], own) for mine, own in zip(found, drawn(rng), strict=True))


def test_a_copy_that_fails_keeps_its_weights_and_leaves_the_others_as_they_were():
    config = TrainingConfig(updates=9, evaluate_every=3, clip=1.0)
    _, wanted = ended(joint(config))
    failing = joint(config, [net(0), net(1, fuse=4), net(2)])
    copies, found = ended(failing)
    assert [copy.failure is None for copy in copies] == [True, False, True]
    assert copies[1].failure.startswith("step 5: the loss is nan and the gradient's norm nan. Lower `lr`")
    assert [len(copy.history) for copy in copies] == [3, 1, 3], "nor is it judged any more"
    for number in (0, 2):
        assert same({**found[number], "fuse": wanted[number]["fuse"]}, wanted[number])


def test_the_weights_of_a_copy_do_not_change_once_it_has_failed():
    failing, after = joint(TrainingConfig(updates=9), [net(0), net(1, fuse=4), net(2)]), []
    step = failing._step

    def traced():
        step()
        after.append(failing.model.get_parameter("hidden/weight").detach().clone())

    failing._step = traced
    failing.run()
    moved = [[not torch.equal(now[copy], then[copy]) for then, now in pairwise(after)] for copy in range(3)]
    assert moved == [[True] * 8, [True] * 3 + [False] * 5, [True] * 8]


def test_a_training_of_which_no_copy_is_left_fails():
    with pytest.raises(TrainingError, match=r"all 2 seeds failed, the first at step 3: the loss is nan"):
        joint(TrainingConfig(updates=9), [net(0, fuse=2), net(1, fuse=5)], RNGS[:2]).run()


class Often(Checkpoints):
    """Written every other step; the process is killed, as it were, at the n-th."""

    asked, fatal = 0, None

    def due(self):
        self.asked += 1
        if self.asked == self.fatal:
            raise KeyboardInterrupt
        return self.asked % 2 == 0


@pytest.mark.parametrize("fatal", [2, 5, 8])
def test_a_training_that_is_killed_and_taken_up_ends_as_if_undisturbed(fatal, tmp_path):
    config = TrainingConfig(updates=10, evaluate_every=3, clip=0.5)
    nets = lambda: [net(0), net(1, fuse=4), net(2)]  # noqa: E731
    copies, wanted = ended(joint(config, nets()))
    kept = Often(Store(tmp_path), "f" * 64, "nets", 1e9)
    kept.fatal = fatal
    with pytest.raises(KeyboardInterrupt):
        joint(config, nets(), checkpoints=kept).run()
    kept = Often(Store(tmp_path), "f" * 64, "nets", 1e9)
    again, found = ended(joint(config, [net(9) for _ in range(3)] if fatal > 2 else nets(), checkpoints=kept))
    assert again == copies
    assert all(map(same, found, wanted))
    assert kept.spent > 0 or fatal == 2


class Remembering(Net):
    def loss(self, batch, training):
        return replace(super().loss(batch, training), memory=State())


class Dropping(Net):
    def loss(self, batch, training):
        loss = super().loss(batch, training)
        return replace(loss, value=loss.value * nn.functional.dropout(self.scale, 0.5))


def test_what_cannot_be_trained_together_is_refused():
    training = Training(0, 1, 0, 1, RNGS[0])
    (batch, *_) = Rows(None, None).batches("train", None, None)
    with pytest.raises(
        SuiteError, match=r"Remembering carries a memory, which .*\. Set `training: \{vmap_seeds: false\}`"
    ):
        Stack([Remembering(), Remembering()]).losses(stacked([batch, batch]), training, [1, 2])
    with pytest.raises(RuntimeError, match="random"):
        Stack([Dropping(), Dropping()]).losses(stacked([batch, batch]), training, [1, 2])
    sparse = [net(0), net(1)]
    for one in sparse:
        one.embed.sparse = True
    with pytest.raises(SuiteError, match="`sparse: false`"):
        Stack(sparse)
    for settings in (
        {"patience": 3},
        {"stop": {"metric": "loss"}},
        {"schedule": "plateau"},
        {"phases": [{"updates": 2, "schedule": ["constant", "plateau"][1:]}]},
        {"phases": [{"updates": 2, "reset": ["top"]}]},
        {"optimizer": "adafactor"},
        {"phases": [{"updates": 2, "optimizer": "muon"}]},
        {"batch_size": "auto"},
        {"batch_unit": "tokens"},
        {"accumulate": 2},
    ):
        with pytest.raises(ValueError, match=r"so they do not support `.*`\. Remove it, or set `vmap_seeds: false`"):
            TrainingConfig(vmap_seeds=True, **settings)


# Suites

VMAPPED = {
    "training: {epochs: 3,": "training: {vmap_seeds: true, epochs: 3,",
    "seeds: 2": "seeds: 3",
    "  draw: {name: draw}\n": "",
}


class Heard(ProgressDisplay):
    def __init__(self):
        self.kinds, self.warnings = [], []

    def begin(self, stage, number, total):
        self.kinds.append(stage.kind)

    def warn(self, text):
        self.warnings.append(text)


@pytest.fixture
def go(tmp_path, suite_file):
    def run(store="store", changes=None, **options):
        heard, path = Heard(), suite_file(**{**VMAPPED, **(changes or {})})
        places = {"store": tmp_path / store, "out": tmp_path / "runs", "data": tmp_path}
        return bench_core.run(path, progress=heard, **places, **options), heard

    return run


def weights(store, run):
    """Return the bytes of the weights of each model and seed."""
    keys = {(cell.cell["model"], cell.cell["seed"]): cell.artifacts["train"] for cell in run.cells}
    return {name: (store / "train" / key / "weights.safetensors").read_bytes() for name, key in keys.items()}


@pytest.mark.slow
def test_three_seeds_take_one_training_and_leave_three_artifacts(go, tmp_path):
    run, heard = go()
    assert {cell.status for cell in run.cells} == {"done"}
    assert (heard.kinds.count("vmapped"), heard.kinds.count("train"), heard.kinds.count("decode")) == (2, 6, 6)
    again, heard = go()
    assert heard.kinds == []
    other, _ = go("other")
    assert weights(tmp_path / "store", run) == weights(tmp_path / "other", other), "to the byte"
    assert len({*weights(tmp_path / "store", run).values()}) == 6
    assert [cell.numbers for cell in run.cells] == [cell.numbers for cell in again.cells]
    costs = [line.split(",") for line in (run.folder / "costs.csv").read_text().splitlines()]
    assert [row[0] for row in costs].count("train") == 6, "each seed costs its share"
    assert "vmapped" not in [row[0] for row in costs]
    write_report(run, tmp_path / "report")
    assert "3 seeds" in (tmp_path / "report" / "report.md").read_text()


@pytest.mark.slow
def test_every_seed_is_what_it_is_alone(go):
    """It sees batches in its own order."""
    found = {}
    for name, changes in (("vmapped", {}), ("alone", {"training: {epochs: 3,": "training: {epochs: 3,"})):
        run, _ = go(name, changes)
        found[name] = {(row["model"], row["seed"]): row["nats"] for row in run.rows()}
    for (model, seed), nats in found["vmapped"].items():
        assert nats == pytest.approx(found["alone"][model, seed], rel=1e-6)
    assert len({*found["alone"].values()}) == 6


def test_keys_name_the_seeds_and_one_seed_alone_is_no_other_training(suite_file, tmp_path):
    def keys(seeds, together):
        path = suite_file(
            **{**VMAPPED, "seeds: 2": f"seeds: {seeds}", **({} if together else {"vmap_seeds: true, ": ""})}
        )
        found = plan(load(path), tmp_path)
        kinds = [stage.kind for stage in found.stages.values()]
        return kinds, {cell.seed: found.of_cell[cell]["train"] for cell in found.cells if cell.model == "one"}

    three, trained = keys(3, True)
    assert (three.count("vmapped"), three.count("train")) == (2, 6)
    assert len({*trained.values(), *keys(2, True)[1].values(), *keys(3, False)[1].values()}) == 3 + 2 + 3
    single, alone = keys(1, True)
    assert single.count("vmapped") == 0
    assert alone[0] == keys(1, False)[1][0]


@pytest.mark.slow
def test_a_seed_that_fails_says_why_and_takes_no_other_down(go):
    changes = {"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: by chance}", "seeds: 2": "seeds: 4"}
    run, _ = go(changes=changes)
    status = {cell.cell["seed"]: cell for cell in run.cells if cell.cell["model"] == "two"}
    failed = {seed for seed, cell in status.items() if cell.status == "failed"}
    assert 0 < len(failed) < 4
    for seed in failed:
        start = f"train of words x two, seed {seed}: step 3: the loss is nan"
        assert status[seed].reason.startswith(start)
    alone, _ = go("alone", {**changes, "training: {epochs: 3,": "training: {epochs: 3,"})
    assert {cell.cell["seed"] for cell in alone.cells if cell.status == "failed"} == failed
    assert {cell.status for cell in run.cells if cell.cell["model"] == "one"} == {"done"}


def test_models_that_cannot_be_trained_together_are_named(suite_file):
    two = {
        "two: {name: bigram, scale: 2.0}": "two: {name: blind}",
        "  nats: {name: nats}\n": "",
        ", select: {metric: nats}": "",
        "values: [ended, nats]": "values: [ended]",
    }
    with pytest.raises(SuiteError, match=r"two x vmap_seeds +blind cannot train seeds together\. Set `training"):
        bench_core.run(suite_file(**VMAPPED, **two))


@pytest.mark.slow
def test_a_damaged_artifact_of_all_seeds_is_made_again(go, tmp_path):
    first, _ = go()
    store = tmp_path / "store"
    for path in store.glob("vmapped/*/1/weights.safetensors"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    for path in store.glob("train/*/weights.safetensors"):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    run, heard = go(changes={"argmax: {name: argmax}": "argmax: {name: argmax, max_tokens: 4}"})
    assert {cell.status for cell in run.cells} == {"done"}
    assert any("It is computed again" in text for text in heard.warnings)
    assert weights(store, run) == weights(store, first)


def test_time_that_is_up_leaves_a_checkpoint_which_is_kept_until_all_is_done(suite_file, tmp_path, small):
    path, store = suite_file(**VMAPPED), Store(tmp_path / "store")
    found = plan(load(path), tmp_path)
    workshop = StageRunner(store, tmp_path)
    stages = {stage.kind: stage for stage in found.stages.values()}
    perform(workshop, StageRequest(stages["prepare"]))
    with pytest.raises(StageFailed, match="the time limit was reached"):
        perform(workshop, StageRequest(stages["vmapped"], until=time.time() - 1))
    ((kind, key),) = [name for name in store.entries() if name[0] == "checkpoint"]
    about = store.get(kind, key).manifest
    assert about["step"] == 1
    trains = [
        key for key, stage in found.stages.items() if stages["vmapped"].key in dict(stage.inputs.values()).values()
    ]
    assert about["of"] == trains[0], "a training that a run names, which `bench store gc` can find"
    perform(workshop, StageRequest(stages["vmapped"]))
    perform(workshop, StageRequest(found.stages[trains[0]]))
    assert not [name for name in store.entries() if name[0] == "checkpoint"]


def test_why_tells_of_a_changed_setting_once(go, suite_file, tmp_path):
    go()
    path = suite_file(**{**VMAPPED, "lr: 0.1": "lr: 0.2"})
    words = ["why", str(path), "--store", str(tmp_path / "store"), "--data", str(tmp_path)]
    words += ["--runs", str(tmp_path / "runs")]
    told = CliRunner().invoke(bench, words).output
    assert "training.lr: 0.1 -> 0.2" in told
    (number, everything) = re.search(r"(\d+) of (\d+) stages behind", told).groups()
    assert (number, everything) == (str(2 * 3 * 5 + 2), str(2 * 3 * 5 + 2 + 1)), "all but the task"
    assert told.count("training.lr: 0.1 -> 0.2") == told.count("cause:"), told


def test_a_plan_shows_the_joint_trainings(suite_file, tmp_path):
    words = ["--store", str(tmp_path / "store"), "--data", str(tmp_path), "--json"]
    for changes, expected in ((VMAPPED, {"vmapped": 2, "train": 6}), ({}, {"train": 4})):
        result = CliRunner().invoke(bench, ["plan", str(suite_file(**changes)), *words])
        rows = {row["stage"]: row["to do"] for row in json.loads(result.output)["stages"]}
        assert {kind: rows[kind] for kind in ("vmapped", "train") if kind in rows} == expected
