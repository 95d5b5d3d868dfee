"""What trainings cost is measured, kept, and predicted; of what was never measured nothing is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

import bench_core
from bench_authors.testing import Case, toys
from bench_core.commands.main import bench
from bench_core.computing.clocks import cpu_seconds
from bench_core.computing.loading import load_task
from bench_core.computing.stage_runner import StageRunner
from bench_core.data import Purpose
from bench_core.execution.executor import InProcess
from bench_core.execution.performing import perform
from bench_core.execution.stage_costs import total
from bench_core.planning.cost_keys import CostKeys
from bench_core.planning.hardware import device_name
from bench_core.planning.plan import plan
from bench_core.planning.stages import StageRequest
from bench_core.storage.costs import CostRecord, Costs
from bench_core.storage.store import Store
from bench_core.suites.load import load
from bench_core.task import Size
from bench_training import memory, timed_training
from bench_training.excerpt import Excerpt
from bench_training.forecast import speed_in_plan
from bench_training.speed import TrainingMemory, TrainingSpeed
from bench_training.timed_training import TimedTraining
from bench_training.trainer import Trainer
from bench_training.training_length import training_length
from bench_upkeep.calibrating import Calibrating
from bench_upkeep.cost_estimates import CostEstimates

NOTHING = TrainingMemory(weights=1, optimizer=1, update=1, available=10, by_dry_run=True)


@pytest.fixture
def planned(suite_file, tmp_path):
    def of(**changes):
        return plan(load(suite_file(**changes)), tmp_path)

    return of


def trainings(found):
    return [one for one in found.stages.values() if one.kind == "train"]


def speed(device="cpu", **settings):
    return TrainingSpeed(**{
        "device": device_name(device), "setup": 2.0, "updates": (0.5,), "evaluation": 3.0, "updates_per_epoch": 10,
        "measured": 3, "share": 1.0, "memory": NOTHING, **settings,
    })  # fmt: skip


# How long trainings are


LENGTHS = [
    {"epochs": 3},
    {"updates": 7},
    {"epochs": 2, "updates": 7},
    {"updates": 11, "evaluate_every": 4},
    {"updates": 12, "evaluate_every": 4},
    {"epochs": 2, "phases": [{}, {"updates": 3}]},
    {"evaluate_every": 3, "phases": [{"updates": 4}, {"epochs": 1}, {"updates": 5, "lr": 0.5}]},
]


@pytest.mark.parametrize("training", LENGTHS, ids=str)
def test_the_trainer_makes_as_many_updates_and_evaluations_as_are_predicted(planned, tmp_path, training):
    settings = json.dumps(training)[1:-1].replace('"', "")
    found = planned(**{"epochs: 3, lr": f"{settings}, lr", "seeds: 2": "seeds: 1"})
    runner = StageRunner(Store(tmp_path / "store"), tmp_path)
    stage = trainings(found)[0]
    for one in (found.stages[stage.inputs["task"][1]], stage):
        perform(runner, StageRequest(one))
    artifact = runner.store.get("train", stage.key)
    per_epoch = sum(1 for _ in timed(runner, stage).batches())
    lengths = training_length(stage.settings["training"], per_epoch)
    history = artifact.file("history.jsonl").read_text().splitlines()
    assert sum(one.updates for one in lengths) == artifact.json("training.json")["updates"]
    assert sum(one.evaluations for one in lengths) == len(history)


def timed(runner, stage, seconds=0.01):
    found = TimedTraining(runner, stage, seconds)
    found.build()
    return found


# Whose cost is the same


def test_seeds_share_their_cost_and_nothing_else_does(planned):
    found = planned()
    keys, own = CostKeys(found.stages), trainings(found)
    assert len({one.key for one in own}) == 4
    assert len({keys.of_record(one) for one in own}) == len({keys.of_speed(one) for one in own}) == 2
    scores = [one for one in found.stages.values() if one.kind == "score"]
    assert len({keys.of_record(one) for one in scores}) == len({one.key for one in scores}) / 2


SAME = {"lr: 0.1": "lr: 0.2", "epochs: 3": "updates: 9, evaluate_every: 2, patience: 3"}
OTHER = {
    "batch_size: 8": "batch_size: 4", "{name: bigram}": "{name: bigram, noisy: true}", "lr: 0.1": "clip: 1.0",
    "{name: letters}": "{name: letters, words: 20}", "threads: 1": "threads: 2", "epochs: 3": "optimizer: sgd",
}  # fmt: skip


@pytest.mark.parametrize("change", [*SAME.items(), *OTHER.items()], ids=str)
def test_what_decides_how_long_an_update_takes_is_in_the_key_of_its_speed(planned, change):
    before, after = (
        {CostKeys(one.stages).of_speed(trainings(one)[0])} for one in (planned(), planned(**dict([change])))
    )
    assert (before == after) == (change in SAME.items())


def test_every_setting_is_in_the_key_of_a_record(planned):
    keys = [
        CostKeys(one.stages).of_record(trainings(one)[0])
        for one in (planned(), *(planned(**{a: b}) for a, b in (SAME | OTHER).items()))
    ]
    assert len({*keys}) == len(keys)


# What is predicted


def test_a_training_is_predicted_from_its_pieces(planned, tmp_path):
    found = planned(**{"epochs: 3": "epochs: 4, phases: [{}, {updates: 7, noisy: true}]"})
    costs, stage = Costs(Store(tmp_path / "store")), trainings(found)[0]
    costs.write(CostKeys(found.stages).of_speed(stage), speed(updates=(0.5, 2.0)))
    predicted, seconds = (
        CostEstimates(found.stages, costs).of(stage),
        2.0 + 4 * 10 * 0.5 + 4 * 3.0 + 7 * 2.0 + 1 * 3.0,
    )
    assert (predicted.seconds, predicted.cpu_seconds) == (seconds, None)
    assert (predicted.source, predicted.memory) == ("calibration", NOTHING.total)
    costs.write(CostKeys(found.stages).of_speed(stage), speed(updates=(0.5, 2.0), cpu_rate=0.25))
    predicted = CostEstimates(found.stages, costs).of(stage)
    assert predicted.cpu_seconds == seconds
    assert predicted.seconds == pytest.approx(4 * seconds)


def test_trainings_that_were_measured_while_the_machine_was_not_equally_busy_are_in_the_order_of_their_cpu_time(
    planned, tmp_path
):
    found = planned()
    costs, keys, (one, _, two, _) = Costs(Store(tmp_path / "store")), CostKeys(found.stages), trainings(found)
    costs.write(keys.of_speed(one), speed(updates=(1.0,), setup=0.0, evaluation=0.0, cpu_rate=0.1))  # 30 of 300 s
    costs.write(keys.of_record(two), CostRecord(device=device_name("cpu"), seconds=60.0, cpu_seconds=60.0))
    estimates = CostEstimates(found.stages, costs)
    shorter, longer = estimates.of(one), estimates.of(two)
    assert (shorter.cpu_seconds, longer.cpu_seconds) == (30.0, 60.0)
    assert longer.seconds == pytest.approx(2 * shorter.seconds)
    assert shorter.seconds + longer.seconds == pytest.approx(300.0 + 60.0)


def test_threads_take_less_wall_time_than_cpu_time_and_say_nothing_about_other_numbers_of_threads(planned, tmp_path):
    single, _, other, _ = trainings(planned())
    double = replace(other, settings={**other.settings, "threads": 2})
    stages = {one.key: one for one in (single, double)}
    costs, keys = Costs(Store(tmp_path / "store")), CostKeys(stages)
    costs.write(keys.of_record(single), CostRecord(device=device_name("cpu"), seconds=40.0, cpu_seconds=30.0))
    costs.write(keys.of_record(double), CostRecord(device=device_name("cpu"), seconds=10.0, cpu_seconds=18.0))
    estimates = CostEstimates(stages, costs)
    assert estimates.rates == pytest.approx({1: 0.75, 2: 1.8}, rel=1e-4)
    assert estimates.of(double).seconds == pytest.approx(10.0, rel=1e-4)


def test_decoding_that_waits_is_predicted_by_its_own_wall_time(planned, tmp_path):
    found = planned()
    costs, keys, (one, *_) = Costs(Store(tmp_path / "store")), CostKeys(found.stages), trainings(found)
    scoring = next(stage for stage in found.stages.values() if stage.kind == "score")
    costs.write(keys.of_record(one), CostRecord(device=device_name("cpu"), seconds=10.0, cpu_seconds=10.0))
    costs.write(keys.of_record(scoring), CostRecord(device=device_name("cpu"), seconds=50.0, cpu_seconds=1.0))
    predicted = CostEstimates(found.stages, costs).of(scoring)
    assert (predicted.seconds, predicted.cpu_seconds) == (50.0, 1.0)


def test_on_a_gpu_wall_time_alone_is_predicted(planned, tmp_path):
    found = planned(**{"device: cpu": "device: cuda"})
    costs, stage = Costs(Store(tmp_path / "store")), trainings(found)[0]
    costs.write(
        CostKeys(found.stages).of_record(stage), CostRecord(device=device_name("cuda"), seconds=9.0, cpu_seconds=3.0)
    )
    predicted = CostEstimates(found.stages, costs).of(stage)
    assert (predicted.seconds, predicted.cpu_seconds) == (9.0, None)


def test_records_and_calibrations_of_version_0_2_are_read_as_wall_time(planned, tmp_path):
    found = planned()
    store = Store(tmp_path / "store")
    costs, keys, (one, _, two, _) = Costs(store), CostKeys(found.stages), trainings(found)
    costs.write(keys.of_record(one), CostRecord(device=device_name("cpu"), seconds=5.0))
    costs.write(keys.of_speed(two), speed())
    for path in costs.folder.iterdir():
        kept = {name: value for name, value in json.loads(path.read_text()).items() if value is not None}
        assert not {"cpu_seconds", "cpu_rate", "load"} & {*kept}
        path.write_text(json.dumps(kept))
    estimates = CostEstimates(found.stages, costs)
    assert [(estimates.of(stage).seconds, estimates.of(stage).cpu_seconds) for stage in (one, two)] == [
        (5.0, None), (2.0 + 3 * 10 * 0.5 + 3 * 3.0, None),
    ]  # fmt: skip


def test_a_record_of_any_seed_counts_more_than_a_calibration_and_nothing_counts_elsewhere(planned, tmp_path):
    found = planned()
    costs, (stage, seed, other, _) = Costs(Store(tmp_path / "store")), trainings(found)
    keys = CostKeys(found.stages)
    costs.write(keys.of_speed(stage), speed())
    costs.write(keys.of_record(stage), CostRecord(device=device_name("cpu"), seconds=77.0))
    estimates = CostEstimates(found.stages, costs)
    assert [estimates.of(one).seconds for one in (stage, seed, other)] == [77.0, 77.0, None]
    elsewhere = Costs(Store(tmp_path / "elsewhere"))
    elsewhere.write(keys.of_record(stage), CostRecord(device="another processor", seconds=77.0))
    assert CostEstimates(found.stages, elsewhere).of(stage).seconds is None


@pytest.mark.parametrize("text", ["", "{", '{"device": "x"}', "[" * 100_000, '{"seconds": NaN, "device": "x"}'])
def test_a_damaged_cost_is_no_cost(tmp_path, text):
    costs = Costs(Store(tmp_path))
    costs.write("k" * 64, CostRecord(device="x", seconds=1.0))
    (path,) = (tmp_path / "costs").iterdir()
    assert costs.read(CostRecord, "k" * 64, "x").seconds == 1.0
    path.write_text(text)
    assert costs.read(CostRecord, "k" * 64, "x") is None


def test_a_run_records_what_its_stages_cost_and_a_plan_of_more_seeds_knows_it(suite_file, tmp_path):
    store = Store(tmp_path / "store")
    bench_core.run(suite_file(), store=store.root, out=tmp_path / "runs", data=tmp_path, seeds=1)
    found = plan(load(suite_file()), tmp_path)
    estimates = CostEstimates(found.stages, Costs(store))
    for stage in found.stages.values():
        assert estimates.of(stage).source == "record", stage.label
    costs = {
        store.get("train", one.key).manifest["cost"]["cpu_seconds"]
        for one in trainings(found)
        if store.has("train", one.key)
    }
    assert {estimates.of(one).cpu_seconds for one in trainings(found)} == costs


# What is measured


class Clock:
    """A clock that goes on by what work costs."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_cpu_time_is_of_all_threads_and_of_children_but_not_of_waiting():
    def burn():
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    begun, thread = cpu_seconds(), Thread(target=burn)
    thread.start()
    thread.join()
    time.sleep(1)
    assert 0.05 <= (after := cpu_seconds()) - begun < 1
    subprocess.run([sys.executable, "-S", "-c", "import time\nwhile time.process_time() < 0.1: pass"], check=True)
    assert cpu_seconds() - after >= 0.1


