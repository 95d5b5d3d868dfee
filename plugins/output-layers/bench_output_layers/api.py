"""The public interface, besides the settings in `bench_output_layers.plugin`."""

from bench_output_layers.building import code_layer, output_layer
from bench_output_layers.codes import Ecoc
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.hybrid import HybridSoftmax
from bench_output_layers.layer import FullSoftmax, ScoringHead, chunks
from bench_output_layers.vectors import Vectors

__all__ = [
    "Ecoc", "FullSoftmax", "HierarchicalSoftmax", "HybridSoftmax", "ScoringHead", "Vectors", "chunks", "code_layer",
    "output_layer",
]  # fmt: skip
