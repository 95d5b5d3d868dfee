"""A suite that uses everything, and mistakes in it: one replacement each, which leaves the number of lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench_core import MetricConfig, ModelConfig, Scorer, Stepper, hookimpl
from bench_core.data import Kind

WHOLE = """\
suite: tests/whole
title: Everything
source: nobody, 2026
note: a note
tasks:
  words: {name: letters, words: 30}
  more: {name: letters, words: 20}
models:
  one: {name: bigram, scale: 0.5}
  two:
    name: bigram
    by_task: {more: {scale: 0.7}}
    training: {lr: 0.2}
  grown:
    name: bigram
    grid: {scale: [0.5, 1.0]}
  listed: {name: listed}
decoders:
  argmax: {name: argmax, max_tokens: 5}
  draw: {name: draw}
  drawn: {name: draw, max_tokens: 4}
metrics:
  ended: {name: ended}
  nats: {name: nats}
  halved: {name: nats, by: half}
training:
  lr: 0.1
  batch_size: 8
  schedule: constant
  select: {metric: nats, split: valid}
  phases:
    - {updates: 3, noisy: true}
    - {updates: 2, lr: 0.01}
seeds: 2
splits: [valid, test]
limits:
  max_tokens: 6
  examples: 8
hardware:
  slow: {device: cpu, threads: 1}
  fast: {device: cpu, threads: 2}
skip:
  - {model: listed, metric: halved}
  - {decoder: drawn, task: more}
choose:
  - {id: best, model: grown, by: nats}
  - {id: way, decoders: {chosen-draw: [draw, drawn]}, by: ended}
tables:
  - id: main
    rows: [task, decoder]
    columns: [model]
    values: [ended, nats]
    where: {split: test, hardware: slow, decoder: [argmax, draw]}
  - {id: small, baseline: draw, rows: [decoder], columns: [model], values: [ended], where: {split: test, task: words, hardware: slow, model: [one, two], decoder: [argmax, draw]}, reference: {table: printed, rows: {best: argmax, random: draw}, columns: {first: one}}}
  - {id: picked, of: choices, chosen: best, columns: [model, task, hardware]}
  - {id: data, of: tasks, values: [vocabulary]}
claims:
  - id: fits
    text: The second fits better.
    assert: v('nats', model='two', task='words', split='test', hardware='slow') < v('nats', model='one', task='words', split='test', hardware='slow')
    requires:
      the first is trained: v('nats', model='one', task='words', split='test', hardware='slow') < 9
figures:
  - {id: course, kind: line, x: step, y: loss, by: [model, task], where: {hardware: slow}}
  - {id: spread, kind: histogram, values: [ended], by: [model, decoder], where: {split: test, task: words, hardware: slow}, bins: 10}
  - {id: map, kind: heat, x: model, y: decoder, value: ended, where: {split: test, task: words, hardware: slow}}
profiles:
  tiny: {seeds: 1, tasks: {words: {words: 12}}}
"""

PUBLISHED = """\
paper: A paper
tables:
  - id: printed
    place: Table 1
    rows: {best: {first: {mean: 1.5, std: 0.1}}, random: {first: {mean: 2}}}
