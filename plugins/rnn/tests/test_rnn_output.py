"""The choice of an output layer, tried on one with a memory of its own."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from bench_authors.testing import Case, check_model
from bench_core import STOP, Batch, Rng, Scoring, State, SuiteError, TaskInfo, Training
from bench_core.kit import Head
from bench_rnn.api import RecurrentLM
from bench_rnn.plugin import RNNLMConfig

INFO = TaskInfo(vocabulary=["</s>", *"abcd"], counts=[5, 4, 3, 2, 1])
RNG = Rng(3)
SCORING = Scoring("exact", RNG)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
PROMPT = torch.tensor([[0, 3, 1], [0, 2, 2], [0, 1, 4]])
GOLD = torch.tensor([[1, 2, 0, 0], [4, 3, 2, 0], [0, 0, 0, 0]])
ROWS = Batch(torch.arange(3), PROMPT, GOLD, torch.tensor([3, 4, 1]))


@dataclass(frozen=True)
class Taken(State):
    steps: Tensor  # [N] target steps so far


class Impatient(Head[Taken]):
    """Stop becomes more probable with every target step."""

    def __init__(self, hidden: int, tokens: int) -> None:
        super().__init__()
        self.logits = nn.Linear(hidden, tokens)
        self.register_buffer("counts", torch.zeros(tokens))

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        self.counts.copy_(torch.tensor(info.counts))

    def start(self, hidden: Tensor) -> Taken:
        return Taken(hidden.new_zeros(len(hidden)))

    def log_probs(self, hidden: Tensor, past: Taken) -> tuple[Tensor, Taken]:
        steps = past.steps[:, None] + torch.arange(1, hidden.shape[1] + 1, device=hidden.device)  # [N, K]
        logits = self.logits(hidden)
        stop = logits[:, :, STOP] + steps
        logits = torch.cat([stop[:, :, None], logits[:, :, 1:]], 2)
        return logits.log_softmax(2), Taken(steps[:, -1])


class ImpatientConfig(RNNLMConfig):
    name = "impatient-lm"

    @classmethod
    def load(cls) -> type[RecurrentLM]:
        return ImpatientLM


class ImpatientLM(RecurrentLM):
    def __init__(self, config: ImpatientConfig, info: TaskInfo) -> None:
        super().__init__(config, info, Impatient(config.hidden, len(info.vocabulary)))


class Codes(Head):
    """Costs by the bits of a token's number; tells by which likelihood it was asked, and draws in training."""

    def __init__(self, hidden: int, tokens: int) -> None:
        super().__init__()
        self.bits = nn.Linear(hidden, 3)
        self.codebook: Tensor
        self.register_buffer("codebook", torch.arange(tokens)[:, None] >> torch.arange(3) & 1, persistent=False)

    def log_probs(self, hidden: Tensor, past: State) -> tuple[Tensor, State]:
        return (self.bits(hidden) @ self.codebook.to(hidden).T).log_softmax(2), past

    def score(self, hidden: Tensor, batch: Batch, past: State, by: str) -> tuple[Tensor, State]:
        return (-self.costs(hidden, batch), past) if by == "bits" else super().score(hidden, batch, past, by)

    def loss(self, hidden: Tensor, batch: Batch, past: State, training: Training) -> tuple[Tensor, State]:
        drawn = training.rng.uniform(batch.ids, 0, batch.gold.shape[1])  # [N, K]
        return self.costs(hidden, batch) * batch.at_real(drawn), past

    def costs(self, hidden: Tensor, batch: Batch) -> Tensor:
        codes = self.codebook[batch.at_real(batch.gold)].to(hidden)
        logits = self.bits(batch.at_real(hidden))
        return nn.functional.binary_cross_entropy_with_logits(logits, codes, reduction="none").sum(1)


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def impatient():
    return ImpatientLM(ImpatientConfig(hidden=4, layers=1), INFO)


def test_the_softmax_is_the_output_layer_by_default():
    assert isinstance(RecurrentLM(RNNLMConfig(hidden=4), INFO).head, nn.Linear)