def test_a_calibration_measures_cpu_time_and_how_much_of_it_the_machine_gave(planned, tmp_path, monkeypatch):
    cpu, wall, update = Clock(), Clock(), Trainer._update

    def shared(self, *about):
        """Make an update that computes for 1 ms and then waits for 3 ms, as beside other work."""
        update(self, *about)
        cpu.now, wall.now = cpu.now + 0.001, wall.now + 0.004

    monkeypatch.setattr(Trainer, "_update", shared)
    monkeypatch.setattr(timed_training, "cpu_seconds", cpu)
    monkeypatch.setattr(timed_training, "time", SimpleNamespace(perf_counter=wall))
    found = planned()
    work, _ = calibrated(found, tmp_path)
    for one in trainings(found):
        measured, predicted = speed_in_plan(one, work.estimates), work.estimates.of(one)
        assert measured.cpu_rate == pytest.approx(1 / 4)
        assert measured.load >= 0
        (phase,) = training_length(one.settings["training"], measured.updates_per_epoch)
        assert measured.updates == pytest.approx((0.001,), rel=0.5)  # by element
        assert phase.updates >= 5
        assert predicted.cpu_seconds == pytest.approx(phase.updates * measured.updates[0])
        assert predicted.seconds == pytest.approx(4 * predicted.cpu_seconds)


