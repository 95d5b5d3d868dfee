"""The choice of a head, tried on one with a memory of its own that may count the prefix too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from bench_authors.testing import Case, check_model
from bench_core import STOP, Rng, Scoring, State, TaskInfo, Training
from bench_core.kit import Head, LanguageModelState, Softmax
from bench_huggingface.api import CausalLM
from bench_huggingface.plugin import CausalLMConfig

RNG = Rng(3)
SCORING = Scoring("exact", RNG)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
WORDS = ["<stop>", *"abcdefghijk"]
GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}


@dataclass(frozen=True)
class Taken(State):
    steps: Tensor  # [N] steps so far


class Impatient(Head[Taken]):
    """Stop becomes more probable with every step."""

    def __init__(self, context: bool) -> None:
        super().__init__()
        self.reads_prefix = context
        self.register_buffer("counts", torch.zeros(len(WORDS)))

    def setup(self, info: TaskInfo, rng: Rng) -> None:
        self.counts.copy_(torch.tensor(info.counts or 0.0))

    def start(self, prefix: Tensor) -> Taken:
        return Taken(prefix.new_full((len(prefix),), prefix.shape[1]))

    def log_probs(self, logits: Tensor, past: Taken) -> tuple[Tensor, Taken]:
        steps = past.steps[:, None] + torch.arange(1, logits.shape[1] + 1, device=logits.device)
        stop = logits[:, :, STOP] + steps / 4
        return torch.cat([stop[:, :, None], logits[:, :, 1:]], 2).log_softmax(2), Taken(steps[:, -1])


class ImpatientConfig(CausalLMConfig):
    name = "impatient"
    context: bool = False

    @classmethod
    def load(cls):
        return ImpatientLM


class ImpatientLM(CausalLM):
    def __init__(self, config: ImpatientConfig, info: TaskInfo) -> None:
        super().__init__(config, info, Impatient(config.context))


@pytest.fixture(params=[False, True], ids=["target", "context"])
def impatient(request):
    torch.manual_seed(0)
    model = ImpatientLM(ImpatientConfig(architecture=GPT2, context=request.param), TaskInfo(WORDS)).eval()
    model.setup(TaskInfo(WORDS, range(len(WORDS))), RNG)
    return model


@pytest.mark.quick(1)
@pytest.mark.parametrize("context", [False, True])
def test_a_model_with_another_head_keeps_the_contracts(context):
    info = TaskInfo(WORDS, range(len(WORDS)))
    check_model(Case.of(ImpatientConfig(architecture=GPT2, context=context), info=info))


def test_the_head_sees_the_prefix_only_if_it_asks_for_it(impatient, rows):
    before = 3 if impatient.head.reads_prefix else 0  # stop and three words are read; the last predicts the target
    batch, seen = rows(), []
    impatient.network.lm_head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    first, state = impatient.start(batch)
    assert state.head.steps.tolist() == [before + 1] * 5
    impatient.score(batch, SCORING)
    impatient.loss(batch, TRAINING)
    assert seen == [before + 1, before + 9, before + 9]
    with torch.no_grad():
        logits = impatient.network(batch.prompt).logits[:, -1]
    logits[:, STOP] += (before + 1) / 4
    torch.testing.assert_close(first, logits.log_softmax(1))


def test_its_memory_is_selected_with_keys_and_values(impatient, rows):
    batch, words, chosen = rows(), torch.tensor([1, 2, 3, 4, 5]), torch.tensor([1, 1, 0])
    _, state = impatient.start(batch)
    state = replace(state, head=Taken(torch.tensor([2.0, 9.0, 4.0, 1.0, 1.0])))  # as if some had begun before others
    assert isinstance(state, LanguageModelState)
    together, _ = impatient.step(state, words)
    selected, after = impatient.step(state.select(chosen), words[chosen])
    torch.testing.assert_close(selected, together[chosen])
    assert after.head.steps.tolist() == [10, 10, 3]


def test_its_loss_follows_from_its_score_and_teaches_the_network(impatient, rows):
    batch = rows()
    loss = impatient.loss(batch, TRAINING).value
    torch.testing.assert_close(loss.double(), -impatient.score(batch, SCORING).log_probs.sum() / batch.length.sum())
    loss.backward()
    assert all(weight.grad.any() for weight in impatient.parameters())


def test_setup_reaches_the_head(impatient):
    assert impatient.head.counts.tolist() == list(range(len(WORDS)))


def test_the_softmax_costs_what_follows_from_its_log_probabilities(rows):
    batch, logits = rows(), torch.randn(5, 9, len(WORDS))
    found, _ = Softmax(nn.Identity()).score(logits, batch, State(), "exact")
    wanted, _ = Head.score(Softmax(nn.Identity()), logits, batch, State(), "exact")
    torch.testing.assert_close(found, wanted)
    assert len(found) == batch.length.sum()
