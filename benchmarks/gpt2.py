"""Time decoding with a small GPT-2 beside transformers' own `generate`: `python benchmarks/gpt2.py [--quick]`.

Both have the same random weights, prompts, batches and threads, and each its own cache. Where it says so stop is likely,
so that texts end one by one; `generate` carries all on until the last has ended. Only tokens up to a stop count. It is
processor time of one thread that is measured, so that other work on the machine does little harm.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from statistics import median
from time import process_time
from typing import Any, TypeAlias

import torch
from tabulate import tabulate
from torch import Tensor
from training import machine
from transformers import AutoConfig, AutoModelForCausalLM

from bench_core import STOP, Batch, DecoderConfig, Rng, TaskInfo
from bench_decoders.plugin import AncestralConfig, GreedyConfig, TopKConfig
from bench_huggingface.api import CausalLM
from bench_huggingface.plugin import CausalLMConfig

WIDTH, PROMPT, K, MEAN, WARM = 256, 10, 4, 25, 10
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": WIDTH, "n_head": 4, "n_positions": 512}
BUDGET = 2.0

Run: TypeAlias = Callable[[], int]  # decodes all prompts; returns the tokens that count


@dataclass(frozen=True)
class Size:
    """How much is decoded."""

    vocabulary: int
    prompts: int  # in one batch
    tokens: int  # of each, at most


@dataclass(frozen=True)
class Way:
    """How it is decoded, by our decoder and by `generate`."""

    name: str
    ours: DecoderConfig
    theirs: dict[str, Any]
    ending: bool = False  # whether stop is likely


GREEDY = Way("greedy", GreedyConfig(), {"do_sample": False})
TOP_K = Way(f"top-k (k = {K})", TopKConfig(k=K), {"do_sample": True, "top_k": K})
SAMPLES = Way(f"samples that end after {MEAN} tokens or so", AncestralConfig(), {"do_sample": True, "top_k": 0}, True)


def network(size: Size, ending: bool) -> Any:
    """Return transformers' GPT-2, perhaps one that stops after MEAN tokens on average."""
    torch.manual_seed(0)
    settings = AutoConfig.for_model(**GPT2, vocab_size=size.vocabulary, bos_token_id=STOP, eos_token_id=STOP)
    found = AutoModelForCausalLM.from_config(settings).eval()
    if ending:
        stop = torch.nn.functional.normalize(torch.randn(WIDTH), dim=0)
        with torch.no_grad():
            found.transformer.ln_f.bias += log(size.vocabulary / MEAN) * stop
            found.transformer.wte.weight[STOP] = stop
    return found


def ours(plain: Any, prompts: Tensor, config: DecoderConfig) -> Run:
    """Return a run of our decoder over our model of the same weights."""
    rows, info = len(prompts), TaskInfo([str(token) for token in range(plain.config.vocab_size)])
    settings = CausalLMConfig(architecture=GPT2)
    model = CausalLM(settings, info).eval()
    model.network.load_state_dict(plain.state_dict())
    ids = torch.arange(rows)
    batch = Batch(ids, prompts, ids.new_zeros(rows, 1), ids.new_ones(rows))
    decoder = config.load()(config)

    def run() -> int:
        found = decoder.decode(model, batch, Rng(1))
        return sum(len(one.tokens) + one.finished for one, *_ in found)

    return run


def theirs(plain: Any, prompts: Tensor, size: Size, **settings: Any) -> Run:
    """Return a run of `generate`."""
    mask = torch.ones_like(prompts)

    def run() -> int:
        found = plain.generate(
            prompts, attention_mask=mask, max_new_tokens=size.tokens, pad_token_id=STOP, **settings
        )
        added = found[:, prompts.shape[1] :]
        return int((added == STOP).cumsum(1).eq(0).sum() + (added == STOP).any(1).sum())

    return run


def rates(run: Run, plain: Run, repeats: int) -> list[tuple[float, float]]:
    """Return tokens a second of both, in turns."""
    found = []
    for _ in range(repeats):
        turn = []
        for one in (run, plain):
            began = process_time()
            tokens = one()
            turn.append(tokens / (process_time() - began))
        found.append((turn[0], turn[1]))
    return found


def row(way: Way, size: Size, repeats: int) -> tuple[str, int, float, float, float, str, str]:
    """Return a line of the table; its ratio is the median over turns."""
    prompts = torch.randint(1, size.vocabulary, (size.prompts, PROMPT), generator=torch.Generator().manual_seed(1))
    prompts[:, 0] = STOP
    plain = network(size, way.ending)

    def both(size: Size) -> tuple[Run, Run]:
        config = way.ours.model_copy(update={"max_tokens": size.tokens})
        return ours(plain, prompts, config), theirs(plain, prompts, size, **way.theirs)

    for one in both(replace(size, tokens=WARM)):
        one()
    found = rates(*both(size), repeats)
    ratios = [one / other for one, other in found]
    mine, other = (median(speeds) for speeds in zip(*found, strict=True))
    within = "yes" if median(ratios) >= BUDGET else "no"
    return way.name, size.prompts, mine, other, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer prompts and tokens, for a look")
    parser.add_argument("--turns", type=int, help="of which the median counts (default 5, or 1 if quick)")
    options = parser.parse_args()
    turns = options.turns or (1 if options.quick else 5)
    torch.set_num_threads(1)
    size, batches = (Size(500, 8, 12), (2,)) if options.quick else (Size(8_000, 200, 200), (64, 8))
    cases = [(way, size) for way in (GREEDY, TOP_K, SAMPLES)]
    cases += [(GREEDY, replace(size, prompts=batch)) for batch in batches]
    print(
        f"GPT-2 of {GPT2['n_layer']} x {WIDTH}, V = {size.vocabulary:,}, prompts of {PROMPT} tokens, at most "
        f"{size.tokens} more; medians of {turns} turns. {machine()}.\n"
    )
    with torch.inference_mode():
        lines = [row(way, case, turns) for way, case in cases]
    heads = (
        "decoding",
        "prompts",
        "tokens/s",
        "`generate` beside it",
        "ratio",
        "in single turns",
        f"at least {BUDGET:g}",
    )
    print(tabulate(lines, heads, tablefmt="github", floatfmt=("", "", ".0f", ".0f", ".2f")))


if __name__ == "__main__":
    main()
