"""The settings and parts that this plugin provides; does not import torch."""

from bench_output_layers.settings import FullOutputLayer, Hierarchical, OutputLayer, vector_files

__all__ = ["FullOutputLayer", "Hierarchical", "OutputLayer", "vector_files"]
