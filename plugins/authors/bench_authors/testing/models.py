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
from bench_authors.testing.cases import Case, can, one_row, repeat_row, reverse_rows, tiny_info
from bench_authors.testing.contracts import assert_close, catches, check, contracts_of, seed_torch
from bench_authors.testing.leaks import leak
from bench_authors.testing.mutants import models as mutants
from bench_core import Batch, Kind, Rng, Sampler, Scorer, Scores, Scoring, Stepper, SuiteError, Vmappable

SAMPLES = 20_000  # number of samples
QUICK_DIVISOR = 20  # divisor of the number of samples in quick trials
REPEATS = 8  # copies of each row, with different ids
MAX_STANDARD_ERRORS = 5  # tolerance of frequencies in standard errors


def check_model(case: Case) -> list[str]:
    """Test all contracts that apply to the model of `case`; return their names."""
    return check(MODEL_CONTRACTS, case)


@catches(mutants.claims_too_much, mutants.claims_too_little, mutants.claims_a_likelihood_it_lacks)
def the_config_says_what_the_class_gives(case: Case) -> None:
    """Compare the Config with the class: its capabilities, and whether it has likelihoods."""
    kind, capabilities = case.config.load(), case.config.capabilities
    for capability in capabilities:
        assert issubclass(kind, capability), (
            f"{kind.__name__} is not a {capability.__name__}, but its Config declares it"
        )
    for capability in (Sampler, Stepper, Scorer, Vmappable):
        claimed = any(issubclass(declared, capability) for declared in capabilities)
        assert claimed == issubclass(kind, capability), (
            f"the class is a {capability.__name__}, but its Config does not declare it"
        )
    assert issubclass(kind, Scorer) == bool(case.config.likelihoods), (
        "a Scorer, and only a Scorer, must have likelihoods"
    )


@catches(mutants.allocates_on_a_device_of_its_own)
def it_builds_on_the_meta_device(case: Case) -> None:
    """Build on the meta device, where nothing is computed: the constructor may only allocate."""
    with torch.device("meta"):
        model = case.config.load()(case.config, case.info)
    for name, tensor in model.state_dict().items():
        assert tensor.is_meta, f"the constructor created {name!r} on {tensor.device}; only `setup` may compute"


@catches(mutants.claims_every_source, when=lambda case: not case.batch.extras)
def it_takes_every_source_of_its_config(case: Case) -> None:
    """Run the model with each source of its Config; settings that exclude a source may raise SuiteError."""
    for source in sorted(case.config.sources):
        tiny = tiny_info(source)
        info = replace(
            case.info, source=source, source_vocabulary=tiny.source_vocabulary, source_shape=tiny.source_shape
        )
        try:
            seen = _results(Case.of(case.config, info=info, source=source, device=case.batch.ids.device.type))
        except SuiteError:
            continue
        except Exception as error:
            raise AssertionError(f"with the source {source}: {type(error).__name__}: {error}") from error
        assert not any(numbers.isnan().any() for numbers in seen), f"with the source {source}, results are NaN"


@catches(mutants.draws_in_turn, mutants.counts_padding, mutants.mixes_rows, when=can(Scorer))
def a_row_scores_alike_alone_and_in_a_batch(case: Case) -> None:
    """Compare scores in any order, with any padding and alone, for every likelihood."""
    batch = case.batch
    for by in case.config.likelihoods:
        together = case.scored(by)
        assert_close(case.scored(by, reverse_rows(batch)).flip(0), together, f"{by} in reverse order")
        assert_close(case.scored(by, _add_padding(batch)), together, f"{by} with more padding")
        alone = [case.scored(by, one_row(batch, row)) for row in range(len(batch))]
        assert_close(torch.cat(alone), together, f"{by} of single rows")


@catches(mutants.draws_in_turn, when=can(Sampler))
def a_sample_depends_on_its_id_alone(case: Case) -> None:
    """Compare samples of rows in another order and alone: position and neighbors must not matter."""
    number = len(case.batch)
    rows = torch.arange(REPEATS * number, device=case.batch.ids.device)
    batch = replace(case.batch.select(rows % number), ids=rows + case.batch.ids[0])
    together = case.model.sample(batch, 5, case.rng)
    backwards = case.model.sample(reverse_rows(batch), 5, case.rng)[::-1]
    for first, second in zip(together, backwards, strict=True):
        assert first.tokens == second.tokens, f"{first.tokens}, but {second.tokens} in reverse order"
    for row in range(number):
        (alone,) = case.model.sample(one_row(batch, row), 5, case.rng)
        assert together[row].tokens == alone.tokens, f"{together[row].tokens}, but {alone.tokens} alone"


@catches(
    mutants.forgets_its_memory,
    mutants.forgets_to_leave_a_memory,
    when=lambda case: can(Scorer)(case) and case.batch.source is None and _leaves_a_memory(case),
)
def windows_of_a_stream_score_as_the_whole_does(case: Case) -> None:
    """Compare the score of a stream with the sum over windows, each with the memory of the previous window."""
    stream, prompt = _stream(case), case.batch.prompt[:, :1]
    for by in case.config.likelihoods:
        whole = case.scored(by, _window(case, prompt, stream))
        total, memory, before = torch.zeros_like(whole), None, prompt
        for window in torch.split(stream, 5, 1):
            batch = replace(_window(case, before, window), continues=memory is not None)
            scores: Scores = case.model.score(batch, Scoring(by, case.rng, memory))
            assert scores.memory is not None, "the score of a window returns no memory for the next"
            loss_memory = case.loss(batch, memory).memory
            assert loss_memory is not None, "the loss of a window returns no memory for the next"
            loss_memory.select(torch.tensor([0, 0], device=stream.device))
            total, memory, before = total + scores.log_probs, scores.memory.change(Tensor.detach), window[:, -1:]
        assert_close(total, whole, f"{by} of windows of a stream")