def test_another_output_layer_counts_target_steps_alone(impatient):
    first, state = impatient.start(ROWS)
    assert state.head.steps.tolist() == [1, 1, 1]  # three tokens of the opening leave no trace
    hidden, _ = impatient.rnn(impatient.embed(PROMPT))
    logits = impatient.head.logits(hidden[:, -1])
    torch.testing.assert_close(first, (logits + torch.tensor([1.0, 0, 0, 0, 0])).log_softmax(1))


def test_a_model_with_another_output_layer_keeps_the_contracts():
    check_model(Case.of(ImpatientConfig(hidden=6)))


def test_its_score_is_the_sum_of_its_steps(impatient):
    found = impatient.score(ROWS, SCORING).log_probs
    for row, length in enumerate(ROWS.length.tolist()):
        log_probs, state = impatient.start(ROWS.select(torch.tensor([row])))
        total = log_probs[0, GOLD[row, 0]]
        for before, token in zip(GOLD[row, : length - 1], GOLD[row, 1:length], strict=True):
            log_probs, state = impatient.step(state, before[None])
            total = total + log_probs[0, token]
        torch.testing.assert_close(found[row], total)


def test_its_loss_follows_from_its_score_and_teaches_it(impatient):
    loss = impatient.loss(ROWS, TRAINING)
    torch.testing.assert_close(loss.value, -impatient.score(ROWS, SCORING).log_probs.sum() / 8)
    loss.value.backward()
    assert all(weight.grad.any() for weight in impatient.parameters())


def test_its_memory_is_selected_with_the_units(impatient):
    _, state = impatient.start(ROWS)
    state = replace(state, head=Taken(torch.tensor([2.0, 9.0, 4.0])))  # as if some rows had begun before others
    actions, chosen = torch.tensor([3, 1, 4]), torch.tensor([1, 1, 0])
    together, _ = impatient.step(state, actions)
    selected, after = impatient.step(state.select(chosen), actions[chosen])
    torch.testing.assert_close(selected, together[chosen])
    assert after.head.steps.tolist() == [10, 10, 3]


def test_its_memory_goes_on_through_a_stream(impatient):
    tokens = torch.randint(0, 5, (2, 8))
    ids = torch.arange(2)

    def window(a, b):
        return Batch(ids, tokens[:, a : a + 1], tokens[:, a + 1 : b + 1], ids * 0 + b - a, continues=a > 0)

    whole = impatient.score(window(0, 7), SCORING)
    first = impatient.score(window(0, 3), SCORING)
    second = impatient.score(window(3, 7), replace(SCORING, memory=first.memory))
    torch.testing.assert_close(first.log_probs + second.log_probs, whole.log_probs)
    assert second.memory.head.steps.tolist() == [7, 7]
    assert impatient.loss(window(3, 7), replace(TRAINING, memory=first.memory)).memory.head.steps.tolist() == [7, 7]


def test_setup_reaches_the_output_layer(impatient):
    impatient.setup(INFO, RNG)
    assert impatient.head.counts.tolist() == INFO.counts


def test_a_layer_without_a_matrix_of_logits_cannot_be_tied():
    with pytest.raises(SuiteError, match="Impatient has no weight"):
        ImpatientLM(ImpatientConfig(hidden=4, tied=True), INFO)


def test_a_layer_may_cost_draw_and_score_in_its_own_way():
    lm = RecurrentLM(RNNLMConfig(hidden=4, layers=1), INFO, Codes(4, 5))
    hidden, _ = lm.rnn(lm.embed(ROWS.inputs))
    costs = lm.head.costs(hidden[:, 2:], ROWS)
    drawn = torch.cat([RNG.uniform(ROWS.ids, 0, 4)[row, :length] for row, length in enumerate([3, 4, 1])])
    torch.testing.assert_close(lm.loss(ROWS, TRAINING).value, (costs * drawn).mean())
    by_row = torch.stack([part.sum() for part in costs.split([3, 4, 1])])
    torch.testing.assert_close(lm.score(ROWS, replace(SCORING, by="bits")).log_probs, -by_row)
    assert (lm.score(ROWS, SCORING).log_probs > -by_row).all()  # codes of no token hold some of the bits' mass
