"""Creates the distinct stages of cells, with the keys of their artifacts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench_core.config import MetricConfig, ModelConfig, TaskConfig
from bench_core.data import Purpose
from bench_core.model import Scorer
from bench_core.planning.path_settings import other_reads, paths
from bench_core.planning.stage_maker import Inputs, Parts, Settings, StageMaker
from bench_core.registry import training_kind
from bench_core.sections import CellStage
from bench_core.suites.cells import Cell
from bench_core.suites.sections import cell_stages
from bench_core.suites.suite import Entry
from bench_core.suites.training import Select, TrainingBase


@dataclass
class Planner:
    """Creates distinct stages."""

    maker: StageMaker
    _keys: dict[Any, str] = field(default_factory=dict)  # request for weights -> key

    def __post_init__(self) -> None:
        self.suite, self.data = self.maker.suite, self.maker.data

    def cell(self, cell: Cell) -> dict[str, str]:
        """Return the keys of all stages of a cell, by name: first stages of the core, then of plugins."""
        stage_keys = dict(self._of_core(cell))
        for name, stage in cell_stages(self.suite, cell, stage_keys):
            stage_keys[name] = self._of_section(stage, stage_keys)
        return stage_keys

    def _of_section(self, stage: CellStage, stage_keys: Mapping[str, str]) -> str:
        """Return the key of a stage that a section adds to a cell."""
        predictions = self.maker.stages[stage_keys[stage.reads]]
        inputs = {"task": ("prepare", stage_keys["prepare"]), "predictions": (predictions.kind, predictions.key)}
        return self.maker.add(stage.kind, dict(stage.settings), inputs, [], f"{stage.name} of {predictions.label}")

    def _of_core(self, cell: Cell) -> Iterator[tuple[str, str]]:
        """Yield the name and key of every stage of a cell, except stages that sections add."""
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
                predictions, kind = self.score(cell, name), "score"
                yield f"score/{name}", predictions
            else:
                predictions, kind = decode, "decode"
            yield f"measure/{name}", self.measure(name, task, kind, predictions)
        for name in cell.probes:
            yield f"probe/{name}", self.probe(cell, name)

    def prepare(self, name: str, split: str | None = None) -> str:
        """Return the key of the prepared task, or of a split if splits are prepared separately.

        Without `split`, the artifact is the data for training or, for tasks without training data, the first split.
        """
        return self.maker.shared(("prepare", name, split), lambda: self._prepare(name, split))

    def _prepare(self, name: str, split: str | None) -> str:
        base, config = self._at(name, None), self._at(name, split)
        trains = Purpose.TRAIN in base.purposes("train")
        if split is None and not trains and self.is_apart(name):
            splits = filter(self.suite.tasks[name].purposes, self.suite.splits)
            return self.prepare(name, next(splits, self.suite.splits[0]))
        names = {str(path) for path, _ in paths(config)}
        data = other_reads(config.reads(self.data), names, self.data)
        settings = {"task": self.maker.settings_of(config), "data": data}
        if not self.is_apart(name):
            return self.maker.add("prepare", settings, {}, [("task", config)], name)
        inputs = {"task": ("prepare", self.prepare(name))} if split and trains else {}
        label = f"{name}, {split or 'to train on'}"
        return self.maker.add("prepare", settings | {"split": split}, inputs, [("task", config)], label)

    def is_apart(self, name: str) -> bool:
        """Return whether the splits of a task are prepared separately."""
        return self._at(name, None) is not self.suite.tasks[name]

    def _at(self, name: str, split: str | None) -> TaskConfig:
        """Return the Config of a split or, for None, of the training data; the task's Config if both are the same."""

        def split_config() -> TaskConfig:
            whole = self.suite.tasks[name]
            if whole.at(None) is whole:
                return whole
            split_settings = whole.at(split)
            self.maker.wholes[id(split_settings)] = whole
            return split_settings

        return self.maker.shared(("at", name, split), split_config)

    def weights(self, task: str, model: str, hardware: str, seed: int) -> str:
        """Return the key of a model with weights, trained or initial."""
        request = ("weights", task, model, hardware, seed)
        if request not in self._keys:
            training = self.suite.models[model].at(task).training
            seeds = self.suite.seeds if training.vmap_seeds and training.trains else []
            if not training.trains:
                self._keys[request] = self._initial(task, model, hardware, seed)
            elif len(seeds) < 2:
                kind = training_kind(joint=False)
                self._keys[request] = self._train(kind, task, model, hardware, {"seed": seed}, f"seed {seed}", {})
            else:
                self._train_vmapped(task, model, hardware)
        return self._keys[request]

    def _initial(self, task: str, model: str, hardware: str, seed: int) -> str:
        """Add the stage of a model that is evaluated without training."""
        entry = self.suite.models[model].at(task)
        initial, size = entry.training.initial, [*entry.training.size]
        settings = {**self._built_from(entry), "size": size, **self.maker.hardware(hardware), "seed": seed}
        inputs = {"task": ("prepare", self.prepare(task))}
        parts: Parts = [("task", self.suite.tasks[task]), ("model", entry.config)]
        label = f"{task} x {model}, seed {seed}"
        return self.maker.add("initial", settings, inputs, parts, label, [initial] if initial else [])

    def _train_vmapped(self, task: str, model: str, hardware: str) -> None:
        """Add a stage that trains all seeds, and for each seed a stage that extracts its model."""
        seeds, kind, single = [*self.suite.seeds], training_kind(joint=True), training_kind(joint=False)
        joint = self._train(kind, task, model, hardware, {"vmapped": seeds}, f"{len(seeds)} seeds", {})
        for seed in seeds:
            seeding = {"vmapped": seeds, "seed": seed}
            key = self._train(single, task, model, hardware, seeding, f"seed {seed}", {"vmapped": (kind, joint)})
            self._keys["weights", task, model, hardware, seed] = key
        # Runs name only the extracted models; the first shows that checkpoints of the joint stage are still in use.
        first = self._keys["weights", task, model, hardware, seeds[0]]
        self.maker.stages[joint] = replace(self.maker.stages[joint], first=first)

    def _train(
        self, kind: str, task: str, model: str, hardware: str, seeding: Settings, seeds: str, more: Inputs
    ) -> str:
        shared = ("train", task, model, hardware)
        settings, parts = self.maker.shared(shared, lambda: self._training(task, model, hardware))
        training = self.suite.models[model].at(task).training
        inputs = {"task": ("prepare", self.prepare(task)), **self._selection_inputs(task, training), **more}
        label, files = f"{task} x {model}, {seeds}", [training.initial] if training.initial else []
        return self.maker.add(kind, {**settings, **seeding}, inputs, parts, label, files, tuple(training.classes()))

    def _selection_inputs(self, task: str, training: TrainingBase) -> Inputs:
        """Return the separately prepared splits for checkpoint selection and early stopping, by role.

        The loss on a split contained in the data for training does not need another artifact.
        """
        selections = {"select": training.select, "stop": training.stop} if self.is_apart(task) else {}
        whole, read = self.suite.tasks[task], self._at(task, None)
        return {
            role: ("prepare", self.prepare(task, rule.split))
            for role, rule in selections.items()
            if rule is not None
            and (rule.metric in self.suite.metrics or (whole.purposes(rule.split) and not read.purposes(rule.split)))
        }

    def _training(self, task: str, model: str, hardware: str) -> tuple[Settings, Parts]:
        """Return the training settings and parts that all seeds share."""
        entry = self.suite.models[model].at(task)
        select, parts = self._select(entry.training.select, entry.config)
        stop, more = self._select(entry.training.stop, entry.config) if entry.training.stop else (None, [])
        training = entry.training.model_dump(mode="json", exclude={"select", "stop", "initial", "vmap_seeds"})
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
            "model": self.maker.settings_of(entry.config, evaluation=False),
            "initial": self.maker.marks[initial] if initial else None,
            "files": self.maker.files(entry.config),
        }

    def _select(self, select: Select, model: ModelConfig) -> tuple[dict[str, Any], Parts]:
        """Return the settings of checkpoint selection, including its metric and decoder."""
        settings: dict[str, Any] = select.model_dump(mode="json")
        parts: Parts = []
        metric = self.suite.metrics.get(select.metric)
        if metric is not None:
            settings |= {"metric": self.maker.settings_of(metric), "by": likelihood(metric, model)[0]}
            settings |= self.maker.evaluation(model)
            parts.append(("metric", metric))
        if metric is not None and select.decoder is not None:
            decoder = self.suite.decoders[select.decoder]
            settings["decoder"] = self.maker.settings_of(decoder)
            parts.append(("decoder", decoder))
        return settings, parts

    def decode(self, cell: Cell) -> str:
        """Return the key of the decoded predictions."""
        config = self.suite.decoders[cell.decoder or ""]
        settings = {"decoder": self.maker.settings_of(config), "examples": self.suite.limits.examples}
        label = f"{cell.task} x {cell.model} x {cell.decoder}"
        return self._predictions("decode", cell, settings, [("decoder", config)], label)

    def score(self, cell: Cell, metric: str) -> str:
        """Return the key of the scored predictions."""
        by, _ = likelihood(self.suite.metrics[metric], self.suite.models[cell.model].at(cell.task).config)
        settings = {"by": by, "examples": self.suite.limits.scored}
        return self._predictions("score", cell, settings, [], f"{cell.task} x {cell.model} by {by}")

    def probe(self, cell: Cell, name: str) -> str:
        """Return the key of a probe's finding about a model, or about a model with a decoder."""
        probe = self.suite.probes[name]
        decoder_name = cell.decoder if probe.with_decoder else None
        decoder = None if decoder_name is None else self.suite.decoders[decoder_name]
        settings = {
            "probe": self.maker.settings_of(probe),
            "decoder": decoder and self.maker.settings_of(decoder),
            "examples": self.suite.limits.examples,
        }
        parts: Parts = [("decoder", decoder)] if decoder else []
        label = f"{name} of {' x '.join(filter(None, (cell.task, cell.model, decoder_name)))}"
        return self._predictions("probe", cell, settings, [*parts, ("probe", probe)], label)

    def _predictions(self, stage_kind: str, cell: Cell, extra: Settings, parts: Parts, label: str) -> str:
        """Add a stage that applies a trained model to the examples of a split."""
        task, model = self.suite.tasks[cell.task], self.suite.models[cell.model].at(cell.task).config
        weights = self.weights(cell.task, cell.model, cell.hardware, cell.seed)
        kind = self.maker.stages[weights].kind
        inputs = {"task": ("prepare", self.prepare(cell.task, cell.split)), "model": (kind, weights)}
        if model.fits_on_validation():
            inputs["validation"] = ("prepare", self.prepare(cell.task, "valid"))
        settings = {"split": cell.split, "batch_size": self.suite.limits.batch_size, "seed": cell.seed, **extra}
        settings |= {**self.maker.evaluation(model), **self.maker.hardware(cell.hardware)}
        parts = [("task", task), ("model", model), *parts]
        return self.maker.add(stage_kind, settings, inputs, parts, f"{label}, seed {cell.seed}, {cell.split}")

    def measure(self, name: str, task: str, kind: str, predictions: str) -> str:
        """Return the key of a metric's score."""
        metric = self.suite.metrics[name]
        inputs = {"task": ("prepare", task), "predictions": (kind, predictions)}
        settings = self.maker.shared(("measure", name), lambda: {"metric": self.maker.settings_of(metric)})
        label = f"{name} of {self.maker.stages[predictions].label}"
        return self.maker.add("measure", settings, inputs, [("metric", metric)], label)


def likelihood(metric: MetricConfig, model: Any) -> tuple[str, str]:
    """Return the name and kind of the likelihood that a metric uses; empty strings if it uses none."""
    if metric.needs is not Scorer or not model.likelihoods:
        return "", ""
    by = getattr(metric, "by", None) or next(iter(model.likelihoods))
    return by, str(model.likelihoods[by])
