"""What can be learnt: tokens from long and short codes, and how to go on from one's own choices."""

from itertools import count
from math import exp

import pytest
import torch

from bench_core import Batch, Rng, Scoring, TaskInfo, Training
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig
from bench_output_layers.codes import Ecoc
from bench_output_layers.plugin import GrayWalkConfig

RNG = Rng(5)
RANDOM = GrayWalkConfig(order="random")


def train(lm, batches, steps, epochs=1, rate=0.01):
    """Update by Adam, with a rate that falls to 0; a batch that continues is given the memory of the last."""
    optimizer = torch.optim.Adam(lm.train().parameters(), rate)
    memory = None
    for step, batch in zip(range(steps), batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - step / steps)
        optimizer.zero_grad()
        epoch = step * epochs // steps
        carried = memory if batch.continues else None
        loss = lm.loss(batch, Training(step, steps, epoch, epochs, RNG.fork(step), carried))
        loss.value.backward()
        torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
        optimizer.step()
        memory = loss.memory.change(torch.Tensor.detach)
    return lm.eval()


def built(config, info, seed):
    torch.manual_seed(seed)
    lm = config.load()(config, info)
    lm.setup(info, Rng(seed))
    return lm


# tokens from codes: how near a normalised model can come to a known distribution

TOKENS, CONTEXTS = 200, 40
SHARES = torch.tensor([0.4, 0.3, 0.2, 0.1])


def distributions():
    """Return p(token | context) [C, V]: four tokens have nearly all of it, others after each context."""
    torch.manual_seed(3)
    successors = torch.stack([torch.randperm(TOKENS)[:4] for _ in range(CONTEXTS)])
    return 0.98 * torch.zeros(CONTEXTS, TOKENS).scatter(1, successors, SHARES.expand(CONTEXTS, 4)) + 0.02 / TOKENS


def code(bits):
    """Return an output layer whose logits are free for each context, if `hidden` is an identity matrix."""
    layer = Ecoc(CONTEXTS, TOKENS, bits, RANDOM)
    layer.setup(TaskInfo([str(token) for token in range(TOKENS)]), Rng(2))
    return layer


def perplexity(layer, truth):
    log_probs, _ = layer.log_probs(torch.eye(CONTEXTS), None)
    return exp(-(truth * log_probs).sum(1).mean().item())


def learnt(layer, truth, steps=1000):
    """Minimise the exact cost."""
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        cost = -(truth * layer.log_probs(torch.eye(CONTEXTS), None)[0]).sum(1).mean()
        cost.backward()
        optimizer.step()
    return layer


@pytest.mark.slow
def test_exact_costs_lead_to_the_true_perplexity_where_the_code_is_long_and_only_there():
    truth = distributions()
    best = exp(-(truth * truth.log()).sum(1).mean().item())
    assert perplexity(learnt(code(100), truth), truth) < 1.05 * best
    assert perplexity(learnt(code(8), truth), truth) > 1.5 * best


def test_bits_that_are_learnt_as_well_as_can_be_know_less_of_tokens_the_longer_the_code():
    """Each bit then has its true probability; check bits repeat what others say, and count as if they were news."""
    truth = distributions()
    best = exp(-(truth * truth.log()).sum(1).mean().item())
    found = {}
    for bits in (8, 20, 100):
        layer = code(bits)
        marginal = truth @ layer.codebook.float()  # [C, d]
        with torch.no_grad():
            layer.linear.weight.copy_(marginal.logit(eps=1e-6).T)
            layer.linear.bias.zero_()
        units = torch.eye(CONTEXTS).repeat_interleave(TOKENS, 0)
        costs = layer.bit_costs(units, torch.arange(TOKENS).repeat(CONTEXTS)).view(CONTEXTS, TOKENS)
        (gradient,) = torch.autograd.grad((truth * costs).sum(), layer.linear.weight)
        assert gradient.abs().max() < 1e-4, "no better bits are to be had"
        found[bits] = perplexity(layer, truth)
        assert exp((truth * costs).sum(1).mean().item()) > found[bits]
    assert found[100] > 100 * min(found.values())
    assert min(found.values()) > 2 * best


# a Markov chain


