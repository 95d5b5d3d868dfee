"""Compare decoding of a small GPT-2 with transformers' `generate`: `python benchmarks/gpt2.py [--quick]`.

Both have the same random weights, prompts, batches and threads; each has its own cache. In one case EOS is likely, so rows
end at different times, while `generate` steps all rows until the last one ends. Only tokens up to EOS count. Times are CPU
time of one thread, which is robust to other load.
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

WIDTH, PROMPT, K, MEAN, WARM_UP = 256, 10, 4, 25, 10
GPT2 = {"model_type": "gpt2", "n_layer": 4, "n_embd": WIDTH, "n_head": 4, "n_positions": 512}
BUDGET = 2.0

Run: TypeAlias = Callable[[], int]  # decodes all prompts; returns the number of tokens up to EOS


@dataclass(frozen=True)
class DecodingSize:
    """The sizes of a decoding run."""

    vocabulary: int
    prompts: int  # batch size
    tokens: int  # maximum per prompt


@dataclass(frozen=True)
class DecodingCase:
    """The settings of our decoder and of `generate`."""

    name: str
    ours: DecoderConfig
    theirs: dict[str, Any]
    ending: bool = False  # whether EOS is likely


GREEDY = DecodingCase("greedy", GreedyConfig(), {"do_sample": False})
TOP_K = DecodingCase(f"top-k (k = {K})", TopKConfig(k=K), {"do_sample": True, "top_k": K})
SAMPLES = DecodingCase(f"samples of about {MEAN} tokens", AncestralConfig(), {"do_sample": True, "top_k": 0}, True)


def network(size: DecodingSize, ending: bool) -> Any:
    """Return transformers' GPT-2; if `ending`, outputs have MEAN tokens on average."""
    torch.manual_seed(0)
    settings = AutoConfig.for_model(**GPT2, vocab_size=size.vocabulary, bos_token_id=STOP, eos_token_id=STOP)
    model = AutoModelForCausalLM.from_config(settings).eval()
    if ending:
        stop = torch.nn.functional.normalize(torch.randn(WIDTH), dim=0)
        with torch.no_grad():
            model.transformer.ln_f.bias += log(size.vocabulary / MEAN) * stop
            model.transformer.wte.weight[STOP] = stop
    return model


def ours(plain: Any, prompts: Tensor, config: DecoderConfig) -> Run:
    """Return a function that decodes with our decoder and our model, which has the same weights."""
    rows, info = len(prompts), TaskInfo([str(token) for token in range(plain.config.vocab_size)])
    settings = CausalLMConfig(architecture=GPT2)
    model = CausalLM(settings, info).eval()
    model.network.load_state_dict(plain.state_dict())
    ids = torch.arange(rows)
    batch = Batch(ids, prompts, ids.new_zeros(rows, 1), ids.new_ones(rows))
    decoder = config.load()(config)

    def run() -> int:
        results = decoder.decode(model, batch, Rng(1))
        return sum(len(best.tokens) + best.finished for best, *_ in results)

    return run


def theirs(plain: Any, prompts: Tensor, size: DecodingSize, **settings: Any) -> Run:
    """Return a function that decodes with `generate`."""
    mask = torch.ones_like(prompts)

    def run() -> int:
        outputs = plain.generate(
            prompts, attention_mask=mask, max_new_tokens=size.tokens, pad_token_id=STOP, **settings
        )
        added = outputs[:, prompts.shape[1] :]
        return int((added == STOP).cumsum(1).eq(0).sum() + (added == STOP).any(1).sum())

    return run


def rates(run: Run, plain: Run, repeats: int) -> list[tuple[float, float]]:
    """Return tokens per second of `run` and `plain`, which alternate."""
    pairs = []
    for _ in range(repeats):
        pair = []
        for decode in (run, plain):
            start = process_time()
            tokens = decode()
            pair.append(tokens / (process_time() - start))
        pairs.append((pair[0], pair[1]))
    return pairs


def row(case: DecodingCase, size: DecodingSize, repeats: int) -> tuple[str, int, float, float, float, str, str]:
    """Return a table row; its ratio is the median of the ratios of all runs."""
    prompts = torch.randint(1, size.vocabulary, (size.prompts, PROMPT), generator=torch.Generator().manual_seed(1))
    prompts[:, 0] = STOP
    plain = network(size, case.ending)

    def both(size: DecodingSize) -> tuple[Run, Run]:
        config = case.ours.model_copy(update={"max_tokens": size.tokens})
        return ours(plain, prompts, config), theirs(plain, prompts, size, **case.theirs)

    for decode in both(replace(size, tokens=WARM_UP)):
        decode()
    pairs = rates(*both(size), repeats)
    ratios = [mine / other for mine, other in pairs]
    mine, other = (median(speeds) for speeds in zip(*pairs, strict=True))
    within = "yes" if median(ratios) >= BUDGET else "no"
    return case.name, size.prompts, mine, other, median(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}", within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, to test the script")
    parser.add_argument("--turns", type=int, help="number of runs (default 5, or 1 with --quick)")
    options = parser.parse_args()
    turns = options.turns or (1 if options.quick else 5)
    torch.set_num_threads(1)
    size, batches = (DecodingSize(500, 8, 12), (2,)) if options.quick else (DecodingSize(8_000, 200, 200), (64, 8))
    cases = [(kind, size) for kind in (GREEDY, TOP_K, SAMPLES)]
    cases += [(GREEDY, replace(size, prompts=batch)) for batch in batches]
    print(
        f"GPT-2 of {GPT2['n_layer']} x {WIDTH}, V = {size.vocabulary:,}, prompts of {PROMPT} tokens, at most "
        f"{size.tokens} more; medians of {turns} runs. {machine()}.\n"
    )
    with torch.inference_mode():
        lines = [row(kind, scale, turns) for kind, scale in cases]
    heads = (
        "decoding",
        "prompts",
        "tokens/s",
        "`generate`, tokens/s",
        "ratio",
        "range",
        f"at least {BUDGET:g}",
    )
    print(tabulate(lines, heads, tablefmt="github", floatfmt=("", "", ".0f", ".0f", ".2f")))


if __name__ == "__main__":
    main()