"""

#: By what they are: the text of the suite, what stands there instead, and what has to be said of it.
MISTAKES: Mapping[str, tuple[str, str, str]] = {
    "an unknown key": ("title: Everything", "titel: Everything", "unknown key 'titel'. Did you mean 'title'"),
    "text that is a list": ("source: nobody, 2026", "source: [nobody]", "'source' must be text"),
    "an unknown task": ("words: {name: letters, w", "words: {name: lettres, w", "no task is called 'lettres'. Did you"),
    "a number that is text": ("words: 20}", "words: twenty}", "'words' must be a whole number (found 'twenty')"),
    "a missing corpus": ("words: 20}", "file: nowhere.txt}", "nowhere.txt is missing. Write some words into it."),
    "an unknown setting": ("bigram, scale: 0.5", "bigram, sclae: 0.5", "unknown key 'sclae'. Did you mean 'scale'"),
    "an unknown choice": ("bigram, scale: 0.5", "bigram, breaks: nevr", "'breaks': unknown value 'nevr'. Did you"),
    "a part without a name": ("one: {name: bigram, ", "one: {", "model 'one' must name a part"),
    "a value for a task": ("more: {scale: 0.7}", "more: {scale: wide}", "'scale' must be a number (found 'wide')"),
    "an unknown task of a model": ("{more: {scale", "{mroe: {scale", "no task of this suite is called 'mroe'. Did you"),
    "a name for a task": ("{scale: 0.7}", "{name: blind}", "`name` must be the same for all tasks"),
    "the training of a model": ("{lr: 0.2}", "{lr: -1}", "'lr' must be greater than 0 (found -1)"),
    "a key in the training of a model": ("{lr: 0.2}", "{epoch: 2}", "unknown key 'epoch'. Did you mean 'epochs'"),
    "a value of a grid": ("[0.5, 1.0]", "[0.5, big]", "'scale' must be a number (found 'big')"),
    "a setting of a grid": ("{scale: [", "{scal: [", "unknown key 'scal'. Did you mean 'scale'"),
    "a grid without values": ("scale: [0.5, 1.0]", "scale: []", "'scale' must be a list of values"),
    "a class that is not there": ("{name: listed}", "{name: lost}", "bench_small.parts has no Bigrm. Did you mean 'Bigram'"),
    "a module that is not there": ("{name: listed}", "{name: gone}", "there is no module bench_small.prats. Did you mean"),
    "parts that do not fit": ("{name: listed}", "{name: blind}", "listed x argmax: argmax needs a Stepper (start, step)"),
    "an unknown decoder": ("argmax: {name: argmax", "argmax: {name: argmx", "no decoder is called 'argmx'. Did you mean"),
    "no tokens": ("max_tokens: 5", "max_tokens: 0", "'max_tokens' must be greater than 0 (found 0)"),
    "a truth that is text": ("drawn: {name: draw,", "drawn: {name: draw, breaks: maybe,", "'breaks' must be true or"),
    "a likelihood that is not there": ("by: half", "by: whole", "bigram has no likelihood 'whole', only: exact, half"),
    "a file that is not there": ("ended: {name: ended}", "ended: {name: words, list: no.txt}", "there is no file no.txt"),
    "a rate": ("  lr: 0.1\n", "  lr: fast\n", "'lr' must be a number (found 'fast')"),
    "a key of training": ("batch_size: 8", "bach_size: 8", "unknown key 'bach_size'. Did you mean 'batch_size'"),
    "an unknown schedule": ("schedule: constant", "schedule: cosin", "no schedule is called 'cosin'. Did you mean 'cosine'"),
    "a schedule without warm-up": ("schedule: constant", "schedule: inverse-sqrt", "needs `warmup`"),
    "a selection": ("{metric: nats, s", "{metric: natz, s", "no metric of this suite is called 'natz'. Did you mean"),
    "a key of a selection": ("split: valid}\n", "splt: valid}\n", "unknown key 'splt'. Did you mean 'split'"),
    "a phase": ("noisy: true", "nosy: true", "a phase of 'bigram' or 'listed' cannot set 'nosy'. Did you mean 'noisy'"),
    "updates of a phase": ("{updates: 2,", "{updates: none,", "'updates' must be a whole number (found 'none')"),
    "seeds twice": ("seeds: 2\n", "seeds: [1, 1]\n", "seeds must be a number of seeds, or a list of distinct seeds"),
    "no seeds": ("seeds: 2\n", "seeds: 0\n", "'seeds' must be greater than 0 (found 0)"),
    "an unknown split": ("[valid, test]", "[valid, test, dev]", "letters has no split 'dev'"),
    "one split": ("splits: [valid, test]", "splits: test", "'splits' must be a list (found 'test')"),
    "a limit": ("max_tokens: 6", "max_tokens: six", "'max_tokens' must be a whole number (found 'six')"),
    "an unknown limit": ("examples: 8", "exmples: 8", "unknown key 'exmples'. Did you mean 'examples'"),
    "a device": ("slow: {device: cpu", "slow: {device: gpu", "'device': unknown value 'gpu'. Did you mean 'cpu'"),
    "a device that is not here": ("slow: {device: cpu", "slow: {device: cuda", "torch finds no CUDA device here"),
    "no threads": ("threads: 2}", "threads: 0}", "'threads' must be greater than 0"),
    "a model to skip": ("{model: listed, metric", "{model: lisetd, metric", "no model of this suite is called 'lisetd'"),
    "an axis to skip": ("{decoder: drawn, task", "{decodr: drawn, task", "unknown key 'decodr'. Did you mean 'decoder'"),
    "what is chosen by": ("grown, by: nats", "grown, by: natz", "no metric of this suite is called 'natz'. Did you"),
    "a choice without a grid": ("{id: best, model: grown", "{id: best, model: one", "model 'one' has no grid to choose"),
    "a choice among decoders": ("[draw, drawn]", "[draw, dawn]", "no decoder of this suite is called 'dawn'. Did you"),
    "an unknown axis": ("rows: [task, decoder]", "rows: [task, decodr]", "unknown value 'decodr'. Did you mean"),
    "an axis left out": ("rows: [task, decoder]", "rows: [task]", "table 'main' does not say which decoder: argmax, d"),
    "seeds as rows": ("rows: [task, decoder]", "rows: [task, decoder, seed]", "tables average over seeds"),
    "an unknown metric": ("values: [ended, nats]", "values: [endde, nats]", "no metric of this suite is called 'endde'"),
    "a name on an axis": ("test, hardware: slow, decoder", "tset, hardware: slow, decoder", "no split of this suite"),
    "a number for a name": ("id: main", "id: 3", "'id' must be text (found 3)"),
    "an unknown kind of table": ("of: choices", "of: choics", "'of': unknown value 'choics'. Did you mean 'choices'"),
    "an unknown published table": ("{table: printed", "{table: prnted", "no published table has the id 'prnted'. Did you"),
    "an unknown published row": ("{best: argmax,", "{bset: argmax,", "the published table has no row or column 'bset'"),
    "a baseline": ("baseline: draw", "baseline: darw", "no row of this table is called 'darw'. Did you mean 'draw'"),
    "a premise": ("is trained: v('nats'", "is trained: v('nast'", "no metric of this suite is called 'nast'"),
    "an id twice": ("{id: data,", "{id: picked,", "two tables have the id 'picked'"),
    "a claim without words": ("text: The second fits better.", "txt: The second fits better.", "unknown key 'txt'"),
    "a model of a claim": ("assert: v('nats', model='two'", "assert: v('nats', model='tow'", "no model of this suite is"),
    "an expression": ("hardware='slow') < v", "hardware='slow') << v", "expected a comparison, found"),
    "a kind of figure": ("kind: line", "kind: lines", "'kind': unknown value 'lines'. Did you mean 'line'"),
    "a curve": ("y: loss", "y: valid loss", "no training history of this suite contains 'valid loss'"),
    "bins": ("bins: 10", "bins: 0", "'bins' must be at least 1 (found 0)"),
    "an axis of a figure": ("[ended], by: [model, decoder]", "[ended], by: [modle, decoder]", "Did you mean 'model'"),
    "what a heat map shows": ("value: ended", "value: endde", "no metric of this suite is called 'endde'"),
    "a profile": ("words: {words: 12}", "words: {words: few}", "'words' must be a whole number (found 'few')"),
    "a profile that is text": ("tiny: {seeds: 1, tasks: {words: {words: 12}}}", "tiny: less", "'tiny' must be a mapping"),
    "a date": ("note: a note", "note: 2026-01-01", "a date is not a valid value. Quote it"),
    "a tag": ("note: a note", "note: !!set {a}", "tags such as"),
    "a key twice": ("note: a note", "title: Again", "the key 'title' appears twice in one mapping"),
}  # fmt: skip


class ListedConfig(ModelConfig):
    """Another table of next-letter scores."""

    name, target = "listed", "bench_small.parts:Bigram"
    capabilities, likelihoods = {Stepper, Scorer}, {"exact": Kind.EXACT}
    by_phase = {"noisy"}
    scale: float = 0.1
    breaks: str = "never"
    noisy: bool = False
    counts: bool = False


class LostConfig(ListedConfig):
    """A model whose class has another name."""

    name, target = "lost", "bench_small.parts:Bigrm"


class GoneConfig(ListedConfig):
    """A model whose module has another name."""

    name, target = "gone", "bench_small.prats:Bigram"


class WordsConfig(MetricConfig):
    """The share of words that a list contains."""

    name, target = "words", "bench_small.parts:Ended"
    list: Path


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    return [ListedConfig, LostConfig, GoneConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    return [WordsConfig]
