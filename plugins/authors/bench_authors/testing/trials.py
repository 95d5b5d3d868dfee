"""Tests the contracts of a part of a suite, either as the program of a worker process or in this process."""

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
from bench_authors.testing.cases import Case, MetricCase, TaskCase, tiny_info, tiny_predictions
from bench_authors.testing.contracts import LOSS_CONTRACTS, Contract, exemptions, try_contract, with_log_probs
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
from bench_core.execution.watching import MAX_NAMES
from bench_core.execution.worker import Reporter, main
from bench_core.registry import PartKind, configured, meaning

Say: TypeAlias = Callable[..., None]  #: reports progress of a trial as `Verdict.record` expects it

MAX_EXAMPLES = 20_000  #: maximum number of examples in a split; contracts read each example dozens of times
MAX_TOKENS = 4  #: maximum number of tokens that decoders generate
MAX_QUICK_PARAMETERS = 30_000_000  #: maximum number of parameters of models in quick trials
MAX_REASON_CHARACTERS = 500
#: Skipped, because models as large as in suites need a tuned learning rate.
BY_HEART = "eight_examples_can_be_learnt_by_heart"
LEAVES_CODE = "it_leaves_the_code_of_others_as_it_is"  #: tested in worker processes only
#: Skipped in quick trials, like the contracts of accelerators, because they train a model or prepare a task.
SLOW = (BY_HEART, "a_score_without_steps_does_not_see_what_it_predicts", "prepared_twice_it_is_the_same")
ON_ACCELERATORS = frozenset(map(str, (*MODELS_ON_ACCELERATORS, *DECODERS_ON_ACCELERATORS)))
CONTRACTS: Mapping[str, Sequence[Contract[Any]]] = {
    "model": MODEL_CONTRACTS, "decoder": DECODER_CONTRACTS, "task": TASK_CONTRACTS, "metric": METRIC_CONTRACTS,
}  # fmt: skip


def verdict_here(trial: Trial, data: Path) -> Verdict:
    """Test the contracts of a part in this process."""
    result = Verdict()
    with TemporaryDirectory() as folder:
        try_part(trial, data, Path(folder), lambda **message: result.record(message), (Exception, SystemExit))
    return result


def try_part(
    trial: Trial, data: Path, folder: Path, say: Say, caught: tuple[type[BaseException], ...],
    skip: Collection[str] = (),
) -> None:  # fmt: skip
    """Test the contracts of a part except `skip`; report each contract before and after it is tested."""
    say(begun=True, trying=IMPORTED)
    folder.mkdir(parents=True, exist_ok=True)  # the previous part may have removed it
    with (
        TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch,
        defined_state(1, 0, scratch, lambda names: None),
    ):
        try:
            with meaning(trial.roots):
                configs = _configs(trial)
            for config in configs:
                part_class(config)
        except caught as error:
            say(**_failure_report(IMPORTED, error, isinstance(error, ImportError)))
            return
        if trial.quick and trial.kind == "model" and _is_large(configs[0], Source(trial.source), data):
            say(untried=f"it has more than {MAX_QUICK_PARAMETERS:,} parameters, too many for a quick trial")
            return
        say(begun=True, trying=BUILT)
        try:
            case = _case(trial, configs, data, Path(scratch))
        except caught as error:  # the part may need more than synthetic data
            say(**_failure_report(BUILT, error, isinstance(error, Exception) and not is_out_of_memory(error)))
            return
        _try_contracts(trial, case, say, caught, skip)


def _try_contracts(
    trial: Trial, case: Any, say: Say, caught: tuple[type[BaseException], ...], skip: Collection[str]
) -> None:
    exempt, process = exemptions(case), os.getpid()
    contracts = [contract for contract in CONTRACTS[trial.kind] if str(contract) not in _skipped_contracts(trial)]
    due = [contract for contract in contracts if str(contract) not in exempt]
    say(
        exempt={str(contract): exempt[str(contract)] for contract in contracts if str(contract) in exempt},
        due=[*map(str, due)],
    )
    for contract in due:
        name = str(contract)
        if name in skip:
            continue
        say(begun=True, trying=name)
        result = try_contract(contract, case, caught)
        if os.getpid() != process:  # the part forked, and this is the child
            os._exit(1)
        if isinstance(result, BaseException):
            counts = trial.accelerated or name not in ON_ACCELERATORS
            raised = [] if isinstance(result.__cause__ or result, AssertionError) else [name]
            say(raised=raised, **{"broken" if counts else "only_on_cpu": {name: _reason(result)}})
        elif result:
            say(kept=name)


def _is_large(config: ModelConfig, source: Source, data: Path) -> bool:
    """Return whether a model has too many parameters for a quick trial, or False if they cannot be counted."""
    try:
        with torch.device("meta"):
            model = config.load()(config, _synthetic_info(config, source, data))
        return bool(sum(weights.numel() for weights in model.parameters()) > MAX_QUICK_PARAMETERS)
    except Exception:
        return False


def _configs(trial: Trial) -> list[Any]:
    kinds: tuple[PartKind, ...] = ("decoder", "model") if trial.kind == "decoder" else (trial.kind,)
    return [configured(kind, settings) for kind, settings in zip(kinds, trial.parts, strict=True)]


