"""`bench store ls|verify|gc` and `bench verify`: what they say of a store, and what they leave of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import bench_small.plugin
import pytest
from bench_small.forging import reseal
from bench_small.suites import SUITE
from torch.nn import Linear

import bench_core
from bench_core import registry
from bench_core.commands.main import main
from bench_core.execution.executor import InProcess
from bench_core.execution.progress import ProgressDisplay
from bench_core.runs.provenance import STAGES, read_stages, write_stages
from bench_core.runs.results import number_digest, read_run
from bench_core.storage.contents import records
from bench_core.storage.predictions import read_lines, write_lines
from bench_core.storage.store import Store
from bench_training.checkpoint import Checkpoints
from block_bootstrap import write_replicates

OTHER = SUITE.replace("two: {name: bigram, scale: 2.0}", "two: {name: bigram, scale: 3.0}")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run two suites that share a model, once for all tests."""
    folder = tmp_path_factory.mktemp("made")
    with registry.extra(bench_small.plugin):
        for name, text in (("one", SUITE), ("two", OTHER)):
            (folder / f"{name}.yaml").write_text(text)
            run = bench_core.run(
                folder / f"{name}.yaml", seeds=1, store=folder / "store", out=folder / "runs", data=folder
            )
            run.folder.rename(folder / "runs" / name)
    return folder


