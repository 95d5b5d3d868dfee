"""The suite of the core's tests, and settings for those that are shipped."""

from collections.abc import Mapping
from pathlib import Path

from bench_core.suites import yaml_source

SUITE = """
suite: tests/small
title: Small
tasks:
  words: {name: letters}
models:
  one: {name: bigram}
  two: {name: bigram, scale: 2.0}
decoders:
  argmax: {name: argmax}
  draw: {name: draw}
metrics:
  ended: {name: ended}
  nats: {name: nats}
training: {epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}
seeds: 2
limits: {max_tokens: 6}
hardware: {threads: 1, device: cpu}
tables:
  - {id: main, caption: Main, rows: [decoder], columns: [model], values: [ended, nats]}
profiles:
  tiny: {seeds: 1, training: {epochs: 1}, tasks: {words: {words: 12}}}
"""


def on_device(path: Path, device: str) -> list[str]:
    """Return the settings with which all of a suite is computed on a device, each stage by one process."""
    hardware = yaml_source.read(path).data.get("hardware", {})
    named = [name for name, one in hardware.items() if isinstance(one, Mapping)]
    both = [(f"hardware.{name}.device={device}", f"hardware.{name}.devices=1") for name in named]
    return [one for several in both for one in several] or [f"hardware.device={device}"]
