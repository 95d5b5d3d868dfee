"""Tries the contracts on a part of a suite: in a worker process, where this file is the program, or in this one."""

import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bench_authors.checker import BUILT, IMPORTED, Trial, Verdict
from bench_authors.looks.rows import float64
from bench_authors.testing.accelerators import DECODERS_ON_ACCELERATORS, MODELS_ON_ACCELERATORS
from bench_authors.testing.cases import Case, MetricCase, TaskCase, tiny_info, tiny_outcomes
from bench_authors.testing.contracts import OF_LOSSES, Contract, exemptions, outcome, with_log_probs
from bench_authors.testing.decoders import DECODER_CONTRACTS
from bench_authors.testing.metrics import METRIC_CONTRACTS
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_authors.testing.tasks import TASK_CONTRACTS
from bench_core import (
    Batch,
    MetricConfig,
    ModelConfig,
    PluginError,
    Sampler,
    Source,
    Stepper,
    TaskConfig,
    TaskInfo,
    generate,
)  # fmt: skip
from bench_core.computing.memory_errors import is_out_of_memory
from bench_core.computing.part_class import part_class
from bench_core.computing.process_state import defined_state
from bench_core.execution.performing import WATCH
from bench_core.execution.watching import SHOWN
from bench_core.execution.worker import Reporter, main
from bench_core.registry import PartKind, configured, meaning

Say: TypeAlias = Callable[..., None]  #: reports what became of a contract, as `Verdict.record` takes it

MOST_EXAMPLES = 20_000  #: of a split: contracts read all of them dozens of times
MOST_TOKENS = 4  #: that decoders generate
LARGEST = 30_000_000  #: parameters of models that are tried in passing
LONGEST_REASON = 500  # characters
#: Is not tried: at the size of a suite it asks for a learning rate.
BY_HEART = "eight_examples_can_be_learnt_by_heart"
LEAVES_CODE = "it_leaves_the_code_of_others_as_it_is"  #: in a worker process
#: What is left out where it has to be quick, like all about accelerators: these train a model or prepare a task.
SLOW = (BY_HEART, "a_score_without_steps_does_not_see_what_it_predicts", "prepared_twice_it_is_the_same")
ON_ACCELERATORS = frozenset(map(str, (*MODELS_ON_ACCELERATORS, *DECODERS_ON_ACCELERATORS)))
CONTRACTS: Mapping[str, Sequence[Contract[Any]]] = {
    "model": MODEL_CONTRACTS, "decoder": DECODER_CONTRACTS, "task": TASK_CONTRACTS, "metric": METRIC_CONTRACTS,
}  # fmt: skip


def verdict_here(trial: Trial, data: Path) -> Verdict:
    """Try the contracts of a part in this process."""
    found = Verdict()
    with TemporaryDirectory() as folder:
        try_part(trial, data, Path(folder), lambda **message: found.record(message), (Exception, SystemExit))
    return found


def try_part(
    trial: Trial, data: Path, folder: Path, say: Say, caught: tuple[type[BaseException], ...],
    skip: Collection[str] = (),
) -> None:  # fmt: skip
    """Try the contracts of a part, but for those in `skip`; report each by name before it begins and after it."""
    say(begun=True, trying=IMPORTED)
    folder.mkdir(parents=True, exist_ok=True)  # the last part may have removed it
    with (
        TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own,
        defined_state(1, 0, own, lambda names: None),
    ):
        try:
            with meaning(trial.roots):
                configs = _configs(trial)
            for config in configs:
                part_class(config)
        except caught as error:
            say(**_unusable(IMPORTED, error, isinstance(error, ImportError)))
            return
        if trial.quick and trial.kind == "model" and _is_large(configs[0], Source(trial.source), data):
            say(untried=f"it has more than {LARGEST:,} parameters, too many for a quick trial")
            return
        say(begun=True, trying=BUILT)
        try:
            case = _case(trial, configs, data, Path(own))
        except caught as error:  # it may need what invented data lacks
            say(**_unusable(BUILT, error, isinstance(error, Exception) and not is_out_of_memory(error)))
            return
        _try_contracts(trial, case, say, caught, skip)


def _try_contracts(
    trial: Trial, case: Any, say: Say, caught: tuple[type[BaseException], ...], skip: Collection[str]
) -> None:
    exempt, process = exemptions(case), os.getpid()
    contracts = [one for one in CONTRACTS[trial.kind] if str(one) not in _left_out(trial)]
    due = [one for one in contracts if str(one) not in exempt]
    say(exempt={str(one): exempt[str(one)] for one in contracts if str(one) in exempt}, due=[*map(str, due)])
    for contract in due:
        name = str(contract)
        if name in skip:
            continue
        say(begun=True, trying=name)
        found = outcome(contract, case, caught)
        if os.getpid() != process:  # the part forked, and its child came back from there
            os._exit(1)
        if isinstance(found, BaseException):
            counts = trial.accelerated or name not in ON_ACCELERATORS
            raised = [] if isinstance(found.__cause__ or found, AssertionError) else [name]
            say(raised=raised, **{"broken" if counts else "only_on_cpu": {name: _reason(found)}})
        elif found:
            say(kept=name)


def _is_large(config: ModelConfig, source: Source, data: Path) -> bool:
    """Return whether a model has too many parameters for a quick trial; False if they cannot be counted."""
    try:
        with torch.device("meta"):
            model = config.load()(config, _invented_info(config, source, data))
        return bool(sum(weights.numel() for weights in model.parameters()) > LARGEST)
    except Exception:
        return False


