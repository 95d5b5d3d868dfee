"""A part that is wrong in its meaning is refused by a run, by name, in default options; no correct part ever is."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
from contextlib import contextmanager

import bench_mutants.plugin
import bench_writers.plugin
import pytest
from bench_mutants import decoders, harmful, laws, metrics, models, tasks
from bench_mutants.plugin import part_name
from bench_mutants.sound import Reader
from bench_small.elsewhere import in_others

import bench_core
from bench_authors import contracts_once
from bench_authors.testing import toys
from bench_authors.testing.trials import verdict_here
from bench_core import registry
from bench_core.commands.main import bench, main
from bench_core.computing import looks
from bench_core.execution.progress import ProgressDisplay
from bench_core.runs import runner

#: Mutants of which runs see nothing, each with the reason; at most one of twelve.
UNSEEN: dict[str, str] = {
    "models-leaks-rarely": "after few chains alone, and neither along targets nor along outputs of eight rows",
    "tasks-never-shuffles": "a look at a task draws no random numbers; `bench check --contracts` does",
    "models-samples-too-sharply": "1,000 draws from five tokens tell no difference; `bench check --contracts` draws 20,000",
}
PATIENCE = 300  # seconds for a checker

SOUND = {
    "suite": "tests/mutants",
    "tasks": {"words": {"name": "sound-words"}},
    "models": {"table": {"name": "sound-table"}},
    "decoders": {"greedy": {"name": "sound-greedy"}},
    "metrics": {"nats": {"name": "sound-nats"}, "match": {"name": "sound-match"}, "length": {"name": "sound-length"}},
    "training": {"updates": 2, "lr": 0.01, "batch_size": 8},
    "seeds": 1,
    "limits": {"max_tokens": 8, "batch_size": 10},
    "hardware": {"threads": 1, "device": "cpu"},
}
SOURCES = {"tasks": {"words": {"name": "sound-copies"}}, "models": {"table": {"name": "sound-reader"}}}
KINDS = {"models": models, "decoders": decoders, "metrics": metrics, "tasks": tasks}
MUTANTS = {part_name(mutant): mutant for mutant in laws.LAWS}
#: What is wrong with these shows beside one decoder alone, and other cells may be right.
SHOWN_BY = {
    models.SamplesTooSharply: "sound-draw",
    models.SamplesByPlace: "sound-draw",
    models.WritesIntoItsState: "sound-beam",
    metrics.UnknownAsZero: "unusual-quiet",
}
REFUSED = [name for name, mutant in MUTANTS.items() if not laws.LAWS[mutant].warning]
WARNED = [name for name in MUTANTS if name not in REFUSED]


def spread(names):
    """Return names in an order in which the first ones are of all kinds."""
    listed = [*names]
    return [name for start in range(5) for name in listed[start::5]]


class Heard(ProgressDisplay):
    """The warnings of a run."""

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        if ": it read " not in text:  # what the tests themselves import
            self.warnings.append(text)


class Desk:
    """A folder with a store, in which suites run in this process, the sound parts of a suite once for all."""

    def __init__(self, folder):
        self.folder = folder
        self.clean = {}  # runs of the sound parts alone, without a source and with one

    def run(self, sections, store="store"):
        """Run a suite; return the run and its warnings."""
        path, heard = self.folder / "suite.yaml", Heard()
        path.write_text(json.dumps({**SOUND, **sections}))
        out = self.folder / "runs"
        return bench_core.run(path, store=self.folder / store, out=out, workers=0, progress=heard), heard.warnings

    def results(self, name):
        """Return kind and metric of each stored result that comes from a part, the latter of measurements alone."""
        manifests = self.folder.joinpath("store").glob("*/*/manifest.json")
        artifacts = {path.parent.name: (path.parent.parent.name, json.loads(path.read_text())) for path in manifests}

        def comes_from(key):
            ingredients = artifacts[key][1]["ingredients"]
            own = any(one.get("name") == name for one in ingredients["settings"].values() if isinstance(one, dict))
            return own or any(comes_from(one) for one in _keys(ingredients["inputs"]))

        found = set()
        for key, (kind, manifest) in artifacts.items():
            if comes_from(key):
                metric = manifest["ingredients"]["settings"].get("metric") or {}
                found.add((kind, metric.get("name", "")))
        return found


def _keys(inputs):
    values = inputs.values() if isinstance(inputs, dict) else inputs
    return [one[-1] if isinstance(one, list) else one for one in values]


@contextmanager
def contracts_here(data, seconds):
    """Try contracts in this process, which knows the parts of the tests."""
    yield lambda trial: verdict_here(trial, data)


@pytest.fixture(autouse=True, scope="module")
def contracts_are_tried():
    """Try contracts of models also where stages are performed in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.Runner, "with_contracts", True)
        patch.setattr(contracts_once, "checking", contracts_here)
        patch.setattr(looks, "MAX_REPEATED_SHARE", 0.01)
        yield


