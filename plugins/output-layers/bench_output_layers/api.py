"""The public interface, besides the settings in `bench_output_layers.plugin`."""

from bench_output_layers.building import code_layer, output_layer
from bench_output_layers.codes import Ecoc
from bench_output_layers.cross_entropy import chunked_cross_entropy
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.hybrid import HybridSoftmax
from bench_output_layers.language_model import OutputLayerLM
from bench_output_layers.layer import FullSoftmax, ScoringHead, chunks
from bench_output_layers.vectors import Vectors

__all__ = [
    "Ecoc", "FullSoftmax", "HierarchicalSoftmax", "HybridSoftmax", "OutputLayerLM", "ScoringHead", "Vectors",
    "chunked_cross_entropy", "chunks", "code_layer", "output_layer",
]  # fmt: skip