@catches(mutants.reads_what_it_predicts, when=lambda case: can(Scorer)(case) and not can(Stepper)(case))
def a_score_without_steps_does_not_see_what_it_predicts(case: Case) -> None:
    """Search all likelihoods except estimates for leaks of targets; scores of Steppers are compared with steps."""
    for by, kind in case.config.likelihoods.items():
        reason = "" if kind is Kind.ESTIMATE else leak(case, by)
        assert not reason, reason.strip()


@catches(mutants.scores_too_high, mutants.samples_too_sharply, when=can(Sampler, Scorer))
def samples_occur_as_often_as_their_score_says(case: Case) -> None:
    """Compare likelihoods with sample frequencies: exact values and estimates must agree, bounds may be lower."""
    words = range(1, min(5, len(case.info.vocabulary)))
    targets = [target for length in range(3) for target in product(words, repeat=length)]
    number = SAMPLES // QUICK_DIVISOR if case.quick else SAMPLES
    samples = case.model.sample(repeat_row(case, [()] * number), 3, case.rng.fork("sample"))
    counts = Counter(tuple(output.tokens) for output in samples if output.finished)
    share = torch.tensor([counts[target] / number for target in targets], device=case.batch.ids.device)
    rows = repeat_row(case, targets)
    for by, kind in case.config.likelihoods.items():
        log_probs = torch.stack([case.scored(by, rows, case.rng.fork(turn)) for turn in range(16)])  # [16, K]
        values = log_probs if kind is Kind.BOUND else log_probs.exp()
        low, high = (values.mean(0) + sign * MAX_STANDARD_ERRORS * values.std(0) / 4 for sign in (-1, 1))
        if kind is Kind.BOUND:
            low, high = low.exp(), torch.ones_like(high)
        margin = MAX_STANDARD_ERRORS * ((torch.maximum(share, low) / number).sqrt() + 1 / number)
        assert (low <= share + margin).all(), f"{by} is above the frequencies in {number} samples: {low}, {share}"
        assert (share <= high + margin).all(), f"{by} is below the frequencies in {number} samples: {high}, {share}"
        assert kind is not Kind.EXACT or (log_probs == log_probs[0]).all(), (
            f"{by} is exact, but depends on random numbers"
        )


@catches(mutants.sets_up_by_chance)
def set_up_twice_it_is_the_same(case: Case) -> None:
    """Compare weights and buffers of two setups: randomness comes from the argument of `setup` or from torch."""
    states = []
    for _ in range(2):
        seed_torch(3)
        model = case.config.load()(case.config, case.info).to(case.batch.ids.device)
        model.setup(case.info, case.rng)
        states.append(model.state_dict())
    for name, tensor in states[0].items():
        assert_close(states[1][name], tensor, f"{name}, set up twice")


@catches(mutants.keeps_something_to_itself)
def what_is_saved_is_what_is_loaded(case: Case) -> None:
    """Load a state_dict without `setup`: it must hold everything that `setup` and training fill."""
    saved = save({name: tensor.clone().contiguous() for name, tensor in case.model.state_dict().items()})
    seed_torch(99)
    model = case.config.load()(case.config, case.info).to(case.batch.ids.device)
    model.load_state_dict(load(saved))
    for actual, expected in zip(_results(replace(case, model=model.eval())), _results(case), strict=True):
        assert_close(actual, expected, "result of a loaded model")


def _add_padding(batch: Batch) -> Batch:
    source = batch.source
    if source is not None and batch.source_length is not None:
        source = pad(source, (0, 0) * (source.dim() - 2) + (0, 2))
    return replace(batch, gold=pad(batch.gold, (0, 2)), source=source)


def _stream(case: Case) -> Tensor:
    """Return 13 tokens of a stream for each row, including EOS."""
    return (Rng(11).uniform(case.batch.ids, 0, 13) * len(case.info.vocabulary)).long()


def _window(case: Case, before: Tensor, tokens: Tensor) -> Batch:
    length = torch.full_like(case.batch.ids, tokens.shape[1])
    return replace(case.batch, prompt=before, gold=tokens, length=length)


def _leaves_a_memory(case: Case) -> bool:
    by = next(iter(case.config.likelihoods))
    scores: Scores = case.model.score(case.batch, Scoring(by, case.rng))
    return scores.memory is not None or (not case.config.is_untrainable() and case.loss().memory is not None)


def _results(case: Case) -> list[Tensor]:
    """Return loss, scores and first log-probabilities of a model, if available."""
    losses = [] if case.config.is_untrainable() else [case.loss().value]
    results = [*losses, *(case.scored(by) for by in case.config.likelihoods if can(Scorer)(case))]
    return [*results, case.model.start(case.batch)[0]] if isinstance(case.model, Stepper) else results


#: The contracts of `check_model`.
MODEL_CONTRACTS = (
    *contracts_of(globals()),
    *contracts_of(vars(stepping)),
    *MODELS_ON_ACCELERATORS,
    *contracts_of(vars(losses)),
)