def chain(rows, steps, seed, states=TOKENS):
    """Return tokens [N, T], each one of four that may follow the last, and the true perplexity of all but the first."""
    fixed, drawn = torch.Generator().manual_seed(3), torch.Generator().manual_seed(seed)
    successors = torch.stack([torch.randperm(states, generator=fixed) for _ in range(4)], 1)
    which = torch.multinomial(SHARES, rows * steps, True, generator=drawn).view(steps, rows)
    tokens = [torch.randint(0, states, (rows,), generator=drawn)]
    for choice in which:
        tokens.append(successors[tokens[-1], choice])
    return torch.stack(tokens, 1), exp(-SHARES[which].log().mean().item())


def windows(tokens, width=35):
    """Yield a stream in windows, again and again."""
    for _ in count():
        for first in range(0, tokens.shape[1] - width - 1, width):
            yield window(tokens, first, width)


def window(tokens, first, width):
    ids = torch.arange(len(tokens))
    gold = tokens[:, first + 1 : first + width + 1]
    return Batch(ids, tokens[:, first : first + 1], gold, ids * 0 + width, continues=first > 0)


def ratio(epochs, **settings):
    """Return how many times the true perplexity a model has on new tokens of the chain, normalised over tokens."""
    seen, _ = chain(32, 12_500, 1)  # with half of it, long codes learn parts by heart
    new, best = chain(32, 600, 2)
    info = TaskInfo([f"s{state}" for state in range(TOKENS)], seen.flatten().bincount(minlength=TOKENS).tolist())
    config = {"embedding": 128, "hidden": 128, "layers": 1, "dropout": 0, "sparse": False} | settings
    kind = ECOCLMConfig if "bits" in settings else SoftmaxLMConfig
    steps = epochs * (seen.shape[1] // 35)
    lm = train(built(kind.model_validate(config), info, 0), windows(seen), steps, epochs)
    with torch.no_grad():
        scores = lm.score(window(new, 0, 600), Scoring("exact", RNG))
    return exp(min(700, -scores.log_probs.mean().item() / 600)) / best


@pytest.mark.nightly
def test_a_full_softmax_learns_a_chain():
    """So does a long code of exact costs, in more epochs than a test should take: suites/ecoc/known-entropy.yaml."""
    assert ratio(3) < 1.05


@pytest.mark.nightly
def test_a_short_code_does_not_learn_it():
    assert ratio(3, bits=8, loss="exact", codes=RANDOM) > 2


@pytest.mark.nightly
def test_a_long_code_that_is_learnt_by_bits_is_sure_of_the_wrong_tokens_of_a_chain():
    assert ratio(3, bits=150, codes=RANDOM, reading="naive") > 100


# a cycle, begun by a prefix more than half of which is noise

STATES, PREFIX, TARGET = 8, 8, 6
CYCLE = TaskInfo(["</s>", *(f"s{state}" for state in range(STATES))], [1] * (STATES + 1))


def cycles(number, seed):
    """Return rows whose target goes on in the cycle of which their prefix shows some."""
    drawn = torch.Generator().manual_seed(seed)
    start = torch.randint(0, STATES, (number, 1), generator=drawn)
    line = (start + torch.arange(PREFIX + TARGET)) % STATES + 1
    rng = torch.randint(1, STATES + 1, (number, PREFIX), generator=drawn)
    prefix = torch.where(torch.rand(number, PREFIX, generator=drawn) < 0.6, rng, line[:, :PREFIX])
    stop = torch.zeros(number, 1, dtype=torch.long)
    gold = torch.cat([line[:, PREFIX:-1], stop], 1)
    return Batch(torch.arange(number), torch.cat([stop, prefix], 1), gold, torch.full((number,), TARGET))


def free_running(inputs, seed):
    """Return how often a trained model that reads what it has chosen chooses the gold token."""
    config = SoftmaxLMConfig.model_validate(
        {"embedding": 24, "hidden": 24, "layers": 1, "dropout": 0, "sparse": False, "inputs": inputs}
    )
    lm = train(built(config, CYCLE, seed), (cycles(64, 1000 * seed + step) for step in count(1)), 300, rate=0.02)
    rows, hits = cycles(2000, 999_999), []
    with torch.no_grad():
        log_probs, state = lm.start(rows)
        for gold in rows.gold.T[:-1]:
            chosen = log_probs[:, 1:].argmax(1) + 1
            hits.append((chosen == gold).double().mean())
            log_probs, state = lm.step(state, chosen)
    return torch.stack(hits).mean().item()


@pytest.mark.nightly
def test_reading_own_predictions_in_training_helps_to_go_on_from_them():
    gold, soft = (
        sum(free_running(inputs, seed) for seed in (0, 1)) / 2 for inputs in ("gold", {"kind": "soft", "tau_max": 1})
    )
    assert soft > gold + 0.03
