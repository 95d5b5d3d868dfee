"""Contracts of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import product

import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import pad

from bench_core import (
    STOP,
    Batch,
    Kind,
    Loss,
    Model,
    Noise,
    Sampler,
    Scorer,
    Scores,
    Scoring,
    Stepper,
    Training,
    Vmappable,
    draw,
)
from bench_core.computing.optimizers import optimizers
from bench_core.computing.vmap_training import Stack
from bench_core.suites.training import TrainingConfig
from bench_core.testing.cases import Case, one_row, replay, turned
from bench_core.testing.contracts import Contract, catches, check, close
from bench_core.testing.mutants import models as mutants

DRAWS = 20_000
ERRORS = 5  # how many standard errors a share of draws may be off


def check_model(case: Case) -> list[str]:
    """Try all contracts that apply to the model of `case`; return their names."""
    return check(MODEL_CONTRACTS, case)


def can(*capabilities: type[Model]) -> Callable[[Case], bool]:
    """Return whether the model of a case has all these capabilities."""
    return lambda case: all(isinstance(case.model, capability) for capability in capabilities)


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


@catches(mutants.masks_after_the_softmax, when=can(Stepper))
def probabilities_sum_to_one_at_every_step(case: Case) -> None:
    """Over all actions that are open, after any chain."""
    for log_probs, _ in _walked(case):
        assert not log_probs.isnan().any(), "a log-probability is not a number"
        close(log_probs.logsumexp(1), torch.zeros_like(log_probs[:, 0]), "log of the sum of probabilities")


@catches(mutants.stops_anywhere, when=lambda case: can(Stepper)(case) and case.model.actions_per_token > 1)
def it_stops_only_between_tokens(case: Case) -> None:
    """Such as after a slot, never after a word."""
    for step, (log_probs, _) in enumerate(_walked(case)):
        shut = bool((log_probs[:, STOP] == -torch.inf).all())
        assert shut or step % case.model.actions_per_token == 0, f"stop is open within a token, at step {step}"


@catches(
    mutants.scores_a_shifted_target,
    mutants.counts_padding,
    mutants.opens_an_action_too_many,
    mutants.takes_every_action_for_the_first,
    when=can(Stepper, Scorer),
)
def the_score_is_the_sum_of_its_steps(case: Case) -> None:
    """By default likelihood: if there are several chains for a target, of the one that `chain` gives."""
    scores = case.scored(next(iter(case.config.likelihoods)))
    chain = case.model.chain(case.batch, case.noise)
    total = torch.zeros_like(scores)
    for rows, log_probs, actions in replay(case.model, case.batch, chain):
        total = total.index_add(0, rows, log_probs.gather(1, actions[:, None])[:, 0])
    close(scores, total, "score, and sum of the steps along `chain`")


@catches(mutants.reads_backwards, when=can(Stepper))
def reading_a_chain_gives_gold_back(case: Case) -> None:
    """And the chain is as long as its target asks for, padded with stop."""
    chains = case.model.chain(case.batch, case.noise).tolist()
    for chain, gold, length in zip(chains, case.batch.gold.tolist(), case.batch.length.tolist(), strict=True):
        taken = (length - 1) * case.model.actions_per_token
        assert STOP not in chain[:taken], f"the chain {chain} stops before its target ends"
        assert not any(chain[taken:]), f"the chain {chain} goes on after its target of {length - 1} tokens"
        read = case.model.read(chain[:taken])
        assert read == gold[: length - 1], f"the chain of {gold[: length - 1]} reads {read}"


@catches(mutants.forgets_to_reorder, mutants.draws_inside, when=can(Stepper))
def selected_rows_go_on_as_they_would(case: Case) -> None:
    """Whether reordered, doubled or left alone, after any step."""
    wanted, number = _walked(case), len(case.batch)
    for chosen in ([*range(number)][::-1], [row // 2 for row in range(number)], [number - 1]):
        rows = torch.tensor(chosen, device=case.batch.ids.device)
        for turn in range(1, len(wanted)):
            _, state = case.model.start(case.batch)
            for step, (_, actions) in enumerate(wanted[:-1], 1):
                if step < turn:
                    _, state = case.model.step(state, actions)
                    continue
                state = state.select(rows) if step == turn else state
                log_probs, state = case.model.step(state, actions[rows])
                close(log_probs, wanted[step][0][rows], f"step {step} of rows {chosen}, selected before step {turn}")


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
    together = case.model.sample(case.batch, 5, case.noise)
    backwards = case.model.sample(turned(case.batch), 5, case.noise)[::-1]
    alone = [case.model.sample(one_row(case.batch, row), 5, case.noise)[0] for row in range(len(case.batch))]
    for one, other, third in zip(together, backwards, alone, strict=True):
        assert one.tokens == other.tokens == third.tokens, (
            f"{one.tokens}, {other.tokens} backwards, {third.tokens} alone"
        )


@catches(mutants.draws_in_turn)
def the_loss_does_not_depend_on_the_order_of_rows(case: Case) -> None:
    """So whatever it draws, it draws by the ids of examples."""
    close(_loss(case, turned(case.batch)).value, _loss(case).value, "loss in the opposite order")


@catches(mutants.weighs_padding, mutants.loses_its_gradient, mutants.loses_without_bounds)
def the_loss_is_finite_and_weighs_target_tokens(case: Case) -> None:
    """Its gradients too, and they reach the parameters."""
    with torch.enable_grad():
        model = deepcopy(case.model).train()
        loss = _loss(replace(case, model=model))
        assert loss.value.requires_grad, "the loss has no gradient"
        loss.value.backward()  # type: ignore[no-untyped-call]
    assert loss.value.shape == loss.weight.shape == (), "value and weight are single numbers"
    assert loss.value.isfinite(), f"the loss is {loss.value.item()}"
    assert loss.weight.item() == case.batch.mask.sum().item(), (
        f"weight is {loss.weight.item()}, not the target tokens"
    )
    gradients = [weights.grad for weights in model.parameters() if weights.grad is not None]
    assert any(gradient.count_nonzero() for gradient in gradients), "no parameter has a gradient"
    assert all(gradient.isfinite().all() for gradient in gradients), "a gradient is not finite"
    assert all(part.shape == () for part in loss.parts.values()), "what the log shows are single numbers"


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
            left = _loss(case, batch, memory).memory
            assert left is not None, "the loss of a window leaves no memory for the next"
            left.select(torch.tensor([0, 0], device=stream.device))
            total, memory, before = total + scores.log_probs, scores.memory.change(Tensor.detach), window[:, -1:]
        close(total, whole, f"{by} of windows of a stream")


@catches(mutants.scores_too_high, mutants.samples_too_sharply, when=can(Sampler, Scorer))
def samples_occur_as_often_as_their_score_says(case: Case) -> None:
    """Exact likelihoods and estimates are the shares of many draws, bounds are not above."""
    words = range(1, min(5, len(case.info.vocabulary)))
    targets = [target for length in range(3) for target in product(words, repeat=length)]
    drawn = case.model.sample(_crowd(case, [()] * DRAWS), 3, case.noise.fork("sample"))
    counts = Counter(tuple(one.tokens) for one in drawn if one.finished)
    share = torch.tensor([counts[target] / DRAWS for target in targets], device=case.batch.ids.device)
    rows = _crowd(case, targets)
    for by, kind in case.config.likelihoods.items():
        log_probs = torch.stack([case.scored(by, rows, case.noise.fork(turn)) for turn in range(16)])  # [16, K]
        values = log_probs if kind is Kind.BOUND else log_probs.exp()
        low, high = (values.mean(0) + sign * ERRORS * values.std(0) / 4 for sign in (-1, 1))
        if kind is Kind.BOUND:
            low, high = low.exp(), torch.ones_like(high)
        margin = ERRORS * ((torch.maximum(share, low) / DRAWS).sqrt() + 1 / DRAWS)
        assert (low <= share + margin).all(), f"{by} is above the shares of {DRAWS} draws: {low}, {share}"
        assert (share <= high + margin).all(), f"{by} is below the shares of {DRAWS} draws: {high}, {share}"
        assert kind is not Kind.EXACT or (log_probs == log_probs[0]).all(), f"{by} is exact, but depends on noise"


@catches(mutants.loses_otherwise_in_a_stack, mutants.draws_alike_in_all_copies, when=can(Vmappable))
def copies_in_a_stack_lose_what_they_lose_alone(case: Case) -> None:
    """Each by its own weights and noise, parts included."""
    other = deepcopy(case.model)
    for weights in other.parameters():
        weights.mul_(0.7)
    copies, noises = (case.model, other), (case.noise, case.noise.fork("other"))
    training = Training(0, 100, 0, 1, case.noise)
    found = Stack(copies).losses(case.batch, training, [noise.key for noise in noises])
    for number, (model, noise) in enumerate(zip(copies, noises, strict=True)):
        wanted = model.loss(case.batch, replace(training, noise=noise))
        close(found.value[number], wanted.value, f"loss of copy {number}")
        assert found.weight[number] == wanted.weight, f"copy {number} weighs {found.weight[number]}"
        assert {*found.parts} == {*wanted.parts}, "a stack shows other parts of the loss"
        for name, part in wanted.parts.items():
            close(found.parts[name][number], part, f"{name} of copy {number}")


@catches(mutants.keeps_something_to_itself)
def what_is_saved_is_what_is_loaded(case: Case) -> None:
    """Without another `setup`: the state_dict holds all that `setup` and training filled."""
    saved = save({name: tensor.clone().contiguous() for name, tensor in case.model.state_dict().items()})
    torch.manual_seed(99)
    model = case.config.load()(case.config, case.info).to(case.batch.ids.device)
    model.load_state_dict(load(saved))
    for found, wanted in zip(_seen(replace(case, model=model.eval())), _seen(case), strict=True):
        close(found, wanted, "what a loaded model says")


@catches(mutants.climbs)
def eight_examples_can_be_learnt_by_heart(case: Case) -> None:
    """In a hundred steps the loss falls by a third."""
    rows = torch.arange(8, device=case.batch.ids.device) % min(4, len(case.batch))
    case = replace(case, model=deepcopy(case.model), batch=case.batch.select(rows))
    before = _loss(case).value.item()
    steppers = optimizers(case.model, TrainingConfig(lr=0.02), case.batch.ids.device)
    case.model.train()
    with torch.enable_grad():
        for step in range(100):
            case.model.zero_grad()
            _loss(case, step=step).value.backward()  # type: ignore[no-untyped-call]
            for optimizer in steppers:
                optimizer.step()
    case.model.eval()
    after = _loss(case).value.item()
    assert after < 0.7 * before, f"after 100 steps on the same eight rows the loss went from {before} to {after}"


#: What `check_model` tries, as far as it applies.
MODEL_CONTRACTS: tuple[Contract[Case], ...] = (
    the_config_says_what_the_class_gives,
    it_builds_on_the_meta_device,
    probabilities_sum_to_one_at_every_step,
    it_stops_only_between_tokens,
    the_score_is_the_sum_of_its_steps,
    reading_a_chain_gives_gold_back,
    selected_rows_go_on_as_they_would,
    a_row_scores_alike_alone_and_in_a_batch,
    a_sample_depends_on_its_id_alone,
    the_loss_does_not_depend_on_the_order_of_rows,
    the_loss_is_finite_and_weighs_target_tokens,
    windows_of_a_stream_score_as_the_whole_does,
    samples_occur_as_often_as_their_score_says,
    copies_in_a_stack_lose_what_they_lose_alone,
    what_is_saved_is_what_is_loaded,
    eight_examples_can_be_learnt_by_heart,
)


def _walked(case: Case) -> list[tuple[Tensor, Tensor]]:
    """Return log-probabilities [N, A] and actions drawn [N], never stop, of four tokens if rows may have so many."""
    limit = case.model.limit(case.batch)
    tokens = 4 if limit is None else min(4, int(limit.min()))
    log_probs, state = case.model.start(case.batch)
    pick, walked = draw(case.noise), []
    for step in range(tokens * case.model.actions_per_token):
        going = torch.cat([torch.full_like(log_probs[:, :1], -torch.inf), log_probs[:, 1:]], 1)
        walked.append((log_probs, pick(going, case.batch.ids, step)))
        if step + 1 < tokens * case.model.actions_per_token:
            log_probs, state = case.model.step(state, walked[-1][1])
    return walked


def _loss(case: Case, batch: Batch | None = None, memory: object = None, step: int = 0) -> Loss:
    batch = case.batch if batch is None else batch
    loss: Loss = case.model.loss(batch, Training(step, 100, 0, 1, case.noise.fork(step), memory))
    return loss


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
    return scores.memory is not None or _loss(case).memory is not None


def _crowd(case: Case, targets: list[tuple[int, ...]]) -> Batch:
    """Return the first row again and again, with a number of its own and another target each time."""
    rows = torch.zeros(len(targets), dtype=torch.long, device=case.batch.ids.device)
    width = 1 + max(map(len, targets))
    gold = torch.tensor([[*target, *[STOP] * (width - len(target))] for target in targets], device=rows.device)
    length = torch.tensor([len(target) + 1 for target in targets], device=rows.device)
    ids = torch.arange(len(targets), device=rows.device)
    return replace(case.batch.select(rows), ids=ids, gold=gold, length=length)


def _seen(case: Case) -> list[Tensor]:
    """Return all numbers that can be had from a model."""
    seen = [_loss(case).value, *(case.scored(by) for by in case.config.likelihoods)]
    return [*seen, case.model.start(case.batch)[0]] if isinstance(case.model, Stepper) else seen
