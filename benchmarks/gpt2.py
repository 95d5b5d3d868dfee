"""Time decoding with a small GPT-2 beside transformers' own `generate`: `python benchmarks/gpt2.py [--quick]`.

Both have the same random weights, prompts and threads, and each its own cache. In the last rows stop is likely, so that
texts end one by one; `generate` carries all on until the last has ended. Only tokens up to a stop count.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from statistics import median
from time import perf_counter
from typing import Any, TypeAlias

import torch
from tabulate import tabulate
from torch import Tensor
from training import machine
from transformers import AutoConfig, AutoModelForCausalLM

from bench_core import STOP, Batch, DecoderConfig, Facts, Noise
from bench_decoders.plugin import AncestralConfig, GreedyConfig, TopKConfig
from bench_huggingface.api import CausalLM
from bench_huggingface.plugin import CausalLMConfig

WIDTH, PROMPT, K, MEAN = 256, 10, 4, 25
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": WIDTH, "n_head": 4, "n_positions": 512}
BUDGET = 2.0

Run: TypeAlias = Callable[[], int]  # decodes all prompts; returns the tokens that count


@dataclass(frozen=True)
class Size:
    """How much is decoded."""

    vocabulary: int
    prompts: int
    tokens: int  # of each, at most


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
    rows, facts = len(prompts), Facts([str(token) for token in range(plain.config.vocab_size)])
    settings = CausalLMConfig(architecture=GPT2)
    model = CausalLM(settings, facts).eval()
    model.network.load_state_dict(plain.state_dict())
    ids = torch.arange(rows)
    batch = Batch(ids, prompts, ids.new_zeros(rows, 1), ids.new_ones(rows))
    decoder = config.load()(config)

    def run() -> int:
        found = decoder.decode(model, batch, Noise(1))
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
    """Return tokens a second of both, in turns, after a pass of each that does not count."""
    found = []
    for _ in range(repeats + 1):
        turn = []
        for one in (run, plain):
            began = perf_counter()
            tokens = one()
            turn.append(tokens / (perf_counter() - began))
        found.append((turn[0], turn[1]))
    return found[1:]


def row(name: str, found: list[tuple[float, float]]) -> tuple[str, float, float, float, str, str]:
    """Return a line of the table; its ratio is the median over turns."""
    ratios = [one / plain for one, plain in found]
    mine, other = (median(speeds) for speeds in zip(*found, strict=True))
    within = "yes" if median(ratios) >= BUDGET else "no"
    return name, mine, other, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", within


def table(size: Size, repeats: int) -> str:
    """Compare three ways of decoding."""
    prompts = torch.randint(1, size.vocabulary, (size.prompts, PROMPT), generator=torch.Generator().manual_seed(1))
    prompts[:, 0] = STOP
    endless, ending = network(size, ending=False), network(size, ending=True)
    cases: list[tuple[str, Any, DecoderConfig, dict[str, Any]]] = [
        ("greedy", endless, GreedyConfig(max_tokens=size.tokens), {"do_sample": False}),
        (f"top-k (k = {K})", endless, TopKConfig(k=K, max_tokens=size.tokens), {"do_sample": True, "top_k": K}),
        (
            f"samples that end after {MEAN} tokens or so",
            ending,
            AncestralConfig(max_tokens=size.tokens),
            {"do_sample": True, "top_k": 0},
        ),
    ]
    lines = [
        row(name, rates(ours(plain, prompts, config), theirs(plain, prompts, size, **settings), repeats))
        for name, plain, config, settings in cases
    ]
    heads = ("decoding", "tokens/s", "`generate` beside it", "ratio", "in single turns", f"at least {BUDGET:g}")
    return str(tabulate(lines, heads, tablefmt="github", floatfmt=("", ".0f", ".0f", ".2f")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer prompts and tokens, for a look")
    quick = parser.parse_args().quick
    sizes = [Size(2_000, 50, 30)] if quick else [Size(8_000, 200, 200), Size(20_000, 200, 100)]
    repeats = 3 if quick else 5
    for size in sizes:
        print(
            f"GPT-2 of {GPT2['n_layer']} x {WIDTH}, V = {size.vocabulary:,}, {size.prompts} prompts of {PROMPT} tokens, "
            f"at most {size.tokens} more; medians of {repeats} turns. {machine()}.\n"
        )
        with torch.inference_mode():
            print(table(size, repeats), end="\n\n")


if __name__ == "__main__":
    main()
