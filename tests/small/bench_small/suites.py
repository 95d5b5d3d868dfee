"""The suite of the core's tests."""

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
