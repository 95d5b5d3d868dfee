"""Creation of output layers from settings."""

from bench_core import SuiteError
from bench_output_layers import settings
from bench_output_layers.adaptive import AdaptiveSoftmax
from bench_output_layers.codebook_kinds import HybridConfig
from bench_output_layers.codebooks import CodebookConfig
from bench_output_layers.codes import Ecoc
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.hybrid import HybridSoftmax
from bench_output_layers.layer import FullSoftmax, ScoringHead
from bench_output_layers.nce import NCE
from bench_output_layers.readings import reading_method
from bench_output_layers.sampled import SampledSoftmax


def output_layer(
    output: settings.AnyOutputLayer,
    hidden: int,
    tokens: int,
    sparse: bool = False,
    reading: settings.Reading | None = None,
) -> ScoringHead:
    """Create the output layer for `hidden` units and `tokens` tokens; `sparse` allows sparse gradients.

    `reading` is that of codes.
    """
    match output:
        case settings.Sampled(samples=samples, by=by):
            return SampledSoftmax(hidden, tokens, samples, by, sparse)
        case settings.NoiseContrastive(samples=samples):
            return NCE(hidden, tokens, samples, sparse)
        case settings.Hierarchical(order=order, size=size, vector_size=vector_size):
            return HierarchicalSoftmax(hidden, tokens, order, size, sparse, vector_size)
        case settings.Adaptive(cutoffs=cutoffs):
            return AdaptiveSoftmax(hidden, tokens, cutoffs)
        case settings.ErrorCorrectingCodes(bits=bits, codes=codes):
            return code_layer(codes, hidden, tokens, bits, reading=reading)
    return FullSoftmax(hidden, tokens)


def code_layer(
    codes: CodebookConfig,
    hidden: int,
    tokens: int,
    bits: int | None = None,
    group: int = 1,
    exact: bool = False,
    gain: float | None = None,
    reading: settings.Reading | None = None,
) -> Ecoc | HybridSoftmax:
    """Create the output layer of a codebook, with codewords of `bits` bits; raise SuiteError if it is impossible."""
    method = None if reading is None else reading_method(reading)
    if not isinstance(codes, HybridConfig):
        return Ecoc(hidden, tokens, bits, codes, group, exact, gain, reading=method)
    others = tokens - codes.frequent
    if others < 0:
        raise SuiteError(
            f"`codes: hybrid` has {codes.frequent:,} `frequent` tokens, but the vocabulary has only {tokens:,}. Set "
            f"`frequent` to {tokens:,} or less."
        )
    rest = Ecoc(hidden, others, bits, codes.rest, group, exact, gain, tokens, method) if others else None
    return HybridSoftmax(hidden, tokens, rest)
