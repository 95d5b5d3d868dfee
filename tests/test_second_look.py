"""What runs look at twice: which rows, what rounding may do, what exempts a part, and what reports say of it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import bench_mutants.plugin
import pytest
import torch
from bench_mutants.sound import Greedy, Table
from bench_small.elsewhere import in_others

import bench_core
from bench_authors import contracts_once
from bench_authors.checker import Verdict
from bench_authors.contracts_once import broken_contracts
from bench_authors.looks import metrics as metric_look
from bench_authors.looks.models import SecondLook
from bench_authors.looks.rows import Chosen
from bench_authors.looks.tasks import hides_targets
from bench_authors.testing.cases import tiny_batch
from bench_core import Batch, Scores, SuiteError, registry
from bench_core.computing.hidden_targets import TargetHidden, without_targets
from bench_core.computing.laws import Laws
from bench_core.planning.plan import plan
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_reports.render.report import write_report

SUITE = {
    "suite": "tests/looks",
    "tasks": {"words": {"name": "sound-words"}},
    "models": {"table": {"name": "sound-table"}},
    "decoders": {"greedy": {"name": "sound-greedy"}},
    "metrics": {"nats": {"name": "sound-nats"}, "length": {"name": "sound-length"}},
    "training": {"updates": 2, "lr": 0.01, "batch_size": 8},
    "seeds": 1,
    "limits": {"max_tokens": 8, "batch_size": 10},
    "hardware": {"threads": 1, "device": "cpu"},
}
WRONG = {"models": {"wrong": {"name": "models-scores-in-bits"}}}
LAW = {"part": "wrong", "law": "the_score_is_the_sum_of_its_steps", "reason": "its nats are bits"}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the suite with other sections, and gives the run."""

    def perform(**sections):
        path = tmp_path / "suite.yaml"
        path.write_text(json.dumps({**SUITE, **sections}))
        return bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)

    with registry.extra(bench_mutants.plugin):
        yield perform


def reported(found, folder):
    """Return the text of a run's report, on one line."""
    write_report(found, folder / "report")
    return " ".join((folder / "report" / "report.md").read_text().split())


def test_a_suite_exempts_a_part_from_a_law_with_a_reason_that_its_report_prints(run, tmp_path):
    (refused,) = run(**WRONG).cells
    assert refused.status == "failed"
    assert "[the_score_is_the_sum_of_its_steps]" in refused.reason
    found = run(**WRONG, exempt=[LAW])
    assert [one.status for one in found.cells] == ["done"]
    assert found.cells[0].numbers["nats"].value is not None
    report = reported(found, tmp_path)
    assert "Exempt from checks: wrong (the score is the sum of its steps): its nats are bits" in report
    (again,) = run(**WRONG).cells
    assert again.status == "failed", "what is stored under an exemption is no result without it"


def test_the_config_of_a_model_exempts_it_where_it_decodes_and_scores(run, monkeypatch):
    kind = registry.part("model", "models-scores-in-bits").config
    monkeypatch.setattr(kind, "exempt", lambda config: {LAW["law"]: LAW["reason"]})
    assert [one.status for one in run(**WRONG).cells] == ["done"]


def test_an_exemption_of_another_part_exempts_nothing(run):
    decoder = {"part": "greedy", "law": "the_best_come_first", "reason": "none"}
    (refused,) = run(**WRONG, exempt=[decoder]).cells
    assert refused.status == "failed"


def test_an_exemption_of_no_part_is_an_error_that_names_it(run):
    with pytest.raises(SuiteError, match=r"'wrung'\. Did you mean 'wrong'"):
        run(**WRONG, exempt=[{**LAW, "part": "wrung"}])
    with pytest.raises(SuiteError, match="reason"):
        run(**WRONG, exempt=[{**LAW, "reason": ""}])


def test_repeated_and_shared_examples_are_counted_in_the_report(run, tmp_path):
    found = run(tasks={"words": {"name": "unusual-common"}})
    overlap = found.info["tasks"]["words"]["overlap"]
    assert overlap["train"] == {"examples": 62, "repeated": 1, "shared": 0}
    assert overlap["test"] == {"examples": 26, "repeated": 1, "shared": 2, "chosen_by": 2}
    report = reported(found, tmp_path)
    assert "train 62 (1 repeated)" in report
    assert "test 26 (1 repeated, 2 shared with train, 2 shared with valid)" in report


def chosen(size, number=100):
    """Return the id of the row that is looked at first, of rows in batches of a size, and how many are."""
    found = Chosen("test 0")
    for ids in torch.arange(number).split(size):
        found.offer(tiny_batch([(1, 2)] * len(ids), first=int(ids[0])), None)
    batch, _ = found.kept
    return [int(batch.ids[row]) for row in found.rows(batch)]


def test_the_row_of_least_hash_is_looked_at_whatever_the_size_of_batches():
    every = chosen(100)
    assert len(every) == 8
    assert every != sorted(range(8))
    for size in (1, 3, 10, 64):
        some = chosen(size)
        assert len(some) <= 8
        assert {*some} & {*every}
    assert chosen(3, 1) == [0]


