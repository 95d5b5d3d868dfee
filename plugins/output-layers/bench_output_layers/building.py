"""Creation of output layers from settings."""

from bench_output_layers import settings
from bench_output_layers.adaptive import AdaptiveSoftmax
from bench_output_layers.codes import Ecoc
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.layer import FullSoftmax, ScoringHead
from bench_output_layers.nce import NCE
from bench_output_layers.sampled import SampledSoftmax


def output_layer(output: settings.AnyOutputLayer, hidden: int, tokens: int, sparse: bool = False) -> ScoringHead:
    """Create the output layer for `hidden` units and `tokens` tokens; `sparse` allows sparse gradients."""
    match output:
        case settings.Sampled(samples=samples, by=by):
            return SampledSoftmax(hidden, tokens, samples, by, sparse)
        case settings.NoiseContrastive(samples=samples):
            return NCE(hidden, tokens, samples, sparse)
        case settings.Hierarchical(order=order, size=size):
            return HierarchicalSoftmax(hidden, tokens, order, size, sparse)
        case settings.Adaptive(cutoffs=cutoffs):
            return AdaptiveSoftmax(hidden, tokens, cutoffs)
        case settings.ErrorCorrectingCodes(bits=bits):
            return Ecoc(hidden, tokens, bits, "unigram")
    return FullSoftmax(hidden, tokens)
