"""The self-terminating recurrent language model: contracts, laws with their mutants, scores, context, beams."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch.nn.functional import linear

from bench_authors.testing import (
    MODEL_CONTRACTS,
    Case,
    catches,
    check_decoder,
    check_model,
    float64,
    stepping,
    tiny_batch,
)
from bench_authors.testing.mutants.models import forgets_to_reorder
from bench_core import STOP, Batch, Rng, Scorer, Scoring, Stepper, SuiteError, Training
from bench_core.kit import Head
from bench_decoders.plugin import (
    AncestralConfig,
    BeamConfig,
    ConsistentTopKConfig,
    ExhaustiveConfig,
    GreedyConfig,
    NucleusConfig,
    TemperatureConfig,
    TopKConfig,
)
from bench_strlm import rnn
from bench_strlm.magnitudes import logits_of
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_strlm.survival import Survival

RNG = Rng(5)
SCORING = Scoring("exact", RNG)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
DECODERS = [
    AncestralConfig(max_tokens=5),
    GreedyConfig(max_tokens=5),
    BeamConfig(max_tokens=5, width=3, outputs=3),
    BeamConfig(max_tokens=5, width=3, finish="first"),
    BeamConfig(max_tokens=5, width=2, finish="exhausted", candidates="finished_and_alive", alpha=0.7),
    TopKConfig(max_tokens=5, k=2),
    NucleusConfig(max_tokens=5, mass=0.6),
    ConsistentTopKConfig(max_tokens=5, k=1),
    TemperatureConfig(max_tokens=5, temperature=0.7),
    ExhaustiveConfig(max_tokens=2, outputs=3),
]


def config(**settings):
    return SelfTerminatingRNNLMConfig(**{"cell": "tanh", "hidden": 6, "epsilon": 0.05} | settings)


def case(**settings):
    """Return a model with random weights in float64."""
    return Case.of(config(**settings))


def telling(*stop, **settings):
    """Return a model that knows the last token alone; after token v stop has the logit `stop[v]`, 1 of it the bias."""
    found = case(**{"hidden": 5, "layers": 1, "epsilon": 0.1} | settings)
    with torch.no_grad():
        for weights in found.model.parameters():
            weights.zero_()
        found.model.embed.weight.copy_(20 * torch.eye(5))
        found.model.rnn.layers.weight_ih_l0.copy_(torch.eye(5))  # units are the last token, one-hot
        logits_of(found.model).weight[STOP] = torch.tensor(stop) - 1
        logits_of(found.model).bias[STOP] = 1
    return found


def row(prompt, gold=()):
    """Return one row; of words alone, stop goes before and after them."""
    tokens = torch.tensor([[*gold, STOP]])
    return Batch(torch.arange(1), torch.tensor([[STOP, *prompt]]), tokens, torch.tensor([len(gold) + 1]))


def stops(model, prompt, words=()):
    """Return p(stop) before each of `words`, and after the last."""
    log_probs, state = model.start(row(prompt))
    found = [log_probs[0, STOP]]
    for word in words:
        log_probs, state = model.step(state, torch.tensor([word]))
        found.append(log_probs[0, STOP])
    return torch.stack(found).exp()


# mistakes


def with_output(case, **methods):
    """Give the output layer other methods; each is handed the intact layer before its own arguments."""
    model = deepcopy(case.model)
    for name, method in methods.items():
        setattr(model.head, name, partial(method, case.model.head))
    return replace(case, model=model)


def counts_the_context(case):
    """Epsilon and the logits of stop multiply where the context is read, though it is given."""

    def start(output, prefix):
        reading = deepcopy(output)
        reading.reads_prefix = True
        return reading.start(prefix)

    return with_output(case, start=start)


def starts_again_at_every_step(case):
    """Each step of decoding is the first."""

    def log_probs(output, hidden, past):
        return output.log_probs(hidden, Survival(torch.zeros_like(past.log_alpha)))

    return with_output(case, log_probs=log_probs)


@dataclass(frozen=True)
class InPlace(Survival):
    def select(self, rows: Tensor) -> InPlace:
        return InPlace(self.log_alpha[torch.arange(len(rows)) % len(self.log_alpha)])


def keeps_log_alpha_in_place(case):
    """A search reorders the units, but whatever chain comes to a place inherits the log alpha that is there."""

    def log_probs(output, hidden, past):
        found, after = output.log_probs(hidden, past)
        return found, InPlace(after.log_alpha)

    return with_output(case, log_probs=log_probs)


def leaves_stop_among_the_words(case):
    """The softmax over words has the logit of stop in it."""

    def log_probs(output, hidden, past):
        found, after = output.log_probs(hidden, past)
        logits = output.logits(hidden)
        log_alpha = torch.log1p(-found[..., STOP].exp())[..., None]
        return torch.cat([found[..., :1], (logits.log_softmax(2) + log_alpha)[..., 1:]], 2), after

    return with_output(case, log_probs=log_probs)


def forgets_epsilon(case):
    """The sigmoid itself, which may come as near to 1 as it likes."""
    model = deepcopy(case.model)
    model.head.epsilon = 1e-12
    return replace(case, model=model)


def leaves_the_bias_of_stop_out(case):
    """As Definition 4.3 does, but not the proof of Theorem 4.2."""
    model = deepcopy(case.model)
    with torch.no_grad():
        logits_of(model).bias[STOP] = 0
    return replace(case, model=model)


def scores_without_the_bias_of_stop(case):
    """Left out where one logit a step is enough, and there alone."""

    def stop_logits(output, hidden):
        return linear(hidden, output.logits.weight[STOP])

    return with_output(case, stop_logits=stop_logits)


def multiplies_probabilities(case):
    """alpha is a product of probabilities, which underflows."""

    def score(head, hidden, batch, past, by):
        alpha = past.log_alpha.exp()[:, None] * ((1 - head.epsilon) * head.stop_logits(hidden).sigmoid()).cumprod(1)
        words = head.logits(hidden)[..., 1:].softmax(2) * alpha[..., None]
        probs = torch.cat([1 - alpha[..., None], words], 2)
        return batch.at_real(probs.gather(2, batch.gold[:, :, None])[:, :, 0]).log(), past

    return with_output(case, score=score)


# laws


@catches(leaves_the_bias_of_stop_out, starts_again_at_every_step, leaves_stop_among_the_words, forgets_epsilon)
def hand_values_come_out(case):
    """epsilon 0.1; logits of stop: 0 at first, 2 after word 1, -1 after word 2; four words, equally likely."""
    alpha, batch = torch.tensor([0.45, 0.35672282, 0.08634379]), row([], [1, 2])
    torch.testing.assert_close(stops(case.model, [], [1, 2]), 1 - alpha, rtol=0, atol=1e-8)
    log_probs, _ = case.model.start(batch)
    torch.testing.assert_close(log_probs[0, 1:].exp(), alpha[:1].expand(4) / 4, rtol=0, atol=1e-8)
    wanted = (alpha[0] / 4 * alpha[1] / 4 * (1 - alpha[2])).log()
    torch.testing.assert_close(case.scored("exact", batch), wanted[None], rtol=0, atol=1e-7)


@catches(counts_the_context)
def what_the_context_sees_of_stop_changes_nothing(case):
    """The last token of the context predicts the first word, the others nothing that counts."""
    for words in ((), (1, 2)):
        scores = [case.scored("exact", row([*context, 1], words)) for context in ([3, 3, 3], [4, 4, 2], [])]
        torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=0)
        torch.testing.assert_close(scores[0], scores[2], rtol=0, atol=0)
        torch.testing.assert_close(stops(case.model, [3, 3, 1], words), stops(case.model, [4, 4, 1], words))


@catches(keeps_log_alpha_in_place, forgets_to_reorder)
def a_beam_of_full_width_finds_what_scoring_all_targets_finds(case):
    """Brute force without a search: every target of up to three words is scored as a whole."""
    targets = [list(words) for length in range(4) for words in product(range(1, 5), repeat=length)]
    beam = BeamConfig(width=5**4, max_tokens=4, finish="exhausted", outputs=len(targets))
    decode = beam.load()(beam).decode
    for found, prompt in zip(decode(case.model, case.batch, RNG), case.batch.prompt, strict=True):
        scores = case.scored("exact", replace(tiny_batch(targets), prompt=prompt.expand(len(targets), -1)))
        assert [one.tokens for one in found] == [targets[place] for place in scores.argsort(descending=True)]
        torch.testing.assert_close(torch.tensor([one.log_prob for one in found]), scores.sort(descending=True)[0])


@catches(multiplies_probabilities)
def long_targets_have_finite_scores(case):
    batch = row([1], [1 + n % 4 for n in range(2500)])
    assert case.scored("exact", batch).isfinite().all()


@catches(starts_again_at_every_step, forgets_epsilon)
def stop_becomes_ever_more_probable_than_its_bound(case):
    for words in ([1, 2, 3, 4] * 5, [4] * 20, [2, 1] * 10):
        found = stops(case.model, [1], words)
        least = 1 - (1 - case.config.epsilon) ** torch.arange(1.0, 22)
        assert (found.diff() > 0).all()
        assert (found > least).all()


@catches(starts_again_at_every_step, forgets_epsilon)
def searches_end_by_their_bounds(case):
    """Stop has the logit 30: greedy choice takes ceil(B) steps, a beam no more (7 with epsilon 0.1)."""
    for decoder in (GreedyConfig(max_tokens=20), BeamConfig(max_tokens=20, width=3, finish="first")):
        for (found,) in decoder.load()(decoder).decode(case.model, case.batch, RNG):
            assert found.finished
            assert len(found.tokens) + 1 <= 7


def also(contract, *mutants):
    """Return a contract of all models with mistakes that only this one can make."""
    return replace(contract, mutants=mutants)


RANDOM = partial(case, cell="lstm", epsilon=0.01)
LAWS = [
    (hand_values_come_out, partial(telling, 0.0, 2.0, -1.0, 7.0, 7.0)),
    (what_the_context_sees_of_stop_changes_nothing, partial(telling, 1.0, 3.0, 0.0, 1.5, -0.5)),
    (a_beam_of_full_width_finds_what_scoring_all_targets_finds, RANDOM),
    (long_targets_have_finite_scores, RANDOM),
    (stop_becomes_ever_more_probable_than_its_bound, partial(telling, 30.0, 30.0, 30.0, 30.0, 30.0)),
    (searches_end_by_their_bounds, partial(telling, 30.0, 30.0, 30.0, 30.0, 30.0)),
    (also(stepping.the_score_is_the_sum_of_its_steps, starts_again_at_every_step, scores_without_the_bias_of_stop), RANDOM),
    (also(stepping.selected_rows_go_on_as_they_would, keeps_log_alpha_in_place), RANDOM),
    (also(stepping.probabilities_sum_to_one_at_every_step, leaves_stop_among_the_words), RANDOM),
]  # fmt: skip
MISTAKES = [(law, make, mutant) for law, make in LAWS for mutant in law.mutants]


@pytest.mark.parametrize(("law", "make"), LAWS, ids=[str(law) for law, _ in LAWS])
def test_the_model_keeps_its_laws(law, make):
    law(make())


@pytest.mark.parametrize(
    ("law", "make", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, _, mutant in MISTAKES]
)
def test_every_law_catches_its_mutants(law, make, mutant):
    with pytest.raises(AssertionError):
        law(mutant(make()))


# contracts

KINDS = [
    {"cell": "tanh"},
    {"cell": "tanh", "tied": True, "st_context": True},
    {"cell": "lstm", "st_context": True, "dropout": 0.1},
    {"cell": "lstm", "tied": True},
    {"cell": "gru", "layers": 1, "epsilon": 0.5},
]
by_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind.values())))


@pytest.mark.quick(2)
@by_kind
def test_the_model_keeps_the_contracts(kind):
    tried = check_model(case(**kind))
    everything = {str(contract) for contract in MODEL_CONTRACTS}
    assert everything - set(tried) == {
        "it_stops_only_between_tokens",
        "windows_of_a_stream_score_as_the_whole_does",
        "copies_in_a_stack_lose_what_they_lose_alone",
        "copies_in_a_stack_learn_on_an_accelerator",
        "settings_of_evaluation_do_not_decide_what_is_trained",
        "a_score_without_steps_does_not_see_what_it_predicts",
    }


@pytest.mark.quick(6, 6)
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
@pytest.mark.parametrize("kind", KINDS[2:4], ids=lambda kind: "-".join(map(str, kind.values())))
def test_decoders_keep_the_contracts_with_it(kind, decoder):
    check_decoder(Case.of(config(**kind), decoder))


def test_the_config_says_what_the_class_gives():
    kind = SelfTerminatingRNNLMConfig.load()
    assert {base for base in (Stepper, Scorer) if issubclass(kind, base)} == SelfTerminatingRNNLMConfig.capabilities
    assert SelfTerminatingRNNLMConfig.probes == {"consistency"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": 1.0},
        {"epsilon": float("nan")},
        {"epsilom": 0.1},
        {"hidden": 4, "tied": True, "embedding": 3},
    ],
)
def test_settings_without_a_meaning_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(reversed(wrong))):
        SelfTerminatingRNNLMConfig(**wrong)


# the score


@pytest.mark.parametrize("portion", [2**25, 3 * 4])
@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_projecting_real_words_only_changes_neither_scores_nor_gradients(tied, context, portion, monkeypatch):
    monkeypatch.setattr(rnn, "LOGITS", portion)
    one = case(tied=tied, st_context=context)
    layer, found = one.model.head, []
    for score in (layer.score, partial(Head.score, layer)):  # the second gathers from log_probs [N, T, V]
        with float64():
            hidden, past = one.model.predict(one.batch, Scoring("exact", one.rng))
            log_probs, after = score(hidden, one.batch, past.head, "exact")
            value = (log_probs * torch.arange(1.0, 1 + len(log_probs))).sum()
            gradients = torch.autograd.grad(value, list(one.model.parameters()))
        found.append((log_probs, after.log_alpha, *gradients))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-12)
    assert len(found[0][0]) == one.batch.length.sum()


def test_a_batch_of_nothing_but_stops_is_scored():
    one = case()
    batch = tiny_batch([(), ()])
    with float64():
        log_probs, _ = one.model.start(batch)
        torch.testing.assert_close(one.scored("exact", batch), log_probs[:, STOP])
        one.model.loss(batch, TRAINING).value.backward()


def test_what_stands_right_of_the_stop_is_not_read():
    one = case()
    garbled = one.batch.gold.where(one.batch.mask, torch.tensor(3))
    assert not torch.equal(garbled, one.batch.gold)
    with float64():
        torch.testing.assert_close(one.scored("exact", replace(one.batch, gold=garbled)), one.scored("exact"))


def test_a_loss_in_bfloat16_is_near_that_in_float32_and_can_be_learnt_from():
    model = case(cell="lstm").model.float()
    batch = tiny_batch()
    wanted = model.loss(batch, TRAINING).value
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(batch, TRAINING).value
    torch.testing.assert_close(loss, wanted, rtol=0.05, atol=0)
    loss.backward()
    assert all(weights.grad.isfinite().all() for weights in model.parameters())


def test_windows_of_a_stream_are_refused():
    one = case()
    batch = replace(one.batch, continues=True)
    for ask in (lambda: one.scored("exact", batch), lambda: one.model.loss(batch, TRAINING)):
        with pytest.raises(
            SuiteError, match=r"needs targets that end, but .* windows of a stream. Use a task with seq"
        ):
            ask()
    assert one.model.score(one.batch, SCORING).memory is None, "nothing that a window could go on from"


# the context


@pytest.mark.parametrize(("context", "read"), [(False, 1), (True, 11)])
def test_a_context_of_ten_tokens_counts_as_eleven_steps_where_it_counts(context, read):
    """The opening stop and ten tokens are read, and the last of them predicts the first word: so n = 11, not 10."""
    one = telling(*[30.0] * 5, st_context=context, epsilon=0.01)
    with float64(), torch.no_grad():
        (first,) = stops(one.model, [1 + n % 4 for n in range(10)])
    assert first.item() == pytest.approx(1 - 0.99**read, rel=1e-10)
    assert (first > 1 - 0.99**10) == context


def test_with_the_context_counted_its_logits_of_stop_count():
    one = telling(1.0, 3.0, 0.0, 1.5, -0.5, st_context=True)
    with pytest.raises(AssertionError):
        what_the_context_sees_of_stop_changes_nothing(one)
    with float64(), torch.no_grad():
        survived = [0.9 * torch.tensor(logit).sigmoid() for logit in (1.0, 1.5, -0.5, 3.0)]
        first = stops(one.model, [3, 4, 1])
    torch.testing.assert_close(first, 1 - torch.stack(survived).prod()[None], rtol=1e-6, atol=0)


def test_an_opening_without_a_context_is_the_same_either_way():
    counted, masked = (case(st_context=context) for context in (True, False))
    batch = tiny_batch(prefix=0)
    with float64():
        torch.testing.assert_close(counted.scored("exact", batch), masked.scored("exact", batch), rtol=0, atol=1e-12)


# weights


@pytest.mark.parametrize("tied", [False, True])
def test_what_is_saved_is_what_is_loaded(tied, tmp_path):
    one, other = case(tied=tied), Case.of(config(tied=tied), seed=9)
    assert not torch.equal(one.scored("exact"), other.scored("exact"))
    save_model(one.model, str(tmp_path / "weights.safetensors"))
    load_model(other.model, str(tmp_path / "weights.safetensors"))
    assert torch.equal(one.scored("exact"), other.scored("exact"))
    assert (logits_of(other.model).weight is other.model.embed.weight) == tied


def test_float32_scores_and_steps_agree_over_many_steps():
    model, words = case(cell="lstm", epsilon=1e-3).model.float(), [1 + n % 4 for n in range(500)]
    with torch.no_grad():
        logits_of(model).bias[STOP] += 12  # or stop would be certain long before
        score = model.score(row([1], words), SCORING).log_probs.item()
        log_probs, state = model.start(row([1]))
        total = 0.0
        for word in words:
            total += log_probs[0, word].item()
            log_probs, state = model.step(state, torch.tensor([word]))
        total += log_probs[0, STOP].item()
    assert total == pytest.approx(score, rel=1e-6)
    assert 0.3 < log_probs[0, STOP].exp() < 0.999