USES = {
    "shape": lambda batch: batch.gold.shape, "an index": lambda batch: batch.gold[0], "a mask": lambda batch: batch.mask,
    "inputs": lambda batch: batch.inputs, "a comparison": lambda batch: batch.gold == 0,
    "a loop": lambda batch: [*batch.gold], "torch": lambda batch: torch.cat([batch.prompt, batch.gold], 1),
    "a sum": lambda batch: batch.length + 1, "its length": lambda batch: len(batch.gold),
    "another mask": lambda batch: torch.where(batch.gold, 1, 0), "a number": lambda batch: int(batch.length.max()),
    "a switch": lambda batch: bool(batch.gold), "an order": lambda batch: batch.length > 3,
    "a product": lambda batch: 2 * batch.length, "real ones": lambda batch: batch.real,
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_whatever_asks_for_targets_of_what_is_decoded_is_told_that_there_are_none(name):
    batch = without_targets(tiny_batch())
    with pytest.raises(TargetHidden, match="Batches for decoding have none"):
        USES[name](batch)
    few = batch.select(torch.tensor([1, 0])).to("cpu", copy=True)
    assert few.ids.tolist() == [41, 40]
    with pytest.raises(TargetHidden):
        USES[name](few)


def test_targets_are_found_in_extras_and_other_extras_are_not_taken_for_them():
    batch = tiny_batch()
    assert hides_targets(replace(batch, extras={"weight": torch.ones(5), "answer": batch.gold.clone()})) == "answer"
    assert hides_targets(replace(batch, extras={"weight": torch.ones(5), "turned": batch.gold.flip(0)})) == ""
    silent = tiny_batch([(), ()])
    assert hides_targets(replace(silent, extras={"zeros": silent.gold.clone()})) == ""


class Tied(Table):
    """Two actions as probable as each other; rounding in single precision, by the number of rows, decides."""

    def predict(self, trace):
        found = super().predict(trace)
        found = found.index_fill(-1, torch.tensor([2]), 9.0)
        found[..., 1] = 9.0
        if found.dtype == torch.float32:
            found[..., 1 + found.shape[0] % 2] += 1e-6
        return found.log_softmax(-1)


class NeverDouble(Tied):
    """The same, which cannot compute in double precision."""

    def start(self, batch):
        if self.table.weight.dtype == torch.float64:
            raise RuntimeError("expected Float but found Double")
        return super().start(batch)


class TiedByWeights(Table):
    """Two actions that have the same weights; the last digit, by the number of rows, decides in any precision."""

    def setup(self, info, rng):
        super().setup(info, rng)
        self.table.weight.data[2] = self.table.weight.data[1]
        self.table.bias.data[1:3] = 20.0

    def predict(self, trace):
        found = super().predict(trace)
        place = 1 + found.shape[0] % 2
        found[..., place] = torch.nextafter(found[..., place], torch.zeros_like(found[..., place]))
        return found


class Contrary(Tied):
    """The number of rows decides in any precision."""

    def predict(self, trace):
        found = super().predict(trace)
        found[..., 1 + found.shape[0] % 2] += 0.01
        return found.log_softmax(-1)


class Narrow(Table):
    """Has positions for four tokens, EOS included."""

    def limit(self, batch):
        return torch.full_like(batch.ids, 4)

    def step(self, state, actions):
        if int(state.steps.max()) == 3:
            raise IndexError("index out of range")
        return super().step(state, actions)


class Costly(Greedy):
    """Its last step costs more than the model says."""

    def decode(self, model, batch, rng):
        return [[replace(one, log_prob=one.log_prob - 0.1)] for (one,) in super().decode(model, batch, rng)]


def looked_at(kind, rows=10, greedy=Greedy):
    """Look at what greedy decoding makes of a batch with a model, in single precision."""
    info = bench_core.TaskInfo(["<stop>", "a", "b", "c", "d"])
    with registry.extra(bench_mutants.plugin):
        settings = registry.part("model", "sound-table").config()
        decoder = greedy(registry.part("decoder", "sound-greedy").config(max_tokens=4))
        model = kind(settings, info).eval()
        model.setup(info, bench_core.Rng(0))
        model.table.bias.data[0] = -9
        batch = tiny_batch([(1, 2, 3)] * rows)

        def decode(model: object, some: Batch) -> object:
            return decoder.decode(model, without_targets(some), bench_core.Rng(0))

        with torch.no_grad():
            found = decode(model, batch)
            again = decode(model, batch.select(torch.arange(7)))
            look = SecondLook(model, settings, Laws({"the_score_is_the_sum_of_its_steps"}), decoder)
            look.at_outputs(decode, batch, range(7), found)
    return found[:7] != again


def test_outputs_that_differ_by_rounding_alone_are_not_called_wrong():
    assert looked_at(Tied), "they do not differ, so that there is nothing to excuse"
    assert looked_at(NeverDouble)
    assert looked_at(TiedByWeights)
    with pytest.raises(bench_core.PluginError, match="a row must decode the same alone"):
        looked_at(Contrary)


def test_outputs_that_fill_the_positions_of_a_model_cost_what_all_their_steps_cost():
    looked_at(Narrow)
    with pytest.raises(bench_core.PluginError, match=r"without EOS \(unfinished\)"):
        looked_at(Narrow, greedy=Costly)


class Late(Table):
    """Scores that depend on how many rows a batch has, a little or much."""

    share = 0.0

    def score(self, batch, scoring):
        found = super().score(batch, scoring).log_probs
        return Scores(found * (1 + self.share * len(batch)))


@pytest.mark.parametrize("share", [1e-7, 1e-2])
def test_scores_may_differ_by_rounding_and_no_more(share):
    with registry.extra(bench_mutants.plugin):
        settings = registry.part("model", "sound-table").config()
        model = Late(settings, bench_core.TaskInfo(["<stop>", "a", "b", "c", "d"])).eval()
        model.share, batch = share, tiny_batch([(1, 2, 3)] * 10)
        look = SecondLook(model, settings, Laws())
        scoring = bench_core.Scoring("exact", bench_core.Rng(0))
        with torch.no_grad():
            found = model.score(batch, scoring).log_probs
            ask = (lambda model, rows: model.score(rows, scoring).log_probs, batch, range(7), found, "exact")
            if share < 1e-3:
                look.at_scores(*ask)
            else:
                with pytest.raises(bench_core.PluginError, match=r"alone, in any batch.*\[a_row_scores_alike"):
                    look.at_scores(*ask)


def test_a_metric_that_takes_long_is_looked_at_once_by_a_process(run, monkeypatch):
    looks = []
    monkeypatch.setattr(metric_look, "COSTLY", -1.0)
    monkeypatch.setattr(metric_look, "_costly", set())
    once = metric_look.MetricLook._at
    monkeypatch.setattr(metric_look.MetricLook, "_at", lambda look, kept: looks.append(len(kept)) or once(look, kept))
    models = {"table": {"name": "sound-table"}, "single": {"name": "unusual-single"}}
    run(models=models, metrics={"length": {"name": "sound-length"}})
    assert looks == [8]


@pytest.mark.nightly
def test_contracts_of_a_model_are_tried_in_a_worker_before_its_first_training_once(tmp_path, monkeypatch):
    asked, once = [], contracts_once.checking

    @contextmanager
    def counted(data, seconds):
        with once(data, seconds) as verdict:
            yield lambda trial: asked.append(trial.parts[0]["name"]) or verdict(trial)

    monkeypatch.setattr(contracts_once, "checking", counted)
    path = tmp_path / "suite.yaml"
    models = {"table": {"name": "sound-table"}, "summed": {"name": "models-summed-loss"}}
    with in_others(tmp_path / "packages", bench_mutants.plugin), registry.extra(bench_mutants.plugin):
        for settings in ({}, {"seeds": 2}):
            path.write_text(json.dumps({**SUITE, "models": models, **settings}))
            found = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=1)
    assert asked == ["sound-table", "models-summed-loss", "models-summed-loss"], "what keeps them is not tried again"
    status = {(one.cell["model"], one.cell["seed"]): one.status for one in found.cells}
    assert status == {("table", 0): "done", ("table", 1): "done", ("summed", 0): "failed", ("summed", 1): "failed"}
    reasons = {one.reason for one in found.cells if one.status == "failed"}
    assert all("SummedLoss breaks 1 contract: loss of the same rows twice" in reason for reason in reasons)
    assert all("[the_loss_is_a_mean]" in reason for reason in reasons)