def test_a_calibration_in_wall_time_is_made_anew_and_one_in_cpu_time_is_kept(planned, tmp_path):
    found = planned()
    calibrated(found, tmp_path)
    (path, _) = sorted((tmp_path / "store" / "costs").glob("trainingspeed-*"))
    path.write_text(
        TrainingSpeed.model_validate_json(path.read_text()).model_copy(update={"cpu_rate": None}).model_dump_json()
    )
    assert len(calibrated(found, tmp_path)[1]) == 1


def test_a_resumed_training_has_the_cpu_time_of_earlier_processes_in_proportion(tmp_path):
    here = {"seconds": 2.0, "cpu_seconds": 1.0, "peak_mib": 9.0}
    assert total(here, {"seconds": 10.0, "updates": 7}) == {
        "seconds": 10.0, "cpu_seconds": 5.0, "peak_mib": 9.0, "updates": 7,
    }  # fmt: skip
    shares = {"seconds": 3.0, "cpu_seconds": 2.0}  # of one that is taken from a joint training
    assert total(here, shares) == {**here, **shares}
    assert total(here, {"updates": 7}) == {**here, "updates": 7}


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_updates_are_timed_by_the_clock_in_proportion_to_their_elements(planned, tmp_path, monkeypatch, share):
    found, runner = planned(), StageRunner(Store(tmp_path / "store"), tmp_path)
    stage, clock = trainings(found)[0], Clock()
    perform(runner, StageRequest(found.stages[stage.inputs["task"][1]]))
    measured = timed(runner, stage, seconds=50.0)
    measured.clock = clock
    update = Trainer._update

    def slow(self, batch, *more):
        clock.now += batch.gold.numel()
        update(self, batch, *more)

    monkeypatch.setattr(Trainer, "_update", slow)
    seconds, updates = measured.updates({}, share)
    assert seconds == 1.0
    assert updates >= 3


