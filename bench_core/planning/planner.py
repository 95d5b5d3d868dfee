"""Creates the stages of cells, each once, with the keys of their artifacts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench_core.config import MetricConfig, ModelConfig, TaskConfig
from bench_core.data import Purpose
from bench_core.model import Scorer
from bench_core.planning.path_settings import paths, unnamed
from bench_core.planning.stage_maker import Inputs, Parts, Settings, StageMaker
from bench_core.registry import training_kind
from bench_core.sections import CellStage
from bench_core.suites.cells import Cell
from bench_core.suites.sections import cell_stages
from bench_core.suites.suite import Entry
from bench_core.suites.training import Select, TrainingBase


@dataclass
class Planner:
    """Creates stages, each once."""

    maker: StageMaker
    made: dict[Any, str] = field(default_factory=dict)  # of tasks and trainings: what was asked -> key

    def __post_init__(self) -> None:
        self.suite, self.data = self.maker.suite, self.maker.data

    def cell(self, cell: Cell) -> dict[str, str]:
        """Return the keys of all stages of a cell, by name: those of the core, then those of plugins."""
        found = dict(self._of_core(cell))
        for name, one in cell_stages(self.suite, cell, found):
            found[name] = self._of_section(one, found)
        return found

    def _of_section(self, one: CellStage, found: Mapping[str, str]) -> str:
        """Return the key of a stage that a section wants of a cell."""
        outcomes = self.maker.stages[found[one.reads]]
        inputs = {"task": ("prepare", found["prepare"]), "outcomes": (outcomes.kind, outcomes.key)}
        return self.maker.add(one.kind, dict(one.settings), inputs, [], f"{one.name} of {outcomes.label}")

    def _of_core(self, cell: Cell) -> Iterator[tuple[str, str]]:
        """Yield the name and key of every stage of a cell that is of a kind of the core, or trains."""
        task = self.prepare(cell.task, cell.split)
        yield "prepare", task
        if (base := self.prepare(cell.task)) != task:
            yield "prepare/train", base
        weights = self.weights(cell.task, cell.model, cell.hardware, cell.seed)
        yield self.maker.stages[weights].kind, weights
        if cell.decoder is not None:
            decode = self.decode(cell)
            yield "decode", decode
        for name in cell.metrics:
            if self.suite.metrics[name].needs is Scorer:
                outcomes, kind = self.score(cell, name), "score"
                yield f"score/{name}", outcomes
            else:
                outcomes, kind = decode, "decode"
            yield f"measure/{name}", self.measure(name, task, kind, outcomes)
        for name in cell.probes:
            yield f"probe/{name}", self.probe(cell, name)

    def prepare(self, name: str, split: str | None = None) -> str:
        """Return the key of what trainings read of a task, or of a split of it, which may be prepared by itself.

        Where there is nothing to train on, the first split that there is stands for what trainings read.
        """
        if ("prepare", name, split) not in self.made:
            self.made["prepare", name, split] = self._prepare(name, split)
        return self.made["prepare", name, split]

    def _prepare(self, name: str, split: str | None) -> str:
        base, config = self._at(name, None), self._at(name, split)
        trains = Purpose.TRAIN in base.purposes("train")
        if split is None and not trains and self.is_apart(name):
            own = filter(self.suite.tasks[name].purposes, self.suite.splits)
            return self.prepare(name, next(own, self.suite.splits[0]))
        named = {str(path) for path, _ in paths(config)}
        settings = {"task": self.maker.described(config), "data": unnamed(config.reads(self.data), named, self.data)}
        if not self.is_apart(name):
            return self.maker.add("prepare", settings, {}, [("task", config)], name)
        inputs = {"task": ("prepare", self.prepare(name))} if split and trains else {}
        label = f"{name}, {split or 'to train on'}"
        return self.maker.add("prepare", settings | {"split": split}, inputs, [("task", config)], label)

    def is_apart(self, name: str) -> bool:
        """Return whether the splits of a task are prepared by themselves."""
        return self._at(name, None) is not self.suite.tasks[name]

    def _at(self, name: str, split: str | None) -> TaskConfig:
        """Return the settings of a split, or of what trainings read; the task itself if all depend on all of it."""

        def reduced() -> TaskConfig:
            whole = self.suite.tasks[name]
            if whole.at(None) is whole:
                return whole
            found = whole.at(split)
            self.maker.wholes[id(found)] = whole
            return found

        return self.maker.once(("at", name, split), reduced)

    def weights(self, task: str, model: str, hardware: str, seed: int) -> str:
        """Return the key of a model with its weights, trained or as it is."""
        asked = ("weights", task, model, hardware, seed)
        if asked not in self.made:
            training = self.suite.models[model].at(task).training
            seeds = self.suite.seeds if training.together and training.trains else []
            if not training.trains:
                self.made[asked] = self._initial(task, model, hardware, seed)
            elif len(seeds) < 2:
                kind = training_kind(joint=False)
                self.made[asked] = self._train(kind, task, model, hardware, {"seed": seed}, f"seed {seed}")
            else:
                self._train_together(task, model, hardware)
        return self.made[asked]

    def _initial(self, task: str, model: str, hardware: str, seed: int) -> str:
        """Add the stage of a model that is evaluated as it is."""
        entry = self.suite.models[model].at(task)
        initial, size = entry.training.initial, [*entry.training.size]
        settings = {**self._built_from(entry), "size": size, **self.maker.hardware(hardware), "seed": seed}
        inputs = {"task": ("prepare", self.prepare(task))}
        parts: Parts = [("task", self.suite.tasks[task]), ("model", entry.config)]
        label = f"{task} x {model}, seed {seed}"
        return self.maker.add("initial", settings, inputs, parts, label, [initial] if initial else [])

    def _train_together(self, task: str, model: str, hardware: str) -> None:
        """Add a stage that trains all seeds, and for each seed one that extracts its model."""
        seeds, kind, single = [*self.suite.seeds], training_kind(joint=True), training_kind(joint=False)
        joint = self._train(kind, task, model, hardware, {"together": seeds}, f"{len(seeds)} seeds")
        for seed in seeds:
            own = {"together": seeds, "seed": seed}
            key = self._train(single, task, model, hardware, own, f"seed {seed}", {"together": (kind, joint)})
            self.made["weights", task, model, hardware, seed] = key
        # By one of these, which runs name, a checkpoint of the joint stage can be seen to be still of use.
        self.maker.stages[joint] = replace(
            self.maker.stages[joint], first=self.made["weights", task, model, hardware, seeds[0]]
        )

    def _train(
        self, kind: str, task: str, model: str, hardware: str, own: Settings, which: str, inputs: Inputs | None = None
    ) -> str:
        settings, parts = self.maker.once(
            ("train", task, model, hardware), lambda: self._training(task, model, hardware)
        )
        training = self.suite.models[model].at(task).training
        initial = training.initial
        inputs = {"task": ("prepare", self.prepare(task)), **self._judged(task, training), **(inputs or {})}
        label = f"{task} x {model}, {which}"
        classes = tuple(training.classes())
        return self.maker.add(kind, {**settings, **own}, inputs, parts, label, [initial] if initial else [], classes)

    def _judged(self, task: str, training: TrainingBase) -> Inputs:
        """Return the splits that are prepared apart and on which a training selects checkpoints, or stops.

        The loss on what trainings read needs no split of its own.
        """
        judging = {"select": training.select, "stop": training.stop} if self.is_apart(task) else {}
        whole, read = self.suite.tasks[task], self._at(task, None)
        return {
            role: ("prepare", self.prepare(task, one.split))
            for role, one in judging.items()
            if one is not None
            and (one.metric in self.suite.metrics or (whole.purposes(one.split) and not read.purposes(one.split)))
        }

    def _training(self, task: str, model: str, hardware: str) -> tuple[Settings, Parts]:
        """Return the settings that trainings of all seeds share, and their parts."""
        entry = self.suite.models[model].at(task)
        select, parts = self._select(entry.training.select, entry.config)
        stop, more = self._select(entry.training.stop, entry.config) if entry.training.stop else (None, [])
        training = entry.training.model_dump(mode="json", exclude={"select", "stop", "initial", "together"})
        settings = {
            **self._built_from(entry),
            "training": self.maker.json.keep({**training, "select": select, "stop": stop}),
            **self.maker.hardware(hardware),
            "devices": self.suite.hardware[hardware].devices,
        }
        return settings, [("task", self.suite.tasks[task]), ("model", entry.config), *parts, *more]

    def _built_from(self, entry: Entry) -> Settings:
        """Return the settings of a model before its first update."""
        initial = entry.training.initial
        return {
            "model": self.maker.described(entry.config, evaluation=False),
            "initial": self.maker.marks[initial] if initial else None,
            "files": self.maker.files(entry.config),
        }

    def _select(self, select: Select, model: ModelConfig) -> tuple[dict[str, Any], Parts]:
        """Return the settings of checkpoint selection, including those of its metric and decoder."""
        found: dict[str, Any] = select.model_dump(mode="json")
        parts: Parts = []
        metric = self.suite.metrics.get(select.metric)
        if metric is not None:
            found |= {
                "metric": self.maker.described(metric),
                "by": likelihood(metric, model)[0],
                **self.maker.evaluation(model),
            }
            parts.append(("metric", metric))
        if metric is not None and select.decoder is not None:
            decoder = self.suite.decoders[select.decoder]
            found["decoder"] = self.maker.described(decoder)
            parts.append(("decoder", decoder))
        return found, parts

    def decode(self, cell: Cell) -> str:
        """Return the key of the outcomes of decoding."""
        config = self.suite.decoders[cell.decoder or ""]
        own = {"decoder": self.maker.described(config), "examples": self.suite.limits.examples}
        what = f"{cell.task} x {cell.model} x {cell.decoder}"
        return self._outcomes("decode", cell, own, [("decoder", config)], what)

    def score(self, cell: Cell, metric: str) -> str:
        """Return the key of the outcomes of scoring."""
        by, _ = likelihood(self.suite.metrics[metric], self.suite.models[cell.model].at(cell.task).config)
        own = {"by": by, "examples": self.suite.limits.scored}
        return self._outcomes("score", cell, own, [], f"{cell.task} x {cell.model} by {by}")

    def probe(self, cell: Cell, name: str) -> str:
        """Return the key of the finding of a probe on a trained model, or on a model with a decoder."""
        probe = self.suite.probes[name]
        under = cell.decoder if probe.with_decoder else None
        decoder = None if under is None else self.suite.decoders[under]
        own = {
            "probe": self.maker.described(probe),
            "decoder": decoder and self.maker.described(decoder),
            "examples": self.suite.limits.examples,
        }
        parts: Parts = [("decoder", decoder)] if decoder else []
        what = f"{name} of {' x '.join(filter(None, (cell.task, cell.model, under)))}"
        return self._outcomes("probe", cell, own, [*parts, ("probe", probe)], what)

    def _outcomes(self, of: str, cell: Cell, own: Settings, parts: Parts, what: str) -> str:
        """Add a stage that applies a trained model to the examples of a split."""
        task, model = self.suite.tasks[cell.task], self.suite.models[cell.model].at(cell.task).config
        weights = self.weights(cell.task, cell.model, cell.hardware, cell.seed)
        kind = self.maker.stages[weights].kind
        inputs = {"task": ("prepare", self.prepare(cell.task, cell.split)), "model": (kind, weights)}
        batch_size = self.suite.limits.batch_size
        settings = {"split": cell.split, "batch_size": batch_size, "seed": cell.seed, **own}
        settings |= {**self.maker.evaluation(model), **self.maker.hardware(cell.hardware)}
        parts = [("task", task), ("model", model), *parts]
        return self.maker.add(of, settings, inputs, parts, f"{what}, seed {cell.seed}, {cell.split}")

    def measure(self, name: str, task: str, kind: str, outcomes: str) -> str:
        """Return the key of the score of a metric."""
        metric = self.suite.metrics[name]
        inputs = {"task": ("prepare", task), "outcomes": (kind, outcomes)}
        settings = self.maker.once(("measure", name), lambda: {"metric": self.maker.described(metric)})
        label = f"{name} of {self.maker.stages[outcomes].label}"
        return self.maker.add("measure", settings, inputs, [("metric", metric)], label)


def likelihood(metric: MetricConfig, model: Any) -> tuple[str, str]:
    """Return the likelihood of a model that a metric uses, and its kind; empty strings if none."""
    if metric.needs is not Scorer or not model.likelihoods:
        return "", ""
    by = getattr(metric, "by", None) or next(iter(model.likelihoods))
    return by, str(model.likelihoods[by])