UNTRIED, KEEPS, ODD = Verdict(untried="no such tokens"), Verdict(kept=["one"]), Verdict(broken={"a_law": "odd"})
RAISED = Verdict(raised=["a_law"], broken={"a_law": "ValueError: odd"})


@pytest.mark.parametrize(
    ("verdicts", "failed", "remembered"),
    [
        ([KEEPS], 0, True),
        ([UNTRIED, KEEPS], 0, True),
        ([UNTRIED, ODD], 1, False),
        ([ODD, UNTRIED], 1, False),
        ([ODD, KEEPS], 1, True),
        ([RAISED, UNTRIED], 0, False),
        ([UNTRIED, UNTRIED], 0, True),
    ],
)
def test_settings_of_a_model_are_tried_until_one_keeps_the_contracts(
    verdicts, failed, remembered, tmp_path, monkeypatch
):
    asked = []

    @contextmanager
    def given(data, seconds):
        yield lambda trial: asked.append(trial) or verdicts[len(asked) - 1]

    monkeypatch.setattr(contracts_once, "checking", given)
    models = {"table": {"name": "sound-table"}, "other": {"name": "sound-table", "way": "other"}}
    (tmp_path / "suite.yaml").write_text(json.dumps({**SUITE, "models": models}))
    with registry.extra(bench_mutants.plugin):
        stages = plan(load(tmp_path / "suite.yaml"), tmp_path).stages
        due = [one for one in stages.values() if one.kind == "train"]
        for _ in range(1 + remembered):  # what is remembered is not asked again
            found = broken_contracts(due, stages, Store(tmp_path / "store"), tmp_path)
    assert len(asked) == len(verdicts)
    assert len(found) == (0 if remembered else failed)