APART = """
suite: apart
tasks: {stories: {name: sequence-completion, corpus: {name: english, sentences: 60}, prefix: 2}}
models: {lstm: {name: rnn-lm, cell: lstm, hidden: 4, layers: 1}}
decoders: {greedy: {name: greedy}}
metrics: {perplexity: {name: perplexity}}
training: {updates: 2, select: {metric: perplexity}}
hardware: {device: cpu, threads: 1}
"""


def calibrated(found, tmp_path, seconds=0.02):
    heard, store = [], Store(tmp_path / "store")
    estimates = CostEstimates(found.stages, Costs(store))
    work = Calibrating(
        load(tmp_path / "suite.yaml"), found, store, InProcess(store, tmp_path), estimates, heard.append, seconds
    )
    work.run(found.stages.values())
    return work, heard


def test_each_model_is_calibrated_once_for_all_seeds_and_kept(planned, tmp_path):
    found = planned()
    work, heard = calibrated(found, tmp_path)
    assert heard == ["prepare words", "calibrate words x one", "calibrate words x two"]
    assert not work.failures
    assert calibrated(found, tmp_path)[1] == []
    assert calibrated(planned(**{"lr: 0.1": "lr: 0.2"}), tmp_path)[1] == [], "the same speed"
    assert len(calibrated(planned(**{"batch_size: 8": "batch_size: 4"}), tmp_path)[1]) == 2


