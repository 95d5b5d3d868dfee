"""Decoders of canvases: as a slow search defines them, on tables, and with their contracts on masked diffusion."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from canvas_table import Table, batch_of
from pydantic import ValidationError

from bench_authors.testing import Case, catches, check_decoder, float64
from bench_canvas.canvas import BEYOND, MASK
from bench_canvas.plugin import MaskedDiffusionConfig, MaskPredictConfig, UnmaskConfig
from bench_canvas.unmasking import MaskPredict, Unmask, _ranks, _two_best, insertions
from bench_core import STOP, Hypothesis, PluginError, Prediction, Rng, Source
from bench_core.computing.hidden_targets import without_targets
from bench_core.suites.check import misfit
from bench_decoders.plugin import GreedyConfig
from bench_indigo.plugin import InsertGreedyConfig, OrderAgreementConfig
from bench_indigo.trajectory import order

RNG = Rng(1)
ORDERS = ["confidence", "margin", "entropy", "random", "left"]
SCHEDULES = [
    *(UnmaskConfig(order=order) for order in ORDERS),
    *(UnmaskConfig(order=order, k=2) for order in ORDERS),
    *(UnmaskConfig(order=order, passes=3) for order in ORDERS),
    UnmaskConfig(passes=1),
    UnmaskConfig(k=9),
    *(MaskPredictConfig(order=order, passes=3) for order in ORDERS[:-1]),
    MaskPredictConfig(passes=1),
]
by_schedule = pytest.mark.parametrize(
    "config", SCHEDULES, ids=lambda config: "-".join(map(str, dict(config).values()))
)


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def decoded(config, model, batch):
    return [row[0] for row in config.load()(config).decode(model, batch, RNG)]


# ---- as defined, one row and one place at a time


def slowly(config, model, batch):
    """Return the canvas of a batch of one row, the pass that last wrote each place, and the number of passes."""
    known, first = model.begin(batch)
    canvas = [int(token) for token in first[0] if token != BEYOND]
    size = len(canvas)
    if isinstance(config, UnmaskConfig) and config.passes is None:
        passes = -(-size // (config.k or 1))
        totals = [min(size, step * (config.k or 1)) for step in range(passes + 1)]
    else:
        passes = min(config.passes, size)
        totals = [size * step // passes for step in range(passes + 1)]
    written, worth = [0] * size, [0.0] * size
    for step in range(1, passes + 1):
        probs = model.places(known, torch.tensor([canvas]))[0].exp()
        uniform = RNG.fork(step).uniform(batch.ids, 0, size)[0]
        masked = [place for place in range(size) if canvas[place] == MASK]
        best, now = {}, {}
        for place in masked:
            p = sorted(probs[place].tolist(), reverse=True)
            best[place] = int(probs[place].argmax())
            now[place] = {
                "confidence": p[0], "margin": p[0] - p[1], "entropy": sum(q * torch.tensor(q).log().item() for q in p),
                "random": uniform[place].item(), "left": -place,
            }[config.order]  # fmt: skip
        if isinstance(config, UnmaskConfig):
            chosen = sorted(masked, key=lambda place: -now[place])[: totals[step] - totals[step - 1]]
            again = []
        else:
            chosen = masked
            worth = [now.get(place, worth[place]) for place in range(size)]
            again = sorted(range(size), key=lambda place: -worth[place])[totals[step] :]
        for place in chosen:
            canvas[place], written[place] = best[place], step
        for place in again:
            canvas[place] = MASK
    return canvas, written, passes


def as_defined(decoder, config):
    """Compare a decoder with the slow search, for rows of 2 to 6 places."""
    ends = set()
    for seed in range(3):
        model = Table(4, seed=seed, width=lambda ids: 2 + ids % 5, sharp=2.0)
        batch = batch_of(10)
        for row, (found,) in enumerate(decoder(config).decode(model, batch, RNG)):
            canvas, written, passes = slowly(config, model, batch.select(torch.tensor([row])))
            length = canvas.index(STOP) if STOP in canvas else len(canvas)
            assert found.tokens == canvas[:length]
            assert found.finished == (STOP in canvas)
            assert found.actions == insertions(canvas[:length], written)
            assert found.values == {"calls": passes}
            ends.add((length, found.finished))
    assert len(ends) > 5, "the case must bite"


@by_schedule
def test_decoding_is_what_it_is_one_place_after_the_other(config):
    as_defined(config.load(), config)


class SkipsTheLastPlace(Unmask):
    def _total(self, drafts, step):
        return super()._total(drafts, step).clamp(max=drafts.free.sum(1) - 1)


class ComparesWrittenPlaces(Unmask):
    def write(self, drafts, log_probs, score, step):
        everything = replace(drafts, canvas=drafts.canvas.masked_fill(drafts.free, MASK))
        score = self._scores(log_probs, everything, RNG.fork(step))
        number = self._total(drafts, step) - self._total(drafts, step - 1)
        chosen = drafts.free & (_ranks(score) < number[:, None])
        canvas = torch.where(chosen, log_probs.argmax(2), drafts.canvas)
        return replace(drafts, canvas=canvas, written=drafts.written.masked_fill(chosen, step))


class RewritesByNewScores(MaskPredict):
    def write(self, drafts, log_probs, score, step):
        everything = replace(drafts, canvas=drafts.canvas.masked_fill(drafts.free, MASK))
        drafts = replace(drafts, score=self._scores(log_probs, everything, RNG.fork(step)))
        return super().write(drafts, log_probs, score, step)


@pytest.mark.parametrize(
    ("mutant", "config"),
    [
        (SkipsTheLastPlace, UnmaskConfig()),
        (ComparesWrittenPlaces, UnmaskConfig()),
        (RewritesByNewScores, MaskPredictConfig(passes=3)),
    ],
)
def test_decoders_that_write_other_places_are_detected(mutant, config):
    with pytest.raises(AssertionError):
        as_defined(mutant, config)


class Certain(Table):
    """Wants the tokens 1, 2, 3, ... in reading order, without EOS."""

    def places(self, known, canvas):
        wanted = 1 + torch.arange(canvas.shape[1]).expand(canvas.shape)
        log_probs = torch.full((*canvas.shape, 9), -9.0).scatter(2, wanted[:, :, None], 0.0)
        return log_probs.log_softmax(2)


@catches(lambda kind: SkipsTheLastPlace, lambda kind: ComparesWrittenPlaces)
def all_places_are_written(kind):
    for config in SCHEDULES[: -len(ORDERS)]:
        for (found,) in kind(config).decode(Certain(width=lambda ids: 2 + ids % 5), batch_of(5), RNG):
            assert found.tokens == [*range(1, len(found.tokens) + 1)]
            assert 2 <= len(found.tokens) <= 6
            assert not found.finished


def test_all_places_are_written():
    all_places_are_written(Unmask)


@pytest.mark.parametrize("mutant", all_places_are_written.mutants)
def test_places_that_are_never_written_are_detected(mutant):
    with pytest.raises(AssertionError):
        all_places_are_written(mutant(Unmask))


@pytest.mark.parametrize("tokens", [1, 2, 3, 255, 256, 257, 300, 1000])
def test_the_two_best_tokens_of_many_are_those_of_a_sort(tokens):
    values = Rng(tokens).normal(torch.arange(50), 0, tokens)
    torch.testing.assert_close(_two_best(values), values.sort(1, descending=True).values[:, :2])
    equal = torch.zeros(3, tokens)
    assert (_two_best(equal) == 0).all()


# ---- schedules, actions, limits


@pytest.mark.parametrize(("k", "calls"), [(1, 6), (2, 3), (3, 2), (4, 2), (5, 2), (6, 1), (7, 1)])
def test_k_places_in_a_pass_take_a_kth_of_the_passes(k, calls):
    asked = []

    class Counting(Table):
        def places(self, known, canvas):
            asked.append(canvas.shape[0])
            return super().places(known, canvas)

    found = decoded(UnmaskConfig(k=k), Counting(4, 6), batch_of(3))
    assert {hypothesis.values["calls"] for hypothesis in found} == {calls}
    assert asked == [3] * calls


def test_canvases_that_are_full_are_not_read_again():
    rows = []

    class Counting(Table):
        def places(self, known, canvas):
            rows.append(len(canvas))
            return super().places(known, canvas)

    found = decoded(UnmaskConfig(), Counting(4, width=lambda ids: 1 + ids % 3), batch_of(3, first=3))
    assert rows == [3, 2, 1]
    assert [hypothesis.values["calls"] for hypothesis in found] == [1, 2, 3]


@pytest.mark.parametrize("config", [UnmaskConfig(passes=9), MaskPredictConfig(passes=9)])
def test_no_row_takes_more_passes_than_places(config):
    found = decoded(config, Table(4, width=lambda ids: 2 + ids % 5), batch_of(5))
    assert [hypothesis.values["calls"] for hypothesis in found] == [2 + (40 + row) % 5 for row in range(5)]


def test_from_the_left_words_are_inserted_in_reading_order():
    for config in (UnmaskConfig(order="left"), UnmaskConfig(order="left", k=3), MaskPredictConfig(passes=1)):
        for found in decoded(config, Certain(places=5), batch_of(2)):
            assert found.actions == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_actions_insert_each_word_among_those_written_before():
    assert insertions([7, 8, 9], [2, 1, 3]) == [8, 1, 7, 1, 9, 3]
    assert insertions([7, 8, 9], [1, 1, 1]) == [7, 1, 8, 2, 9, 3]
    assert insertions([], [1, 2]) == []


@by_schedule
def test_metrics_of_order_read_the_actions(config):
    model = Table(5, width=lambda ids: 2 + ids % 5, sharp=2.0)
    metric = OrderAgreementConfig().load()(OrderAgreementConfig())
    predictions = [
        Prediction(row, hypotheses=[found]) for row, found in enumerate(decoded(config, model, batch_of(10)))
    ]
    orders = [order(prediction, position_first=False) for prediction in predictions]
    for prediction, places in zip(predictions, orders, strict=True):
        assert sorted(places) == [*range(len(prediction.hypotheses[0].tokens))]
    assert -1 <= metric.combine([*metric.measure(predictions)]) <= 1


@pytest.mark.parametrize("most", [1, 2, 4, 9])
def test_outputs_are_truncated_to_the_limit(most):
    free, limited = (
        decoded(UnmaskConfig(max_tokens=number), Table(4, 6, sharp=2.0), batch_of(10)) for number in (1000, most)
    )
    for whole, short in zip(free, limited, strict=True):
        assert short.tokens == whole.tokens[:most]
        assert short.finished == (whole.finished and len(whole.tokens) < most)


def test_random_places_depend_on_the_example():
    model = Certain(places=6)
    first, again = (decoded(UnmaskConfig(order="random"), model, batch_of(8)) for _ in range(2))
    assert [found.actions for found in first] == [found.actions for found in again]
    assert len({str(found.actions) for found in first}) > 5


# ---- broken models and settings


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 0.5])
@pytest.mark.parametrize("config", [UnmaskConfig(k=2), MaskPredictConfig(passes=3)], ids=["unmask", "mask-predict"])
def test_what_is_no_log_probability_is_refused_with_its_place(config, value):
    class Broken(Table):
        def places(self, known, canvas):
            log_probs = super().places(known, canvas)
            if (canvas != MASK).any():
                log_probs[2, 3, 1] = value
            return log_probs

    text = (
        rf"^{config.name}: Broken.places gave a log-probability of {value:.4g} at place 4 in pass 2, for example 42;"
    )
    with pytest.raises(PluginError, match=text):
        decoded(config, Broken(4, 6), batch_of(4))


def test_what_is_beyond_a_canvas_may_be_anything():
    class Careless(Table):
        def places(self, known, canvas):
            return super().places(known, canvas).masked_fill((canvas == BEYOND)[:, :, None], torch.nan)

    width = lambda ids: 2 + ids % 5  # noqa: E731
    found, wanted = (decoded(UnmaskConfig(), kind(4, width=width), batch_of(6)) for kind in (Careless, Table))
    assert found == wanted
    assert isinstance(found[0], Hypothesis)


def test_two_schedules_are_refused():
    with pytest.raises(ValidationError, match="`k` and `passes` both set the number of places of a pass"):
        UnmaskConfig(k=2, passes=3)


def test_decoders_fit_models_of_canvases_alone():
    config = MaskedDiffusionConfig(places=6)
    for decoder in (UnmaskConfig(), MaskPredictConfig()):
        assert misfit(decoder, config) is None
    assert "insert-greedy needs a Refiner" in misfit(InsertGreedyConfig(), config)
    assert "greedy needs a Stepper" in misfit(GreedyConfig(), config)


# ---- contracts


@pytest.mark.quick(3, 4)
@pytest.mark.parametrize("source", [Source.TOKENS, Source.NONE, Source.BAG])
@pytest.mark.parametrize(
    "decoder", [UnmaskConfig(max_tokens=5, k=2), UnmaskConfig(order="random", passes=3), MaskPredictConfig(passes=3)]
)
def test_decoders_keep_their_contracts(decoder, source):
    width = {"places": 6} if source is Source.NONE else {"limit_ratio": 1, "limit_extra": 3}
    config = MaskedDiffusionConfig(d_model=8, heads=2, layers=1, feed_forward=12, tied=False, **width)
    assert len(check_decoder(Case.of(config, decoder, source=source, scale=1.6))) == 6


@pytest.mark.parametrize("width", [{"places": 6}, {"limit_ratio": 1, "limit_extra": 3}], ids=str)
def test_targets_are_not_needed(width):
    config = MaskedDiffusionConfig(d_model=8, heads=2, layers=1, feed_forward=12, **width)
    case = Case.of(config, UnmaskConfig(), source=Source.TOKENS)
    assert case.decoded(without_targets(case.batch)) == case.decoded()


def test_decoders_work_in_mixed_precision():
    config = MaskedDiffusionConfig(d_model=8, heads=2, layers=1, feed_forward=12, places=6)
    case = Case.of(config, UnmaskConfig(), source=Source.TOKENS)
    with torch.autocast("cpu", torch.bfloat16):
        assert all(found.actions is not None for found in decoded(UnmaskConfig(), case.model.float(), case.batch))
