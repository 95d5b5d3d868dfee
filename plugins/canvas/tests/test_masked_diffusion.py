"""Masked diffusion: its loss, its likelihoods, and the width of its canvases."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from canvas_table import every

from bench_authors.testing import Case, catches, check_model, float64, tiny_batch, tiny_info
from bench_authors.testing.cases import one_row
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_canvas import masked_diffusion
from bench_canvas.bounds import hidden_log_probs
from bench_canvas.canvas import BEYOND, MASK
from bench_canvas.masked_diffusion import MaskedDiffusion
from bench_canvas.plugin import MaskedDiffusionConfig, MaskPredictConfig, UnmaskConfig
from bench_core import Rng, Scoring, Source, SuiteError, Training
from bench_training.optimizers import optimizers
from bench_training.settings import TrainingConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 12}
OWN = {"limit_ratio": 1, "limit_extra": 3}  # widths of 4 to 7 places
RNG = Rng(7)
QUICK = [one for one in MODEL_CONTRACTS if str(one) != "eight_examples_can_be_learnt_by_heart"]


@pytest.fixture(autouse=True)
def double():
    with float64(), torch.no_grad():
        yield


def case_of(source=Source.TOKENS, batch=None, **settings):
    return Case.of(MaskedDiffusionConfig(**{**SMALL, **settings}), source=source, batch=batch, scale=1.6)


def loss_of(model, batch, step=0, smoothing=0.0):
    return model.loss(batch, Training(step, 9, 0, 1, RNG.fork(step), label_smoothing=smoothing))


def test_the_model_keeps_all_contracts():
    check_model(case_of(dropout=0.2, places=6))


@pytest.mark.quick(2, 3)
@pytest.mark.parametrize(
    ("source", "settings"),
    [
        (Source.TOKENS, OWN),
        (Source.NONE, {"places": 6}),
        (Source.BAG, {**OWN, "source_positions": "none"}),
        (Source.GRID, {"places": 5}),
        (Source.VECTOR, {"places": 5}),
        (Source.TOKENS, {**OWN, "cross_attention": "forward", "tied": False, "source_positions": "relative"}),
    ],
    ids=str,
)
def test_the_model_keeps_the_quick_contracts(source, settings):
    assert len(check(QUICK, case_of(source, **settings))) >= 12


def test_the_model_keeps_the_quick_contracts_after_a_prompt():
    assert len(check(QUICK, case_of(batch=tiny_batch(source=Source.TOKENS, prefix=2), places=7))) >= 12


# ---- what a place may see


class Peeking(MaskedDiffusion):
    """Reads the targets of masked places."""

    def score(self, batch, scoring):
        self.gold = batch.gold
        return super().score(batch, scoring)

    def _read(self, known, canvas):
        gold = getattr(self, "gold", canvas)[:, : canvas.shape[1]]
        peeked = torch.nn.functional.pad(gold, (0, canvas.shape[1] - gold.shape[1]))
        return super()._read(known, torch.where(canvas == MASK, peeked, canvas))


@catches(lambda kind: Peeking)
def all_targets_have_at_most_probability_one(kind):
    """Check the bounds of all targets of a canvas of three places, which are sums over orders."""
    case = case_of(places=3)
    model = kind(case.config, case.info)
    model.load_state_dict(case.model.state_dict())
    model.words.weight = None
    targets = [target for length in range(3) for target in product(range(1, 5), repeat=length)]
    rows = tiny_batch(targets, source=Source.TOKENS)
    batch = replace(
        case.batch.select(torch.zeros(len(targets), dtype=torch.long)), gold=rows.gold, length=rows.length
    )
    weights = model.embed.weight
    weights.mul_(4)  # sharp enough that a model that sees its targets knows them
    for layer in model.stack.layers:
        for part in (layer.attention.outward, layer.cross.outward, layer.narrow):
            part.weight.zero_()
            part.bias.zero_()
    scores = model.eval().score(batch, Scoring("all-orders", RNG)).log_probs
    assert scores.exp().sum() <= 1 + 1e-9


def test_all_targets_have_at_most_probability_one():
    all_targets_have_at_most_probability_one(MaskedDiffusion)


@pytest.mark.parametrize("mutant", all_targets_have_at_most_probability_one.mutants)
def test_a_model_that_sees_its_targets_is_detected(mutant):
    with pytest.raises(AssertionError):
        all_targets_have_at_most_probability_one(mutant(MaskedDiffusion))


def test_a_masked_place_is_predicted_from_all_places_but_itself():
    case = case_of(places=3)
    targets = every(5, 3)
    known, _ = case.model.begin(case.batch.select(torch.zeros(len(targets), dtype=torch.long)))
    for place in range(3):
        hidden = (torch.arange(3) == place).expand(targets.shape)
        log_probs = hidden_log_probs(case.model, known, targets, hidden)[:, place].view(5, 5, 5)
        torch.testing.assert_close(log_probs.logsumexp(place), torch.zeros(5, 5))
        for other in {0, 1, 2} - {place}:
            assert (log_probs - log_probs.roll(1, other)).abs().max() > 1e-3, "each other place matters"


# ---- the loss


def expectation(case, number=4000):
    """Return the mean loss of many copies of one target, its standard error, and the bound it estimates."""
    batch = one_row(case.batch, 0)
    many = replace(batch.select(torch.zeros(number, dtype=torch.long)), ids=torch.arange(number))
    values = torch.stack(
        [loss_of(case.model, part).value for part in map(many.select, torch.arange(number).split(number // 20))]
    )
    bound = -case.scored("all-orders", batch)[0] / batch.length[0]
    return values.mean(), values.std() / len(values) ** 0.5, bound


def the_loss_is_an_unbiased_estimate(case):
    mean, error, bound = expectation(case)
    assert abs(mean - bound) < 5 * error
    assert error < 0.02 * bound


def test_the_loss_is_an_unbiased_estimate_of_the_bound_over_all_orders():
    the_loss_is_an_unbiased_estimate(case_of(places=5, dropout=0))


def without_weights(sample):
    return replace(sample, weight=torch.ones_like(sample.weight))


def with_weights_of_one_over_k(sample):
    return replace(sample, weight=1 / sample.hidden.sum(1))


@pytest.mark.parametrize("changed", [without_weights, with_weights_of_one_over_k])
def test_a_loss_without_its_weights_is_detected(changed, monkeypatch):
    sample = masked_diffusion.sample_hidden
    monkeypatch.setattr(masked_diffusion, "sample_hidden", lambda *given: changed(sample(*given)))
    with pytest.raises(AssertionError):
        the_loss_is_an_unbiased_estimate(case_of(places=5, dropout=0))


def test_losses_of_batches_add_up():
    case = case_of(**OWN)
    parts = [loss_of(case.model, case.batch.select(torch.tensor(rows))) for rows in ([0, 3], [1], [2, 4])]
    whole = loss_of(case.model, case.batch)
    torch.testing.assert_close(sum(part.value * part.weight for part in parts), whole.value * whole.weight)


def test_other_places_are_masked_at_every_update():
    case = case_of(places=6)
    assert len({loss_of(case.model, case.batch, step).value.item() for step in range(5)}) == 5


# ---- widths


def test_the_width_is_that_of_the_model_or_of_the_row():
    for settings, widths in (({"places": 7}, [7] * 5), (OWN, [4, 5, 6, 7, 4])):
        case = case_of(**settings)
        _, canvas = case.model.begin(case.batch)
        assert (canvas == MASK).sum(1).tolist() == widths
        assert (canvas != BEYOND).sum(1).tolist() == widths
        for row in range(5):
            known, alone = case.model.begin(one_row(case.batch, row))
            assert alone.shape == (1, widths[row])
            together = case.model.places(*case.model.begin(case.batch))[row, : widths[row]]
            torch.testing.assert_close(case.model.places(known, alone)[0], together)


def test_a_prompt_occupies_the_first_places():
    batch = tiny_batch(source=Source.TOKENS, prefix=2)
    for settings, widths in (({"places": 7}, [7] * 5), (OWN, [6, 7, 8, 9, 6])):
        _, canvas = case_of(batch=batch, **settings).model.begin(batch)
        assert torch.equal(canvas[:, :2], batch.prompt[:, 1:])
        assert (canvas != BEYOND).sum(1).tolist() == widths
        assert (canvas == MASK).sum(1).tolist() == [width - 2 for width in widths]


def test_a_canvas_that_is_shorter_than_its_target_is_an_error():
    case = case_of(places=4)
    text = (
        r"^the target of example 43 has 5 tokens, EOS included, but the canvas of masked-diffusion has 4 places for it\. "
        r"Increase `places`"
    )
    for use in (lambda: loss_of(case.model, case.batch), lambda: case.scored("sampled-orders")):
        with pytest.raises(SuiteError, match=text):
            use()
    fits = case.batch.select(torch.tensor([0, 1, 2, 4]))
    assert loss_of(case.model, fits).value.isfinite()


@pytest.mark.parametrize("prefix", [3, 4])
def test_a_prompt_that_fills_the_canvas_is_an_error(prefix):
    batch = tiny_batch([(), ()], source=Source.TOKENS, prefix=prefix)
    case = case_of(places=3)
    text = rf"^the prompt of example 40 has {prefix} tokens and fills the canvas of masked-diffusion, which has 3 places\."
    for use in (lambda: loss_of(case.model, batch), lambda: case.model.begin(batch)):
        with pytest.raises(SuiteError, match=text):
            use()


@pytest.mark.parametrize("source", [Source.NONE, Source.VECTOR, Source.GRID, Source.IMAGE])
def test_without_source_tokens_a_width_is_required(source):
    with pytest.raises(SuiteError, match=r"the width of a canvas of masked-diffusion is unknown\. Set `places`"):
        MaskedDiffusion(MaskedDiffusionConfig(**SMALL), tiny_info(source))


def test_windows_of_a_stream_are_refused():
    with pytest.raises(SuiteError, match="windows of a stream"):
        MaskedDiffusion(MaskedDiffusionConfig(**SMALL, places=5), replace(tiny_info(), consecutive=True))


# ---- scores and outputs


def test_sampled_orders_are_an_estimate_of_the_bound():
    case = case_of(places=5)
    bound = case.scored("all-orders")
    many = torch.stack([case.scored("sampled-orders", rng=RNG.fork(turn)) for turn in range(60)])
    error = many.std(0) / len(many) ** 0.5
    assert ((many.mean(0) - bound).abs() < 5 * error).all()
    several = replace(case, model=MaskedDiffusion(case.config.model_copy(update={"orders": 60}), case.info).eval())
    several.model.load_state_dict(case.model.state_dict())
    assert ((several.scored("sampled-orders") - bound).abs() < 6 * error).all()


@pytest.fixture(scope="module")
def learned():
    """Return a case of a model that has learned its batch."""
    with float64():
        config = MaskedDiffusionConfig(d_model=16, heads=2, layers=1, feed_forward=32, dropout=0, places=6)
        batch = tiny_batch([(1, 2, 3), (4,), (), (2, 1, 4, 3)], source=Source.TOKENS)
        case = Case.of(config, batch=batch, source=Source.TOKENS, scale=1.0)
        many = replace(batch.select(torch.arange(32) % 4), ids=torch.arange(32))
        (optimizer,) = optimizers(case.model, TrainingConfig(lr=0.01), batch.ids.device)
        for step in range(120):
            optimizer.zero_grad()
            loss_of(case.model, many, step).value.backward()
            optimizer.step()
        return case


@pytest.mark.parametrize(
    "config",
    [*(UnmaskConfig(order=order) for order in ("confidence", "margin", "entropy", "random", "left")),
     UnmaskConfig(k=3), UnmaskConfig(passes=1), MaskPredictConfig(passes=3)],
    ids=lambda config: "-".join(map(str, dict(config).values())),
)  # fmt: skip
def test_a_learned_batch_is_reproduced_in_every_order(learned, config):
    found = [row[0] for row in config.load()(config).decode(learned.model, learned.batch, RNG)]
    assert [(*hypothesis.tokens,) for hypothesis in found] == [(1, 2, 3), (4,), (), (2, 1, 4, 3)]
    assert all(hypothesis.finished for hypothesis in found)


def test_a_learned_batch_is_probable(learned):
    assert (learned.scored("all-orders") > -1).all()
    other = replace(learned.batch, gold=learned.batch.gold.flip(0), length=learned.batch.length.flip(0))
    assert (learned.scored("all-orders", other) < -5).all()


@pytest.mark.parametrize(("source", "positions"), [(Source.TOKENS, "sinusoidal"), (Source.BAG, "none")])
def test_sources_have_the_positions_of_places(source, positions):
    config = MaskedDiffusionConfig(**SMALL)
    assert MaskedDiffusion(config, tiny_info(source)).encoder.positions == positions
    relative = config.model_copy(update={"source_positions": "relative"})
    assert MaskedDiffusion(relative, tiny_info(Source.TOKENS)).encoder.positions == "relative"