def test_all_splits_that_a_training_reads_are_prepared_before_it_is_calibrated(tmp_path):
    (tmp_path / "suite.yaml").write_text(APART)
    found = plan(load(tmp_path / "suite.yaml"), tmp_path)
    work, heard = calibrated(found, tmp_path)
    assert not work.failures
    assert sorted(heard) == ["calibrate stories x lstm", "prepare stories, to train on", "prepare stories, valid"]


def test_calibration_trains_nothing_and_leaves_cache_keys_as_they_are(planned, tmp_path):
    before = planned()
    calibrated(before, tmp_path)
    assert {path.name for path in (tmp_path / "store").iterdir()} <= {
        "prepare",
        "costs",
        "code",
        "locks",
        "unfinished",
    }
    assert {*planned().stages} == {*before.stages}


def test_a_model_that_fails_is_told_and_others_are_measured(planned, tmp_path):
    found = planned(**{"two: {name: bigram, scale: 2.0}": "two: {name: bigram, breaks: training}"})
    work, _ = calibrated(found, tmp_path)
    assert {found.stages[key].label for key in work.failures} == {"words x two, seed 0", "words x two, seed 1"}
    assert "out of luck" in next(iter(work.failures.values()))
    assert [speed_in_plan(one, work.estimates) is not None for one in trainings(found)] == [
        True,
        True,
        False,
        False,
    ]


def test_an_empty_training_split_is_told(planned, tmp_path, monkeypatch):
    monkeypatch.setattr(TimedTraining, "batches", lambda self: iter(()))
    work, _ = calibrated(planned(), tmp_path)
    assert {*work.failures.values()} == {"the training split has no batches. Is it empty?"}


def test_an_excerpt_yields_a_batch_of_every_pass_and_counts_all(planned, tmp_path):
    found, runner = planned(), StageRunner(Store(tmp_path / "store"), tmp_path)
    stage = trainings(found)[0]
    perform(runner, StageRequest(found.stages[stage.inputs["task"][1]]))
    task, size = load_task(runner, stage)[0], Size(4)
    whole = [*task.batches("valid", Purpose.TRAIN, size)]
    excerpt = Excerpt(task, seconds=0.0)
    for number in (1, 2):
        assert len([*excerpt.batches("valid", Purpose.TRAIN, size)]) == 1
        assert excerpt.all == number * sum(one.gold.numel() for one in whole)
        assert excerpt.yielded == number * whole[0].gold.numel()
    everything = Excerpt(task, seconds=60.0)
    assert len([*everything.batches("valid", Purpose.TRAIN, size)]) == len(whole)
    assert everything.share == 1.0


