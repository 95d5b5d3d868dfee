"""The contracts on the parts of a suite, for `bench check --contracts`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench_core import Config, DecoderConfig, MetricConfig, ModelConfig, PluginError, Source, TaskConfig, TaskInfo
from bench_core.computing.part_class import part_class
from bench_core.planning.plan import located_suite
from bench_core.suites.cells import cells_of, writes_text
from bench_core.suites.suite import Entry, Suite
from bench_core.terminal import counted, say
from bench_core.testing.cases import Case, MetricCase, TaskCase, tiny_info, tiny_outcomes
from bench_core.testing.contracts import Contract, exemptions, try_contracts
from bench_core.testing.decoders import DECODER_CONTRACTS
from bench_core.testing.metrics import METRIC_CONTRACTS
from bench_core.testing.models import MODEL_CONTRACTS
from bench_core.testing.tasks import TASK_CONTRACTS

MOST_EXAMPLES = 20_000  #: of a split: contracts read all of them dozens of times
MOST_TOKENS = 4  #: that decoders generate
BY_HEART = (
    "eight_examples_can_be_learnt_by_heart"  #: is not tried: at the size of a suite it asks for a learning rate
)
GRADIENT = "the_loss_is_finite_and_weighs_target_tokens"  #: is tried on what is trained by updates


@dataclass(frozen=True)
class Trial:
    """A part of a suite, what it is tried on, and the contracts of its kind."""

    label: str  # such as "model lstm"
    configs: tuple[Config, ...]  # its own first
    case: Callable[[Path], Any]  # builds the case, given an empty folder
    contracts: Sequence[Contract[Any]]

    @property
    def name(self) -> str:
        """Return what no other trial has: its label with all settings."""
        return f"{self.label} {self.configs!r}"


def check_contracts(suites: Mapping[str, Suite], data: Path) -> int:
    """Try the contracts on the parts of suites, each part once, and print a line for each; return the exit code.

    It is 1 if a contract is broken, else 0. Text generators are not tried, as what they know are the prompts of their
    own data. Other models and decoders are built with the settings of the suite on a tiny
    vocabulary, metrics measure invented outputs, and tasks read their own data.
    """
    tried: set[str] = set()
    code = 0
    for label, suite in suites.items():
        if len(suites) > 1:
            say(f"{label}:")
        for trial in [*_trials(located_suite(suite, data), data)]:
            if trial.name not in tried:
                tried.add(trial.name)
                if sys.stderr.isatty():
                    say(f"... {trial.label}", err=True)
                fine, lines = _result(trial)
                code = code if fine else 1
                for line in lines:
                    say(line)
    return code


def _trials(suite: Suite, data: Path) -> Iterator[Trial]:
    cells = [
        (cell, suite.models[cell.model].at(cell.task), suite.tasks[cell.task].source) for cell in cells_of(suite)
    ]
    for cell, model, source in cells:
        if not writes_text(model.config):
            yield _of_model(cell.model, model, source, data)
    for cell, model, source in cells:
        if cell.decoder is not None and not writes_text(model.config):
            label = f"decoder {cell.decoder} with {cell.model}"
            yield _of_decoder(label, suite.decoders[cell.decoder], model.config, source, data)
    for name, task in suite.tasks.items():
        yield _of_task(name, task, data)
    for name, metric in suite.metrics.items():
        yield _of_metric(name, metric)


def _of_model(name: str, entry: Entry, source: Source, data: Path) -> Trial:
    def case(folder: Path) -> Case:
        return Case.of(entry.config, info=_facts(entry.config, source, data), source=source, scale=1)

    left_out = (BY_HEART, GRADIENT) if entry.training.updates == 0 else (BY_HEART,)
    contracts = [contract for contract in MODEL_CONTRACTS if str(contract) not in left_out]
    return Trial(f"model {name}", (entry.config,), case, contracts)


def _of_decoder(label: str, config: DecoderConfig, model: ModelConfig, source: Source, data: Path) -> Trial:
    short = config.model_copy(update={"max_tokens": min(config.max_tokens, MOST_TOKENS)})

    def case(folder: Path) -> Case:
        return Case.of(model, short, info=_facts(model, source, data), source=source, scale=1)

    return Trial(label, (short, model), case, DECODER_CONTRACTS)


def _facts(config: ModelConfig, source: Source, data: Path) -> TaskInfo:
    """Return invented facts with the files of a model; source and target share a vocabulary, as some settings ask."""
    facts = replace(tiny_info(source), files=config.files(data))
    names = facts.source_vocabulary
    return replace(facts, vocabulary=names, counts=[*range(len(names), 0, -1)]) if names else facts


def _of_task(name: str, config: TaskConfig, data: Path) -> Trial:
    def case(folder: Path) -> TaskCase:
        made = TaskCase.of(config, data, folder)
        for split, purpose in made.purposes():
            examples = 0
            for batch in made.task.batches(split, purpose, made.size):
                examples += len(batch)
                if examples > MOST_EXAMPLES:
                    raise _TooLargeError(split)
        return made

    return Trial(f"task {name}", (config,), case, TASK_CONTRACTS)


def _of_metric(name: str, config: MetricConfig) -> Trial:
    def case(folder: Path) -> MetricCase:
        ended = [replace(one, hypotheses=[replace(one.hypotheses[0], finished=True)]) for one in tiny_outcomes()]
        made = MetricCase.of(config, ended)
        made.metric.combine([*made.metric.measure(made.outcomes)])
        return made

    return Trial(f"metric {name}", (config,), case, METRIC_CONTRACTS)


class _TooLargeError(Exception):
    def __init__(self, split: str) -> None:
        super().__init__(
            f"its split {split!r} has more than {MOST_EXAMPLES:,} examples, and contracts read them dozens of times. "
            "Try it on a smaller corpus, by a profile or `--set`."
        )


def _result(trial: Trial) -> tuple[bool, list[str]]:
    """Return whether a part breaks no contract, and the lines about it."""
    with TemporaryDirectory() as folder:
        try:
            for config in trial.configs:
                part_class(config)
        except PluginError as error:
            return False, [f"broken  {trial.label}: {error}"]
        except Exception as error:  # such as a module that an extra brings
            return True, [f"not tried  {trial.label}: {_first_line(error)}"]
        try:
            case = trial.case(Path(folder))
        except Exception as error:  # it may need what invented data lacks
            return True, [f"not tried  {trial.label}: {_first_line(error)}"]
        names, broken = try_contracts(trial.contracts, case)
    known = {*map(str, trial.contracts)}
    exempt = [f"  exempt  {_sentence(name)}: {why}" for name, why in exemptions(case).items() if name in known]
    if not broken:
        return True, [f"ok  {trial.label}: {counted(len(names), 'contract')}", *exempt]
    sentences = [f"  {_sentence(name)}: {_first_line(error)}" for name, error in broken.items()]
    return False, [f"broken  {trial.label}: {len(broken)} of {counted(len(names), 'contract')}", *sentences, *exempt]


def _sentence(name: str) -> str:
    return name.replace("_", " ")


def _first_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0]
    known = isinstance(error, AssertionError | PluginError | _TooLargeError)
    return text if known and text else f"{type(error).__name__}: {text}"
