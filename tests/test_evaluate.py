"""Decoding and scoring of a split's examples, also where memory is short."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from bench_core import Batch, Hypothesis, Task, TaskInfo, TextSize
from bench_core.computing.evaluate import Examples
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.errors import PluginError
from bench_core.generation_loop import draw, generate
from bench_core.model import Scores, State, Stepper
from bench_core.random_numbers import Rng
from bench_core.storage.predictions import read_predictions, write_predictions


class Words(Task):
    """Ten examples of the words 1..4; two streams of five windows if asked."""

    streams = False

    def prepare(self, data):
        return TaskInfo(["</s>", *"abcd"])

    def text(self, tokens):
        return " ".join("_abcd"[token] for token in tokens)

    def references(self, split):
        return {number: [str(number)] for number in range(10)}

    def sources(self, split):
        return {number: f"source {number}" for number in range(10)} if split == "translated" else {}

    def batches(self, split, purpose, size, rng=None):
        ids = torch.arange(10)
        for number, rows in enumerate(ids.split(2 if self.streams else size.number)):
            gold = torch.stack([rows % 4 + 1, rows * 0], 1)
            yield Batch(rows, gold[:, 1:], gold, rows * 0 + 2, continues=self.streams and number > 0)


class Short:
    """Decodes and scores by the row's number, if there are few enough rows."""

    def __init__(self, most, error=None):
        self.config = SimpleNamespace(max_tokens=5)
        self.most, self.error, self.sizes = most, error or torch.OutOfMemoryError("CUDA out of memory"), []

    def check(self, batch):
        self.sizes.append(len(batch))
        if len(batch) > self.most:
            raise self.error

    def decode(self, model, batch, rng):
        self.check(batch)
        return [[Hypothesis([number % 4 + 1], True)] for number in batch.ids.tolist()]

    def score(self, batch, scoring):
        self.check(batch)
        assert batch.continues == (scoring.memory is not None)
        return Scores(-batch.ids.double(), memory=State())


def examples(size=10, streams=False, **options):
    task = Words(None, None)
    task.streams = streams
    return Examples(task, options.pop("split", "test"), Rng(0), torch.device("cpu"), size, **options)


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=["gpu", "processor", "python"])
@pytest.mark.parametrize("most", [1, 2, 3, 5, 7])
def test_batches_are_halved_until_memory_suffices_and_nothing_else_changes(most, error):
    whole, short, heard = Short(10), Short(most, error), []
    assert examples(warn=heard.append).decoded(None, short) == examples().decoded(None, whole)
    assert max(short.sizes[-2:]) <= most
    assert heard, "it is told"
    short = Short(most, error)
    assert examples().scored(short, "exact") == examples().scored(whole, "exact")


def test_a_size_that_was_too_large_is_not_tried_again():
    short = Short(2)
    examples(size=4).decoded(None, short)
    assert short.sizes == [4, 2, 2, 2, 2, 2]


def test_other_errors_and_single_rows_are_not_tried_again():
    with pytest.raises(RuntimeError, match="shapes"):
        examples().decoded(None, Short(3, RuntimeError("shapes differ")))
    with pytest.raises(torch.OutOfMemoryError):
        examples().decoded(None, Short(0))


def test_a_stream_cannot_go_on_with_half_of_its_rows():
    assert len(examples(streams=True).scored(Short(2), "exact")) == 10
    with pytest.raises(PluginError, match="out of memory inside a stream"):
        examples(streams=True).scored(Short(1), "exact")


class Forgetful(Short):
    """Leaves no memory from window to window."""

    def score(self, batch, scoring):
        self.check(batch)
        assert scoring.memory is None
        return Scores(-batch.ids.double() - batch.gold[:, 0].double())


def test_windows_that_are_known_to_stand_alone_are_scored_side_by_side():
    forgetful, whole = Forgetful(10), Forgetful(10)
    found = examples(size=5, streams=True).scored(forgetful, "exact")
    assert forgetful.sizes == [2, 2, 4, 2]  # the second continues the first, and shows that nothing is carried over
    assert found == examples(size=10).scored(whole, "exact")
    assert len(whole.sizes) == 1
    halved = Forgetful(2)
    assert examples(size=8, streams=True).scored(halved, "exact") == found


def test_windows_whose_model_carries_something_over_are_never_put_together():
    carrying = Short(10)
    examples(size=10, streams=True).scored(carrying, "exact")
    assert carrying.sizes == [2, 2, 2, 2, 2]


def test_predictions_show_the_source_of_their_text():
    predictions = examples(split="translated").decoded(None, Short(10))
    assert [prediction.prompt for prediction in predictions] == [f"source {number}" for number in range(10)]
    assert {prediction.prompt for prediction in examples().decoded(None, Short(10))} == {""}


class ByToken(Short):
    """Reports a value of each token, also of padding."""

    def score(self, batch, scoring):
        ids = batch.ids[:, None]
        by_token = {"gold": batch.gold, "log_prob": -(10.0 * ids + torch.arange(batch.gold.shape[1]))}
        return Scores(-batch.ids.double(), by_token=self.change(by_token))

    def change(self, by_token):
        return by_token


class Unequal(Words):
    """Example i has 1 or 2 tokens."""

    def batches(self, split, purpose, size, rng=None):
        for batch in super().batches(split, purpose, size, rng):
            yield replace(batch, length=batch.length - batch.ids % 2)