def test_seeds_that_train_as_one_are_calibrated_as_one(planned, tmp_path):
    found = planned(**{"epochs: 3": "vmap_seeds: true, epochs: 3"})
    work, heard = calibrated(found, tmp_path)
    joint = [one for one in found.stages.values() if one.kind == "vmapped"]
    assert len(heard) == 3
    assert all(work.estimates.of(one).seconds > 0 for one in joint)
    assert all(work.estimates.of(one).seconds == 0 for one in trainings(found)), "they are only taken out"


# Memory


def test_live_bytes_are_those_of_all_activations_that_a_gradient_needs():
    layers = [torch.nn.Linear(100, 100, bias=False) for _ in range(10)]
    for device in ("cpu", "meta"):
        model = torch.nn.Sequential(*layers).to(device)
        with memory.LiveBytes() as counted:
            model(torch.randn(1000, 100, device=device)).sum().backward()
        activations, gradients = 11 * 1000 * 100 * 4, 10 * 100 * 100 * 4
        assert activations <= counted.peak <= activations + gradients + 3 * 1000 * 100 * 4


def test_what_is_gone_is_not_counted():
    with memory.LiveBytes() as counted:
        for _ in range(50):
            torch.zeros(1000, device="meta").add_(1)
    assert counted.peak <= 2 * 4000


MODELS = [toys.ToyRecurrentConfig, toys.SelfTerminatingConfig, toys.CodesConfig, toys.LatentConfig]


@pytest.mark.parametrize("config", MODELS)
def test_a_dry_run_counts_what_an_update_allocates(config):
    case = Case.of(config(hidden=64))
    model = case.model.float().train()
    with memory.LiveBytes() as counted:
        model.loss(case.batch, bench_core.Training(0, 1, 0, 1, case.rng)).value.backward()
    found = memory.dry_run(case.config.load()(case.config, case.info).to("meta").train(), case.batch, {})
    assert found == pytest.approx(counted.peak, rel=0.25)


def test_a_model_that_does_not_fit_is_told_before_it_is_built(planned, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda device: 100)
    monkeypatch.setattr(TimedTraining, "build", lambda self: pytest.fail("built"))
    found = planned()
    work, _ = calibrated(found, tmp_path)
    assert all("need 0.0 GB" in reason and "smaller" in reason for reason in work.failures.values())
    assert len(work.failures) == 4


def test_batches_that_do_not_fit_are_cut_and_the_plan_says_so(planned, tmp_path, monkeypatch):
    found = planned()
    monkeypatch.setattr(memory, "dry_run", lambda *_: 10**12)
    work, _ = calibrated(found, tmp_path)
    speeds = [speed_in_plan(one, work.estimates) for one in trainings(found)]
    assert all(one.share < 0.2 and not one.memory.fits for one in speeds)
    stdout = (
        CliRunner().invoke(bench, ["plan", str(tmp_path / "suite.yaml"), "--store", str(tmp_path / "store")]).stdout
    )
    assert "words x one does not fit in memory: it needs about 1000.0 GB" in stdout


# The command


def invoke(tmp_path, *words):
    place = [str(tmp_path / "suite.yaml"), "--store", str(tmp_path / "store"), "--data", str(tmp_path)]
    return CliRunner().invoke(bench, ["plan", *place, *words])


def test_a_plan_says_what_is_not_known_and_what_to_do(suite_file, tmp_path):
    suite_file()
    stdout = invoke(tmp_path).stdout
    assert "No estimate for 4 training runs" in stdout
    assert "--calibrate" in stdout
    assert {row["seconds"] for row in json.loads(invoke(tmp_path, "--json").stdout)["trainings"]} == {None}


def test_models_that_are_evaluated_as_they_are_are_no_trainings_of_unknown_cost(suite_file, tmp_path):
    path = suite_file(
        **{"training: {epochs: 3, lr: 0.1, batch_size: 8, select: {metric: nats}}": "training: {mode: evaluate}"}
    )
    stdout = invoke(tmp_path).stdout
    assert "8 cells" in stdout, stdout
    assert "training" not in stdout
    assert json.loads(invoke(tmp_path, "--json").stdout)["trainings"] == []
    command = ["run", str(path), "--dry-run", "--store", str(tmp_path / "store"), "--data", str(tmp_path)]
    stdout = CliRunner().invoke(bench, command).stdout
    assert "set up words x one" in stdout
    assert "train" not in stdout