@pytest.fixture(scope="module")
def plugins():
    with registry.extra(bench_mutants.plugin, bench_writers.plugin, toys):
        yield


@pytest.fixture(scope="module")
def desk(plugins, tmp_path_factory):
    """Return a desk whose store has the results of the sound parts."""
    found = Desk(tmp_path_factory.mktemp("mutants"))
    for name, sections in (("writes", {}), ("reads", SOURCES)):
        found.clean[name], warnings = found.run(sections)
        assert [one.status for one in found.clean[name].cells] == ["done"]
        assert not warnings
    return found


def beside(mutants):
    """Return the sections of a suite that has mutants of a kind beside sound parts."""
    kind = next(kind for kind, module in KINDS.items() if mutants[0].__module__ == module.__name__)
    sections = {**SOUND, **(SOURCES if any(issubclass(one, Reader) for one in mutants) else {})}
    sections[kind] = {**sections[kind], **{one.__name__: {"name": part_name(one)} for one in mutants}}
    more = {SHOWN_BY[one].partition("-")[2]: {"name": SHOWN_BY[one]} for one in mutants if one in SHOWN_BY}
    sections["decoders"] = {**sections["decoders"], **more}
    return sections


def cells_of(run, mutant):
    """Return the cells that a mutant makes wrong: those that have it on one of their axes; of a metric, all."""
    of_metric = mutant.__module__ == metrics.__name__
    cells = [one for one in run.cells if of_metric or mutant.__name__ in one.cell.values()]
    shown_by = SHOWN_BY.get(mutant, "").partition("-")[2]
    return [one for one in cells if not shown_by or one.cell["decoder"] == shown_by]


def refusal(run, mutant):
    """Return why a mutant's numbers are missing."""
    law = laws.LAWS[mutant]
    reasons = {one.reason for one in cells_of(run, mutant)}
    spoilt = [mutant.__name__] if law.spoils == ("wrong",) else law.spoils
    numbers = [one.numbers[name] for one in cells_of(run, mutant) for name in spoilt if name in one.numbers]
    reasons |= {number.reason for number in numbers if number.value is None}
    left = {
        f"{one.cell['model']}/{one.cell['decoder']} {name}": one.numbers[name].value
        for one in cells_of(run, mutant)
        for name in spoilt
        if name in one.numbers and one.numbers[name].value is not None
    }
    return " ".join(filter(None, reasons)), left


def check_refused(run, mutant):
    """Assert that the cells of a mutant failed by its name and law, without a number that it spoils."""
    law = laws.LAWS[mutant]
    why, left = refusal(run, mutant)
    failed = [one for one in cells_of(run, mutant) if one.status == "failed"]
    assert failed, f"not refused, although {law.text}; its numbers: {left}"
    assert not left, f"numbers are left, although {law.text}: {left}"
    assert mutant.__name__ in why, f"the refusal does not name the class: {why}"
    assert re.search(law.says, why, re.IGNORECASE), f"the refusal does not say that {law.text}: {why}"


def check_clean(desk, run, mutants):
    """Assert that cells without a mutant have the numbers that they have without mutants beside them."""
    (clean,) = desk.clean["reads" if any(issubclass(one, Reader) for one in mutants) else "writes"].cells
    names = {mutant.__name__ for mutant in mutants}
    others = [one for one in run.cells if one.cell["decoder"] == "greedy" and not names & {*one.cell.values()}]
    assert others
    for cell in others:
        assert {name: number for name, number in cell.numbers.items() if name not in names} == clean.numbers
        assert names & {*cell.numbers} or cell.status == "done"


