"""Count how often an update of each family of models makes the CPU wait for a GPU, on a simulated GPU.

Run as `python benchmarks/synchronisations.py [--quick]`; prints a Markdown table. Loss and gradient of a batch on the GPU must
not wait, except where `waits_for_device` gives a reason. Counts do not depend on the machine.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from tabulate import tabulate

from bench_authors.testing import Case, float64, tiny_info
from bench_authors.testing.accelerators import moved
from bench_authors.testing.pretended import Pretended, Synchronisation, synchronisations, undeclared
from bench_core import ModelConfig, Source, TaskInfo
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig
from bench_huggingface.plugin import CausalLMConfig
from bench_indigo.plugin import IndigoConfig, InsertionTransformerConfig, TransformerConfig
from bench_rnn.plugin import BidirectionalLMConfig, NGramConfig, RNNLMConfig, Seq2SeqConfig
from bench_ssm.plugin import CharGRUConfig, DeepSSMConfig
from bench_strlm.plugin import SelfTerminatingRNNLMConfig
from bench_word_order.plugin import BagOrderConfig

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feed_forward": 16}
GPT = {"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1, "n_positions": 64}
UPDATES = 4  #: counted updates, after a first update that may copy constants


def families() -> Iterator[tuple[str, ModelConfig]]:
    """Yield small models of each family, and of each output layer or order that is computed differently."""
    yield "`rnn-lm`", RNNLMConfig(hidden=6)
    yield "`rnn-seq2seq`", Seq2SeqConfig(hidden=6)
    yield "`bidirectional-lm`", BidirectionalLMConfig(hidden=6)
    yield "`ngram-lm`", NGramConfig()
    yield "`self-terminating-rnn-lm`", SelfTerminatingRNNLMConfig(hidden=6)
    yield "`ecoc-lm`", ECOCLMConfig(hidden=6)
    yield "`ecoc-lm`, mixed codes", ECOCLMConfig(hidden=6, inputs={"kind": "clvms", "constant": True})
    for output in ({"kind": "sampled", "samples": 2}, {"kind": "nce", "samples": 2}, {"kind": "hierarchical"}):
        yield f"`softmax-lm`, {output['kind']}", SoftmaxLMConfig(hidden=6, output=output)
    yield "`softmax-lm`, adaptive", SoftmaxLMConfig(hidden=6, output={"kind": "adaptive", "cutoffs": [2]})
    yield "`transformer`", TransformerConfig(**SMALL)
    for order in ("l2r", "rnd", "searched"):
        yield f"`indigo`, order {order}", IndigoConfig(order=order, **SMALL)
    yield "`insertion-transformer`", InsertionTransformerConfig(**SMALL)
    yield "`bag-order`", BagOrderConfig()
    yield "`deep-ssm`", DeepSSMConfig()
    yield "`deep-ssm`, 4 proposals", DeepSSMConfig(samples=4)
    yield "`char-gru`", CharGRUConfig()
    yield "`hf-causal-lm`, GPT-2", CausalLMConfig(architecture=GPT)


def waits(config: ModelConfig, updates: int) -> list[Synchronisation]:
    """Return all waits of a number of updates, after a first update."""
    case = Case.of(config, info=_info(config))
    with Pretended(), float64(), torch.random.fork_rng(devices=[]):
        on_gpu = moved(case, "cuda")
        on_gpu.model.train()
        _update(on_gpu, 0)
        with synchronisations() as observed:
            for step in range(updates):
                _update(on_gpu, step)
    return observed


def _update(case: Case, step: int) -> None:
    loss = case.loss(step=step)
    if loss.value.requires_grad:
        torch.autograd.backward(loss.value)


def _info(config: ModelConfig) -> TaskInfo:
    """Return the info of an artificial task whose source and target share a vocabulary, as some models require."""
    info = tiny_info(Source.NONE if Source.NONE in config.sources else min(config.sources))
    names = info.source_vocabulary
    return replace(info, vocabulary=names, counts=[*range(len(names), 0, -1)]) if names else info


def row(name: str, config: ModelConfig, updates: int) -> list[object]:
    """Return a table row."""
    observed = waits(config, updates)
    reasons = sorted({wait.reason for wait in observed if wait.reason})
    return [name, len(undeclared(observed)) / updates, len(observed) / updates, "; ".join(reasons) or "-"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run one update per model, to test the script")
    updates = 1 if parser.parse_args().quick else UPDATES
    warnings.simplefilter("ignore")
    table = [row(name, config, updates) for name, config in families()]
    headers = ("model", "waits/update without a reason", "all waits", "reasons")
    print(tabulate(table, headers, "pipe", floatfmt=".3g"))
    print("\nBudget: no wait without a reason; `plugins/authors/tests/test_synchronisations.py` tests the trainer.")


if __name__ == "__main__":
    main()
