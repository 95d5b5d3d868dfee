"""Contracts of models that generate step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench_authors.testing.cases import Case, can, default_likelihood, replay
from bench_authors.testing.contracts import catches, close
from bench_authors.testing.leaks import leak
from bench_authors.testing.mutants import models as mutants
from bench_authors.testing.mutants import states
from bench_core import STOP, Kind, Scorer, State, Stepper, draw


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
    mutants.reads_what_it_predicts,
    when=lambda case: can(Stepper, Scorer)(case) and default_likelihood(case)[1] is not Kind.ESTIMATE,
)
def the_score_is_the_sum_of_its_steps(case: Case) -> None:
    """By default likelihood, unless it is an estimate: along the chain that `chain` gives.

    A bound may be below the sum where that is the log-probability of the target, its only chain.
    """
    by, kind = default_likelihood(case)
    scores = case.scored(by)
    chain = case.model.chain(case.batch, case.noise)
    total = torch.zeros_like(scores)
    for rows, log_probs, actions in replay(case.model, case.batch, chain):
        total = total.index_add(0, rows, log_probs.gather(1, actions[:, None])[:, 0])
    if kind is Kind.BOUND and torch.equal(chain, case.batch.gold):
        scores = scores.maximum(total)  # below it is right
    try:
        close(scores, total, "score, and sum of the steps along `chain`")
    except AssertionError as error:
        raise AssertionError(f"{'' if case.quick else leak(case, by)}{error}") from None


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


@catches(states.appends_to_a_list, states.shares_a_buffer, states.counts_its_steps, when=can(Stepper))
def a_step_leaves_the_state_it_was_given_as_it_was(case: Case) -> None:
    """So several chains, as those of a beam, go on from one state, and none of them changes another."""
    walked = _walked(case, 6)
    number = len(case.batch)
    choices = (None, [*range(number)], [*range(number)][::-1], [row // 2 for row in range(number)])
    for taken in range(min(4, len(walked) - 1)):
        one = [(walked[step][1], walked[step + 1][0]) for step in range(taken, min(taken + 2, len(walked) - 1))]
        other = _detour(case, walked[: taken + 1], len(one))
        for chosen in choices:
            where = f"after {taken} steps" + (f" and `select({chosen})`" if chosen else "")
            state = _reached(case, walked[:taken])
            first, second = (_Branch(state, wanted, chosen) for wanted in (one, other))
            for _ in one:
                first.go_on(case.model, f"of a first chain from the state {where}")
                second.go_on(case.model, f"of a second chain from the state {where}")
            again = _Branch(state, one)
            for _ in one:
                again.go_on(case.model, f"of a third chain from the state {where}")


@dataclass
class _Branch:
    """A chain that goes on from a state that others go on from too."""

    state: State
    wanted: Sequence[tuple[Tensor, Tensor]]  # actions, and the log-probabilities after them in a chain of its own
    chosen: Sequence[int] | None = None  # the rows of `wanted` that it goes on from, by default all
    steps: int = 0

    def __post_init__(self) -> None:
        if self.chosen is not None:
            rows = torch.tensor(self.chosen, device=self.wanted[0][0].device)
            self.state = self.state.select(rows)
            self.wanted = [(actions[rows], log_probs[rows]) for actions, log_probs in self.wanted]

    def go_on(self, model: Stepper, what: str) -> None:
        """Take the next step, and compare what the model says then."""
        actions, wanted = self.wanted[self.steps]
        log_probs, self.state = model.step(self.state, actions)
        self.steps += 1
        close(log_probs, wanted, f"step {self.steps} {what}")


def _reached(case: Case, walked: Sequence[tuple[Tensor, Tensor]]) -> State:
    """Return the state after the actions of a walk."""
    _, state = case.model.start(case.batch)
    for _, actions in walked:
        _, state = case.model.step(state, actions)
    return state  # type: ignore[no-any-return]


def _detour(case: Case, walked: Sequence[tuple[Tensor, Tensor]], steps: int) -> list[tuple[Tensor, Tensor]]:
    """Return another action than the last of a walk, and more after it, each with what the model says then."""
    state, (log_probs, avoided) = _reached(case, walked[:-1]), walked[-1]
    found = []
    for step in range(steps):
        going = log_probs.index_fill(1, torch.tensor([STOP], device=log_probs.device), -torch.inf)
        actions = going.argmax(1)
        if step == 0:
            others = going.scatter(1, avoided[:, None], -torch.inf)
            actions = torch.where(others.amax(1) > -torch.inf, others.argmax(1), actions)
        log_probs, state = case.model.step(state, actions)
        found.append((actions, log_probs))
    return found


def _walked(case: Case, most: int = 4) -> list[tuple[Tensor, Tensor]]:
    """Return log-probabilities [N, A] and actions drawn [N], never stop, of at most `most` tokens."""
    limit = case.model.limit(case.batch)
    tokens = most if limit is None else min(most, int(limit.min()))
    log_probs, state = case.model.start(case.batch)
    pick, walked = draw(case.noise), []
    for step in range(tokens * case.model.actions_per_token):
        going = torch.cat([torch.full_like(log_probs[:, :1], -torch.inf), log_probs[:, 1:]], 1)
        walked.append((log_probs, pick(going, case.batch.ids, step)))
        if step + 1 < tokens * case.model.actions_per_token:
            log_probs, state = case.model.step(state, walked[-1][1])
    return walked