def check_unstored(desk, mutant):
    """Assert that no measurement is stored that a mutant spoils, nor the outputs or scores behind it."""
    stored = desk.results(part_name(mutant))
    if mutant.__module__ == metrics.__name__:
        spoilt = {("measure", part_name(mutant))}
    else:
        spoils = laws.LAWS[mutant].spoils
        spoilt = {("measure", f"sound-{name}") for name in spoils}
        spoilt |= {("score" if name == "nats" else "decode", "") for name in spoils}
    assert not spoilt & stored


@pytest.mark.quick(18, 36)
@pytest.mark.parametrize("name", spread(REFUSED))
def test_a_part_that_is_wrong_in_its_meaning_is_refused_by_name_and_nothing_of_it_is_stored(desk, name):
    mutant = MUTANTS[name]
    run, _ = desk.run(beside([mutant]))
    check_clean(desk, run, [mutant])
    if name in UNSEEN:
        assert all(one.status == "done" for one in cells_of(run, mutant)), "it is seen by now: correct the list"
        return
    check_refused(run, mutant)
    if mutant not in SHOWN_BY:
        check_unstored(desk, mutant)


def test_at_most_one_of_twelve_mutants_is_unseen():
    assert len(REFUSED) >= 60
    assert {*UNSEEN} <= {*REFUSED}
    assert 12 * len(UNSEEN) <= len(REFUSED)


