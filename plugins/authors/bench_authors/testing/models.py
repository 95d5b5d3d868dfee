"""Contracts of models."""

from collections import Counter
from dataclasses import replace
from itertools import product

import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import pad

from bench_authors.testing import losses, stepping
from bench_authors.testing.accelerators import MODELS_ON_ACCELERATORS
from bench_authors.testing.cases import Case, can, crowd, one_row, tiny_info, turned
from bench_authors.testing.contracts import catches, check, close, contracts_of, seed_torch
from bench_authors.testing.leaks import leak
from bench_authors.testing.mutants import models as mutants
from bench_core import Batch, Kind, Noise, Sampler, Scorer, Scores, Scoring, Stepper, SuiteError, Vmappable

DRAWS = 20_000
QUICKER = 20  # times fewer draws, where contracts have to be quick
REPEATS = 8  # of each row, with an id of its own each time
ERRORS = 5  # how many standard errors a share of draws may be off


def check_model(case: Case) -> list[str]:
    """Try all contracts that apply to the model of `case`; return their names."""
    return check(MODEL_CONTRACTS, case)


@catches(mutants.claims_too_much, mutants.claims_too_little, mutants.claims_a_likelihood_it_lacks)
def the_config_says_what_the_class_gives(case: Case) -> None:
    """Its capabilities, and likelihoods if it has any."""
    kind, capabilities = case.config.load(), case.config.capabilities
    for capability in capabilities:
        assert issubclass(kind, capability), f"{kind.__name__} is no {capability.__name__}, as its Config says"
    for capability in (Sampler, Stepper, Scorer, Vmappable):
        claimed = any(issubclass(given, capability) for given in capabilities)
        assert claimed == issubclass(kind, capability), f"the Config does not say that it gives {capability.__name__}"
    assert issubclass(kind, Scorer) == bool(case.config.likelihoods), "a Scorer has likelihoods, and none else"


@catches(mutants.allocates_on_a_device_of_its_own)
def it_builds_on_the_meta_device(case: Case) -> None:
    """Where nothing is computed: the constructor only allocates."""
    with torch.device("meta"):
        model = case.config.load()(case.config, case.info)
    for name, tensor in model.state_dict().items():
        assert tensor.is_meta, f"the constructor made {name!r} on {tensor.device}; only `setup` may compute"


@catches(mutants.claims_every_source, when=lambda case: not case.batch.extras)
def it_takes_every_source_of_its_config(case: Case) -> None:
    """Whatever it does with it; settings that do not allow one may raise a SuiteError that says so."""
    for source in sorted(case.config.sources):
        facts = tiny_info(source)
        info = replace(
            case.info, source=source, source_vocabulary=facts.source_vocabulary, source_shape=facts.source_shape
        )
        try:
            other = Case.of(case.config, info=info, source=source, device=case.batch.ids.device.type)
            seen = _seen(other)
        except SuiteError:
            continue
        except Exception as error:
            raise AssertionError(f"with the source {source}: {type(error).__name__}: {error}") from error
        assert not any(numbers.isnan().any() for numbers in seen), f"with the source {source} it says NaN"


@catches(mutants.draws_in_turn, mutants.counts_padding, mutants.mixes_rows, when=can(Scorer))
def a_row_scores_alike_alone_and_in_a_batch(case: Case) -> None:
    """In any order, however much it is padded, by every likelihood."""
    batch = case.batch
    for by in case.config.likelihoods:
        together = case.scored(by)
        close(case.scored(by, turned(batch)).flip(0), together, f"{by} in the opposite order")
        close(case.scored(by, _padded(batch)), together, f"{by} with more padding")
        alone = [case.scored(by, one_row(batch, row)) for row in range(len(batch))]
        close(torch.cat(alone), together, f"{by} of single rows")


@catches(mutants.draws_in_turn, when=can(Sampler))
def a_sample_depends_on_its_id_alone(case: Case) -> None:
    """Not on its place in the batch, nor on its neighbours."""
    number = len(case.batch)
    rows = torch.arange(REPEATS * number, device=case.batch.ids.device)
    batch = replace(case.batch.select(rows % number), ids=rows + case.batch.ids[0])
    together = case.model.sample(batch, 5, case.noise)
    backwards = case.model.sample(turned(batch), 5, case.noise)[::-1]
    for one, other in zip(together, backwards, strict=True):
        assert one.tokens == other.tokens, f"{one.tokens}, and {other.tokens} backwards"
    for row in range(number):
        (alone,) = case.model.sample(one_row(batch, row), 5, case.noise)
        assert together[row].tokens == alone.tokens, f"{together[row].tokens}, and {alone.tokens} alone"


@catches(
    mutants.forgets_its_memory,
    mutants.forgets_to_leave_a_memory,
    when=lambda case: can(Scorer)(case) and case.batch.source is None and _leaves_a_memory(case),
)
def windows_of_a_stream_score_as_the_whole_does(case: Case) -> None:
    """With the memory that each window leaves for the next."""
    stream, opening = _stream(case), case.batch.opening[:, :1]
    for by in case.config.likelihoods:
        whole = case.scored(by, _window(case, opening, stream))
        total, memory, before = torch.zeros_like(whole), None, opening
        for window in torch.split(stream, 5, 1):
            batch = replace(_window(case, before, window), continues=memory is not None)
            scores: Scores = case.model.score(batch, Scoring(by, case.noise, memory))
            assert scores.memory is not None, "a window leaves no memory for the next"
            left = case.loss(batch, memory).memory
            assert left is not None, "the loss of a window leaves no memory for the next"
            left.select(torch.tensor([0, 0], device=stream.device))
            total, memory, before = total + scores.log_probs, scores.memory.change(Tensor.detach), window[:, -1:]
        close(total, whole, f"{by} of windows of a stream")


