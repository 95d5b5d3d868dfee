"""The count baseline, against counts in dictionaries."""

from collections import Counter
from dataclasses import replace
from math import exp, inf, log

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model

from bench_authors.testing import Case
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_core import Batch, Rng, Scorer, Scoring, Stepper, TaskInfo, Training
from bench_rnn.plugin import NGramConfig

VOCABULARY = ["</s>", *"abcde"]
RNG = Rng(7)
SCORING = Scoring("exact", RNG)
SMOOTHINGS = ["none", "additive", "witten-bell"]
ORDERS = [1, 2, 3, 5]


def training(epoch=0, memory=None):
    return Training(step=0, steps=10, epoch=epoch, epochs=2, rng=RNG, memory=memory)


def model(tokens=6, **settings):
    config = NGramConfig(**settings)
    return config.load()(config, TaskInfo([str(token) for token in range(tokens)]))


def rows(seed=1, size=20):
    """Return rows that end in stop, after a prefix of a token."""
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(1, 8, (size,), generator=generator)
    words = torch.randint(1, 5, (size, 8), generator=generator)  # never the last of the vocabulary
    gold = words[:, : int(length.max())] * (torch.arange(int(length.max())) < length[:, None] - 1)
    prompt = torch.cat([torch.zeros(size, 1, dtype=torch.long), words[:, 7:]], 1)
    return Batch(torch.arange(size), prompt, gold, length)


def learnt(batches, **settings):
    lm = model(**settings).train()
    for batch in batches:
        lm.loss(batch, training())
    return lm.eval()


def slowly(batches, order, smoothing, delta, tokens=6):
    """Return p(w | history) by the formulas, from counts in dictionaries."""
    counts = Counter()
    for batch in batches:
        for prompt, gold, length in zip(
            batch.prompt.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True
        ):
            text = prompt + gold[:length]
            for place in range(len(prompt), len(text)):
                counts.update(tuple(text[place - back : place + 1]) for back in range(min(order, place + 1)))

    def probability(history, token):
        found = 1 / tokens
        for length in range(min(order - 1, len(history)) + 1):
            context = tuple(history[len(history) - length :])
            of = [counts[(*context, word)] for word in range(tokens)]
            seen, kinds, count = sum(of), sum(map(bool, of)), of[token]
            if smoothing == "additive":
                found = (count + delta) / (seen + delta * tokens)
            elif smoothing == "none":
                found = count / seen if seen else found
            else:
                found = (count + kinds * found) / (seen + kinds) if seen else found
        return found

    return probability


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", ORDERS)
def test_probabilities_are_those_of_the_formula_and_sum_to_one(order, smoothing):
    batches, tried = [rows(1), rows(2)], rows(3, size=8)
    lm = learnt(batches, order=order, smoothing=smoothing, delta=0.5)
    slow = slowly(batches, order, smoothing, 0.5)
    scores = lm.score(tried, SCORING).log_probs
    for row in range(len(tried)):
        history, total = tried.prompt[row].tolist(), 1.0
        log_probs, state = lm.start(tried.select(torch.tensor([row])))
        for token in tried.gold[row, : tried.length[row]].tolist():
            expected = torch.tensor([slow(history, word) for word in range(6)], dtype=torch.float64)
            torch.testing.assert_close(log_probs[0].exp(), expected)
            assert log_probs.exp().sum().item() == pytest.approx(1)
            total *= expected[token].item()
            history.append(token)
            log_probs, state = lm.step(state, torch.tensor([token]))
        assert scores[row].exp().item() == pytest.approx(total)


@pytest.mark.parametrize("smoothing", ["additive", "witten-bell"])
def test_smoothing_leaves_something_for_what_never_occurred(smoothing):
    batch = rows()
    new = replace(batch, gold=batch.gold.where(batch.gold != 1, 5))
    assert learnt([batch], order=3, smoothing=smoothing).score(new, SCORING).log_probs.isfinite().all()
    assert learnt([batch], order=3, smoothing="none").score(new, SCORING).log_probs.min() == -inf


def perplexity(lm, tokens):
    """Return that of one row without a stop."""
    gold = torch.tensor([tokens])
    batch = Batch(torch.arange(1), torch.zeros(1, 1, dtype=torch.long), gold, torch.tensor([len(tokens)]))
    return exp(-lm.score(batch, SCORING).log_probs.item() / len(tokens))


def window(tokens, before=0, continues=False):
    gold = torch.tensor([tokens])
    return Batch(torch.arange(1), torch.tensor([[before]]), gold, torch.tensor([len(tokens)]), continues=continues)


