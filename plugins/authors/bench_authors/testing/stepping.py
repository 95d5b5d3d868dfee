"""Contracts of models that generate step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, can, default_likelihood, replay
from bench_authors.testing.contracts import assert_close, catches
from bench_authors.testing.leaks import leak
from bench_authors.testing.mutants import models as mutants
from bench_authors.testing.mutants import states
from bench_core import STOP, Kind, Scorer, State, Stepper, draw


@catches(mutants.masks_after_the_softmax, when=can(Stepper))
def probabilities_sum_to_one_at_every_step(case: Case) -> None:
    """Sum the probabilities of all candidate actions after random actions."""
    for log_probs, _ in _random_walk(case):
        assert not log_probs.isnan().any(), "a log-probability is NaN"
        assert_close(log_probs.logsumexp(1), torch.zeros_like(log_probs[:, 0]), "log of the sum of probabilities")


@catches(mutants.stops_anywhere, when=lambda case: can(Stepper)(case) and case.model.actions_per_token > 1)
def it_stops_only_between_tokens(case: Case) -> None:
    """Check that EOS has probability zero within a token, such as between a word and its slot."""
    for step, (log_probs, _) in enumerate(_random_walk(case)):
        is_excluded = bool((log_probs[:, STOP] == -torch.inf).all())
        assert is_excluded or step % case.model.actions_per_token == 0, (
            f"EOS is possible within a token, at step {step}"
        )


@catches(
    mutants.scores_a_shifted_target,
    mutants.counts_padding,
    mutants.opens_an_action_too_many,
    mutants.takes_every_action_for_the_first,
    mutants.reads_what_it_predicts,
    when=lambda case: can(Stepper, Scorer)(case) and default_likelihood(case)[1] is not Kind.ESTIMATE,
)
def the_score_is_the_sum_of_its_steps(case: Case) -> None:
    """Compare the default likelihood, unless it is an estimate, with the steps along the actions of `chain`.

    If the actions are the target itself, the sum is its log-probability, and a bound may be below the sum.
    """
    by, kind = default_likelihood(case)
    scores = case.scored(by)
    chain = case.model.chain(case.batch, case.rng)
    total = torch.zeros_like(scores)
    for rows, log_probs, actions in replay(case.model, case.batch, chain):
        total = total.index_add(0, rows, log_probs.gather(1, actions[:, None])[:, 0])
    if kind is Kind.BOUND and torch.equal(chain, case.batch.gold):
        scores = scores.maximum(total)  # a smaller bound is correct
    try:
        assert_close(scores, total, "score vs. sum of the steps along `chain`")
    except AssertionError as error:
        raise AssertionError(f"{'' if case.quick else leak(case, by)}{error}") from None


@catches(mutants.reads_backwards, when=can(Stepper))
def reading_a_chain_gives_gold_back(case: Case) -> None:
    """Read the actions of `chain`, which must be as long as the target requires and padded with EOS."""
    chains = case.model.chain(case.batch, case.rng).tolist()
    for chain, gold, length in zip(chains, case.batch.gold.tolist(), case.batch.length.tolist(), strict=True):
        end = (length - 1) * case.model.actions_per_token
        assert STOP not in chain[:end], f"the actions {chain} contain EOS before the target ends"
        assert not any(chain[end:]), f"the actions {chain} continue after the target of {length - 1} tokens"
        read = case.model.read(chain[:end])
        assert read == gold[: length - 1], f"the actions of {gold[: length - 1]} are read as {read}"


@catches(mutants.forgets_to_reorder, mutants.draws_inside, when=can(Stepper))
def selected_rows_go_on_as_they_would(case: Case) -> None:
    """Compare steps of rows that are reordered, repeated or selected alone, after any step."""
    expected, number = _random_walk(case), len(case.batch)
    for chosen in ([*range(number)][::-1], [row // 2 for row in range(number)], [number - 1]):
        rows = torch.tensor(chosen, device=case.batch.ids.device)
        for turn in range(1, len(expected)):
            _, state = case.model.start(case.batch)
            for step, (_, actions) in enumerate(expected[:-1], 1):
                if step < turn:
                    _, state = case.model.step(state, actions)
                    continue
                state = state.select(rows) if step == turn else state
                log_probs, state = case.model.step(state, actions[rows])
                assert_close(
                    log_probs, expected[step][0][rows], f"step {step} of rows {chosen}, selected before step {turn}"
                )


@catches(states.appends_to_a_list, states.shares_a_buffer, states.counts_its_steps, when=can(Stepper))
def a_step_leaves_the_state_it_was_given_as_it_was(case: Case) -> None:
    """Continue a state with several action sequences, as in beam search: no sequence may change another."""
    walk = _random_walk(case, 6)
    number = len(case.batch)
    choices = (None, [*range(number)], [*range(number)][::-1], [row // 2 for row in range(number)])
    for prefix in range(min(4, len(walk) - 1)):
        path = [(walk[step][1], walk[step + 1][0]) for step in range(prefix, min(prefix + 2, len(walk) - 1))]
        detour = _detour(case, walk[: prefix + 1], len(path))
        for chosen in choices:
            where = f"after {prefix} steps" + (f" and `select({chosen})`" if chosen else "")
            state = _state_after(case, walk[:prefix])
            first, second = (_Branch(state, expected, chosen) for expected in (path, detour))
            for _ in path:
                first.step_on(case.model, f"of a first sequence from the state {where}")
                second.step_on(case.model, f"of a second sequence from the state {where}")
            again = _Branch(state, path)
            for _ in path:
                again.step_on(case.model, f"of a third sequence from the state {where}")


@dataclass
class _Branch:
    """An action sequence that continues a shared state."""

    state: State
    expected: Sequence[tuple[Tensor, Tensor]]  # actions, and the next log-probabilities without sharing
    chosen: Sequence[int] | None = None  # rows of `expected` to continue, by default all
    steps: int = 0

    def __post_init__(self) -> None:
        if self.chosen is not None:
            rows = torch.tensor(self.chosen, device=self.expected[0][0].device)
            self.state = self.state.select(rows)
            self.expected = [(actions[rows], log_probs[rows]) for actions, log_probs in self.expected]

    def step_on(self, model: Stepper, what: str) -> None:
        """Take the next step and compare its log-probabilities."""
        actions, expected = self.expected[self.steps]
        log_probs, self.state = model.step(self.state, actions)
        self.steps += 1
        assert_close(log_probs, expected, f"step {self.steps} {what}")


def _state_after(case: Case, walk: Sequence[tuple[Tensor, Tensor]]) -> State:
    """Return the state after the actions of a random walk."""
    _, state = case.model.start(case.batch)
    for _, actions in walk:
        _, state = case.model.step(state, actions)
    return state  # type: ignore[no-any-return]


def _detour(case: Case, walk: Sequence[tuple[Tensor, Tensor]], steps: int) -> list[tuple[Tensor, Tensor]]:
    """Return `steps` actions, the first unlike the last action of a walk, each with the next log-probabilities."""
    state, (log_probs, avoided) = _state_after(case, walk[:-1]), walk[-1]
    detour = []
    for step in range(steps):
        going = log_probs.index_fill(1, torch.tensor([STOP], device=log_probs.device), -torch.inf)
        actions = going.argmax(1)
        if step == 0:
            others = going.scatter(1, avoided[:, None], -torch.inf)
            actions = torch.where(others.amax(1) > -torch.inf, others.argmax(1), actions)
        log_probs, state = case.model.step(state, actions)
        detour.append((actions, log_probs))
    return detour


def _random_walk(case: Case, max_tokens: int = 4) -> list[tuple[Tensor, Tensor]]:
    """Return log-probabilities [N, A] and sampled actions [N], never EOS, for at most `max_tokens` tokens."""
    limit = case.model.limit(case.batch)
    tokens = max_tokens if limit is None else min(max_tokens, int(limit.min()))
    log_probs, state = case.model.start(case.batch)
    pick, walk = draw(case.rng), []
    for step in range(tokens * case.model.actions_per_token):
        going = torch.cat([torch.full_like(log_probs[:, :1], -torch.inf), log_probs[:, 1:]], 1)
        walk.append((log_probs, pick(going, case.batch.ids, step)))
        if step + 1 < tokens * case.model.actions_per_token:
            log_probs, state = case.model.step(state, walk[-1][1])
    return walk