@catches(mutants.reads_what_it_predicts, when=lambda case: can(Scorer)(case) and not can(Stepper)(case))
def a_score_without_steps_does_not_see_what_it_predicts(case: Case) -> None:
    """By any likelihood but estimates. Where there are steps, the score is compared with them."""
    for by, kind in case.config.likelihoods.items():
        reason = "" if kind is Kind.ESTIMATE else leak(case, by)
        assert not reason, reason.strip()


@catches(mutants.scores_too_high, mutants.samples_too_sharply, when=can(Sampler, Scorer))
def samples_occur_as_often_as_their_score_says(case: Case) -> None:
    """Exact likelihoods and estimates are the shares of many draws, bounds are not above."""
    words = range(1, min(5, len(case.info.vocabulary)))
    targets = [target for length in range(3) for target in product(words, repeat=length)]
    draws = DRAWS // QUICKER if case.quick else DRAWS
    drawn = case.model.sample(crowd(case, [()] * draws), 3, case.noise.fork("sample"))
    counts = Counter(tuple(one.tokens) for one in drawn if one.finished)
    share = torch.tensor([counts[target] / draws for target in targets], device=case.batch.ids.device)
    rows = crowd(case, targets)
    for by, kind in case.config.likelihoods.items():
        log_probs = torch.stack([case.scored(by, rows, case.noise.fork(turn)) for turn in range(16)])  # [16, K]
        values = log_probs if kind is Kind.BOUND else log_probs.exp()
        low, high = (values.mean(0) + sign * ERRORS * values.std(0) / 4 for sign in (-1, 1))
        if kind is Kind.BOUND:
            low, high = low.exp(), torch.ones_like(high)
        margin = ERRORS * ((torch.maximum(share, low) / draws).sqrt() + 1 / draws)
        assert (low <= share + margin).all(), f"{by} is above the shares of {draws} draws: {low}, {share}"
        assert (share <= high + margin).all(), f"{by} is below the shares of {draws} draws: {high}, {share}"
        assert kind is not Kind.EXACT or (log_probs == log_probs[0]).all(), f"{by} is exact, but depends on noise"


@catches(mutants.sets_up_by_chance)
def set_up_twice_it_is_the_same(case: Case) -> None:
    """What is drawn for the first weights and buffers comes from the noise that `setup` is given, or from torch."""
    found = []
    for _ in range(2):
        seed_torch(3)
        model = case.config.load()(case.config, case.info).to(case.batch.ids.device)
        model.setup(case.info, case.noise)
        found.append(model.state_dict())
    for name, tensor in found[0].items():
        close(found[1][name], tensor, f"{name}, set up twice")


@catches(mutants.keeps_something_to_itself)
def what_is_saved_is_what_is_loaded(case: Case) -> None:
    """Without another `setup`: the state_dict holds all that `setup` and training filled."""
    saved = save({name: tensor.clone().contiguous() for name, tensor in case.model.state_dict().items()})
    seed_torch(99)
    model = case.config.load()(case.config, case.info).to(case.batch.ids.device)
    model.load_state_dict(load(saved))
    for found, wanted in zip(_seen(replace(case, model=model.eval())), _seen(case), strict=True):
        close(found, wanted, "what a loaded model says")


def _padded(batch: Batch) -> Batch:
    source = batch.source
    if source is not None and batch.source_length is not None:
        source = pad(source, (0, 0) * (source.dim() - 2) + (0, 2))
    return replace(batch, gold=pad(batch.gold, (0, 2)), source=source)


def _stream(case: Case) -> Tensor:
    """Return 13 tokens of a stream for each row, stop among them."""
    draws = Noise(11).uniform(case.batch.ids, 0, 13)
    return (draws * len(case.info.vocabulary)).long()


def _window(case: Case, before: Tensor, tokens: Tensor) -> Batch:
    length = torch.full_like(case.batch.ids, tokens.shape[1])
    return replace(case.batch, opening=before, gold=tokens, length=length)


def _leaves_a_memory(case: Case) -> bool:
    by = next(iter(case.config.likelihoods))
    scores: Scores = case.model.score(case.batch, Scoring(by, case.noise))
    return scores.memory is not None or (not case.config.is_untrainable() and case.loss().memory is not None)


def _seen(case: Case) -> list[Tensor]:
    """Return all numbers that can be had from a model."""
    losses = [] if case.config.is_untrainable() else [case.loss().value]
    seen = [*losses, *(case.scored(by) for by in case.config.likelihoods if can(Scorer)(case))]
    return [*seen, case.model.start(case.batch)[0]] if isinstance(case.model, Stepper) else seen


#: What `check_model` tries, as far as it applies.
MODEL_CONTRACTS = (
    *contracts_of(globals()),
    *contracts_of(vars(stepping)),
    *MODELS_ON_ACCELERATORS,
    *contracts_of(vars(losses)),
)
