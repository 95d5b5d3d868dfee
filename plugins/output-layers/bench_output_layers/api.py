"""The public interface, besides the settings in `bench_output_layers.plugin`."""

from bench_output_layers.building import output_layer
from bench_output_layers.codes import Ecoc
from bench_output_layers.cross_entropy import chunked_cross_entropy
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.language_model import OutputLayerLM
from bench_output_layers.layer import FullSoftmax, ScoringHead

__all__ = [
    "Ecoc",
    "FullSoftmax",
    "HierarchicalSoftmax",
    "OutputLayerLM",
    "ScoringHead",
    "chunked_cross_entropy",
    "output_layer",
]