def test_perplexities_of_the_notes():
    assert perplexity(model(27), [3, 5, 5]) == pytest.approx(27)
    lm = learnt([window([1, 1, 2, 3])], order=1, smoothing="none")
    assert perplexity(lm, [1, 2]) == pytest.approx(2.828427, abs=5e-7)
    assert perplexity(lm, [1, 4]) == inf
    assert perplexity(learnt([window([1, 2, 3, 1, 2, 3])], order=2, smoothing="none"), [1, 2, 3]) == pytest.approx(1)


def test_windows_of_a_stream_are_counted_and_scored_as_the_whole():
    tokens = torch.randint(0, 6, (50,), generator=torch.Generator().manual_seed(4)).tolist()
    whole, parts = model(order=4).train(), model(order=4).train()
    whole.loss(window(tokens), training())
    memory, before = None, 0
    for first, last in [(0, 2), (2, 3), (3, 30), (30, 50)]:
        piece = window(tokens[first:last], before, first > 0)
        memory, before = parts.loss(piece, training(memory=memory)).memory, tokens[last - 1]
    for name, counts in whole.state_dict().items():
        if "totals" in name or "grams" in name:
            assert len(parts.state_dict()[name]) == len(counts)  # contexts may be numbered in another order
    first = parts.score(window(tokens[:20]), SCORING)
    second = parts.score(window(tokens[20:], tokens[19], True), replace(SCORING, memory=first.memory))
    expected = whole.score(window(tokens), SCORING).log_probs
    torch.testing.assert_close(first.log_probs + second.log_probs, expected)


def test_only_the_first_epoch_of_training_is_counted():
    lm, batch = learnt([rows(1)], order=3), rows(2)
    before = {name: tensor.clone() for name, tensor in lm.state_dict().items()}
    lm.loss(batch, training())  # an evaluation
    lm.train().loss(batch, training(epoch=1))
    with torch.no_grad():
        lm.loss(batch, training())
    torch.testing.assert_close(lm.state_dict(), before)
    lm.loss(batch, training())
    assert lm.levels[2].totals[-1] > before["levels.2.totals"][-1]


def test_the_loss_is_the_mean_over_target_tokens_of_all_that_is_counted():
    lm, batch = model(order=2, smoothing="none").train(), rows()
    loss = lm.loss(batch, training())
    assert loss.value.isfinite()
    assert loss.weight == batch.length.sum()
    assert loss.value.item() == pytest.approx(-lm.score(batch, SCORING).log_probs.sum().item() / loss.weight.item())
    loss.value.backward()
    assert not lm.idle.grad.any()  # no probability depends on it
    assert lm.loss(rows(2), training()).value.item() < log(6)


def test_counts_are_kept_in_a_file(tmp_path):
    lm, batch = learnt([rows(1)], order=4), rows(2)
    save_model(lm, str(tmp_path / "weights.safetensors"))
    for fresh in (model(order=4), learnt([rows(5, size=3)], order=4)):
        load_model(fresh, str(tmp_path / "weights.safetensors"))
        torch.testing.assert_close(fresh.eval().score(batch, SCORING).log_probs, lm.score(batch, SCORING).log_probs)
        log_probs = [m.train().loss(batch, training()).value for m in (fresh, learnt([rows(1)], order=4))]
        torch.testing.assert_close(*log_probs)  # and are counted on


def test_high_orders_of_large_vocabularies_do_not_collide():
    tokens = [3, 99_999, 70_000, 3, 99_999, 12, 99_998] * 2
    lm = model(100_000, order=9, smoothing="none").train()
    lm.loss(window(tokens), training())
    assert perplexity(lm.eval(), tokens[:7]) == pytest.approx(1)


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("trained", [False, True])
def test_the_count_baseline_keeps_all_contracts_but_that_of_gradients(smoothing, trained):
    case = Case.of(NGramConfig(order=3, smoothing=smoothing))
    if trained:
        case.model.train().loss(case.batch, training())
        case.model.eval()
    if trained and smoothing == "none":
        case = replace(case, batch=case.batch.select(torch.arange(2)))  # all of it was seen
    tried = MODEL_CONTRACTS
    if trained:  # whose loss of the rows is as low as it gets
        tried = [contract for contract in tried if str(contract) != "eight_examples_can_be_learnt_by_heart"]
    found = check(tried, case)
    assert len(found) >= 11
    assert "the_loss_is_finite_and_weighs_target_tokens" not in found, "the Config says that it is exempt"


def test_the_config_says_what_the_class_gives():
    assert {base for base in (Stepper, Scorer) if issubclass(NGramConfig.load(), base)} == NGramConfig.capabilities


@pytest.mark.parametrize("wrong", [{"order": 0}, {"smoothing": "kneser-ney"}, {"delta": 0.0}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        NGramConfig(**wrong)
