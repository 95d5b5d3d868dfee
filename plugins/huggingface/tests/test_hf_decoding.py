"""Our decoders choose what transformers' own would, from the same model."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import log

import pytest
import torch
from transformers import TopKLogitsWarper, TopPLogitsWarper

from bench_core import STOP, Batch, Rng
from bench_decoders.plugin import BeamConfig, GreedyConfig, NucleusConfig, TopKConfig

WORDS = ["<stop>", *"abcdefg"]
RNG = Rng(3)


def prompts(number, prefix=3):
    prompt = torch.randint(1, len(WORDS), (number, prefix + 1), generator=torch.Generator().manual_seed(2))
    prompt[:, 0] = STOP
    ids = torch.arange(number)
    return Batch(ids, prompt, torch.zeros(number, 1, dtype=torch.long), torch.ones_like(ids))


def decoded(model, batch, config):
    """Return the tokens of our best hypothesis of each row, with its stop."""
    with torch.inference_mode():
        found = config.load()(config).decode(model, batch, RNG)
    return [(*one.tokens, *[STOP] * one.finished) for one, *_ in found]


def generated(model, batch, most, **settings):
    """Return the tokens that `generate` adds to each row, up to its first stop."""
    with torch.inference_mode():
        given = {"attention_mask": torch.ones_like(batch.prompt), "pad_token_id": STOP, "do_sample": False}
        rows = model.network.generate(batch.prompt, **given, max_new_tokens=most, **settings)
    added = rows[:, batch.prompt.shape[1] :].tolist()
    return [tuple(row[: row.index(STOP) + 1] if STOP in row else row) for row in added]


def exact(model, batch, row):
    """Return a function that gives log P of every next token after a prefix of a row's target."""

    @cache
    def after(prefix):
        text = torch.cat([batch.prompt[row], torch.tensor(prefix, dtype=torch.long)])[None]
        with torch.no_grad():
            return model.network(text).logits[0, -1].double().log_softmax(0).tolist()

    return after


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "gemma2"])
def test_greedy_choice_is_that_of_generate(tiny, name):
    model, batch = tiny(name, words=WORDS), prompts(40)
    ours = decoded(model, batch, GreedyConfig(max_tokens=25))
    assert ours == generated(model, batch, 25)
    assert {row[-1] == STOP for row in ours} == {True, False}
    assert len({len(row) for row in ours}) > 3


def searched(after, width, alpha, most, stops_take_places):
    """Return the best of all that a beam finds in `most` steps, and all that stopped inside of it."""
    live, ended = [((), 0.0)], []
    for length in range(1, most + 1):
        ways = [((*chain, token), total + gain) for chain, total in live for token, gain in enumerate(after(chain))]
        ways.sort(key=lambda way: -way[1])
        over = [way for way in ways[:width] if way[0][-1] == STOP or length == most]
        ended += [(total / length**alpha, chain) for chain, total in over]
        going = [way for way in ways if way[0][-1] != STOP]
        live = [way for way in ways[:width] if way[0][-1] != STOP] if stops_take_places else going[:width]
    return max(ended)[1]