@pytest.mark.parametrize("name", WARNED)
def test_examples_that_come_again_are_told_by_name(desk, name):
    run, warnings = desk.run(beside([MUTANTS[name]]))
    law = laws.LAWS[MUTANTS[name]]
    told = " ".join([*warnings, *(one.reason for one in run.cells)])
    assert MUTANTS[name].__name__ in told, f"nothing says that {law.text}"
    assert re.search(law.says, told, re.IGNORECASE), told
    check_clean(desk, run, [MUTANTS[name]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_mutants_together_are_refused_one_by_one_and_leave_clean_cells_alone(desk, kind):
    chosen = [
        mutant
        for name, mutant in MUTANTS.items()
        if mutant.__module__ == KINDS[kind].__name__ and name in REFUSED and name not in UNSEEN
    ]
    chosen = [one for one in chosen if not issubclass(one, Reader)]
    run, _ = desk.run(beside(chosen), store=f"store of {kind}")
    check_clean(desk, run, chosen)
    for mutant in chosen:
        check_refused(run, mutant)


# Correct parts


def unlike(**sections):
    """Return the sections of a suite with one part beside, or instead of, the sound ones."""
    return {**SOUND, **sections}


def one_model(name, **more):
    return unlike(models={"unusual": {"name": name, **more}})


NO_SCORE = {"match": {"name": "sound-match"}, "length": {"name": "sound-length"}}
OF_TEXT = {"match": {"name": "sound-match"}, "length": {"name": "text-length"}}
UNTRAINED = {"updates": 0}
CORRECT = {
    "a score that is a declared bound": one_model("unusual-bounded"),
    "a score that is a declared estimate": one_model("unusual-estimated"),
    "an exact likelihood and a bound": unlike(
        models={"unusual": {"name": "unusual-two-ways"}},
        metrics={"exact": {"name": "sound-nats"}, "below": {"name": "sound-nats", "by": "below"}},
    ),
    "rounding that depends on the shape of a batch": one_model("unusual-rounded"),
    "a score in single precision": one_model("unusual-single"),
    "a loss with a penalty on weights": one_model("unusual-regularized"),
    "dropout that is off in evaluation": one_model("unusual-dropped"),
    "impossible actions and impossible targets": one_model("unusual-forbids", training=UNTRAINED),
    "a model that no accelerator could compute": one_model("unusual-on-main-memory"),
    "a limit of its own": one_model("unusual-limited"),
    "a model without parameters": one_model("unusual-uniform", training=UNTRAINED),
    "a model that is not trained": one_model("sound-table", training=UNTRAINED),
    "a model that samples words and nothing else": unlike(
        models={"unusual": {"name": "unusual-whole"}}, decoders={"ancestral": {"name": "sound-draw"}}, metrics=NO_SCORE
    ),
    "a model without steps": unlike(
        models={"unusual": {"name": "toy-latent"}}, decoders={"ancestral": {"name": "sound-draw"}}
    ),
    "a model that is not left to right": one_model("toy-insertion"),
    "a model with a bound from bits": unlike(
        models={"unusual": {"name": "toy-codes"}}, metrics={"bits": {"name": "sound-nats", "by": "bits"}}
    ),
    "a model that stops for certain": one_model("toy-self-terminating"),
    "a model with attention": unlike(tasks=SOURCES["tasks"], models={"unusual": {"name": "toy-encoder-decoder"}}),
    "a model with memory on a stream": unlike(
        tasks={"words": {"name": "toy-stream"}}, models={"unusual": {"name": "toy-recurrent"}}
    ),
    "a text system": unlike(
        models={"unusual": {"name": "echo"}}, decoders={"echoed": {"name": "as-echoed"}}, metrics=OF_TEXT
    ),
    "a text system that answers by seed": unlike(
        models={"unusual": {"name": "oracle"}}, decoders={"asked": {"name": "ask"}}, metrics=OF_TEXT
    ),
    "a judge of texts": unlike(
        models={"unusual": {"name": "judge"}}, decoders={}, metrics={"nats": {"name": "sound-nats"}}
    ),
    "a model with a vocabulary of its own": one_model("characters"),
    **{
        f"decoding that is {name}": unlike(decoders={"unusual": {"name": f"unusual-{name}"}})
        for name in (
            "untyped", "tempered", "normalized", "quiet", "bare", "silent", "at-least-two", "several", "constant",
        )
    },
    "decoding that draws": unlike(decoders={"unusual": {"name": "sound-draw"}}),
    "decoding by a beam": unlike(decoders={"unusual": {"name": "sound-beam"}}),
    "log-probabilities of another normalization, declared": unlike(decoders={"unusual": {"name": "unusual-declared-normalized"}}),
    **{
        f"a metric that is {name}": unlike(metrics={"unusual": {"name": f"unusual-{name}"}})
        for name in (
            "unbounded", "first-reference", "longest", "total", "count", "distinct", "median", "undefined", "inexact",
            "rarity", "of-prompts",
        )
    },
    "a metric in percent above 100, declared": unlike(metrics={"unusual": {"name": "unusual-error-rate"}}),
    **{
        f"a task that is {name}": unlike(tasks={"unusual": {"name": f"unusual-{name}"}})
        for name in (
            "alone", "same-prompt", "empty-targets", "binary", "capitals", "many", "weighted", "common", "documents",
        )
    },
    "sources that are their targets": unlike(**SOURCES),
    "a task that is unanswered": unlike(
        tasks={"unusual": {"name": "unusual-unanswered"}}, metrics={"length": {"name": "sound-length"}}
    ),
}  # fmt: skip


@pytest.mark.quick(12, 16)
@pytest.mark.parametrize("name", spread(CORRECT))
def test_a_correct_part_is_never_refused_however_unusual(desk, name):
    assert len(CORRECT) >= 25
    run, _ = desk.run(CORRECT[name])
    assert run.cells
    for cell in run.cells:
        assert cell.status == "done", cell.reason
        assert all(number.value is not None and not number.reason for number in cell.numbers.values())


def test_the_recorded_outputs_of_a_system_are_never_refused(desk):
    lines = desk.folder / "outputs.txt"
    lines.write_text("abc\n\n" * 12)
    run, _ = desk.run(
        unlike(
            models={"unusual": {"name": "recorded", "outputs": str(lines)}},
            decoders={"recorded": {"name": "as-recorded"}},
            metrics=OF_TEXT,
        )
    )
    assert [one.status for one in run.cells] == ["done"], run.cells[0].reason


# The checker


@pytest.mark.quick(2, 4)
@pytest.mark.parametrize("name", spread(CORRECT))
def test_a_correct_part_breaks_no_contract_however_unusual(plugins, name, tmp_path, capsys):
    path = tmp_path / "suite.yaml"
    path.write_text(json.dumps(CORRECT[name]))
    code = bench.main(["check", "--contracts", "--same-process", str(path)], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert code == 0, lines
    assert not [line for line in lines if line.startswith("broken")]
    assert any(line.startswith("ok  task ") for line in lines)


def in_a_fork(folder, *words):
    """Return exit code and lines of `bench WORDS`, called in a copy of this process; None if it never ended."""
    path = folder / "said.txt"
    child = os.fork()
    if child == 0:  # whatever happens here, it is the end of this process
        code = 99
        try:
            os.setpgid(0, 0)
            os.chdir(folder)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
            sys.argv = ["bench", *words]
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    ended = os.pidfd_open(child)
    try:
        in_time = bool(select.select([ended], [], [], PATIENCE)[0])
    finally:
        os.close(ended)
        if not in_time:
            os.killpg(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return (os.waitstatus_to_exitcode(status) if in_time else None), path.read_text().splitlines()


PLACES = {
    "model": ("models", "harmful-harmful-table", "model wrong"),
    "decoder": ("decoders", "harmful-harmful-greedy", "decoder wrong with table"),
    "metric": ("metrics", "harmful-harmful-match", "metric wrong"),
    "task": ("tasks", "harmful-harmful-words", "task wrong"),
}
OTHERS = ("model table", "decoder greedy with table", "task words", "metric match")
HARMS = [("model", way) for way in harmful.WAYS]
HARMS += [
    (kind, way) for kind in ("decoder", "metric", "task") for way in ("quits", "vanishes", "interrupts", "crashes")
]


@pytest.fixture(scope="module")
def check_contracts(plugins, tmp_path_factory):
    """Return a function that checks the contracts of a suite with a harmful part; it returns exit code and lines."""
    folder = tmp_path_factory.mktemp("checked")

    def check(kind, settings, *words):
        sections = unlike(metrics={"match": {"name": "sound-match"}})
        sections[kind] = {"wrong": settings, **sections[kind]}
        (folder / "suite.yaml").write_text(json.dumps(sections))
        return in_a_fork(folder, "check", "--contracts", "suite.yaml", "--contract-timeout", "15s", *words)

    with in_others(folder / "installed", bench_mutants.plugin, bench_writers.plugin, toys):
        yield check


def check_broken(code, lines, label):
    """Assert that one part is broken, and the others are not."""
    assert code == 1, lines
    assert any(line.startswith(f"broken  {label}") for line in lines), lines
    check_others(lines, label)


def check_others(lines, label):
    """Assert that no other part is broken."""
    broken = [line for line in lines if line.startswith("broken")]
    assert [line for line in broken if not line.startswith(f"broken  {label}")] == []
    for other in OTHERS:
        assert any(line.startswith(f"ok  {other}: ") for line in lines), (other, lines)


@pytest.mark.slow(1)
@pytest.mark.parametrize(("kind", "way"), spread(HARMS), ids=lambda one: one)
def test_a_part_that_leaves_hangs_or_crashes_in_a_contract_is_broken_and_no_other_is(check_contracts, kind, way):
    section, name, label = PLACES[kind]
    check_broken(*check_contracts(section, {"name": name, "way": way}), label)


@pytest.mark.slow(1)
@pytest.mark.parametrize("way", harmful.MORE_WAYS)
def test_a_part_that_would_have_the_checker_wait_or_believe_something_is_broken_and_no_other_is(check_contracts, way):
    check_broken(*check_contracts("tasks", {"name": "harmful-harmful-words", "way": way}), "task wrong")


@pytest.mark.nightly
@pytest.mark.parametrize("way", harmful.LASTING)
def test_what_a_part_leaves_behind_breaks_no_other(check_contracts, way):
    code, lines = check_contracts("tasks", {"name": "harmful-harmful-words", "way": way})
    check_others(lines, "task wrong")
    assert code == any(line.startswith("broken") for line in lines)


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["quits", "vanishes", "interrupts", "crashes"])
def test_a_part_that_leaves_where_it_is_built_is_broken(check_contracts, way):
    code, lines = check_contracts("models", {"name": "harmful-harmful-to-build", "way": way})
    assert any(line.startswith("broken  model wrong") for line in lines), lines
    assert code == 1
    assert any(line.startswith("ok  model table: ") for line in lines), lines


@pytest.mark.slow
def test_a_part_whose_import_ends_the_process_is_broken(check_contracts):
    code, lines = check_contracts("models", {"name": "leaving"})
    assert any(line.startswith("broken  model wrong") for line in lines), lines
    assert code == 1
    assert any(line.startswith("ok  model table: ") for line in lines), lines


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["untyped", "quiet"])
def test_a_correct_decoder_without_a_type_parameter_or_log_probabilities_is_not_broken(check_contracts, name):
    code, lines = check_contracts("decoders", {"name": f"unusual-{name}"})
    assert any(line.startswith("ok  decoder wrong with table: ") for line in lines), lines
    assert code == 0
