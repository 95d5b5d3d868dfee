"""A hidden Markov model, trained by the gradient of its likelihood."""

import torch
from torch import Tensor, nn

from bench_core import STOP, Batch, State, TaskInfo, Training, Vmappable
from bench_core.kit import Head, LanguageModel
from bench_ssm.plugin import HiddenMarkovConfig

LOG_ZERO = -1e30  # replaces ln 0 of states and emissions, so that sums over states without a possible one are not NaN


class Emissions(Head[State]):
    """ln p(w | w_<t) = ln sum_s p(s | w_<t) p(w | s), for log-probabilities of states [*, S]."""

    reads_prefix = False

    def __init__(self, states: int, tokens: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(tokens, states))

    def table(self) -> Tensor:
        """Return ln p(w | s) [V, S]."""
        return self.weight.log_softmax(0)

    def log_probs(self, states: Tensor, past: State) -> tuple[Tensor, State]:
        return log_product(states, self.table().T), past

    def score(self, states: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        """Return the log-probabilities of the targets [M], without those of other tokens."""
        emitted = self.table()[batch.at_real(batch.gold)]
        return (batch.at_real(states) + emitted).logsumexp(1), past

    def padded_loss(self, states: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        if training.label_smoothing:
            return super().padded_loss(states, batch, past, training)
        return -(states + self.table()[batch.gold]).logsumexp(2), past


class HiddenMarkovLM(LanguageModel, Vmappable):
    """p(w) = sum over z_1, z_2, ... of p(z_1) prod_t p(w_t | z_t) p(z_t+1 | z_t), by the forward algorithm in logs.

    The state of the language model is ln p(z_t | w_<t) [N, S]. EOS is a token like others, emitted by the last state;
    after it, as at the beginning, the chain starts again.
    """

    head: Emissions

    def __init__(self, config: HiddenMarkovConfig, info: TaskInfo) -> None:
        super().__init__()
        self.continues = info.consecutive  # vmapped seeds carry no memory, which separate sequences do not need
        self.initial = nn.Parameter(torch.randn(config.states))
        self.transitions = nn.Parameter(torch.randn(config.states, config.states))  # [from, to]
        self.head = Emissions(config.states, len(info.vocabulary))

    def forward(self, tokens: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return ln p(z | tokens so far) [N, K, S] after each of `tokens`, for the token that comes next."""
        initial, probs = self.initial.log_softmax(0).clamp(min=LOG_ZERO), self.transitions.softmax(1)
        emitted = self.head.table().clamp(min=LOG_ZERO)[tokens].unbind(1)
        state = initial.expand(len(tokens), -1) if past is None else past
        states = []
        for token, emission in zip(tokens.unbind(1), emitted, strict=True):
            joint = (state + emission).log_softmax(1)
            moved = joint.exp() @ probs
            state = torch.where(
                (token == STOP)[:, None], initial, moved.clamp(min=torch.finfo(moved.dtype).tiny).log()
            )
            states.append(state)
        return torch.stack(states, 1), state


def log_product(states: Tensor, table: Tensor) -> Tensor:
    """Return ln sum_s exp(states [*, S]) exp(table [S, V])."""
    return (states.exp() @ table.exp()).clamp(min=torch.finfo(states.dtype).tiny).log()
