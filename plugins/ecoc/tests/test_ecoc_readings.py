"""Readings of the bits of a model: what they share, what they are fitted to, and what they leave alone."""

import pytest
import torch

from bench_core import Batch, Rng, Scoring, TaskInfo
from bench_ecoc.plugin import ECOCLMConfig
from bench_output_layers.plugin import TransformerLMConfig

COUNTS = [40, 30, 20, 10, 5, 4, 3, 2, 2, 1, 1, 1]
INFO = TaskInfo([str(token) for token in range(12)], COUNTS)
READINGS = ["naive", "prior-tempered", {"kind": "maximum-entropy", "steps": 1}, "maximum-entropy"]


def model(reading, **more):
    torch.manual_seed(3)
    settings = {"embedding": 6, "hidden": 6, "layers": 1, "bits": 8, "initial_scale": 0.8, "reading": reading, **more}
    config = ECOCLMConfig.model_validate(settings)
    lm = config.load()(config, INFO)
    lm.setup(INFO, Rng(4))
    return lm.eval()


def batches(number=3, rows=8, length=20):
    generator = torch.Generator().manual_seed(8)
    for step in range(number):
        gold = torch.multinomial(torch.tensor(COUNTS).float(), rows * length, True, generator=generator).view(
            rows, -1
        )
        ids = torch.arange(rows)
        yield Batch(ids, torch.zeros(rows, 1, dtype=torch.int64), gold, ids * 0 + length, continues=step > 0)


@torch.no_grad()
def nats(lm):
    """Return the cross entropy of the stream per token."""
    total, memory = 0.0, None
    for batch in batches():
        scores = lm.score(batch, Scoring("exact", Rng(0), memory if batch.continues else None))
        total, memory = total - scores.log_probs.sum().item(), scores.memory
    return total / 480


@pytest.mark.parametrize("more", [{}, {"codes": "dense"}, {"codes": {"kind": "hybrid", "frequent": 4}}], ids=str)
@pytest.mark.parametrize("reading", READINGS[1:], ids=str)
@torch.no_grad()
def test_settings_fitted_on_validation_lower_its_cross_entropy(reading, more):
    fitted, plain = model(reading, **more), model(reading, **more)
    fitted.fit_on_validation(batches(), Rng(5))
    assert nats(fitted) < nats(plain)
    assert fitted.state_dict().keys() == plain.state_dict().keys()
    for name, weights in fitted.state_dict().items():
        assert torch.equal(weights, plain.state_dict()[name])
    again = model(reading, **more)
    again.fit_on_validation(batches(), Rng(5))
    assert nats(again) == nats(fitted)


@pytest.mark.parametrize("reading", READINGS, ids=str)
@torch.no_grad()
def test_a_fit_carries_states_through_windows_of_a_stream_and_stops_at_enough_positions(reading, monkeypatch):
    from bench_output_layers import language_model

    monkeypatch.setattr(language_model, "FITTED_POSITIONS", 200)
    lm, seen = model(reading), []
    predict = lm.predict
    monkeypatch.setattr(lm, "predict", lambda batch, given: seen.append(given.memory) or predict(batch, given))
    lm.fit_on_validation(batches(4), Rng(5))
    assert [memory is not None for memory in seen] == [False, True]  # 160 positions each


@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_training_does_not_depend_on_the_reading(reading):
    hidden = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    naive, other = model("naive").train(), model(reading).train()
    for made in (naive, other):
        assert torch.equal(made.head.distribution(hidden), naive.head.distribution(hidden))
        assert torch.equal(made.head.scores(hidden), naive.head.scores(hidden))
    if reading != "naive":
        assert not torch.allclose(other.eval().head.distribution(hidden), naive.head.distribution(hidden), atol=0.1)


@torch.no_grad()
def test_at_an_infinite_temperature_the_rest_of_a_hybrid_is_its_unigram_distribution():
    lm = model({"kind": "prior-tempered", "temperature": 1e12}, codes={"kind": "hybrid", "frequent": 4})
    hidden = torch.randn(7, 6, generator=torch.Generator().manual_seed(1))
    log_probs = lm.head.distribution(hidden)
    of_softmax = lm.head.logits(hidden).log_softmax(1)
    assert torch.allclose(log_probs[:, :4], of_softmax[:, :4], atol=1e-5)
    shares = torch.tensor(COUNTS[4:]).float() + 0.5
    assert torch.allclose(log_probs[:, 4:], of_softmax[:, 4:] + (shares / shares.sum()).log(), atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"codes": {"kind": "hybrid", "frequent": 4}}], ids=str)