def test_a_large_training_is_not_predicted_by_small_ones(suite_file, tmp_path):
    bench_core.run(suite_file(), store=tmp_path / "store", out=tmp_path / "runs", data=tmp_path)
    suite_file(**{"epochs: 3": "updates: 1000000"})
    row = next(row for row in json.loads(invoke(tmp_path, "--json").stdout)["stages"] if row["stage"] == "train")
    assert (row["CPU time"], row["wall time"], row["unknown"]) == ("not known", "not known", 4)


def test_a_plan_has_cpu_and_wall_time_and_says_how_busy_the_machine_was(suite_file, tmp_path):
    found = plan(load(suite_file()), tmp_path)
    costs, keys, (one, _, two, _) = Costs(Store(tmp_path / "store")), CostKeys(found.stages), trainings(found)
    costs.write(keys.of_speed(one), speed(updates=(1.0,), setup=0.0, evaluation=0.0, cpu_rate=0.25, load=5.0))
    costs.write(keys.of_speed(two), speed(updates=(3.0,), setup=0.0, evaluation=0.0, cpu_rate=0.25, load=7.25))
    stdout = invoke(tmp_path).stdout
    row = next(line for line in stdout.splitlines() if line.startswith("train "))
    assert row.split()[-6:] == ["4", "min", "00", "s", "16", "min", "00", "s"][-6:]
    row = next(line for line in stdout.splitlines() if line.startswith("words x two"))
    assert row.endswith("1 min 30 s  3 min 00 s  12 min 00 s")
    assert (
        "Wall time is CPU time / 0.25: training runs with 1 thread got 0.25 CPU seconds per second when they were "
        f"calibrated, at a load of 5.0 to 7.2 on {os.cpu_count()} cores (idle: up to 1 per thread)."
    ) in stdout
    row = next(row for row in json.loads(invoke(tmp_path, "--json").stdout)["stages"] if row["stage"] == "train")
    assert (row["cpu_seconds"], row["unknown"]) == (240.0, 0)
    assert row["seconds"] == pytest.approx(960.0)


def test_a_plan_says_of_how_many_stages_wall_time_alone_is_known(suite_file, tmp_path):
    found = plan(load(suite_file()), tmp_path)
    costs, keys, (one, *_) = Costs(Store(tmp_path / "store")), CostKeys(found.stages), trainings(found)
    costs.write(keys.of_record(one), CostRecord(device=device_name("cpu"), seconds=5.0))
    stdout = invoke(tmp_path).stdout
    assert "Only wall time is known for 2 stages: version 0.2 did not record CPU time." in stdout
    assert "CPU each" not in stdout
    assert "Wall time is" not in stdout


INSTALLED = """
suite: tests/predictions
tasks: {sentences: {name: sequence-completion, corpus: {name: english, sentences: 150}, prefix: 2}}
models: {lstm: {name: rnn-lm, hidden: 8, layers: 1}, tanh: {name: rnn-lm, cell: tanh, hidden: 8, layers: 1}}
metrics: {perplexity: {name: perplexity}}
training: {updates: 1000000, batch_size: 16}
seeds: 3
hardware: {device: cpu, threads: 1}
tables: [{id: main, rows: [model], values: [perplexity]}]
"""


@pytest.mark.nightly
def test_a_calibrated_plan_predicts_each_training_and_keeps_what_it_measured(tmp_path):
    (tmp_path / "suite.yaml").write_text(INSTALLED)
    found = json.loads(invoke(tmp_path, "--calibrate", "--json").stdout)
    assert [row["number"] for row in found["trainings"]] == [3, 3]
    assert all(row["seconds"] > 60 and row["updates"] == 1_000_000 for row in found["trainings"])
    assert json.loads(invoke(tmp_path, "--json").stdout) == found


def test_calibration_elsewhere_is_refused(suite_file, tmp_path):
    suite_file()
    found = invoke(tmp_path, "--calibrate", "--executor", "ray")
    assert found.exit_code == 2
    assert "--calibrate measures this machine" in found.output