def test_values_by_token_are_kept_of_the_tokens_of_each_example_and_stored(tmp_path):
    every = replace(examples(size=3), task=Unequal(None, None))
    predictions = every.scored(ByToken(10), "exact")
    assert predictions[4].by_token == {"gold": [1, 0], "log_prob": [-40.0, -41.0]}
    assert predictions[7].by_token == {"gold": [4], "log_prob": [-70.0]}
    assert all(type(token) is int for prediction in predictions for token in prediction.by_token["gold"])
    write_predictions(tmp_path / "p.gz", predictions)
    assert read_predictions(tmp_path / "p.gz") == predictions
    assert {each.by_token for each in examples().scored(Short(10), "exact")} == {None}


def test_values_by_token_have_the_shape_of_targets():
    class Summed(ByToken):
        def change(self, by_token):
            return {**by_token, "log_prob": by_token["log_prob"].sum(1)}

    with pytest.raises(PluginError, match=r"log_prob by token.*expected one number for each token of \[10, 2\]"):
        examples().scored(Summed(10), "exact")


def test_a_task_says_how_much_each_example_counts_when_scored():
    class Weighted(Words):
        def batches(self, *asked):
            for batch in super().batches(*asked):
                yield replace(batch, extras={"weight": batch.ids * 3})

    weighed = Examples(Weighted(None, None), "test", Rng(0), torch.device("cpu"), 4)
    assert [one.weight for one in weighed.scored(Short(10), "exact")] == [3.0 * number for number in range(10)]
    assert {one.weight for one in examples().scored(Short(10), "exact")} == {1.0}


def test_every_question_to_a_task_in_guards_is_answered_by_the_task():
    asked = [name for name in vars(Task) if not name.startswith("_")]
    assert len(asked) > 6
    assert [name for name in asked if name not in vars(CheckedTask)] == []


def test_groups_and_sizes_of_a_task_in_guards_reach_the_predictions():
    class Grouped(Words):
        def groups(self, split):
            return {number: number // 2 for number in range(10)}

        def target_sizes(self, split):
            return {number: TextSize(3 * number, number) for number in range(1, 10)}

    asked = replace(
        examples(4), task=CheckedTask(Grouped(SimpleNamespace(source="none"), None), Words.prepare(None, None))
    )
    found = asked.scored(Short(4), "exact")
    assert [one.group for one in found] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [one.target_bytes for one in found] == [None, *range(3, 30, 3)]
    assert [one.target_characters for one in found] == [None, *range(1, 10)]
    assert {one.target_bytes for one in asked.decoded(Short(4), Short(4))} == {None}


@pytest.mark.parametrize("found", [{0: 7}, {0: None}, ["a"]])
def test_names_of_examples_that_are_no_texts_are_refused(found):
    class Named(Words):
        def example_names(self, split):
            return found

    task = CheckedTask(Named(SimpleNamespace(source="none"), None), Words.prepare(None, None))
    with pytest.raises(PluginError, match=r"example_names gave .*; expected a string for each id"):
        task.example_names("test")
    found = {0: "doc-7"}
    assert task.example_names("test") == found


@dataclass(frozen=True)
class Passed(State):
    ids: torch.Tensor
    steps: int


class Late(Stepper):
    """Never stops, and is no model of anything at one step of one row."""

    def __init__(self, row, step, value):
        self.row, self.at, self.value, self.calls = row, step, value, 0

    def given(self, ids, steps):
        log_probs = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4]).log().log_softmax(0).repeat(len(ids), 1)
        if steps == self.at:
            log_probs[ids == self.row] = self.value
        return log_probs, Passed(ids, steps)

    def start(self, batch):
        self.calls += 1
        return self.given(batch.ids, 1)

    def step(self, state, actions):
        return self.given(state.ids, state.steps + 1)

    def loss(self, batch, training):
        raise NotImplementedError


class Walks:
    """Takes what a pick takes; tells log-probabilities or keeps them for itself."""

    def __init__(self, pick, tells=True):
        self.pick, self.tells, self.config = pick, tells, SimpleNamespace(max_tokens=30)

    def decode(self, model, batch, rng):
        found = generate(model, batch, self.pick, self.config.max_tokens)
        return [[one if self.tells else replace(one, log_prob=None)] for one in found]


WALKS = {
    "greedy": Walks(lambda log_probs, ids, step: log_probs.argmax(1)),
    "sampled": Walks(draw(Rng(1))),
    "untold": Walks(lambda log_probs, ids, step: log_probs.argmax(1), tells=False),
}


SAYS = {"nan": "NaN", "inf": "log-probabilities up to inf", "-inf": "all actions the probability 0"}


@pytest.mark.quick(24)
@pytest.mark.parametrize("value", SAYS)
@pytest.mark.parametrize("step", [1, 2, 16, 17, 18, 19, 20, 30])
@pytest.mark.parametrize("walks", WALKS.values(), ids=WALKS)
def test_one_wrong_step_of_a_later_batch_is_found_wherever_it_is(walks, step, value):
    number = float(value)
    model = Late(7, step, number if value == "-inf" else torch.tensor([0, 0, 0, 0, number]))
    with pytest.raises(PluginError, match=rf"Late\.st(art|ep) gave {SAYS[value]} at step {step}, for example 7;"):
        examples(size=3).decoded(model, walks)


@pytest.mark.slow
@pytest.mark.parametrize("walks", WALKS.values(), ids=WALKS)
def test_what_is_above_0_is_found_at_one_step_of_four_at_least(walks):
    missed = []
    for step in range(1, 31):
        try:
            examples(size=3).decoded(Late(7, step, 1.0), walks)
        except PluginError:
            continue
        missed.append(step)
    assert all(step > 16 and step % 4 for step in missed)
    assert bool(missed) == walks.tells


def test_decoding_is_not_repeated_where_nothing_is_wrong():
    for walks in WALKS.values():
        model = Late(-1, 0, 0.0)
        examples(size=5).decoded(model, walks)
        assert model.calls == 2