@pytest.mark.parametrize("reading", READINGS, ids=str)
@torch.no_grad()
def test_scores_and_ranks_are_those_of_the_distribution(reading, more):
    lm, batch = model(reading, **more), next(batches())
    scores = lm.score(batch, Scoring("exact", Rng(0)))
    hidden, _ = lm.predict(batch, Scoring("exact", Rng(0)))
    log_probs = lm.head.distribution(hidden.flatten(0, 1)).view(*hidden.shape[:2], -1)
    ours = log_probs.gather(2, batch.gold[:, :, None])[:, :, 0]
    assert torch.allclose(scores.by_token["log_prob"].float(), ours, atol=1e-4)
    assert torch.allclose(scores.log_probs.float(), ours.sum(1), atol=1e-3)
    assert torch.equal(scores.by_token["best"], log_probs.argmax(2))
    ahead = (log_probs > ours[:, :, None]).sum(2)
    assert ((scores.by_token["rank"] == ahead + 1) | (log_probs - ours[:, :, None]).abs().lt(1e-5).sum(2).gt(1)).all()
    solved = reading == "maximum-entropy"
    assert ("reading_steps" in scores.values) == ("reading_residual" in scores.values) == solved
    if solved:
        assert (scores.values["reading_steps"] <= 10).all()
        assert (scores.values["reading_residual"] > 0).all()


@torch.no_grad()
def test_a_transformer_with_codes_fits_its_reading_too():
    torch.manual_seed(3)
    settings = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 8, "context": 40}
    config = TransformerLMConfig.model_validate(
        {**settings, "output": {"kind": "codes", "codes": "dense", "bits": 8}}
    )
    assert config.fits_on_validation()
    assert not TransformerLMConfig.model_validate(settings).fits_on_validation()
    lm = config.load()(config, INFO)
    lm.setup(INFO, Rng(4))
    before = nats(lm.eval())
    lm.fit_on_validation(batches(), Rng(5))
    assert nats(lm) < before


def test_only_codes_have_a_reading():
    assert TransformerLMConfig().reading is None
    assert TransformerLMConfig.model_validate({"output": "codes"}).reading.kind == "prior-tempered"
    with pytest.raises(ValueError, match=r"`output: full` has none. Leave it out, or choose `output: codes`"):
        TransformerLMConfig.model_validate({"reading": "naive"})


@pytest.mark.parametrize("config", [ECOCLMConfig, TransformerLMConfig])
@pytest.mark.parametrize(("steps", "exempt"), [(20, False), (21, True)])
def test_every_model_with_many_steps_states_which_contracts_these_break(config, steps, exempt):
    settings = {"reading": {"kind": "maximum-entropy", "steps": steps}}
    coded = settings if config is ECOCLMConfig else {**settings, "output": "codes"}
    assert bool(config.model_validate(coded).exempt()) == exempt


@pytest.mark.parametrize("reading", READINGS, ids=str)
@torch.no_grad()
def test_half_precision_changes_scores_by_its_rounding_only(reading):
    """Shares of rare tokens and base rates need more digits than the weights have."""
    hidden = torch.randn(7, 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    half = model(reading).bfloat16()
    rounded = model(reading)
    rounded.load_state_dict({name: weights.float() for name, weights in half.state_dict().items()})
    found = half.head.distribution(hidden)
    assert found.isfinite().all()
    assert torch.allclose(found.float(), rounded.head.distribution(hidden.float()), atol=0.1)


def test_only_the_naive_reading_fits_groups_and_exact_training():
    assert ECOCLMConfig().reading.kind == "prior-tempered"
    for settings in ({"group": 2}, {"loss": "exact"}):
        assert ECOCLMConfig.model_validate(settings).reading.kind == "naive"
        assert not ECOCLMConfig.model_validate(settings).fits_on_validation()
        with pytest.raises(ValueError, match=r"`reading: prior-tempered` cannot be used here: .*Leave `reading` out"):
            ECOCLMConfig.model_validate({**settings, "reading": "prior-tempered"})


@pytest.mark.parametrize(
    ("reading", "fits"),
    [
        ("naive", False),
        ("prior-tempered", True),
        ({"kind": "prior-tempered", "temperature": 2}, False),
        ("maximum-entropy", True),
        ({"kind": "maximum-entropy", "penalty": 0}, False),
    ],
)
def test_what_is_set_is_not_fitted(reading, fits):
    assert ECOCLMConfig.model_validate({"reading": reading}).fits_on_validation() == fits
