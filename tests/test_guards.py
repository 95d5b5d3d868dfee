"""Parts that are broken in one way each: named, contained, and nothing wrong is stored."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import bench_broken.parts as broken
import bench_broken.plugin
import bench_small.plugin
import pytest
import torch
from safetensors.torch import load_file, save_file

import bench_core
from bench_authors.looks.models import SecondLook
from bench_authors.testing import Case, tiny_batch, toys
from bench_core import Decoder, Hypothesis, PluginError, Rng, checked, registry
from bench_core.computing.guarded_log_probs import Steps, guarded, replaced
from bench_core.computing.result_checks import diverged, room

SETTINGS = """
training: {epochs: 1, lr: 0.1, batch_size: 8}
seeds: 1
limits: {max_tokens: 6}
hardware: {threads: 1, device: cpu}
"""


@pytest.fixture(autouse=True, scope="module")
def no_second_looks():
    """See what guards see of results before these are looked at a second time."""
    with pytest.MonkeyPatch.context() as patch:
        for look in ("at_outputs", "at_scores"):
            patch.setattr(SecondLook, look, lambda *given: None)
        yield


@pytest.fixture(scope="module")
def plugins():
    with registry.extra(bench_small.plugin, bench_broken.plugin):
        yield


@pytest.fixture(scope="module")
def bench(plugins, tmp_path_factory):
    """Return a function that runs a suite of these parts; a suite is run once for all tests."""
    runs = {}

    def run(tasks=None, models=None, decoders=None, metrics=None, settings=SETTINGS):
        parts = {
            "tasks": tasks or {"words": {"name": "letters"}},
            "models": models or {"good": {"name": "bigram"}},
            "decoders": decoders or {"argmax": {"name": "argmax"}},
            "metrics": metrics or {"ended": {"name": "ended"}, "nats": {"name": "nats"}},
        }
        text = f"suite: tests/guards\ntitle: Guards\n{settings}" + "".join(
            f"{kind}: {json.dumps(found)}\n" for kind, found in parts.items()
        )
        if text not in runs:
            folder = tmp_path_factory.mktemp("guards")
            (folder / "suite.yaml").write_text(text)
            runs[text] = (
                folder,
                bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder),
            )
        return runs[text]

    return run


def slug(way):
    return re.sub(r"\W", "-", way)


def broken_parts(name, ways):
    return {slug(way): {"name": name, "way": way} for way in ways}


def cells(run, kind, way):
    return [cell for cell in run.cells if cell.cell[kind] == slug(way)]


def right(cell):
    """Return the metrics that a cell has a number of."""
    return sorted(name for name, number in cell.numbers.items() if number.value is not None)


STEPS = {
    "step logits": r"Broken\.start gave log-probabilities up to \d\S* at step 1, for example \d+; .*log_softmax missing",
    "step probabilities": r"Broken\.start gave log-probabilities up to 0\.\d+ at step 1",
    "step above": r"Broken\.start gave probabilities that sum to 1\.01005 at step 1",
    "step half": r"Broken\.start gave probabilities that sum to 0\.367879 at step 1",
    "step masked": r"Broken\.start gave probabilities that sum to 0\.\d+ at step 1, for example 0; they must sum to 1",
    "step inf": r"Broken\.start gave log-probabilities up to inf at step 1",
    "step nan": r"Broken\.start gave NaN at step 1, for example 0; .*have weights diverged",
    "row nan": r"Broken\.start gave NaN at step 1, for example 3;",
    "row inf": r"Broken\.start gave log-probabilities up to inf at step 1, for example 3;",
    "row shut": r"Broken\.start gave all actions the probability 0 at step 1, for example 3; at least one",
    "row nan late": r"Broken\.step gave NaN at step 3, for example 3;",
    "step ints": r"Broken\.start gave int64 \[\d+, 5\]; expected floating-point log-probabilities",
    "step rows": r"Broken\.start gave float32 \[\d+, 5\]; .* \[\d+, actions\] and a State",
    "step flat": r"Broken\.start gave float32 \[5\];",
    "step deep": r"Broken\.start gave float32 \[\d+, 1, 5\];",
    "step none": r"Broken\.start gave None;",
    "step empty": r"Broken\.start gave float32 \[\d+, 0\];",
    "step array": r"Broken\.start gave float32 \[\d+, 5\];",
    "step alone": r"Broken\.start gave float32 \[\d+, 5\];",
    "step stateless": r"Broken\.start gave None as the state; expected a State",
    "limit zero": r"Broken\.limit gave int64 \[\d+\]; expected the maximum number of tokens for each of \d+ rows",
    "limit number": r"Broken\.limit gave 5;",
    "limit rows": r"Broken\.limit gave int64 \[1\];",
    "read beyond": r"Broken\.read gave \[5\] for actions .*from 1 to 4",
    "read tensor": r"Broken\.read gave int64",
    "read none": r"Broken\.read gave None",
}
SCORES = {
    "score logits": r"Broken\.score gave \d\S* for example \d+; exact log-probabilities must be at most 0 .*log_softmax",
    "score positive": r"Broken\.score gave \d\S* for example \d+; exact log-probabilities must be at most 0",
    "score tokens": r"Broken\.score gave float32 \[\d+, 4\] as log_probs; expected one number for each of \d+ rows",
    "score table": r"Broken\.score gave float32 \[\d+, 4, 5\] as log_probs",
    "score rows": r"Broken\.score gave float32 \[\d+\] as log_probs",
    "score tensor": r"Broken\.score gave float32 \[\d+\]; expected Scores",
    "score list": r"Broken\.score gave .* as log_probs",
    "score ints": r"Broken\.score gave int64 \[\d+\] as log_probs",
    "score nan": r"Broken\.score gave nan for example \d+",
    "score inf": r"Broken\.score gave inf for example \d+",
    "score value nan": r"Broken\.score gave nan as 'share' of example \d+",
    "score value table": r"Broken\.score gave float32 \[1\] as share",
    "score memory": r"Broken\.score gave float32 \[1\] as memory; expected a State or None",
}
LOSSES = {
    "loss tensor": r"Broken\.loss gave float32 \[\]; expected Loss",
    "loss rows": r"Broken\.loss gave the value float32 \[3\]",
    "loss float": r"Broken\.loss gave the value \d",
    "loss detached": r"Broken\.loss returned a value without a gradient",
    "loss int": r"Broken\.loss gave the value int64 \[\]",
    "loss nan": r"step 1: the loss is nan",
    "loss weight": r"step 1: the weight of the loss is 0",
    "loss weight int": r"Broken\.loss gave the weight 7",
    "loss part": r"Broken\.loss gave 0\.5 as the part 'rate'",
    "loss memory": r"Broken\.loss gave float32 \[\] as memory",
}


@pytest.fixture(scope="module")
def models(bench):
    ways = {**STEPS, **SCORES, **LOSSES}
    return bench(models={"good": {"name": "bigram"}, **broken_parts("broken", ways)})[1]


@pytest.mark.parametrize(("way", "says"), STEPS.items(), ids=STEPS)
def test_wrong_steps_fail_decoding_by_name_and_leave_the_scores(models, way, says):
    (cell,) = cells(models, "model", way)
    assert cell.status == "failed"
    assert re.search(f"bench_broken: {says}", cell.reason), cell.reason
    assert right(cell) == ["nats"]


@pytest.mark.parametrize(("way", "says"), SCORES.items(), ids=SCORES)
def test_wrong_scores_fail_scoring_by_name_and_leave_the_outputs(models, way, says):
    (cell,) = cells(models, "model", way)
    assert cell.status == "failed"
    assert re.search(f"bench_broken: {says}", cell.reason), cell.reason
    assert right(cell) == ["ended"]


@pytest.mark.parametrize(("way", "says"), LOSSES.items(), ids=LOSSES)
def test_a_wrong_loss_fails_training(models, way, says):
    (cell,) = cells(models, "model", way)
    assert cell.status == "failed"
    assert re.search(says, cell.reason), cell.reason
    assert not right(cell)


def test_other_cells_are_as_they_are_alone(models, bench):
    (beside,) = cells(models, "model", "good")
    (alone,) = bench()[1].cells
    assert beside.status == alone.status == "done"
    assert beside.numbers == alone.numbers


HYPOTHESES = {
    "vocabulary": r"the token 99; tokens must be at least 1 and below 5",
    "negative": r"the token -1; tokens must be at least 1",
    "stop": r"EOS among its tokens",
    "long": r"7 tokens; the maximum is 6",
    "long with stop": r"7 tokens, including EOS; the maximum is 6",
    "tensor": r"as tokens; expected a list of integers",
    "tensors": r"as tokens; expected a list of integers",
    "numpy": r"as tokens; expected a list of integers",
    "text": r"'ab' as tokens; expected a list",
    "log_prob nan": r"the log-probability nan",
    "log_prob inf": r"the log-probability -inf",
    "log_prob positive": r"the log-probability 0\.5",
    "log_prob tensor": r"the log-probability float32",
    "finished tensor": r"a hypothesis with finished=",
    "action stop": r"EOS among its actions",
    "value nan": r"nan as 'calls'",
    "value text": r"'3' as 'calls'",
    "tokens alone": r"\[1\]; expected a Hypothesis",
    "none": r"None for \d+ rows",
    "rows": r"\d+ lists for \d+ rows",
    "nothing": r"\[\] for example \d+; expected a list of hypotheses",
    "unlisted": r"a Hypothesis for example \d+; expected a list of hypotheses",
}


@pytest.mark.parametrize(("way", "says"), HYPOTHESES.items(), ids=HYPOTHESES)
def test_hypotheses_that_do_not_fit_fail_their_decoder(bench, way, says):
    decoders = {"good": {"name": "argmax"}, **broken_parts("broken-decoder", HYPOTHESES)}
    run = bench(decoders=decoders)[1]
    (cell,) = cells(run, "decoder", way)
    assert re.search(rf"bench_broken: BrokenDecoder\.decode gave .*{says}", cell.reason), cell.reason
    assert right(cell) == ["nats"]
    assert cells(run, "decoder", "good")[0].status == "done"


@pytest.mark.parametrize(("way", "says"), [("sample rows", r"lists for \d+ rows"), ("sample beyond", "token 99")])
def test_a_wrong_sample_is_the_models_fault_not_the_decoders(plugins, way, says):
    model = broken_model(way)
    with guarded(model, 5), pytest.raises(PluginError, match=rf"bench_broken: Broken\.sample gave .*{says}"):
        model.sample(tiny_batch(), 4, Rng(0))


METRICS = {
    "none": r"combine gave None; expected a number",
    "text": r"combine gave '50'",
    "list": r"combine gave \[50\.0\]",
    "complex": r"combine gave 1j",
    "true": r"combine gave True",
    "nan": r"combine gave NaN; .*may_be_nan = True",
    "inf": r"combine gave inf; .*may_be_infinite = True",
    "above": r"combine gave 250.0; its bounds are 0 and 100",
    "below": r"combine gave -1.0; its bounds are 0 and 100",
    "prepare": r"prepare gave None; expected a metric",
    "measure none": r"measure gave None for \d+ examples",
    "measure rows": r"measure gave \d+ parts for \d+ examples",
    "measure set": r"measure gave values JSON cannot represent",
    "resample none": r"resample gave None for 1000 samples",
    "resample text": r"resample gave '1' for 1000 samples",
    "resample few": r"resample gave \d+ scores for 1000 samples",
    "error text": r"error gave 'a'",
    "error negative": r"error gave -1\.0",
    "error nan": r"error gave nan",
}


@pytest.mark.parametrize(("way", "says"), METRICS.items(), ids=METRICS)
def test_a_metric_that_gives_no_number_fails_and_the_others_are_right(bench, way, says):
    metrics = {"good": {"name": "ended"}, **broken_parts("broken-rate", METRICS)}
    (cell,) = bench(metrics=metrics)[1].cells
    assert cell.status == "failed"
    assert re.search(rf"bench_broken: BrokenRate\.{says}", cell.numbers[slug(way)].reason)
    assert right(cell) == ["good"]


TASKS = {
    "facts none": r"prepare gave None; expected a TaskInfo",
    "facts": r"prepare gave \{'vocabulary': \[\]\}; expected a TaskInfo",
    "facts text": r"prepare gave the vocabulary 'abcd'",
    "batches none": r"batches gave None",
    "batch none": r"batches gave None",
    "batch ids": r"batches gave the ids float32",
    "batch gold beyond": r"batches gave the gold with tokens from 99 to \d+; expected 0 to 4",
    "batch gold negative": r"batches gave the gold with tokens from -1 to",
    "batch gold ints": r"batches gave the gold int32",
    "batch opening rows": r"batches gave the prompt int64",
    "batch opening empty": r"batches gave the prompt without a token",
    "batch length": r"batches gave the length from",
    "batch length zero": r"batches gave the length from 0 to 0",
    "batch source": r"batches gave the source int64",
    "batch extra": r"batches gave float32 \[99\] as the extra 'more'",
    "batch weight": r"batches gave a weight that is negative",
    "batch twice": r"batches gave example 0 of 'test' twice",
    "text list": r"text gave \[",
    "text none": r"text gave None",
    "text bytes": r"text gave b'ab'",
    "references none": r"references gave None",
    "references few": r"references has no entry for example 3 of 'test'",
    "references text": r"references gave '.*'; expected a list of strings",
    "references tokens": r"references gave \[\[1, 2\]\]; expected a list of strings",
    "references list": r"references gave a list; expected a list of strings for each id",
    "sources": r"sources gave 7; expected a string",
    "groups": r"groups gave 'a'; expected an integer for each id",
    "groups list": r"groups gave \[0, 0\]; expected an integer for each id",
    "sizes": r"target_sizes gave 7; expected a TextSize or None for each id",
    "sizes negative": r"target_sizes gave .*TextSize.*; expected a TextSize or None for each id",
}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("way", "says"), TASKS.items(), ids=TASKS)
def test_a_task_that_gives_something_else_fails_its_cells(bench, way, says):
    tasks = {"good": {"name": "letters"}, **broken_parts("broken-letters", TASKS)}
    run = bench(tasks=tasks)[1]
    (cell,) = cells(run, "task", way)
    assert cell.status == "failed"
    assert re.search(rf"bench_broken: BrokenLetters\.{says}", cell.reason), cell.reason
    assert cells(run, "task", "good")[0].status == "done"


def test_nothing_is_stored_of_what_failed(bench):
    folder, run = bench(models={"good": {"name": "bigram"}, **broken_parts("broken", {**STEPS, **SCORES, **LOSSES})})
    for kind, failed in (("decode", len(STEPS) + len(LOSSES)), ("score", len(SCORES) + len(LOSSES))):
        assert len([*(folder / "store" / kind).iterdir()]) == len(run.cells) - failed


def test_a_bound_that_draws_may_be_above_zero(bench):
    metrics = {"exact": {"name": "nats"}, "bound": {"name": "nats", "by": "half"}}
    (cell,) = bench(models=broken_parts("broken", ["score positive"]), metrics=metrics)[1].cells
    assert right(cell) == ["bound"]


def test_weights_are_judged_by_what_is_looked_at(bench):
    settings = SETTINGS.replace("batch_size: 8", "batch_size: 8, select: {metric: nats}")
    (cell,) = bench(models=broken_parts("broken", ["score logits"]), settings=settings)[1].cells
    assert "bench_broken: Broken.score gave" in cell.reason
    assert not right(cell)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_initial_weights_that_are_not_finite_are_refused(bench, tmp_path, value):
    folder, _ = bench()
    weights = load_file(next((folder / "store" / "train").glob("*/weights.safetensors")))
    weights["table.weight"][1, 2] = value
    save_file(weights, tmp_path / "weights.safetensors")
    settings = SETTINGS.replace("batch_size: 8", f"batch_size: 8, initial: {tmp_path / 'weights.safetensors'}")
    (cell,) = bench(settings=settings)[1].cells
    what = "NaN" if value != value else "an infinite number"
    assert f"weights.safetensors: `table.weight` holds {what}" in cell.reason


def test_a_buffer_may_hold_the_logarithm_of_zero_but_no_nan():
    module = torch.nn.Linear(2, 2)
    module.register_buffer("log_counts", torch.tensor([0.0, -torch.inf]))
    assert diverged(module) == ""
    module.log_counts[0] = torch.nan
    assert diverged(module) == "`log_counts` holds NaN"


def broken_model(way):
    config = bench_broken.plugin.BrokenConfig(way=way)
    return broken.Broken(config, SimpleNamespace(vocabulary=[*"_abcd"]))


def shut(*places):
    """Return log-probabilities of four actions, of which some are impossible."""
    return torch.zeros(2, 4).index_fill(1, torch.tensor(places, dtype=torch.long), -torch.inf).log_softmax(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [2, 1000, 100_000])
def test_rounding_is_no_mistake_in_any_type(plugins, dtype, size):
    for scale in (0, 1, 30):
        logits = scale * torch.randn(3, size, generator=torch.Generator().manual_seed(size))
        found = [logits.log_softmax(1).to(dtype)]
        if size < 65_504 or dtype is not torch.float16:  # torch on the processor has no larger sum in this type
            found.append(logits.to(dtype).log_softmax(1))
        assert all(checked(one, object(), "step", summed=True) is one for one in found)


def test_impossible_actions_are_no_mistake(plugins):
    for found in (shut(0), shut(0, 1, 2), torch.zeros(0, 4), shut().double()):
        assert checked(found, object(), "step", summed=True) is found


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize(("value", "says"), [(torch.nan, "NaN"), (torch.inf, "up to inf"), (0.01, "up to 0.01")])
def test_one_wrong_action_is_found_wherever_it_stands(plugins, row, value, says):
    for place in range(4):
        found = shut((place + 1) % 4)
        found[row, place] = value
        with pytest.raises(PluginError, match=f"builtins: object.fill gave .*{says} at step 7;"):
            checked(found, object(), "fill", 7)


def test_a_missing_log_softmax_is_found_in_half_precision(plugins):
    with pytest.raises(PluginError, match="up to 3"):
        checked(torch.full((1, 4), 3.0, dtype=torch.bfloat16), object(), "step")
    assert room(torch.bfloat16) < 0.69  # an action counted twice


def test_probabilities_are_summed_at_first_and_ever_more_rarely_later(plugins, monkeypatch):
    summed = []
    note = lambda log_probs, model, method, step: summed.append(step)  # noqa: E731
    monkeypatch.setattr("bench_core.computing.guarded_log_probs.check_sums", note)
    case = Case.of(toys.ToyRecurrentConfig())
    steps = Steps(case.model, thorough=True)
    _, state = steps.start(case.batch)
    for _ in range(1500):
        _, state = steps.next(state, torch.ones_like(case.batch.ids))
    assert summed[:9] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert len(summed) < 0.05 * 1500


def test_a_model_has_its_own_methods_again_afterwards(plugins):
    model = broken_model("step nan")
    before = {**vars(model)}
    with pytest.raises(PluginError), guarded(model, 5):
        model.start(tiny_batch())
    assert vars(model) == before
    space = {"a": 1, "b": 2}
    with replaced(space, {"a": 3, "c": 4}):
        assert space == {"a": 3, "b": 2, "c": 4}
    assert space == {"a": 1, "b": 2}


class Careless(Decoder):
    """Steps by itself, takes NaN's argmax, and never looks."""

    def decode(self, model, batch, rng):
        actions = model.start(batch)[0].argmax(1)
        return [[Hypothesis([action] if action else [], not action)] for action in actions.tolist()]


@pytest.mark.parametrize("way", ["row nan", "row inf", "row shut", "step nan"])
def test_a_decoder_that_never_looks_cannot_decode_what_is_no_distribution(bench, plugins, way, monkeypatch):
    monkeypatch.setattr("bench_small.parts.Argmax.decode", Careless.decode)
    (cell,) = bench(models=broken_parts("broken", [way]), metrics={"ended": {"name": "ended"}})[1].cells
    assert cell.status == "failed"
    assert "bench_broken: Broken.start gave" in cell.reason
    assert f"for example {0 if way == 'step nan' else broken.WRONG};" in cell.reason