@pytest.mark.quick(3)
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("width", [2, 4])
def test_beams_differ_from_generate_only_in_whether_stops_take_places(tiny, width, alpha):
    """`generate` fills the beam up with live chains; ours, as the papers', leaves the place of one that stops empty.

    For the rest `early_stopping="never"` is `finish: exhausted, candidates: finished_and_alive`, and its
    `length_penalty` is our `alpha`: both divide by the length of what was generated, stop included, and take what is
    alive at the limit for a candidate.
    """
    model, batch, most = tiny("gpt2", words=WORDS, seed=3), prompts(24), 6
    ours = decoded(
        model,
        batch,
        BeamConfig(width=width, alpha=alpha, finish="exhausted", candidates="finished_and_alive", max_tokens=most),
    )
    theirs = generated(model, batch, most, num_beams=width, length_penalty=alpha, early_stopping="never")
    steps = [exact(model, batch, row) for row in range(len(batch))]
    assert ours == [searched(after, width, alpha, most, stops_take_places=True) for after in steps]
    assert theirs == [searched(after, width, alpha, most, stops_take_places=False) for after in steps]
    others = sum(one != other for one, other in zip(ours, theirs, strict=True))
    assert others < len(batch) / 2
    assert others or alpha == 0  # or the rule would not show
    assert len({len(row) for row in ours}) > 1


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0, 2.0])
def test_a_beam_that_drops_nothing_is_that_of_generate(tiny, alpha):
    """And both find the best of all sequences."""
    model, batch, most = tiny("gpt2", words=WORDS[:5]), prompts(8), 3
    width = 5**most
    batch = Batch(batch.ids, batch.prompt % 5, batch.gold, batch.length)
    config = BeamConfig(
        width=width, alpha=alpha, finish="exhausted", candidates="finished_and_alive", max_tokens=most
    )
    ours = decoded(model, batch, config)
    assert ours == generated(model, batch, most, num_beams=width, length_penalty=alpha, early_stopping="never")
    words = range(1, 5)
    every = [
        *((*chain, STOP) for length in range(most) for chain in product(words, repeat=length)),
        *product(words, repeat=most),
    ]
    for row, best in enumerate(ours):
        after = exact(model, batch, row)
        ranks = {chain: sum(after(chain[:t])[chain[t]] for t in range(len(chain))) for chain in every}
        assert best == max(every, key=lambda chain: ranks[chain] / len(chain) ** alpha)


def drawn(config, log_probs, kept):
    """Return what a decoder draws from each row at both ends of the share of each token that is kept."""
    decoder = config.load()(config)
    for row, probs in zip(log_probs, kept, strict=True):
        ends = probs.double().cumsum(0)
        for token in probs.nonzero()[:, 0].tolist():
            edges = torch.stack([ends[token] - probs[token] + 1e-6, ends[token] - 1e-6])
            yield token, decoder.choose(row.expand(2, -1), edges).tolist()


@pytest.mark.parametrize(
    ("config", "warper"),
    [
        (TopKConfig(k=1), TopKLogitsWarper(1)),
        (TopKConfig(k=3), TopKLogitsWarper(3)),
        (TopKConfig(k=50), TopKLogitsWarper(50)),
        (NucleusConfig(mass=0.2), TopPLogitsWarper(0.2)),
        (NucleusConfig(mass=0.5), TopPLogitsWarper(0.5)),
        (NucleusConfig(mass=0.95), TopPLogitsWarper(0.95)),
    ],
    ids=["top-1", "top-3", "top-50", "nucleus-0.2", "nucleus-0.5", "nucleus-0.95"],
)
def test_sampling_keeps_the_tokens_and_shares_of_transformers_own_warpers(tiny, config, warper):
    """Each token that is kept is drawn from just its share of [0, 1], so no other can have any."""
    model, batch = tiny("gpt2", words=[str(word) for word in range(40)]), prompts(30)
    with torch.inference_mode():
        log_probs, _ = model.start(batch)
        kept = warper(batch.prompt, log_probs.clone()).softmax(1)
        sizes = (kept > 0).sum(1)
        found = list(drawn(config, log_probs, kept))
    assert all(tokens == [token] * 2 for token, tokens in found)
    assert len(found) == sizes.sum()
    assert sizes.max() > 1 or config == TopKConfig(k=1) or config == NucleusConfig(mass=0.2)


def test_a_nucleus_of_just_its_mass_is_one_token_larger_than_transformers():
    """Theirs is the smallest set that holds at least the mass; ours must hold more, as in Welleck et al. (2020)."""
    log_probs = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    theirs = TopPLogitsWarper(0.5)(torch.zeros(1, 1, dtype=torch.long), log_probs.clone())
    assert theirs.isfinite().sum() == 1
    decoder = NucleusConfig(mass=0.5).load()(NucleusConfig(mass=0.5))
    ours = {int(decoder.choose(log_probs, torch.tensor([uniform]))) for uniform in (0.1, 0.6, 0.7, 0.99)}
    assert ours == {0, 1}
    assert log_probs[0, 0].item() == pytest.approx(log(0.5))
