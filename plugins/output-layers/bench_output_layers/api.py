"""The public interface, besides the settings in `bench_output_layers.plugin`."""

from bench_output_layers.building import output_layer
from bench_output_layers.codes import Ecoc
from bench_output_layers.hierarchical import HierarchicalSoftmax
from bench_output_layers.layer import FullSoftmax, ScoringHead, chunks

__all__ = ["Ecoc", "FullSoftmax", "HierarchicalSoftmax", "ScoringHead", "chunks", "output_layer"]
