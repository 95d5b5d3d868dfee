"""Greedy choice, beam search and exhaustive search: hand values, brute force, ties, bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from bench_authors.testing import catches, patched
from bench_core import Rng, SuiteError
from bench_decoders.plugin import BeamConfig, ExhaustiveConfig, GreedyConfig

NOTES = {
    "": (0.1, 0.5, 0.2, 0.2),
    "A": (0.2, 0.1, 0.4, 0.3),
    "AB": (0.2, 0.2, 0.2, 0.4),
    "ABC": (0.6, 0, 0.2, 0.2),
    "AC": (0.1, 0.1, 0.6, 0.2),
    "ACB": (0.6, 0.1, 0.2, 0.1),
}
SETTINGS = [(f, c) for f in ("first", "k", "exhausted") for c in ("finished", "finished_and_alive", "all_prefixes")]


def letters(tokens):
    return "".join("?ABCDE"[token] for token in tokens)


def name(hypothesis):
    return letters(hypothesis.tokens) + "." * hypothesis.finished


def notes(prefix):
    return NOTES.get(letters(prefix), (0.25,) * 4)


def decode(config, model, rows):
    return config.load()(config).decode(model, rows, Rng(0))


def chain_of(hypothesis):
    return hypothesis.actions + [0] * hypothesis.finished


def notes_beam(**settings):
    return BeamConfig(max_tokens=4, finish="exhausted", candidates="finished_and_alive", **settings)


def test_greedy_choice_follows_the_worked_example(table, batch):
    ((found,),) = decode(GreedyConfig(max_tokens=4), table(notes), batch(1))
    assert name(found) == "ABC."
    assert math.exp(found.log_prob) == pytest.approx(0.048)


@pytest.mark.parametrize(
    ("width", "alpha", "wanted", "prob"),
    [
        (1, 0, "ABC.", 0.048),
        (1, 0.75, "ABC.", 0.048),
        (2, 0, "ACB.", 0.054),
        (2, 0.75, "ACB.", 0.054),
        (3, 0, "A.", 0.1),
        (3, 0.75, "ACB.", 0.054),
    ],
)
def test_beam_search_follows_the_worked_example(table, batch, width, alpha, wanted, prob):
    first, second = decode(notes_beam(width=width, alpha=alpha), table(notes), batch(2))
    assert name(first[0]) == name(second[0]) == wanted
    assert math.exp(first[0].log_prob) == pytest.approx(prob)


@pytest.mark.parametrize(
    ("alpha", "wanted"),
    [
        (0.25, {"A.": -1.9362}),
        (0.5, {"ACB.": -1.4594, "A.": -1.6282}),
        (0.75, {"ACB.": -1.0319, "ABC.": -1.0736, "A.": -1.3691, "AB.": -1.4121}),
        (1, {"ACB.": -0.7297}),
    ],
)
def test_longer_sequences_gain_as_the_length_exponent_grows(table, batch, alpha, wanted):
    config = ExhaustiveConfig(max_tokens=4, candidates="finished_and_alive", alpha=alpha, outputs=200)
    (found,) = decode(config, table(notes), batch(1))
    ranks = {name(h): h.log_prob / (len(h.tokens) + h.finished) ** alpha for h in found}
    assert name(found[0]) == next(iter(wanted))
    assert list(ranks.values()) == sorted(ranks.values(), reverse=True)
    assert {sequence: ranks[sequence] for sequence in wanted} == pytest.approx(wanted, abs=1e-4)


def test_exhaustive_search_finds_all_120_sequences_and_their_mass_is_one(table, batch):
    config = ExhaustiveConfig(max_tokens=4, candidates="finished_and_alive", outputs=1000)
    (found,) = decode(config, table(notes), batch(1))
    assert len(found) == len({name(h) for h in found}) == 120
    assert sum(math.exp(h.log_prob) for h in found) == pytest.approx(1)
    assert [name(h) for h in found[:2]] == [".", "A."]  # .1 each


def test_all_prefixes_as_candidates_favour_one_token(table, batch):
    config = BeamConfig(max_tokens=4, width=2, candidates="all_prefixes", finish="exhausted", alpha=0.75)
    ((found,),) = decode(config, table(notes), batch(1))
    assert name(found) == "A"
    assert math.exp(found.log_prob) == pytest.approx(0.5)


def test_beam_search_keeps_what_the_notes_keep_at_each_step(table, batch):
    walk = {"": {"A": 0.4, "C": 0.3}, "A": {"B": 0.5}, "C": {"E": 0.6}, "AB": {"D": 0.7}, "CE": {"D": 0.8}}

    def probs(prefix):
        given = walk[letters(prefix)]
        rest = (1 - sum(given.values())) / (5 - len(given))
        return [0, *(given.get(letter, rest) for letter in "ABCDE")]

    model = table(probs)
    config = BeamConfig(max_tokens=3, width=2, finish="exhausted", candidates="finished_and_alive", outputs=9)
    (found,) = decode(config, model, batch(1))
    assert [[letters(prefix) for prefix in step] for step in model.asked] == [[""], ["A", "C"], ["AB", "CE"]]
    assert [name(h) for h in found] == ["CED", "ABD"]  # .3 x .6 x .8 > .4 x .5 x .7; two times 5 words were scored


def self_terminating(epsilon, words):
    """Stop as late as its bound allows, and words of equal probability."""

    def probs(prefix):
        alpha = (1 - epsilon) ** (len(prefix) + 1)
        return [1 - alpha, *[alpha / words] * words]

    return probs


@pytest.mark.parametrize(("epsilon", "bound"), [(0.5, 1), (0.1, 7), (0.01, 69), (0.001, 693)])
def test_greedy_choice_stops_at_the_bound_of_a_self_terminating_model(table, batch, epsilon, bound):
    # with epsilon 1/2, stop and the word are equally likely at once, and the lower action wins
    ((found,),) = decode(GreedyConfig(max_tokens=1500), table(self_terminating(epsilon, 1)), batch(1))
    assert found.finished
    assert len(found.tokens) + 1 == bound


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize(("epsilon", "bound"), [(0.1, 7), (0.02, 35)])
def test_beam_search_ends_within_the_bound_of_a_self_terminating_model(table, batch, width, epsilon, bound):
    for finish, last in (("first", bound), ("k", bound + width - 1)):
        model = table(self_terminating(epsilon, width))
        ((found,),) = decode(BeamConfig(width=width, finish=finish), model, batch(1))
        assert found.finished
        assert len(model.asked) <= last
        assert len(model.asked) > 1, "the case must bite"


@pytest.mark.parametrize("config", [GreedyConfig(max_tokens=60), BeamConfig(max_tokens=60, width=3, finish="first")])
def test_a_softmax_with_stop_far_below_never_stops(table, batch, config):
    ((found,),) = decode(config, table(lambda prefix: (1e-9, *[(1 - 1e-9) / 3] * 3)), batch(1))
    assert not found.finished
    assert len(found.tokens) == 60


@pytest.mark.parametrize("finish", ["first", "k", "exhausted"])
def test_a_beam_of_one_is_greedy_choice(recurrent, insertion, batch, finish):
    for model in (recurrent(seed=3), insertion(seed=3)):
        greedy = decode(GreedyConfig(max_tokens=8), model, batch(20))
        beam = decode(BeamConfig(max_tokens=8, width=1, finish=finish, alpha=0.7), model, batch(20))
        assert [[h.actions for h in found] for found in greedy] == [[h.actions for h in found] for found in beam]


@pytest.mark.parametrize("config", [GreedyConfig(max_tokens=3), BeamConfig(max_tokens=3, width=3)])
def test_of_equal_actions_the_lower_is_taken(table, batch, config):
    word = table(lambda prefix: (0, 0.02, 0.49, 0.49))
    assert decode(config.model_copy(update={"max_tokens": 2}), word, batch(1))[0][0].actions == [2, 2]
    stop = table(lambda prefix: (0.25,) * 4)
    assert decode(config, stop, batch(1))[0][0].actions == []


def test_a_chain_that_can_still_tie_and_rank_first_keeps_its_row_open(table, batch):
    given = {"": (0, 0.25, 0.5, 0.25), "B": (0.5, 0, 0, 0.5), "A": (0, 1, 0, 0), "AA": (1, 0, 0, 0)}
    model = table(lambda prefix: given.get(letters(prefix), (0.25,) * 4))
    assert name(decode(BeamConfig(width=3), model, batch(1))[0][0]) == "AA."  # 1/4 like "B.", which stops before it


# where a search ends, with the mistakes that this invites


def with_settings(trial, **change):
    """Let decoders have other settings than those they are given; each is a function of the one given."""

    def load(config):
        settings = config.model_dump()
        return trial.load(config.model_copy(update={key: turn(settings[key]) for key, turn in change.items()}))

    return replace(trial, load=load)


def with_hypotheses(trial, change):
    """Let decoders return another hypothesis than the one they find; `change` is handed their settings too."""

    def load(config):
        def decode(decoder, model, batch, rng):
            return [[change(one, config) for one in found] for found in decoder.decode(model, batch, rng)]

        return patched(trial.load(config), decode=decode)

    return replace(trial, load=load)


def always_stops_at_the_first(trial):
    """What is asked for with `finish: k` is not."""
    return with_settings(trial, finish=lambda finish: "first")


def never_stops_at_the_first(trial):
    """The search goes on until `width` chains have stopped (Definition A.2), though `first` is asked for."""
    return with_settings(trial, finish=lambda finish: "k" if finish == "first" else finish)


def returns_what_stopped_first(trial):
    """The search goes on, but what it finds later is not compared with what it has."""

    def load(config):
        def decode(decoder, model, batch, rng):
            found = decoder.decode(model, batch, rng)
            return [sorted(row, key=lambda one: len(one.actions))[:1] for row in found]

        return patched(trial.load(config.model_copy(update={"outputs": 99})), decode=decode)

    return replace(trial, load=load)


def leaves_no_room_for_stop(trial):
    """The limit counts words and a stop that has yet to come."""
    return with_settings(trial, max_tokens=lambda most: most - 1)


def has_room_for_another_stop(trial):
    """The limit counts words alone."""
    return with_settings(trial, max_tokens=lambda most: most + 1)


def takes_full_length_for_an_end_that_is_missing(trial):
    """Whatever is as long as the limit, stop included, counts as endless."""
    return with_hypotheses(
        trial, lambda one, config: replace(one, finished=one.finished and len(one.tokens) + 1 < config.max_tokens)
    )


def takes_the_limit_for_an_end(trial):
    """What is cut short counts as finished."""
    return with_hypotheses(trial, lambda one, config: replace(one, finished=True))


@catches(always_stops_at_the_first, never_stops_at_the_first, returns_what_stopped_first)
def the_first_to_stop_need_not_be_the_best(trial):
    late = {(): (0.4, 0.6, 0, 0), (1,): (0.8, 0, 0.1, 0.1)}
    model, found = trial.table(lambda prefix: late.get(prefix, (0.25,) * 4)), {}
    for finish in ("first", "k", "exhausted"):
        ((best,),) = trial.load(BeamConfig(width=2, finish=finish)).decode(model, trial.batch(1), Rng(0))
        found[finish] = name(best)
    assert found == {"first": ".", "k": "A.", "exhausted": "A."}


@catches(
    leaves_no_room_for_stop,
    has_room_for_another_stop,
    takes_full_length_for_an_end_that_is_missing,
    takes_the_limit_for_an_end,
)
def stop_as_the_last_token_of_the_limit_still_counts(trial):
    model = trial.table(lambda prefix: (0.0, 1.0) if len(prefix) < 4 else (1.0, 0.0))
    for config in (GreedyConfig(), BeamConfig(width=1), BeamConfig(width=1, finish="first")):
        limits = (config.model_copy(update={"max_tokens": most}) for most in (5, 4))
        (((at_limit,),), ((below,),)) = (trial.load(one).decode(model, trial.batch(1), Rng(0)) for one in limits)
        assert (at_limit.finished, below.finished) == (True, False), config
        assert at_limit.tokens == below.tokens == [1] * 4, config


LAWS = (the_first_to_stop_need_not_be_the_best, stop_as_the_last_token_of_the_limit_still_counts)
MISTAKES = [(law, mutant) for law in LAWS for mutant in law.mutants]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_searches_end_by_their_laws(trial, law):
    law(trial)


@pytest.mark.parametrize(("law", "mutant"), MISTAKES, ids=[f"{law}-{mutant.__name__}" for law, mutant in MISTAKES])
def test_every_law_catches_its_mutants(trial, law, mutant):
    with pytest.raises(AssertionError):
        law(mutant(trial))


# against brute force


def rank(chain, model, alpha, count_stop):
    stopped = chain.actions[-1] == 0
    length, log_prob = -(-len(chain.actions) // model.actions_per_token), chain.log_prob
    if stopped and not count_stop:
        length, log_prob = length - 1, chain.before
    return log_prob / length**alpha if length else -math.inf


def preferred(found, model, config):
    """Return the candidates in order: of a higher class alone, ranked, ties to the lower actions."""

    def kind(chain):
        if rank(chain, model, config.alpha, config.count_stop) == -math.inf:
            return 2
        return int(config.candidates == "finished" and chain.actions[-1] != 0)

    keys = sorted((kind(c), -rank(c, model, config.alpha, config.count_stop), c.actions) for c in found)
    return [actions for first, _, actions in keys if first == keys[0][0]][: config.outputs]


def is_candidate(chain, model, candidates):
    return chain.ended or (candidates == "all_prefixes" and len(chain.actions) % model.actions_per_token == 0)


@pytest.mark.quick(30, 30)
@pytest.mark.parametrize("kind", ["recurrent", "insertion"])
@pytest.mark.parametrize(("finish", "candidates"), SETTINGS)
@pytest.mark.parametrize(("alpha", "count_stop"), [(0, True), (0.75, True), (1.5, True), (0.75, False), (0, False)])
def test_beam_of_full_width_finds_the_best_chains(
    request, batch, chains, kind, finish, candidates, alpha, count_stop
):
    for seed in range(2):
        model = request.getfixturevalue(kind)(vocabulary=3, seed=seed)
        config = BeamConfig(
            width=500,
            max_tokens=3,
            finish=finish,
            candidates=candidates,
            alpha=alpha,
            count_stop=count_stop,
            outputs=4,
        )
        for row, found in enumerate(decode(config, model, batch(3))):
            every = chains(model, batch(3).select(torch.tensor([row])), 3)
            if finish == "first":
                counted = [len(c.actions) for c in every if c.actions[-1] == 0 and (count_stop or len(c.actions) > 1)]
                every = [c for c in every if len(c.actions) <= min(counted)]
            wanted = preferred([c for c in every if is_candidate(c, model, candidates)], model, config)
            assert [chain_of(h) for h in found] == wanted


def plain_beam(model, one, config, chains):
    """Beam search as the definition has it, with lists, to the end."""
    every = {tuple(c.actions): c for c in chains(model, one, config.max_tokens)}
    live, found, stopped = [()], [], 0
    for step in range(1, config.max_tokens * model.actions_per_token + 1):
        grown = [c for c in every.values() if tuple(c.actions[:-1]) in live and len(c.actions) == step]
        grown.sort(key=lambda c: (-c.log_prob, live.index(tuple(c.actions[:-1])), c.actions[-1]))
        kept = grown[: config.width]
        if config.refill:
            live_ones = [c for c in grown[: 2 * config.width] if not c.ended][: config.width]
            kept = [c for c in grown if c in live_ones or (c.ended and c in kept)]
        found += [c for c in kept if is_candidate(c, model, config.candidates)]
        stopped += sum(c.actions[-1] == 0 and (config.count_stop or step > 1) for c in kept)
        live = [tuple(c.actions) for c in kept if c.actions[-1] != 0]
        if stopped >= {"first": 1, "k": config.width, "exhausted": math.inf}[config.finish]:
            break
    return preferred(found, model, config)


@pytest.mark.quick(4, 10)
@pytest.mark.parametrize("refill", [False, True])
@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize(("finish", "candidates"), SETTINGS)
def test_narrow_beams_do_what_the_definition_says(
    recurrent, insertion, table, batch, chains, finish, candidates, width, refill
):
    coarse = table(lambda prefix: ((0.25, 0.25, 0.5, 0), (0.5, 0.125, 0.125, 0.25))[sum(prefix) % 2])  # full of ties
    for model in (recurrent(4, seed=width), insertion(3, seed=5), coarse):
        for alpha, count_stop, outputs in ((0, True, 1), (0.8, True, 3), (0.8, False, 2)):
            config = BeamConfig(
                width=width, max_tokens=4 if model.actions_per_token == 1 else 3, finish=finish, candidates=candidates,
                alpha=alpha, count_stop=count_stop, outputs=outputs, refill=refill,
            )  # fmt: skip
            for row, found in enumerate(decode(config, model, batch(4))):
                one = batch(4).select(torch.tensor([row]))
                assert [chain_of(h) for h in found] == plain_beam(model, one, config, chains), (model, alpha, row)


def test_no_search_beats_exhaustive_search(recurrent, batch):
    model = recurrent(4, seed=8)
    best = decode(ExhaustiveConfig(max_tokens=5, candidates="finished_and_alive"), model, batch(20))
    greedy = decode(GreedyConfig(max_tokens=5), model, batch(20))
    narrow = [decode(notes_beam(width=width), model, batch(20, [4] * 20)) for width in (1, 2, 3)]
    for other in (greedy, *narrow):
        assert all(ours[0].log_prob <= top[0].log_prob + 1e-12 for ours, top in zip(other, best, strict=True))
    assert any(ours[0].log_prob < top[0].log_prob for ours, top in zip(greedy, best, strict=True))


def test_exhaustive_search_refuses_what_is_too_large(table, batch):
    model = table(lambda prefix: (0.25,) * 4)
    assert decode(ExhaustiveConfig(max_tokens=4, most=4**4), model, batch(1))
    with pytest.raises(SuiteError, match=r"4\^4 sequences .* limit of 255 \(`most`\). Lower `max_tokens`"):
        decode(ExhaustiveConfig(max_tokens=4, most=4**4 - 1), model, batch(1))
    assert decode(ExhaustiveConfig(most=4**3), model, batch(2, [2, 3]))  # a row's own limit counts


# what is asked of the model


def test_a_row_leaves_the_beam_when_nothing_can_change_it(table, batch):
    model = table(lambda prefix: (0.9, 0.1) if not prefix else (0.001, 0.999))
    ((found,),) = decode(BeamConfig(width=2, max_tokens=50, finish="exhausted"), model, batch(1))
    assert name(found) == "."
    assert len(model.asked) == 1  # .1 < .9, whatever follows


def test_only_live_chains_are_stepped(recurrent, batch):
    model = recurrent(seed=1)
    found = decode(BeamConfig(width=3, max_tokens=30, finish="first"), model, batch(50))
    longest = [len(row[0].actions) + row[0].finished for row in found]
    assert model.stepped <= 3 * sum(length - 1 for length in longest)
    assert len(set(longest)) > 1