@pytest.fixture
def bench(made, tmp_path, monkeypatch, capsys, small):
    """Return a function that runs a command where a copy of the store and the runs is."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["bench", *words, *(() if "--store" in words else ("--store", "store"))])
        with pytest.raises(SystemExit) as stop:
            main()
        out, errors = capsys.readouterr()
        assert stop.value.code == code, out + errors
        return out + errors

    return run


STORE = Store(Path("store"))


def everything():
    aside = ("code", "costs", "locks")
    return {path for path in Path("store").rglob("*") if path.is_file() and path.parts[1] not in aside}


def artifacts(run):
    lines = map(json.loads, Path("runs", run, "cells.jsonl").read_text().splitlines())
    return {(name.partition("/")[0], key) for line in lines for name, key in line["artifacts"].items()}


def first(kind):
    return next(key for other, key in STORE.entries() if other == kind)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def rewritten(run, change):
    """Change the cells of a run."""
    path = Path("runs", run, "cells.jsonl")
    cells = [json.loads(line) for line in path.read_text().splitlines()]
    for cell in cells:
        change(cell)
    path.write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    reseal(path.parent)


def computed(name):
    """Run a suite again and return the kinds of stages that were computed."""
    kinds = []
    progress = ProgressDisplay()
    progress.begin = lambda stage, number, total: kinds.append(stage.kind)
    bench_core.run(f"{name}.yaml", seeds=1, store="store", out="again", data=".", progress=progress)
    return sorted(kinds)


# ls


def test_everything_stored_is_listed_with_what_it_is(bench):
    listed = json.loads(bench("store", "ls", "--json"))["artifacts"]
    assert {(one["kind"], one["key"]) for one in listed} == artifacts("one") | artifacts("two")
    assert sum(one["size"] for one in listed) == sum(path.stat().st_size for path in everything())
    assert [one["kind"] for one in listed] == sorted(one["kind"] for one in listed)
    text = bench("store", "ls", "--kind", "train")
    assert text.count("words x ") == 3
    assert "3 artifacts" in text
    assert "measure" not in text
    assert "nothing" not in bench("store", "ls", "--kind", "nothing").replace("0 artifacts", "")


def test_the_label_of_a_manifest_comes_first_and_cannot_write_on_the_terminal(bench):
    with STORE.writing(
        "train", "0" * 64, {"label": "words x \x1b[31mlstm", "ingredients": {"settings": {"seed": 1}}}
    ):
        pass
    text = bench("store", "ls")
    assert "words x" in text
    assert "\x1b" not in text


def test_damaged_artifacts_are_listed_as_such(bench):
    flip(STORE.path("train", first("train")) / "manifest.json")
    listed = json.loads(bench("store", "ls", "--json"))["artifacts"]
    assert [one["kind"] for one in listed if one["damaged"]] == ["train"]
    assert "damaged: see `bench store verify`" in bench("store", "ls")


# verify


def test_a_whole_store_is_told_to_be_so(bench):
    assert f"{len(list(STORE.entries()))} artifacts read, all intact" in bench("store", "verify")


def test_every_damaged_file_is_named_and_set_aside_on_request(bench):
    of_run = dict(artifacts("one"))
    weights = STORE.path("train", of_run["train"]) / "weights.safetensors"
    number = STORE.path("measure", of_run["measure"]) / "number.json"
    info = STORE.path("prepare", first("prepare")) / "task_info.json"
    foreign = Path("store/decode/notes.txt")
    flip(weights)
    number.write_text("")
    info.unlink()
    foreign.write_text("mine")
    text = bench("store", "verify", code=1)
    for path, reason in ((weights, "its digest"), (number, "it has 0 bytes"), (info, "no such file"), (foreign, "")):
        assert any(str(path) in line and reason in line for line in text.splitlines()), path
    assert "4 damaged" in text
    before = everything()
    assert "set aside: moved to store/set-aside/" in bench("store", "verify", "--repair", code=1)
    assert len(everything()) == len(before)
    assert not weights.exists()
    bench("store", "verify")
    assert computed("one") == ["measure", "prepare", "train"], "what was made of the weights is stored"
    assert computed("one") == []


@pytest.mark.parametrize("words", [["ls"], ["verify"], ["gc", "--keep", "runs/one"]])
def test_a_folder_that_is_not_there_is_no_store(bench, words):
    assert "absent: cannot be read as a store" in bench("store", *words, "--store", "absent", code=2)
    assert not Path("absent").exists()


# verify RUN


@pytest.fixture
def workers(monkeypatch):
    """Do stages again in this process, where the small plugin is; `test_isolation` has real ones."""

    def here(number, store, data, isolate):
        assert isolate
        return InProcess(Store(store), data)

    monkeypatch.setattr("bench_exchange.verifying.Workers", here)


def test_a_run_is_as_the_store_has_it_and_done_again_it_is_the_same(bench, workers):
    text = bench("verify", "runs/one")
    assert f"4 cells, 8 numbers, {len(artifacts('one'))} artifacts: no contradictions" in text
    before = everything()
    assert "artifacts: no contradictions\n" in bench("verify", "runs/one", "--again", "--workers", "2")
    assert everything() == before


def resealed(kind, key, name, content):
    """Change a file of an artifact, and its manifest with it."""
    folder = STORE.path(kind, key)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / name).write_bytes(content)
    manifest["files"][name] = {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    forged = {name: manifest[name] for name in ("kind", "key", "files", "ingredients", "label")}
    (folder / "manifest.json").write_text(json.dumps(forged))


def predictions_changed(kind, label, number, change):
    """Change a prediction of a decoding or scoring; nothing that checks digests alone can see it."""
    key = next(
        key for other, key in STORE.entries() if other == kind and label in STORE.get(kind, key).manifest["label"]
    )
    path = STORE.path(kind, key) / "predictions.jsonl.gz"
    lines = [*read_lines(path)]
    change(next(line for line in lines if line["id"] == number))
    write_lines(path, lines)
    resealed(kind, key, path.name, path.read_bytes())


def test_predictions_that_were_changed_are_found_by_decoding_and_scoring_again(bench, workers):
    predictions_changed("decode", "one x draw", 9, lambda line: line["texts"].append("x"))
    predictions_changed(
        "score", "one by", 11, lambda line: line.update(target_log_prob=line["target_log_prob"] - 1e-3)
    )
    predictions_changed(
        "score", "two by", 2, lambda line: line.update(target_log_prob=line["target_log_prob"] - 1e-9)
    )
    text = bench("verify", "runs/one", "--again", code=1)
    decoded = "decode of words x one x draw, seed 0, test (decoder 'draw'): example 9 differs: texts is "
    scored = "score of words x one by exact, seed 0, test: example 11 differs: target_log_prob is "
    assert decoded in text
    assert scored in text
    differing = [line for line in text.splitlines() if line.startswith(("decode", "score"))]
    assert len(differing) == 2, "what float32 cannot tell apart is no difference"


def test_a_limit_leaves_rows_out_and_tells_no_difference_of_them(made, bench, workers):
    store, wide = Store(Path("store")), Path("narrow.yaml")
    wide.write_text(SUITE.replace("max_tokens: 6", "max_tokens: 6, batch_size: 4"))
    run = bench_core.run(wide, seeds=1, store="store", out="runs", data=".")
    assert "no contradictions" in bench("verify", str(run.folder), "--again", "--limit", "5")
    key = run.cells[0].artifacts["decode"]
    label = store.get("decode", key).manifest["label"]
    path = STORE.path("decode", key) / "predictions.jsonl.gz"
    lines = [*read_lines(path)]
    lines[0]["texts"], lines[-1]["texts"] = ["x"], ["y"]
    write_lines(path, lines)
    resealed("decode", key, path.name, path.read_bytes())
    text = bench("verify", str(run.folder), "--again", "--limit", "5", code=1)
    assert f"decode of {label} (decoder 'argmax'): example {lines[0]['id']} differs" in text
    assert f"example {lines[-1]['id']} " not in text


def recorded(kind, key, *names):
    """Leave of an artifact what an import would bring."""
    artifact = STORE.get(kind, key)
    about = {name: artifact.manifest[name] for name in ("ingredients", "label", "provenance", "cost")}
    left_out = {name: one for name, one in artifact.manifest["files"].items() if name not in names}
    with STORE.writing(records()[kind], key, {**about, "left_out": left_out}) as folder:
        for name in names:
            shutil.copyfile(artifact.file(name), folder / name)
    STORE.set_aside(kind, key)


def test_stages_whose_weights_are_not_in_the_store_are_named_and_the_others_done_again(bench, workers):
    key = dict(artifacts("one"))["train"]
    recorded("train", key, "history.jsonl", "training.json")
    recorded("prepare", first("prepare"), "task_info.json")
    text = bench("verify", "runs/one", "--again")
    assert text.count(f"not repeated: the weights are not in this store (train {key[:12]}).") == 3
    assert text.count("not repeated: ") == 6, "metrics need neither weights nor data"
    assert "no contradictions" in text


def test_a_stage_that_cannot_be_done_again_is_a_difference(bench, workers):
    key = next(key for kind, key in artifacts("one") if kind == "train")
    flip(STORE.path("train", key) / "weights.safetensors")
    text = bench("verify", "runs/one", "--again", code=1)
    assert text.count("cannot be repeated: ") == 3
    assert "weights.safetensors: the file is damaged" in text


@pytest.mark.parametrize(
    ("word", "value"),
    [("value", 1e6), ("value", "nan"), ("examples", 7), ("unit", "km"), ("error", 0.5), ("signature", "x"), ("better", 0)],
)  # fmt: skip
def test_every_changed_number_is_named(bench, word, value):
    rewritten("one", lambda cell: cell["numbers"]["nats"].update({word: value}))
    text = bench("verify", "runs/one", code=1)
    assert text.count(f"nats: {word} is ") == 4
    assert "words/one/argmax/test, seed 0: nats" in text
    assert "8 contradictions" in text, "of each number with its recorded stage, and with the store"


def test_numbers_and_artifacts_that_a_run_hides_are_named(bench):
    rewritten("one", lambda cell: cell["numbers"].pop("nats"))
    assert bench("verify", "runs/one", code=1).count("nats: value is None but ") == 4
    rewritten("two", lambda cell: cell["artifacts"].pop("measure/nats"))
    assert bench("verify", "runs/two", code=1).count("nats: the cell names no artifact for it") == 4


def test_cells_that_did_not_get_so_far_need_no_numbers(bench):
    def interrupt(cell):
        cell["status"], cell["numbers"] = "not run", {}

    rewritten("one", interrupt)
    text = bench("verify", "runs/one", code=1)
    assert text.count("it is 'not run', but all of its stages finished") == 4
    stages = read_stages(Path("runs/one")).values()
    late = [replace(one, result="" if one.kind in ("decode", "measure") else one.result) for one in stages]
    write_stages(Path("runs/one") / STAGES, late)
    write_replicates(Path("runs/one/draws.safetensors"), {})
    reseal(Path("runs/one"))
    shutil.rmtree("store/decode")
    shutil.rmtree("store/measure")
    assert "0 numbers" in bench("verify", "runs/one")


def test_damaged_and_missing_artifacts_of_a_run_are_named(bench):
    key = first("prepare")
    shutil.rmtree(STORE.path("prepare", key))
    path = STORE.path("train", next(key for kind, key in artifacts("one") if kind == "train")) / "weights.safetensors"
    flip(path)
    text = bench("verify", "runs/one", code=1)
    assert "runs/one: not in store: results of 1 prepare" in text.partition("not checked:")[2]
    assert f"{path}: the file is damaged" in text
    assert "1 contradiction\n" in text
    text = bench("verify", "runs/one", "--store", "elsewhere").partition("not checked:")[2]
    assert "runs/one: there is no store at elsewhere: artifacts of the run" in text


def test_a_number_that_was_changed_everywhere_is_found_by_measuring_again(bench, workers):
    cell = json.loads(Path("runs/one/cells.jsonl").read_text().splitlines()[0])
    number = STORE.path("measure", cell["artifacts"]["measure/nats"]) / "number.json"
    content = json.dumps({**json.loads(number.read_text()), "value": 1e6}).encode()
    resealed("measure", cell["artifacts"]["measure/nats"], number.name, content)
    changed = cell["artifacts"]["measure/nats"]

    def follow(cell):
        if cell["artifacts"]["measure/nats"] == changed:
            cell["numbers"]["nats"]["value"] = 1e6

    rewritten("one", follow)
    stages = read_stages(Path("runs/one"))
    (number,) = {
        one.numbers["nats"] for one in read_run(Path("runs/one")).cells if one.artifacts["measure/nats"] == changed
    }
    told = number_digest(number, read_run(Path("runs/one")).draws[changed])
    write_stages(Path("runs/one") / STAGES, {**stages, changed: replace(stages[changed], result=told)}.values())
    reseal(Path("runs/one"))
    assert "no contradictions" in bench("verify", "runs/one"), "all that is recorded was forged"
    text = bench("verify", "runs/one", "--again", code=1)
    assert "measure of nats of words x one by exact, seed 0, test (metric 'nats'): value is " in text
    assert "1 contradiction\n" in text


def test_what_is_no_run_is_refused(bench):
    assert "is not a run, a report or an export" in bench("verify", "store", code=2)


# gc


def test_what_no_kept_run_refers_to_is_removed_and_nothing_else(bench):
    kept, all_of_them = artifacts("one"), set(STORE.entries())
    before = everything()
    assert "would free" in bench("store", "gc", "--keep", "runs/one", "--dry-run")
    assert everything() == before
    text = bench("store", "gc", "--keep", "runs/one")
    assert set(STORE.entries()) == kept
    assert kept < all_of_them
    assert "train: 1, " in text
    assert "freed " in text
    assert not list(Path("store/unfinished").iterdir())
    assert computed("one") == []
    assert "train" in computed("two")


def test_several_runs_are_kept_as_a_shell_names_them(bench):
    before = everything()
    assert "freed 0 bytes" in bench("store", "gc", "--keep", "runs/one", "runs/two")
    assert "freed 0 bytes" in bench("store", "gc", "--keep", "runs/one", "--keep", "runs/two")
    assert everything() == before


def test_what_kept_artifacts_were_made_from_is_kept_though_no_cell_names_it(bench):
    def forget(cell):
        cell["artifacts"] = {name: key for name, key in cell["artifacts"].items() if name.startswith("measure/")}

    kept = artifacts("one")
    rewritten("one", forget)
    costs = Path("runs/one/costs.csv")
    costs.write_text(costs.read_text().splitlines()[0] + "\n")
    bench("store", "gc", "--keep", "runs/one")
    assert set(STORE.entries()) == kept


def test_tasks_that_no_cell_uses_are_kept_by_the_costs(bench):
    named = {(kind, key) for kind, key in artifacts("one") if kind in ("prepare", "train", "decode", "score")}
    Path("runs/one/cells.jsonl").write_text("")
    bench("store", "gc", "--keep", "runs/one")
    assert set(STORE.entries()) == named


def test_what_was_imported_of_a_training_is_kept_with_the_runs_that_refer_to_it(bench):
    key = dict(artifacts("one"))["train"]
    recorded("train", key, "history.jsonl", "training.json")
    bench("verify", "runs/one")
    bench("store", "gc", "--keep", "runs/one")
    STORE.get("trained", key).check()
    flip(STORE.path("trained", key) / "history.jsonl")
    assert f"trained/{key}/history.jsonl: the file is damaged" in bench("verify", "runs/one", code=1)


def test_the_checkpoint_of_a_training_is_kept_until_that_is_done(bench):
    key = dict(artifacts("one"))["train"]
    whole = STORE.path("train", key)
    whole.rename("away")
    for of in (key, "0" * 64):
        Checkpoints(STORE, of, "a training", 1.0).save(3, Linear(2, 2), {"step": 3})
    assert "checkpoint" in bench("store", "ls")
    assert "checkpoint: 1, " in bench("store", "gc", "--keep", "runs/one"), "that of a training that no run names"
    (left,) = [name for kind, name in STORE.entries() if kind == "checkpoint"]
    assert STORE.get("checkpoint", left).manifest["of"] == key
    Path("away").rename(whole)
    assert "checkpoint: 1, " in bench("store", "gc", "--keep", "runs/one")


def test_leftovers_of_the_dead_are_removed_and_those_of_nobody_knows_whom_are_not(bench):
    left = "from pathlib import Path; from bench_core.storage.store import Store; import os\n"
    left += "with Store(Path('store')).writing('train', 'k', {}) as folder: (folder / 'a').write_text('half'); os._exit(9)"
    assert subprocess.run([sys.executable, "-c", left], check=False).returncode == 9
    (folder,) = Path("store/unfinished").iterdir()
    old = Path("store/unfinished/train-of-old")
    old.mkdir()
    text = bench("store", "gc", "--keep", "runs/one", "runs/two")
    assert not folder.exists()
    assert old.exists()
    assert f"left: {old}: unknown whether its writer is alive" in text
    assert "unfinished: 1, 4 bytes" in text
    assert [path.name for path in Path("store/locks").iterdir()] == ["gate.lock"]


def test_what_was_set_aside_is_removed_only_on_request(bench):
    place = STORE.set_aside("train", first("train"))
    bench("store", "gc", "--keep", "runs/one", "runs/two")
    assert place.exists()
    assert "set aside: 1, " in bench("store", "gc", "--keep", "runs/one", "runs/two", "--set-aside")
    assert not place.exists()


@pytest.mark.parametrize(
    "at_work",
    [lambda: STORE.lock("train", "k"), lambda: STORE.writing("train", "k", {}), STORE.in_use],
    ids=["computing", "writing", "running"],
)
def test_nothing_is_removed_while_a_run_is_at_work(bench, at_work):
    before = everything()
    with at_work():
        assert "a run is using this store" in bench("store", "gc", "--keep", "runs/one", code=2)
        assert everything() == before
    bench("store", "gc", "--keep", "runs/one")


def test_nobody_begins_while_garbage_is_collected(bench):
    order = []
    code = "from pathlib import Path; from bench_core.storage.store import Store\n"
    code += "with Store(Path('store')).lock('train', 'k', lambda: print('waits', flush=True)): print('works')"
    with STORE.locks.closed():
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        order.append(process.stdout.readline())
    order.append(process.communicate(timeout=300)[0])
    assert order == ["waits\n", "works\n"]


def test_a_store_that_the_runs_have_nothing_to_do_with_is_left_alone(bench):
    other = Store(Path("other"))
    with other.writing("train", "0" * 64, {}):
        pass
    text = bench("store", "gc", "--keep", "runs/one", "--store", "other", code=2)
    assert "the runs refer to nothing in this store" in text
    assert other.has("train", "0" * 64)


def test_nothing_is_removed_where_a_run_cannot_be_read(bench):
    before = everything()
    assert "Missing option '--keep'" in bench("store", "gc", code=2)
    assert "is not a run" in bench("store", "gc", "--keep", "runs/one", "runs/absent", code=2)
    Path("runs/two/costs.csv").unlink()
    assert "costs of the run cannot be read" in bench("store", "gc", "--keep", "runs/one", "runs/two", code=2)
    assert everything() == before


def test_what_is_no_artifact_is_never_removed(bench, tmp_path):
    outside = tmp_path / "outside"
    shutil.copytree(STORE.path("train", first("train")), outside)
    link = Path("store/train") / ("f" * 64)
    link.symlink_to(outside)
    for path in (Path("store/train/notes"), Path("store/mine") / ("0" * 64), Path("store/photos/1")):
        path.mkdir(parents=True)
        (path / "a.txt").write_text("mine")
    text = bench("store", "gc", "--keep", "runs/one")
    assert text.count("not an artifact") == 4
    assert link.is_symlink()
    assert len(list(outside.iterdir())) == 4
    assert Path("store/photos/1/a.txt").read_text() == "mine"


@pytest.mark.parametrize("words", [["store", "--help"], ["store", "gc", "--help"], ["verify", "--help"]])
def test_help_imports_neither_torch_nor_pydantic(words):
    code = (
        f"import sys; sys.argv = ['bench', *{words}]\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'torch', 'pydantic', 'filelock'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.endswith("set()\n")


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "words", [["store", "ls"], ["store", "verify"], ["store", "gc", "--keep", "runs/one"], ["verify", "runs/one"]]
)
def test_looking_after_a_store_imports_no_torch(bench, words):
    code = (
        f"import sys; sys.argv = ['bench', *{words}, '--store', 'store']\n"
        "from bench_core.commands.main import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert not {'torch', 'scipy', 'matplotlib'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_what_a_run_tells_is_compared_whatever_the_order_of_its_keys():
    from bench_exchange.compared_with_store import _differences

    told = {"premises": [{"holds": True, "text": "it stops", "by": [1, 2.0]}]}
    stored = {"premises": [{"by": [1.0, 2], "text": "it stops", "holds": True}]}
    assert list(_differences("c", told, stored)) == []
    stored["premises"][0]["holds"] = False
    (text,) = _differences("c", told, stored)
    assert text.startswith("c: premises is [{by: [1, 2], holds: True")