def _skipped_contracts(trial: Trial) -> set[str]:
    """Return the names of the skipped contracts."""
    names = {BY_HEART} if trial.trained else {*LOSS_CONTRACTS}
    return names | ({*SLOW} | ON_ACCELERATORS if trial.quick else set())


def _failure_report(what: str, error: BaseException, is_innocent: bool) -> dict[str, Any]:
    """Return the report on an unusable part: broken, or untested if the error is not the part's fault."""
    return {"untried": _reason(error)} if is_innocent else {"broken": {what: _reason(error)}}


def _case(trial: Trial, configs: Sequence[Any], data: Path, folder: Path) -> Any:
    source = Source(trial.source)
    if trial.kind == "task":
        return _task_case(configs[0], data, folder)
    if trial.kind == "metric":
        return _metric_case(configs[0])
    if trial.kind == "model":
        (model,), decoder = configs, None
    else:
        decoder, model = configs
        decoder = decoder.model_copy(update={"max_tokens": min(decoder.max_tokens, MAX_TOKENS)})
    case = Case.of(model, decoder, info=_synthetic_info(model, source, data), source=source, scale=1)
    return replace(case if decoder is None else _with_outputs(case), quick=trial.quick)


def _with_outputs(case: Case) -> Case:
    """Change the EOS probability in a decoder's Case if its greedy outputs are all empty or all unfinished."""
    if not isinstance(case.model, Stepper) or case.decoder.config.needs not in (Stepper, Sampler):
        return case
    models = [case.model, *(_with_less_eos(case.model, nats) for nats in (-4.0, -2.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0))]
    with float64(), torch.no_grad():
        kinds = [_kinds_of_outputs(model, case.batch) for model in models]
    return case if kinds[0] > 1 else replace(case, model=models[kinds.index(max(kinds))])


def _kinds_of_outputs(model: Stepper, batch: Batch) -> int:
    """Return the number of distinct pairs of length and `finished` among greedy outputs."""
    try:
        outputs = generate(model, batch, lambda log_probs, ids, step: log_probs.argmax(1), MAX_TOKENS)
    except Exception:  # contracts will report it
        return 0
    return len({(len(output.tokens), output.finished) for output in outputs})


def _with_less_eos(model: Stepper, nats: float) -> Stepper:
    """Return a copy of a model with EOS less probable by `nats` at every step."""

    def less_eos(log_probs: Tensor) -> Tensor:
        return torch.cat([log_probs[:, :1] - nats, log_probs[:, 1:]], 1).log_softmax(1)

    return with_log_probs(model, less_eos)


def _synthetic_info(config: ModelConfig, source: Source, data: Path) -> TaskInfo:
    """Return synthetic task info with the files of a model and a shared vocabulary, which some settings require."""
    info = replace(tiny_info(source), files=config.files(data))
    names = info.source_vocabulary
    return replace(info, vocabulary=names, counts=[*range(len(names), 0, -1)]) if names else info


def _task_case(config: TaskConfig, data: Path, folder: Path) -> TaskCase:
    case = TaskCase.of(config, data, folder)
    for split, purpose in case.purposes():
        examples = 0
        for batch in case.task.batches(split, purpose, case.size):
            examples += len(batch)
            if examples > MAX_EXAMPLES:
                raise PluginError(
                    f"its split {split!r} has more than {MAX_EXAMPLES:,} examples; contracts read each dozens of "
                    "times. Set a smaller corpus in a profile or with `--set`."
                )
    return case


def _metric_case(config: MetricConfig) -> MetricCase:
    predictions = [replace(y, hypotheses=[replace(y.hypotheses[0], finished=True)]) for y in tiny_predictions()]
    case = MetricCase.of(config, predictions)
    case.metric.combine([*case.metric.measure(case.predictions)])
    return case


def _reason(error: BaseException) -> str:
    """Return the first line of an error message, which may come from a part."""
    kind = type(error).__name__
    try:
        text = str(error).strip().partition("\n")[0][:MAX_REASON_CHARACTERS]
    except BaseException as another:
        return f"{kind}, whose text raises {type(another).__name__}"
    known = isinstance(error, AssertionError | PluginError)
    return text if known and text else f"{kind}: {text}" if text else kind


def service(reporter: Reporter) -> Callable[[Any], dict[str, Any]]:
    """Return a function that performs a trial and returns its final report; all errors count as the part's errors."""
    folder, data = Path(sys.argv[1]), Path(sys.argv[2])

    def perform(request: Mapping[str, Any]) -> dict[str, Any]:
        # Parts may catch SystemExit.
        signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(0, signal.SIGKILL))
        settings = dict(request)
        skip = settings.pop("skip")
        trial = Trial(**settings)
        WATCH.begin()
        try_part(trial, data, folder, reporter.say, (BaseException,), skip)
        names, _, lingering = WATCH.end(_part_modules(trial))
        if names:
            reporter.say(broken={LEAVES_CODE: f"it replaced {', '.join(names[:MAX_NAMES])}"})
        return {"done": True, "spoilt": bool(names or lingering)}

    return perform


def _part_modules(trial: Trial) -> Iterator[str]:
    """Yield the names of the loaded modules in the packages that define the part."""
    packages = {type(config).__module__.partition(".")[0] for config in _configs(trial)}
    return (name for name in sys.modules if name.partition(".")[0] in packages)


if __name__ == "__main__":
    main(service)
