"""What stages do: prepare, together, train, decode, score, measure, probe.

Each reads stored artifacts and fills a folder.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from bench_core.computing.fingerprint import fingerprint
from bench_core.computing.guarded_tasks import CheckedTask
from bench_core.computing.guards import check_facts, check_finding, checked_interval, diverged, measured, named
from bench_core.computing.process_state import defined_state, unchanged_state
from bench_core.data import Facts, Kind, Outcome, Purpose
from bench_core.errors import PluginError, Stopped, StoreError, TrainingError
from bench_core.noise import Noise
from bench_core.planning.path_settings import placed
from bench_core.planning.stages import Order
from bench_core.registry import configured, part
from bench_core.storage.outcomes import read_outcomes, write_lines, write_outcomes
from bench_core.storage.partial import kept

if TYPE_CHECKING:
    import torch

    from bench_core.computing.evaluate import Examples
    from bench_core.computing.train import Selection
    from bench_core.data import Batch
    from bench_core.planning.stages import Stage
    from bench_core.registry import PartKind
    from bench_core.storage.store import Artifact, Store
    from bench_core.suites.training import TrainingConfig
    from bench_core.task import Task

SAMPLES = 3  #: outputs of each decoding that a report may show
SHOWN = 3  #: names of weights in a message

Tell = Callable[[str, float], None]  # what is going on, and the share that is done


@dataclass
class Workshop:
    """Performs stages against a store; keeps the last task and model at hand for the stages that follow.

    No stage sees what another has done to them: examples are copied for whoever reads them, a model is compared with
    its fingerprint, and after a training or a failure all is loaded anew.
    """

    store: Store
    data: Path
    tell: Tell = lambda text, share: None
    order: Order | None = None  # what is being performed, and for how long
    begun: Callable[[], None] = lambda: None  # hears that there is nothing left to wait for
    home: str = field(default_factory=os.getcwd)  # the working directory of every stage
    kept: dict[str, tuple[str, Any]] = field(default_factory=dict)  # role -> key and what was loaded

    def perform(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Do what a stage says, into a folder; return counts for the costs, such as examples and tokens.

        Raises PluginError if the stage changed the weights of a model that it was only to use.
        """
        places = stage.settings.get("places", {})
        own = {name: value for name, value in stage.settings.items() if name != "places"}
        stage = replace(stage, settings={**placed(own, places), "places": places})
        work: Callable[[Stage, Path], dict[str, Any]] = getattr(self, f"_{stage.kind}")
        with self._apart(stage):
            counts = work(stage, folder.absolute())  # a part may change the working directory
            self._check_unchanged(stage)
        return counts

    def build(self, stage: Stage) -> None:
        """Build the model of a training on the meta device, where nothing is allocated; raise what that raises."""
        facts = self.store.get(*stage.inputs["task"]).json("facts.json")
        settings = placed(stage.settings["model"], stage.settings.get("places", {}))
        with self._apart(stage):
            check_builds(settings, facts, self.data)

    @contextmanager
    def _apart(self, stage: Stage) -> Iterator[None]:
        """Give a stage a process in a defined state, and keep nothing that it may have spoilt."""
        if "threads" in stage.settings:
            import torch  # noqa: F401 (so that its state is defined)
        process = os.getpid()
        threads, seed = stage.settings.get("threads", 1), stage.settings.get("seed", 0)
        try:
            with defined_state(threads, seed, self.home, self._changed):
                self.begun()
                yield
        except BaseException:
            self.kept.clear()
            raise
        finally:
            if os.getpid() != process:  # a part forked, and its child came back from there
                os._exit(1)
        if stage.kind in ("train", "together"):
            self.kept.clear()

    def _changed(self, names: list[str]) -> None:
        self._warn(f"it changed {', '.join(names)}, which is put back before the next stage.")

    def _check_unchanged(self, stage: Stage) -> None:
        """Raise PluginError if a stage changed the weights of its model; forget a model that is otherwise changed."""
        if "model" not in stage.inputs:
            return
        model, before = self.kept["model"][1]
        after = fingerprint(model)
        if names := before.changed(after):
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise PluginError(
                f"it changed the model's weights ({', '.join(names[:SHOWN])}{more}), which are to be read alone. "
                "Compute with copies of them."
            )
        if before != after:
            del self.kept["model"]

    def _prepare(self, stage: Stage, folder: Path) -> dict[str, Any]:
        inside = folder / "data"
        inside.mkdir()
        task = built("task", stage.settings["task"], inside)
        facts = task.prepare(self.data)
        check_facts(facts, task)
        facts = task.config.known(facts)
        (folder / "facts.json").write_text(json.dumps(asdict(facts), ensure_ascii=False), encoding="utf-8")
        return {}

    def _train(self, stage: Stage, folder: Path) -> dict[str, Any]:
        import torch

        if "together" in stage.inputs:
            return self._taken(stage, folder)
        from bench_core.computing.checkpoint import Checkpoints
        from bench_core.computing.train import Trainer
        from bench_core.suites.training import TrainingConfig

        settings = stage.settings
        plan = TrainingConfig.model_validate({**settings["training"], "select": {}})
        task, facts = self._task(stage)
        noise = Noise(settings["seed"]).fork("train")
        device = computing(settings)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            model = self._begun(settings, task, facts, plan, noise, device)
            selection = self._selection(settings, task, facts, noise, device)
            bf16 = settings["precision"] == "bf16"
            order = self.order or Order(stage)
            checkpoints = Checkpoints(self.store, stage.key, stage.label, order.every, order.until)
            trainer = Trainer(model, task, plan, noise, device, selection, bf16, self.tell, checkpoints)
            history = trainer.run()
        counts = _leave_trained(model, history, trainer.progress.step, folder)
        return {**counts, **({"seconds": checkpoints.seconds()} if checkpoints.spent else {})}

    def _together(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Train all seeds of a row as one; leave of each what it would have left alone, or why it failed."""
        import torch

        from bench_core.computing.checkpoint import Checkpoints
        from bench_core.computing.vmap_training import JointTrainer, Stack
        from bench_core.suites.training import TrainingConfig

        settings, seeds = stage.settings, stage.settings["together"]
        plan = TrainingConfig.model_validate({**settings["training"], "select": {}})
        task, facts = self._task(stage)
        noises = [Noise(seed).fork("train") for seed in seeds]
        device = computing(settings)
        order = self.order or Order(stage)
        checkpoints = Checkpoints(
            self.store, stage.key, stage.label, order.every, order.until, of=settings.get("first", "")
        )
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            stack = Stack([self._begun(settings, task, facts, plan, noise, device) for noise in noises])
            selections = [self._selection(settings, task, facts, noise, device) for noise in noises]
            bf16 = settings["precision"] == "bf16"
            trainer = JointTrainer(
                stack, task, plan, noises[0], device, selections[0], bf16, self.tell, checkpoints, noises, selections
            )
            trainer.run()
        failures, counts = {}, {}
        for number, (seed, copy) in enumerate(zip(seeds, trainer.progress.copies, strict=True)):
            if copy.failure is not None:
                failures[str(seed)] = copy.failure
                continue
            (folder / str(seed)).mkdir()
            try:
                counts = _leave_trained(stack.at(number), copy.history, trainer.progress.step, folder / str(seed))
            except TrainingError as error:
                failures[str(seed)] = str(error)
        (folder / "failures.json").write_text(json.dumps(failures, ensure_ascii=False), encoding="utf-8")
        return {**counts, **({"seconds": checkpoints.seconds()} if checkpoints.spent else {})}

    def _taken(self, stage: Stage, folder: Path) -> dict[str, Any]:
        """Take what one of several seeds has left that were trained as one; each costs the same share."""
        joint, seed, seeds = self._input(stage, "together"), str(stage.settings["seed"]), stage.settings["together"]
        failures = joint.json("failures.json")
        if seed in failures:
            raise TrainingError(failures[seed])
        for name in ("weights.safetensors", "history.jsonl", "training.json"):
            copyfile(joint.file(f"{seed}/{name}"), folder / name)
        cost = joint.manifest["cost"]
        shares = {name: round(cost[name] / len(seeds), 4) for name in ("seconds", "cpu_seconds")}
        return {**cost, **shares}

    def _begun(
        self,
        settings: Mapping[str, Any],
        task: Task,
        facts: Facts,
        plan: TrainingConfig,
        noise: Noise,
        device: torch.device,
    ) -> Any:
        """Return a model as it is before its first update; torch's generator goes on from its weights."""
        import torch

        torch.manual_seed(noise.fork("weights").key % 2**63)
        known = self._with_files(facts, settings["model"])
        model = built("model", settings["model"], known).to(device)
        model.setup(known, noise.fork("setup"))
        model.survey(lambda: _surveyed(task, plan, device), noise.fork("survey"))
        if settings["initial"]:
            load_weights(model, Path(settings["initial"]))
        return model

    def _selection(
        self, settings: Mapping[str, Any], task: Task, facts: Facts, noise: Noise, device: Any
    ) -> Selection:
        """Return how weights are judged: by a metric over scores or generated text, or by the training loss."""
        from bench_core.computing.evaluate import Examples
        from bench_core.computing.train import Selection, mean_loss
        from bench_core.task import Size

        select = settings["training"]["select"]
        name = select["metric"] if isinstance(select["metric"], str) else select["metric"]["name"]
        label, split, noise = f"{select['split']} {name}", select["split"], noise.fork("select")
        if isinstance(select["metric"], str):
            size = Size(settings["training"]["batch_size"], settings["training"]["batch_unit"])
            return Selection(lambda model: mean_loss(model, task, split, size, noise, device), -1, label)
        metric = built("metric", select["metric"])
        examples = Examples(task, split, noise, device, number=select["examples"], words=len(facts.vocabulary))
        decoder = built("decoder", select["decoder"]) if select["decoder"] else None

        def judge(model: Any) -> float:
            if decoder:
                outcomes = examples.decoded(model, decoder)
            else:
                outcomes = examples.scored(model, select["by"], _kind(settings["model"], select["by"]))
            return measured(metric, facts, outcomes)[2]

        return Selection(judge, metric.better, label)

    def _decode(self, stage: Stage, folder: Path) -> dict[str, Any]:
        from bench_core.computing.train import evaluating

        model, examples = self._examples(stage, "decode")
        decoder = built("decoder", stage.settings["decoder"])
        with evaluating(model):
            outcomes = examples.decoded(model, decoder)
        write_outcomes(folder / "outcomes.jsonl.gz", outcomes)
        shown = [sample_of(outcome) | _course(model, examples.task, outcome) for outcome in outcomes[:SAMPLES]]
        (folder / "samples.json").write_text(json.dumps(shown), encoding="utf-8")
        tokens = sum(len(one.tokens) + one.finished for outcome in outcomes for one in outcome.hypotheses[:1])
        return {"examples": len(outcomes), "tokens": tokens}

    def _score(self, stage: Stage, folder: Path) -> dict[str, Any]:
        from bench_core.computing.train import evaluating

        model, examples = self._examples(stage, "score")
        with evaluating(model):
            trained = self._input(stage, "model").manifest["ingredients"]["settings"]["model"]
            outcomes = examples.scored(model, stage.settings["by"], _kind(trained, stage.settings["by"]))
        write_outcomes(folder / "outcomes.jsonl.gz", outcomes)
        return {"examples": len(outcomes), "tokens": sum(outcome.target_tokens for outcome in outcomes)}

    def _examples(self, stage: Stage, purpose: str) -> tuple[Any, Examples]:
        """Return the trained model of a stage, and the examples that it is tried on."""
        from bench_core.computing.evaluate import Examples

        settings = stage.settings
        model, task, device = self._model(stage)
        noise, number = Noise(settings["seed"]).fork(purpose), settings["examples"]
        size, words = settings["batch_size"], len(self._task(stage)[1].vocabulary)
        rows = self.order.rows if self.order else None
        return model, Examples(
            task, settings["split"], noise, device, size, number, self._told, self._warn, words, rows
        )

    def _warn(self, text: str) -> None:
        self.store.warn(f"{self.order.stage.label}: {text}" if self.order else text)

    def _told(self, done: int, total: int) -> None:
        """Tell of examples; raise Stopped when time is up."""
        if self.order and self.order.until is not None and time.time() >= self.order.until:
            raise Stopped
        self.tell(f"{done:,} examples", done / total if total else 0)

    def _measure(self, stage: Stage, folder: Path) -> dict[str, Any]:
        import numpy as np

        from bench_core.computing import resampling
        from bench_core.storage.draws import block_length, percentiles

        source = self._input(stage, "outcomes")
        outcomes = read_outcomes(source.file("outcomes.jsonl.gz"))
        split = source.manifest["ingredients"]["settings"]["split"]
        facts = Facts(**kept(self.store, *stage.inputs["task"]).json("facts.json"))
        metric, parts, value = measured(built("metric", stage.settings["metric"]), facts, outcomes)
        block = block_length(len(parts)) if facts.consecutive else 1
        draws = resampling.draws(metric, parts, block)
        interval = checked_interval(metric, parts) or percentiles(draws)
        number = {
            "value": _as_json(value),
            "examples": len(outcomes),
            "unit": metric.unit,
            "digits": metric.digits,
            "better": metric.better,
            "signature": metric.signature,
            "interval": [_as_json(end) for end in interval] if interval else None,
            "sample": resampling.mark(
                [outcome.id for outcome in outcomes], block, f"{stage.inputs['task'][1]} {split}"
            ),
        }
        np.save(folder / "draws.npy", draws, allow_pickle=False)
        try:
            write_lines(folder / "parts.jsonl.gz", parts)
        except (TypeError, ValueError) as error:
            raise PluginError(f"{named(metric, 'measure')} gave parts that JSON cannot hold: {error}.") from None
        (folder / "number.json").write_text(json.dumps(number), encoding="utf-8")
        return {"examples": len(outcomes)}

    def _probe(self, stage: Stage, folder: Path) -> dict[str, Any]:
        import torch

        from bench_core.computing.train import evaluating

        model, examples = self._examples(stage, "decode")
        asked = stage.settings["decoder"]
        decoder = configured("decoder", asked) if asked else None
        probe = built("probe", stage.settings["probe"])
        with evaluating(model), torch.no_grad():
            found = probe.ask(model.cpu(), decoder, examples.to_decode())
        model.to(examples.device)
        check_finding(found, probe)
        (folder / "finding.json").write_text(json.dumps(asdict(found), ensure_ascii=False), encoding="utf-8")
        return {}

    def _with_files(self, facts: Facts, model: Mapping[str, Any]) -> Facts:
        """Return facts that tell a model where the files of its Config are."""
        config = configured("model", model)
        return replace(facts, files=config.files(self.data))

    def _input(self, stage: Stage, role: str) -> Artifact:
        return self.store.get(*stage.inputs[role])

    def _task(self, stage: Stage) -> tuple[Task, Facts]:
        """Return the prepared task that a stage works on, and its facts."""
        artifact = self._input(stage, "task")
        if self.kept.get("task", ("",))[0] != stage.inputs["task"][1]:
            artifact.check()
            task = built(
                "task", artifact.manifest["ingredients"]["settings"]["task"], (artifact.folder / "data").absolute()
            )
            self.kept["task"] = stage.inputs["task"][1], task
        facts = Facts(**artifact.json("facts.json"))
        return CheckedTask(self.kept["task"][1], facts), facts

    def _model(self, stage: Stage) -> tuple[Any, Task, torch.device]:
        """Return the trained model that a stage works with, its task and the device."""
        task, facts = self._task(stage)
        device = computing(stage.settings)
        artifact = self._input(stage, "model")
        if self.kept.get("model", ("",))[0] != stage.inputs["model"][1]:
            described = artifact.manifest["ingredients"]["settings"]["model"]
            settings = placed(described, stage.settings.get("places", {}))
            model = built("model", settings, self._with_files(facts, settings))
            load_weights(model, artifact.file("weights.safetensors"))
            self.kept["model"] = stage.inputs["model"][1], (model.to(device), fingerprint(model))
        return self.kept["model"][1][0], task, device


def _leave_trained(model: Any, history: list[dict[str, Any]], updates: int, folder: Path) -> dict[str, Any]:
    """Write a trained model and how it became that; return counts for the costs."""
    from safetensors.torch import save_model

    wrong = diverged(model)
    if wrong:
        raise TrainingError(f"after training {wrong}. Lower `lr`, set `clip`, or train in fp32.")
    save_model(model, str(folder / "weights.safetensors"))
    (folder / "history.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in history), encoding="utf-8")
    counts = {"parameters": sum(parameter.numel() for parameter in model.parameters()), "updates": updates}
    about = dict(model.about())
    told = {**counts, "about": about} if about else counts
    (folder / "training.json").write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")
    return counts


def _surveyed(task: Task, plan: TrainingConfig, device: torch.device) -> Iterator[Batch]:
    """Yield the training split in file order, on a device."""
    from bench_core.task import Size

    for batch in task.batches("train", Purpose.TRAIN, Size(plan.batch_size, plan.batch_unit)):
        yield batch.change(lambda tensor: tensor.to(device))


def _as_json(value: float) -> float | str:
    """Return a number that JSON can hold; infinities and NaN become words."""
    return value if math.isfinite(value) else str(value)


def sample_of(outcome: Outcome) -> dict[str, Any]:
    """Return what a report shows of an example."""
    first = outcome.hypotheses[0]
    told = {"log_prob": first.log_prob} if first.log_prob is not None and math.isfinite(first.log_prob) else {}
    return {
        "id": outcome.id,
        "prompt": outcome.prompt,
        "text": outcome.texts[0],
        "reference": outcome.references[0] if outcome.references else "",
        "finished": first.finished,
        "tokens": len(first.tokens) + first.finished,
        **told,
        **({"values": dict(first.values)} if first.values else {}),
    }


def _course(model: Any, task: Task, outcome: Outcome) -> dict[str, list[str]]:
    """Return an output as it was after each of its tokens, where these do not just follow each other."""
    actions, each = outcome.hypotheses[0].actions or [], getattr(model, "actions_per_token", 1)
    if each == 1:
        return {}
    return {"steps": [task.text(model.read(actions[:end])) for end in range(each, len(actions) + 1, each)]}


def built(kind: PartKind, settings: Mapping[str, Any], *more: Any) -> Any:
    """Build a part from its described settings."""
    config = configured(kind, settings)
    with unchanged_state():
        build = config.load()
    with unchanged_state():
        return build(config, *more)


def load_weights(model: Any, path: Path) -> None:
    """Fill a model with stored weights, all of them; raise StoreError if the file does not hold just those."""
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, str(path))
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path} does not hold the weights of this model: {reason}") from None
    wrong = diverged(model)
    if wrong:
        raise StoreError(f"{path}: {wrong}; weights are finite numbers. Begin with others, or train anew.")


def _kind(model: Mapping[str, Any], by: str) -> Kind:
    """Return how one of the likelihoods of a described model relates to log p."""
    likelihoods: Mapping[str, Kind] = part("model", model["name"]).config.likelihoods  # type: ignore[attr-defined]
    return likelihoods[by]


def computing(settings: Mapping[str, Any]) -> torch.device:
    """Return the device that settings ask for, and give torch its threads; raise PluginError if it is not there."""
    import torch

    torch.set_num_threads(settings["threads"])
    if settings["device"] == "cuda" and not torch.cuda.is_available():
        raise PluginError("torch finds no CUDA device here. Set `hardware: {device: cpu}`, or see `bench doctor`.")
    return torch.device(settings["device"])


def check_builds(model: Mapping[str, Any], facts: Mapping[str, Any], data: Path) -> None:
    """Build a model on the meta device, where nothing is allocated; raise what its constructor raises."""
    import torch

    known = Facts(**{**facts, "files": configured("model", model).files(data)})
    with torch.device("meta"):
        built("model", model, known)