def _configs(trial: Trial) -> list[Any]:
    kinds: tuple[PartKind, ...] = ("decoder", "model") if trial.kind == "decoder" else (trial.kind,)
    return [configured(kind, one) for kind, one in zip(kinds, trial.parts, strict=True)]


def _left_out(trial: Trial) -> set[str]:
    """Return the names of the contracts that are not tried."""
    found = {BY_HEART} if trial.trained else {*OF_LOSSES}
    return found | ({*SLOW} | ON_ACCELERATORS if trial.quick else set())


def _unusable(what: str, error: BaseException, is_innocent: bool) -> dict[str, Any]:
    """Return what to report of a part that cannot be used: it is broken, unless it is innocent of the error."""
    return {"untried": _reason(error)} if is_innocent else {"broken": {what: _reason(error)}}


def _case(trial: Trial, configs: Sequence[Any], data: Path, folder: Path) -> Any:
    source = Source(trial.source)
    if trial.kind == "task":
        return _of_task(configs[0], data, folder)
    if trial.kind == "metric":
        return _of_metric(configs[0])
    if trial.kind == "model":
        (model,), decoder = configs, None
    else:
        decoder, model = configs
        decoder = decoder.model_copy(update={"max_tokens": min(decoder.max_tokens, MOST_TOKENS)})
    made = Case.of(model, decoder, info=_invented_info(model, source, data), source=source, scale=1)
    return replace(made if decoder is None else _with_outputs(made), quick=trial.quick)


def _with_outputs(case: Case) -> Case:
    """Return the case of a decoder, with EOS less probable if greedy outputs would all be empty, or all cut."""
    if not isinstance(case.model, Stepper) or case.decoder.config.needs not in (Stepper, Sampler):
        return case
    found = [case.model, *(_less_often(case.model, nats) for nats in (-4.0, -2.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0))]
    with float64(), torch.no_grad():
        kinds = [_kinds_of_outputs(one, case.batch) for one in found]
    return case if kinds[0] > 1 else replace(case, model=found[kinds.index(max(kinds))])


def _kinds_of_outputs(model: Stepper, batch: Batch) -> int:
    """Return how many lengths greedy outputs have, and those that did not finish as one more."""
    try:
        outputs = generate(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), MOST_TOKENS)
    except Exception:  # which contracts will find
        return 0
    return len({(len(one.tokens), one.finished) for one in outputs})


def _less_often(model: Stepper, nats: float) -> Stepper:
    """Return a copy of a model for which EOS is less probable at every step."""

    def less_eos(log_probs: Tensor) -> Tensor:
        return torch.cat([log_probs[:, :1] - nats, log_probs[:, 1:]], 1).log_softmax(1)

    return with_log_probs(model, less_eos)


def _invented_info(config: ModelConfig, source: Source, data: Path) -> TaskInfo:
    """Return invented info with the files of a model; source and target share a vocabulary, as some settings ask."""
    info = replace(tiny_info(source), files=config.files(data))
    names = info.source_vocabulary
    return replace(info, vocabulary=names, counts=[*range(len(names), 0, -1)]) if names else info


def _of_task(config: TaskConfig, data: Path, folder: Path) -> TaskCase:
    made = TaskCase.of(config, data, folder)
    for split, purpose in made.purposes():
        examples = 0
        for batch in made.task.batches(split, purpose, made.size):
            examples += len(batch)
            if examples > MOST_EXAMPLES:
                raise PluginError(
                    f"its split {split!r} has more than {MOST_EXAMPLES:,} examples, and contracts read them dozens "
                    "of times. Try it on a smaller corpus, by a profile or `--set`."
                )
    return made


def _of_metric(config: MetricConfig) -> MetricCase:
    ended = [replace(one, hypotheses=[replace(one.hypotheses[0], finished=True)]) for one in tiny_outcomes()]
    made = MetricCase.of(config, ended)
    made.metric.combine([*made.metric.measure(made.outcomes)])
    return made


def _reason(error: BaseException) -> str:
    """Return the first line of an error, whose text a part may have written."""
    kind = type(error).__name__
    try:
        text = str(error).strip().partition("\n")[0][:LONGEST_REASON]
    except BaseException as another:
        return f"{kind}, whose text raises {type(another).__name__}"
    known = isinstance(error, AssertionError | PluginError)
    return text if known and text else f"{kind}: {text}" if text else kind


def service(reporter: Reporter) -> Callable[[Any], dict[str, Any]]:
    """Return a function that performs a trial and returns its last answer; a part answers for any error."""
    folder, data = Path(sys.argv[1]), Path(sys.argv[2])

    def perform(request: Mapping[str, Any]) -> dict[str, Any]:
        signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(0, signal.SIGKILL))  # a part may catch an exit
        given = dict(request)
        skip = given.pop("skip")
        trial = Trial(**given)
        WATCH.begin()
        try_part(trial, data, folder, reporter.say, (BaseException,), skip)
        names, _, lingering = WATCH.end(_own_modules(trial))
        if names:
            reporter.say(broken={LEAVES_CODE: f"it replaced {', '.join(names[:SHOWN])}"})
        return {"done": True, "spoilt": bool(names or lingering)}

    return perform


def _own_modules(trial: Trial) -> Iterator[str]:
    """Yield the modules of the packages that provide the part."""
    own = {type(one).__module__.partition(".")[0] for one in _configs(trial)}
    return (name for name in sys.modules if name.partition(".")[0] in own)


if __name__ == "__main__":
    main(service)
