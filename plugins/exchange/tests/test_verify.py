"""`bench verify`: edits of runs and reports, plain and with all digests written anew, and what is left unchecked."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
import pytest
from bench_small.forging import edited_json, edited_lines, reseal
from bench_small.suites import SUITE

import bench_core
from bench_core import registry
from bench_core.commands.main import main
from bench_core.planning.cache_keys import SCHEME, key_of
from bench_core.runs.manifest import _digest
from bench_core.runs.provenance import PARTS, STAGES, RecordedStage, read_stages, write_stages
from bench_core.runs.results import number_digest, read_run
from bench_core.storage.artifact import write_manifest
from bench_core.storage.store import Store
from bench_exchange.recorded import key_fits
from bench_exchange.verifying import Verifier
from bench_reports.render.report import write_report
from block_bootstrap import StoredReplicates, write_replicates

MORE = """
figures:
  - {id: spread, kind: histogram, values: [ended], by: [model, decoder]}
  - {id: ends, kind: survival, by: [model, decoder]}
  - {id: by-length, kind: line, x: reference.tokens, y: ended, by: [model, decoder], bins: 3}
claims:
  - {id: C1, text: Chance ends more often., assert: "v('ended', model='one', decoder='draw') >= v('ended', model='one', decoder='argmax')"}
"""
#: A decoder that reads what is in no key, so that its stages depend on more than their keys.
ARGMAX, LOOKING = "argmax: {name: argmax}", "argmax: {name: bad, deed: look}"
ROOT = Path(__file__).parents[3]
RUN, REPORT, STORE = Path("runs/run"), Path("reports/tests/small"), Store(Path("store"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with its store and its report."""
    import bench_small.plugin

    folder = tmp_path_factory.mktemp("made")
    assert ARGMAX in SUITE
    (folder / "suite.yaml").write_text(SUITE.strip().replace(ARGMAX, LOOKING) + MORE)
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
        run.folder.rename(folder / "runs" / "run")
        write_report(read_run(folder / "runs" / "run"), folder / REPORT)
    return folder


@pytest.fixture
def verify(made, tmp_path, monkeypatch, capsys, small):
    """Return a function that verifies paths where a copy of the run is; it returns what was said."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)

    def run(*paths, code=1, store="store", more=()):
        monkeypatch.setattr(sys, "argv", ["bench", "verify", *map(str, paths or (RUN,)), "--store", store, *more])
        with pytest.raises(SystemExit) as stop:
            main()
        out, errors = capsys.readouterr()
        assert stop.value.code in ((0, 1) if code is None else (code,)), out + errors
        return out + errors

    return run


def cells(change):
    edited_lines(RUN / "cells.jsonl", change)


def exchanged(axis, one, other):
    """Exchange two names on an axis of all cells."""

    def change(cell):
        cell["cell"][axis] = {one: other, other: one}.get(cell["cell"][axis], cell["cell"][axis])
        return cell

    cells(change)


def replaced(name, old, new):
    text = (RUN / name).read_text()
    assert old in text
    (RUN / name).write_text(text.replace(old, new, 1))


def number(word, value):
    def change(cell):
        if cell["cell"]["model"] == "one":
            cell["numbers"]["nats"][word] = value
        return cell

    cells(change)


def failed(cell):
    return cell | {"status": "failed", "reason": "broken", "numbers": {}} if cell["cell"]["model"] == "two" else cell


def without_draws():
    path = RUN / "draws.safetensors"
    write_replicates(path, [(name, np.zeros_like(one)) for name, one in [*StoredReplicates(path).items()]])


def environment(word, value):
    edited_json(RUN / "run.json", lambda info: info["environments"][0].update({word: value}))


def sample():
    edited_json(RUN / "run.json", lambda info: info["samples"][0].update(text="as good as the reference"))


def history():
    path = sorted((RUN / "history").iterdir())[0]
    edited_lines(path, lambda line: line | {"loss": 0.001})


def costs():
    text = (RUN / "costs.csv").read_text()
    (RUN / "costs.csv").write_text(re.sub(r"(?m)^(train,[^,]*(?:,[^,]*)?,[0-9a-f]{16}),[\d.]+", r"\1,0.0001", text))


def inputs(change):
    """Change the observed inputs that run.json records."""
    edited_json(RUN / "run.json", lambda info: info.update(observed=change(info["observed"])))


def sample_of_no_inputs():
    sample()
    edited_json(RUN / "run.json", lambda info: info.pop("observed"))


def swapped_seeds(cell):
    return cell | {"cell": cell["cell"] | {"seed": 1 - cell["cell"]["seed"]}}


def swapped_numbers(cell):
    numbers = cell["numbers"]
    return cell | {"numbers": numbers | {"ended": numbers["nats"], "nats": numbers["ended"]}}


#: The edits of the audit of version 0.1, which saw the first two alone; with the file or cell that must be named.
EDITS = {
    "a value": (lambda: number("value", 0.5), "words/one/argmax/test, seed 0: nats"),
    "an error": (lambda: number("error", 0.4), "words/one/argmax/test, seed 0: nats"),
    "models swapped": (lambda: exchanged("model", "one", "two"), "words/two/argmax/test, seed 0: train: model.scale is 0.1, but model 'two' on 'words' has 2.0"),
    "decoders swapped": (lambda: exchanged("decoder", "argmax", "draw"), "words/one/draw/test, seed 0: decode: decoder.name is 'bad', but decoder 'draw' has 'draw'"),
    "seeds swapped": (lambda: cells(swapped_seeds), "words/one/argmax/test, seed 1: train: seed is 0, but the cell has 1"),
    "a seed deleted": (lambda: cells(lambda one: one if one["cell"]["seed"] else None), "words/one/argmax/test, seed 0: the cell is missing"),
    "cells failed": (lambda: cells(failed), "words/two/argmax/test, seed 0: it is 'failed', but all of its stages finished"),
    "metrics exchanged": (lambda: cells(swapped_numbers), "words/one/argmax/test, seed 0: ended: the number differs"),
    "a limit": (lambda: replaced("suite.yaml", "max_tokens: 6", "max_tokens: 1500"), "suite.yaml: limits.max_tokens is 1500, but was planned as 6"),
    "a size": (lambda: replaced("suite.yaml", "scale: 2.0", "scale: 1024.0"), "suite.yaml: models.two.scale is 1024.0, but was planned as 2.0"),
    "a caption": (lambda: replaced("suite.yaml", "caption: Main", "caption: Ours"), "suite.yaml: its digest differs from parts.json"),
    "a device": (lambda: environment("device", "cuda"), "words/one/argmax/test, seed 0: it was computed with device cpu"),
    "a library": (lambda: environment("torch", "1.0"), "words/one/argmax/test, seed 0: it was computed with torch "),
    "a sample": (sample, "run.json: a sample of words/one/argmax/test, seed 0: example "),
    "draws": (without_draws, "words/one/argmax/test, seed 0: nats: the number differs from the result of its stage (or its bootstrap"),
    "costs": (costs, "costs.csv: words x one, seed 0: seconds is 0.0001"),
    "a history": (history, "history/words_x_one__seed_0"),
    "a sample, and all observed inputs": (sample_of_no_inputs, "run.json: observed input $SMALL is missing or differs from stages.jsonl.gz"),
    "what is unobserved": (lambda: inputs(lambda told: {"variable": told["variable"]}), "run.json: observed input compiled code, called by ctypes is missing or differs from stages.jsonl.gz"),
    "an observed input": (lambda: inputs(lambda told: told | {"variable": {"SMALL": "0" * 32}}), "run.json: observed input $SMALL is missing or differs"),
    "the log": (lambda: (RUN / "log").write_text("nothing went wrong\n"), "runs/run/log"),
}  # fmt: skip
BY_STORE = ("a sample", "costs", "a history")  # where nothing in the run itself contradicts


@pytest.mark.slow
def test_a_run_and_its_report_hold_and_say_what_was_not_checked(verify):
    text = verify(RUN, REPORT, code=0)
    assert "not checked" not in text
    assert "1 run, 8 cells, 16 numbers, 29 artifacts, 1 report: no contradictions\n" in text
    text = verify(RUN, REPORT, code=0, store="elsewhere").partition("not checked:")[2]
    assert "runs/run: there is no store at elsewhere" in text
    for name in ("distributions", "lengths", "by_length"):
        assert f"runs/run/{name}.jsonl: the store is not available" in text
    shutil.rmtree("runs")
    text = verify(REPORT, code=0).partition("not checked:")[2]
    assert (
        "reports/tests/small: consistent in itself, its run is not here: bold numbers, p-values, figures and costs"
        in text
    )
    assert "reports/tests/small: consistent in itself, its run is not here" in verify(REPORT, more=["--require-run"])


KINDS = {
    "seeds trained together": {"batch_size: 8, select: {metric: nats}": "batch_size: 8, vmap_seeds: true"},
    "two kinds of hardware": {"{threads: 1, device: cpu}": "{one: {threads: 1, device: cpu}, two: {threads: 2, device: cpu}}", "rows: [decoder]": "rows: [decoder, hardware]"},
    "a grid": {"{name: bigram, scale: 2.0}": "{name: bigram, grid: {scale: [1.0, 2.0]}}"},
    "another model on a task": {"{name: bigram, scale: 2.0}": "{name: bigram, by_task: {words: {scale: 3, training: {lr: 1e-2}}}}"},
    "a skipped model and metric": {"seeds: 2": "seeds: [3, 5]\nskip: [{model: two, decoder: draw}, {metric: nats, model: one}]"},
    "two splits and limits": {"limits: {max_tokens: 6}": "limits: {max_tokens: 6, examples: 4, scored: 5}\nsplits: [valid, test]", "rows: [decoder]": "rows: [decoder, split]"},
    "no decoders": {"decoders:\n  argmax: {name: argmax}\n  draw: {name: draw}\n": "", "  ended: {name: ended}\n": "", "rows: [decoder]": "rows: [model]", "columns: [model]": "columns: []", "[ended, nats]": "[nats]"},
    "training that diverges": {"lr: 0.1": "lr: 1e38"},
}  # fmt: skip


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_suites_of_every_kind_hold_with_and_without_their_store(verify, kind):
    text = SUITE.strip()
    for old, new in KINDS[kind].items():
        assert old in text
        text = text.replace(old, new)
    Path("other.yaml").write_text(text)
    run = bench_core.run("other.yaml", store="other", out="others", data=".")
    write_report(run, Path("reports/other"))
    assert "no contradictions" in verify(run.folder, "reports/other", code=0, store="other")
    assert "no contradictions" in verify(run.folder, "reports/other", code=0, store="elsewhere")


@pytest.mark.quick(6, 6)
@pytest.mark.parametrize("name", EDITS)
def test_each_edit_of_the_audit_names_the_file(verify, name):
    EDITS[name][0]()
    assert re.search(r"^runs/run/\S+: the file was changed", verify(), re.MULTILINE)


@pytest.mark.quick(4, 5)
@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_contradicted_by_what_else_is_recorded_when_all_digests_are_written_anew(verify, name):
    edit, told = EDITS[name]
    edit()
    reseal(RUN)
    if name == "the log":  # of which nothing else in the run tells
        assert "no contradictions" in verify(code=0)
        told = (
            "reports/tests/small/manifest.json: the digest of its run runs/run differs from the run's current digest"
        )
    else:
        assert "the file was changed" not in verify()
        assert told in verify()
        text = verify(store="elsewhere", code=int(name not in BY_STORE))
        assert (told in text) != (name in BY_STORE)
    edited_json(REPORT / "manifest.json", lambda about: about["run"].update(name="run"))
    reseal(REPORT)
    assert "differs from the run's current digest" in verify(REPORT)


def test_a_key_of_other_ingredients_does_not_fit_and_one_of_an_unknown_scheme_cannot_be_judged():
    ingredients = {"kind": "decode", "settings": {"seed": 1}, "inputs": {"task": ("prepare", "a" * 64)}, "code": {}}
    key = key_of(ingredients)
    assert key_fits(RecordedStage(key, ingredients, SCHEME)) is True
    assert key_fits(RecordedStage(key, {**ingredients, "code": {"x": "y"}}, SCHEME)) is False
    assert key_fits(RecordedStage(key, ingredients, SCHEME + 1)) is None


# Attacks besides: who forges one file forges others with it


def parts(change):
    edited_json(RUN / PARTS, change)


def suite_digest(about):
    about["suite"] = sha256((RUN / "suite.yaml").read_bytes()).hexdigest()


def stages(change):
    """Change the recorded stages; leave out those for which `change` gives None."""
    write_stages(RUN / STAGES, filter(None, map(change, [*read_stages(RUN).values()])))


def other_scale(value):
    if isinstance(value, dict):
        return {key: 1024.0 if (key, one) == ("scale", 2.0) else other_scale(one) for key, one in value.items()}
    return [*map(other_scale, value)] if isinstance(value, list) else value


def forged_settings():
    """A model of another size, in the suite and in the settings of its parts."""
    replaced("suite.yaml", "scale: 2.0", "scale: 1024.0")
    (RUN / PARTS).write_text(json.dumps(other_scale(json.loads((RUN / PARTS).read_text()))))
    parts(suite_digest)


def forged_ingredients():
    forged_settings()
    stages(lambda stage: replace(stage, ingredients=other_scale(stage.ingredients)))


def forged_keys():
    """As before, with all keys made anew, and all files that name them."""
    forged_ingredients()
    found, new = [], {}
    for stage in read_stages(RUN).values():  # inputs first
        inputs = {role: [kind, new.get(key, key)] for role, (kind, key) in stage.inputs.items()}
        ingredients = {**stage.ingredients, "inputs": inputs}
        new[stage.key] = key_of(ingredients)
        found.append(replace(stage, key=new[stage.key], ingredients=ingredients))
    write_stages(RUN / STAGES, found)
    cells(lambda cell: cell | {"artifacts": {name: new[key] for name, key in cell["artifacts"].items()}})
    draws = [*StoredReplicates(RUN / "draws.safetensors").items()]
    write_replicates(
        RUN / "draws.safetensors", sorted(((new[key], one) for key, one in draws), key=lambda one: one[0])
    )
    text = (RUN / "costs.csv").read_text()
    for key, other in new.items():
        text = text.replace(key[:16], other[:16])
    (RUN / "costs.csv").write_text(text)
    for path in (RUN / "history").iterdir():
        key = next(key for key in new if key.startswith(path.stem[-12:]))
        path.rename(path.with_name(path.name.replace(key[:12], new[key][:12])))


def number_of_another_decoder():
    """Cells of one decoder point to what was measured of the other, with its number."""
    known = [json.loads(line) for line in (RUN / "cells.jsonl").read_text().splitlines()]
    name = lambda one: (one["cell"]["model"], one["cell"]["seed"])  # noqa: E731
    of_draw = {name(one): one for one in known if one["cell"]["decoder"] == "draw"}

    def change(cell):
        other = of_draw[name(cell)]
        cell["artifacts"]["measure/ended"] = other["artifacts"]["measure/ended"]
        cell["numbers"]["ended"] = other["numbers"]["ended"]
        return cell

    cells(change)


def forged_number():
    """A better number, in the cells and in the recorded result of its stage."""
    number("value", 0.5)
    run = read_run(RUN)
    told = {
        cell.artifacts["measure/nats"]: number_digest(cell.numbers["nats"], run.draws[cell.artifacts["measure/nats"]])
        for cell in run.cells
    }
    stages(lambda stage: replace(stage, result=told.get(stage.key, stage.result)))


def dropped_model():
    """The worse model was never there: not in the suite, not in cells, costs and draws."""
    text = (RUN / "suite.yaml").read_text()
    (RUN / "suite.yaml").write_text(re.sub(r"  two:\n    name: bigram\n    scale: 2.0\n", "", text))
    parts(lambda about: about["models"].pop("two"))
    parts(suite_digest)
    cells(lambda cell: cell if cell["cell"]["model"] == "one" else None)
    kept = {key for cell in read_run(RUN).cells for key in cell.artifacts.values()}
    draws = [*StoredReplicates(RUN / "draws.safetensors").items()]
    write_replicates(RUN / "draws.safetensors", [(key, one) for key, one in draws if key in kept])


def dropped_metric():
    def change(cell):
        return cell | {
            "numbers": {name: one for name, one in cell["numbers"].items() if name != "nats"},
            "artifacts": {name: key for name, key in cell["artifacts"].items() if name != "measure/nats"},
        }

    cells(change)


def other_weights():
    """Another training lies in the store under the key of ours."""
    folder = next((Path("store") / "train").iterdir())
    manifest = json.loads((folder / "manifest.json").read_text())
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    (folder / "manifest.json").unlink()
    write_manifest(
        folder, "train", folder.name, {name: manifest[name] for name in ("ingredients", "provenance", "cost")}
    )


def stages_of_no_inputs():
    """A sample as above, of a decoding that observed nothing, as the run says everywhere."""
    sample_of_no_inputs()
    stages(lambda stage: replace(stage, observed={}))


def stages_of_other_inputs():
    """As above, but the decoding observed another value."""
    sample()
    inputs(lambda told: told | {"variable": {"SMALL": "0" * 32}})
    stages(
        lambda stage: replace(stage, observed=stage.observed and {**stage.observed, "variable": {"SMALL": "0" * 32}})
    )


def decoding_of_other_inputs_elsewhere():
    """As above, and it was computed another time, but left the same files."""
    stages_of_other_inputs()
    stages(lambda stage: replace(stage, computed="0" * 32) if stage.kind == "decode" else stage)


def value_of_no_inputs():
    """A better number of a measure that observed nothing."""
    forged_number()
    stages_of_no_inputs()


def other_distribution():
    edited_lines(RUN / "distributions.jsonl", lambda line: line | {"counts": [[1, 13]]})


def other_lengths():
    edited_lines(RUN / "lengths.jsonl", lambda line: line | {"ends": [[1, 13, 0]]})


def other_scores_by_length():
    edited_lines(RUN / "by_length.jsonl", lambda line: line | {"parts": [[1, 2, 1.5, 13, 99.0]]})


def other_data():
    def change(info):
        info["tasks"]["words"]["vocabulary"] = 33_278

    edited_json(RUN / "run.json", change)


def other_parameters():
    edited_json(RUN / "run.json", lambda info: info["models"]["one"].update(parameters=7))


def two_histories_exchanged():
    one, other = sorted((RUN / "history").iterdir())[:2]
    text = one.read_bytes(), other.read_bytes()
    one.write_bytes(text[1]), other.write_bytes(text[0])


def unknown_training():
    path = sorted((RUN / "history").iterdir())[0]
    path.rename(path.with_name(f"words-{'0' * 12}.jsonl"))


def stages_forgotten():
    (RUN / STAGES).unlink()
    (RUN / PARTS).unlink()


def later_seeds():
    replaced("suite.yaml", "seeds: 2", "seeds: [0]")
    parts(suite_digest)
    parts(lambda about: about.update(seeds=[0]))
    cells(lambda cell: cell if cell["cell"]["seed"] == 0 else None)


def a_cell_twice():
    path = RUN / "cells.jsonl"
    path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")


ATTACKS = {
    forged_settings: "words/two/argmax/test, seed 0: train: model.scale is 2.0, but model 'two' on 'words' has 1024.0",
    forged_ingredients: r"stages.jsonl.gz: train [0-9a-f]{64}: the key does not match the ingredients",
    number_of_another_decoder: "words/one/argmax/test, seed 0: measure/ended: its input `predictions` is decode [0-9a-f]{64}, which is not a stage of the cell",
    forged_number: "words/one/argmax/test, seed 0: nats: value is 0.5 but [0-9.]+ in the store",
    dropped_model: "stages.jsonl.gz: train [0-9a-f]{64} belongs to no cell",
    dropped_metric: "words/one/argmax/test, seed 0: measure/nats is missing",
    other_weights: r"store/train/[0-9a-f]{64}: runs/run was computed from a different train with other files",
    stages_of_no_inputs: r"store/decode/[0-9a-f]{64}: runs/run does not record that it depends on .*\$SMALL",
    stages_of_other_inputs: r"store/decode/[0-9a-f]{64}: runs/run does not record that it depends on \$SMALL",
    decoding_of_other_inputs_elsewhere: "run.json: a sample of words/one/argmax/test, seed 0: example ",
    value_of_no_inputs: "words/one/argmax/test, seed 0: nats: value is 0.5 but [0-9.]+ in the store",
    other_distribution: r"distributions.jsonl: words/one/argmax/test, seed 0: ended: its values differ from those in the store",
    other_lengths: r"lengths.jsonl: words/one/argmax/test, seed 0: lengths: its values differ from those in the store",
    other_scores_by_length: r"by_length.jsonl: words/one/argmax/test, seed 0: ended by reference.tokens, 3: its values differ from those in the store",
    other_data: "run.json: vocabulary of task 'words' is 33278, which differs from the store",
    other_parameters: "run.json: parameters of model 'one' is 7, which differs from the store",
    two_histories_exchanged: r"history/words_x_one__seed_0-[0-9a-f]{12}.jsonl: the file differs from the store",
    unknown_training: "history/words-000000000000.jsonl belongs to no recorded training run",
    stages_forgotten: "runs/run: stages.jsonl.gz is missing",
    later_seeds: "stages.jsonl.gz: train [0-9a-f]{64} belongs to no cell",
    a_cell_twice: "words/one/argmax/test, seed 0: the cell is duplicated",
}  # fmt: skip


@pytest.mark.quick(6, 6)
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forgery_of_several_files_is_contradicted_by_another(verify, attack):
    attack()
    reseal(RUN)
    assert re.search(ATTACKS[attack], verify())


def test_of_a_run_that_was_made_up_as_a_whole_the_store_knows_nothing(verify):
    forged_keys()
    reseal(RUN)
    text = verify(code=0, store="elsewhere")
    assert "no contradictions" in text, "nothing is left in it that was recorded otherwise"
    text = verify(code=0).partition("not checked:")[2]
    assert "runs/run: not in store: results of 4 decode, 6 measure, 2 score, 2 train" in text
    text = verify(REPORT)
    assert "differs from the run's current digest" in text


def test_files_that_are_added_removed_or_links_are_named(verify):
    (RUN / "permutations.json").write_text("{}")
    (RUN / "log").unlink()
    path = RUN / "costs.csv"
    path.rename("costs.csv")
    path.symlink_to(Path("costs.csv").absolute())
    text = verify()
    assert "runs/run/permutations.json: the file was added" in text
    assert "runs/run/log: the file is missing" in text
    assert "runs/run/costs.csv: the file was changed" in text


def test_notes_of_people_are_no_contradiction_and_are_told_of(verify):
    (RUN / "notes").mkdir()
    (RUN / "notes" / "ideas.md").write_text("try more seeds\n")
    (RUN / "look.ipynb").write_text("{}")
    text = verify(code=0).partition("not checked:")[2]
    assert "runs/run: look.ipynb, notes: user files are not in the manifest" in text


def test_a_manifest_that_was_edited_or_removed_is_named(verify):
    edited_json(RUN / "manifest.json", lambda about: about["commit"] and about["commit"].update(clean=True))
    edited_json(RUN / "manifest.json", lambda about: about.update(bench="9.9"))
    assert "runs/run/manifest.json: the manifest was changed: it does not match its own digest" in verify()
    (RUN / "manifest.json").unlink()
    assert "runs/run has no manifest.json" in verify()
    (REPORT / "manifest.json").unlink()
    assert "reports/tests/small has no manifest.json" in verify(REPORT)


@pytest.mark.slow
def test_what_a_plugin_adds_later_is_listed_and_the_report_of_before_still_holds(verify):
    run = bench_core.run("suite.yaml", store="store", out="again", data=".")
    write_report(run, Path("reports/before"))

    class Later(bench_core.Section):
        def keep(self, run, store):
            (run.folder / "later.json").write_text("{}")

    module = ModuleType("bench_later")
    module.bench_sections = bench_core.hookimpl(specname="bench_sections")(lambda api: [Later()])
    with registry.extra(module):
        same = bench_core.run("suite.yaml", store="store", out="again", data=".")
    assert same.folder == run.folder
    assert (run.folder / "later.json").exists()
    assert "no contradictions" in verify(run.folder, "reports/before", code=0)
    (run.folder / "later.json").write_text("[]")
    assert "later.json: the file was changed" in verify(run.folder)


@pytest.mark.slow
def test_a_manifest_cannot_say_that_it_was_another_before(verify):
    digest = json.loads((RUN / "manifest.json").read_text())["digest"]
    old = json.loads((RUN / "manifest.json").read_text())["files"]["log"]
    (RUN / "log").write_text("nothing went wrong\n")
    for before in ({}, {"later.json": None}):
        earlier = [{"digest": digest, "files": before}]
        edited_json(RUN / "manifest.json", lambda about: about.update(earlier=earlier))  # noqa: B023
        reseal(RUN)
        assert "it does not follow from the former manifest that it mentions" in verify(REPORT)
    edited_json(
        RUN / "manifest.json", lambda about: about.update(earlier=[{"digest": digest, "files": {"log": old}}])
    )
    reseal(RUN)
    text = verify(REPORT, code=0).partition("not checked:")[2]
    assert "runs/run/log: a plugin rewrote the file after the run" in text


ODD_VALUES = (None, 0, -1.5, "\x1b[31m", [], {}, [[]], {"$": 0}, {"$": "x"}, True, "1e999", 10**30)


def mangled(value, random):
    """Return JSON in which one value, anywhere, is another."""
    if random.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return random.choice(ODD_VALUES)
    if isinstance(value, dict):
        name = random.choice(sorted(value))
        return {**value, name: mangled(value[name], random)}
    place = random.randrange(len(value))
    return [*value[:place], mangled(value[place], random), *value[place + 1 :]]


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("name", [PARTS, STAGES, "run.json", "cells.jsonl", "manifest.json"])
def test_whatever_json_a_run_holds_it_is_judged_in_words(verify, name):
    path, random = RUN / name, Random(name)
    whole = path.read_bytes()
    lines = (gzip.decompress(whole) if name == STAGES else whole).decode()
    parsed = [json.loads(one) for one in (lines.splitlines() if ".jsonl" in name else [lines])]
    manifest = (RUN / "manifest.json").read_bytes()
    for _ in range(25):
        place = random.randrange(len(parsed))
        found = [*parsed[:place], mangled(parsed[place], random), *parsed[place + 1 :]]
        text = "\n".join(map(json.dumps, found))
        (RUN / "manifest.json").write_bytes(manifest)
        path.write_bytes(gzip.compress(text.encode()) if name == STAGES else text.encode())
        if name != "manifest.json":
            reseal(RUN)
        told = verify(RUN, code=None)
        assert "Traceback" not in told
        assert "\x1b" not in told
        assert re.search("runs/run|no contradictions", told)


# reports


def report(name, old, new, count=1):
    path = REPORT / name
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, count))


def shown(sign="±"):
    """Return a number of the table as it is shown, with its deviation."""
    found = re.search(r"\| argmax +\| +\**([\d.]+ ± [\d.]+)", (REPORT / "report.md").read_text())[1]
    return found.replace("±", sign)


def bold():
    text = (REPORT / "report.md").read_text()
    row = re.search(r"\| draw +\| +([*\d.]+[^|]*)", text)[1]
    (REPORT / "report.md").write_text(
        text.replace(row, row.replace("**", "") if "**" in row else f"**{row.strip()}**", 1)
    )


def record(word, value):
    edited_json(REPORT / "results.json", lambda data: data["tables"]["main"][0].update({word: value}))


def everywhere():
    """A mean forged in all formats alike."""
    record("mean", 99.0)
    records = json.loads((REPORT / "results.json").read_text())["tables"]["main"]
    old = shown()
    for name in ("report.md", "report.html", "tables/main.tex"):
        path = REPORT / name
        path.write_text(path.read_text().replace(old, "99.00"))
    lines = (REPORT / "tables/main.csv").read_text().split("\n")
    fields = lines[1].split(",")
    fields[lines[0].split(",").index("mean")] = "99.0"
    (REPORT / "tables/main.csv").write_text("\n".join([lines[0], ",".join(fields), *lines[2:]]))
    assert records[0]["mean"] == 99.0


def verdict(data):
    data["claims"][0]["verdict"] = "holds" if data["claims"][0]["verdict"] != "holds" else "fails"


REPORTED = {
    "csv": (lambda: report("tables/main.csv", "argmax,", "argmix,"), "tables/main.csv: its numbers differ from table main"),
    "json": (lambda: record("mean", 99.0), "results.json: table main, argmax x one: 99.0 is not the mean of any cells"),
    "n": (lambda: record("n", 7), "results.json: table main, argmax x one: "),
    "markdown": (lambda: report("report.md", shown(), "0.01 ± 0"), "report.md: table main, argmax x one: it shows '0.01"),
    "rows": (lambda: report("report.md", "| argmax ", "| draw   "), "report.md: table main, argmax x one: the row is labelled 'draw'"),
    "columns": (lambda: report("report.md", "one<br>ended", "two<br>ended"), "report.md: table main, argmax x one: the column is labelled 'two ended (%) ↑'"),
    "bold": (bold, "report.md: table main, draw x "),
    "latex": (lambda: report("tables/main.tex", shown(r"$\pm$"), "0.01"), "tables/main.tex: main, argmax x one ended (%) ↑: differs from report.md"),
    "latex rows": (lambda: report("tables/main.tex", "argmax", "draw"), "tables/main.tex: main, argmax x Decoder: differs from report.md"),
    "html": (lambda: report("report.html", f">{shown()}", ">0.01"), "report.html: main, argmax x one ended (%) ↑: differs from report.md"),
    "sorting": (lambda: report("report.html", 'data-value="', 'data-value="9'), "report.html: table-main, argmax: it shows"),
    "verdict": (lambda: edited_json(REPORT / "results.json", verdict), "report.md: the verdicts of C1 differ from results.json"),
    "verdict shown": (lambda: report("report.html", "<th scope=\"row\">C1</th><td", "<th scope=\"row\">C2</th><td"), "report.html: the verdicts of C1, C2 differ"),
    "note": (lambda: report("report.md", "over 13 examples", "over 1300 examples"), "report.md: it has numbers that report.html lacks: 1300"),
    "all formats": (everywhere, "results.json: table main, argmax x one: 99.0 is not the mean of any cells"),
}  # fmt: skip


@pytest.mark.quick(5, 5)
@pytest.mark.parametrize("name", REPORTED)
def test_an_edited_report_is_contradicted_by_its_other_files_though_no_run_is_there(verify, name):
    shutil.rmtree("runs")
    edit, told = REPORTED[name]
    edit()
    assert re.search(r"reports/tests/small/\S+: the file was changed", verify(REPORT))
    reseal(REPORT)
    assert f"reports/tests/small/{told}" in verify(REPORT)


#: Edits of what a report alone does not contradict, because it is made of its run.
OF_RUN = {
    "title": lambda: report("report.html", "Small", "Large"),
    "terminal": lambda: report("report.txt", "argmax", "argmix"),
    "costs": lambda: report("costs.html", "words", "wards"),
    "figure": lambda: report("figures/spread.svg", "</svg>", "<!-- --></svg>"),
    "p": lambda: record("p", 0.001),
    "status": lambda: edited_json(REPORT / "results.json", lambda data: data["cells"][0].update(status="failed")),
}


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", OF_RUN)
def test_a_report_whose_run_is_there_is_what_that_gives_to_the_byte(verify, name):
    assert "no contradictions" in verify(REPORT, code=0)
    OF_RUN[name]()
    reseal(REPORT)
    assert re.search(r"reports/tests/small/\S+: .*runs/run", verify(REPORT))


def test_a_report_of_other_code_is_compared_number_by_number(verify):
    edited_json(REPORT / "manifest.json", lambda about: about.update(code="0" * 64))
    reseal(REPORT)
    assert "written by a different version of the code" in verify(REPORT, code=0).partition("not checked:")[2]
    record("mean", 99.0)
    reseal(REPORT)
    assert "99.0 is not the mean of any cells" in verify(REPORT)


def test_a_claim_about_a_cost_is_compared_with_the_costs_of_its_trainings(verify, tmp_path):
    copy = shutil.copytree(ROOT / "reports" / "trainings-small", tmp_path / "trainings")
    assert "no contradictions" in verify(copy, code=0)

    def change(results):
        (claim,) = (one for one in results["claims"] if one["id"] == "stopping-saves")
        claim["values"][1].update(mean=500.0)

    edited_json(copy / "results.json", change)
    reseal(copy)
    assert "claim stopping-saves: cost.train.updates 500.0 is not the mean of any cells" in verify(copy)


@pytest.mark.slow
def test_a_report_leads_to_its_run_and_a_folder_to_all_that_is_in_it(verify):
    number("value", 0.5)
    reseal(RUN)
    edited_json(
        REPORT / "manifest.json",
        lambda about: about["run"].update(digest=json.loads((RUN / "manifest.json").read_text())["digest"]),
    )
    reseal(REPORT)
    for path in (REPORT, "reports"):
        assert "runs/run: words/one/argmax/test, seed 0: nats: value is 0.5 but " in verify(path)


@pytest.mark.slow
def test_the_report_of_a_run_without_a_manifest_has_one_and_holds(verify):
    (RUN / "manifest.json").unlink()
    (RUN / STAGES).unlink()
    (RUN / PARTS).unlink()
    edited_json(RUN / "run.json", lambda info: info.pop("format"))
    write_report(read_run(RUN), REPORT)
    named = json.loads((REPORT / "manifest.json").read_text())["run"]
    assert (named["name"], named["digest"]) == ("run", None)
    text = verify(REPORT, code=0).partition("not checked:")[2]
    assert "reports/tests/small: consistent in itself, its run is not here" in text
    assert "runs/run has no manifest.json" in verify(RUN)


def test_the_reports_of_this_repository_hold_and_those_of_version_0_1_are_known(tmp_path):
    folder = Path(__file__).resolve().parents[3] / "reports"
    verifier = Verifier(Store(tmp_path / "store"), tmp_path / "runs")
    remarks = [remark for path in sorted(folder.iterdir()) for remark in verifier.verify(path)]
    assert [remark.text for remark in remarks if remark.wrong] == []
    number = len([*(folder / "0.1").rglob("results.json")])
    assert any(f"{folder / '0.1'}: {number} reports of version 0.1" in remark.text for remark in remarks)


# downgrades: who edits a file also says that it is of a version that recorded less


def without_manifest(folder):
    (folder / "manifest.json").unlink()


def listing_nothing(folder):
    edited_json(folder / "manifest.json", lambda about: about.update(files={}))
    path = folder / "manifest.json"
    path.write_text(json.dumps(sealed(json.loads(path.read_text()))))


def sealed(about):
    return {**about, "digest": _digest(about)}


def told_in_manifest(**fields):
    """Return a function that changes fields of a manifest, or removes those that are None, and seals it."""

    def change(folder):
        edited_json(folder / "manifest.json", lambda about: about.update(fields))
        path = folder / "manifest.json"
        about = {name: one for name, one in json.loads(path.read_text()).items() if one is not None}
        path.write_text(json.dumps(about))
        reseal(folder)

    return change


def in_place_of_manifest(make):
    def change(folder):
        (folder / "manifest.json").rename("manifest.json")
        make(folder / "manifest.json")

    return change


NONE = object()
MANIFESTS = {
    "no manifest": without_manifest,
    "resealed": reseal,
    "a manifest that lists nothing": listing_nothing,
    "a manifest of version 0.1.0": told_in_manifest(bench="0.1.0"),
    "an empty manifest": in_place_of_manifest(lambda path: path.write_text("{}")),
    "a link for a manifest": in_place_of_manifest(lambda path: path.symlink_to(Path("manifest.json").absolute())),
    "a folder for a manifest": in_place_of_manifest(Path.mkdir),
}
FORMATS = {
    "": 2,
    "format 1": 1,
    "no format": NONE,
    "format 0": 0,
    "format '1'": "1",
    "format null": None,
    "format 99": 99,
}
VERSIONS = {"": None, "version 0.1": "0.1.0"}
STAGES_OF = {
    "": lambda: None,
    "no stages": lambda: stages_forgotten(),
    "merged, no stages": lambda: merged_of_old_runs(),
}


def cells_of_no_stages():
    stages_forgotten()
    cells(lambda cell: cell | {"artifacts": {}})


def merged_of_old_runs():
    stages_forgotten()
    edited_json(RUN / "run.json", lambda info: info.update(merged=[{"run": "old", "cells": 8}]))


STAGES_OF = {
    "": lambda: None,
    "no stages": stages_forgotten,
    "merged, no stages": merged_of_old_runs,
    "no artifacts": cells_of_no_stages,
}


def downgraded(folder, manifest, form="", version="", stages=""):
    """Say of a run or a report that it is of a version that recorded less, and seal it, or remove what seals it."""

    def change(data):
        data.update(format=FORMATS[form])
        if FORMATS[form] is NONE:
            data.pop("format")
        for one in data.get("environments", ()) if VERSIONS[version] else ():
            one["bench"] = VERSIONS[version]

    STAGES_OF[stages]()
    path = folder / ("run.json" if folder == RUN else "results.json")
    if form or version:
        edited_json(path, change)
    MANIFESTS[manifest](folder)


EVERY = [*product(MANIFESTS, FORMATS, VERSIONS)]
#: With these every edit is tried; with all of `EVERY` (and every one of `STAGES_OF`) one of a run and one of a report.
SOME = [("no manifest", "format 1", ""), ("no manifest", "no format", "version 0.1"), ("resealed", "format 1", ""),
        ("resealed", "no format", "version 0.1"), ("a manifest that lists nothing", "no format", "")]  # fmt: skip
OF_RUNS = {
    **{name: edit for name, (edit, _) in EDITS.items()},
    **{one.__name__: one for one in ATTACKS if one is not other_weights},  # which is an edit of the store
}
OF_REPORTS = {
    **{name: edit for name, (edit, _) in REPORTED.items()},
    **{f"{name}, of its run": one for name, one in OF_RUN.items()},
}


ALONE = {f"{name}, of its run" for name in OF_RUN} - {"p, of its run"}  # which stands in two files


@pytest.fixture
def attempts(verify, tmp_path):
    """Return a function that makes an edit and downgrades, verifies, and puts all back; it returns what was seen."""

    def attempt(folder, edit, *ways, code=1, **options):
        aside = tmp_path / "aside"
        shutil.copytree(folder, aside)
        try:
            edit()
            downgraded(folder, *ways)
            return verify(folder, code=None if code is None else code, **options)
        finally:
            shutil.rmtree(folder)
            aside.rename(folder)
            for name in ("manifest.json", "costs.csv"):
                Path(name).unlink(missing_ok=True)

    return attempt


@pytest.mark.quick(2, 3)
@pytest.mark.parametrize("name", OF_RUNS)
def test_no_edit_of_a_run_passes_for_one_of_an_older_version(attempts, name):
    for manifest, form, version in SOME:
        if (manifest, name) == ("resealed", "the log"):  # of which nothing else in the run tells
            continue
        text = attempts(RUN, OF_RUNS[name], manifest, form, version)
        assert re.search(r"^runs/run", text, re.MULTILINE), (manifest, form, version)


@pytest.mark.quick(2, 6)
@pytest.mark.parametrize("name", OF_REPORTS)
def test_no_edit_of_a_report_passes_for_one_of_an_older_version(attempts, name):
    shutil.rmtree("runs")
    for manifest, form, version in SOME:
        alone = manifest == "resealed" and name in ALONE
        text = attempts(REPORT, OF_REPORTS[name], manifest, form, version, code=int(not alone))
        assert not alone or f"{REPORT}: consistent in itself, its run is not here" in text
        attempts(REPORT, OF_REPORTS[name], manifest, form, version, more=["--require-run"])


@pytest.mark.slow(9)
@pytest.mark.parametrize("stages", STAGES_OF)
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_no_combination_of_claims_hides_an_edited_run(attempts, manifest, stages):
    """Not even without the store."""
    for form, version in product(FORMATS, VERSIONS):
        attempts(RUN, EDITS["a value"][0], manifest, form, version, stages, store="elsewhere")


@pytest.mark.slow
@pytest.mark.parametrize("manifest", MANIFESTS)
def test_no_combination_of_claims_hides_an_edited_report(attempts, manifest):
    shutil.rmtree("runs")
    for form, version in product(FORMATS, VERSIONS):
        attempts(REPORT, REPORTED["markdown"][0], manifest, form, version)


def test_what_is_downgraded_and_not_edited_is_not_taken_for_verified(attempts):
    for folder, form in product((RUN, REPORT), FORMATS):
        attempts(folder, lambda: None, "no manifest", form)


def test_a_folder_does_not_hide_what_lost_the_file_by_which_it_is_known(verify):
    (REPORT / "results.json").unlink()
    report("report.md", shown(), "0.01 ± 0")
    for path in (REPORT, "reports"):
        assert "reports/tests/small/results.json: the file is missing" in verify(path)
    (REPORT / "manifest.json").unlink()
    assert "reports/tests/small has no manifest.json" in verify("reports", "runs")
    (RUN / "cells.jsonl").unlink()
    for path in (RUN, "runs"):
        assert "runs/run/cells.jsonl: the file is missing" in verify(path)


@pytest.mark.slow
def test_a_report_cannot_disown_its_run(verify):
    """The run is here; the report says that it had no manifest, or another name, or was never named."""
    OF_RUN["title"]()
    for named, code in (({"name": "run", "digest": None}, 1), (None, 1), ({"name": "other", "digest": "0" * 64}, 0)):
        told_in_manifest(run=named)(REPORT)
        text = verify(REPORT, code=code)
        assert code or f"{REPORT}: consistent in itself, its run is not here" in text
        assert "contradiction" in verify(REPORT, more=["--require-run"])


OLD = Path(__file__).resolve().parents[3] / "reports" / "0.1"


def test_reports_of_version_0_1_are_known_by_their_digests_and_by_nothing_else(verify):
    """All that are committed are, and none of them after any edit, with or without claims."""
    text = verify(OLD, code=0)
    number = len([*OLD.rglob("results.json")])
    assert f"{OLD}: {number} reports of version 0.1, unchanged" in text
    assert f"{number} version-0.1 reports: no contradictions" in text
    assert f"{OLD}: " in verify(OLD, more=["--require-run"])
    copy = Path("copy") / "results"
    for name in ("report.md", "results.json", "costs.csv", "more.md", "report.html"):
        shutil.copytree(OLD / "diagnostics", copy)
        verify("copy", code=0)
        with (copy / name).open("a") as file:
            file.write(" ")
        assert f"{copy} has no manifest.json" in verify("copy")
        shutil.rmtree("copy")


def test_the_results_of_an_old_report_do_not_excuse_another(verify):
    shutil.copy(OLD / "diagnostics" / "results.json", REPORT)
    (REPORT / "manifest.json").unlink()
    assert "reports/tests/small has no manifest.json" in verify(REPORT)
    shutil.copytree(OLD / "diagnostics", "reports/old")  # nor one that lies beside it
    assert "reports/tests/small has no manifest.json" in verify("reports")


def test_nothing_verified_is_no_success(verify):
    (RUN / "manifest.json").write_text("{}")
    (RUN / "run.json").write_text("{}")
    (REPORT / "manifest.json").unlink()
    for paths in ((RUN,), (REPORT,), ("runs", "reports"), (".",)):
        assert "no contradictions" not in verify(*paths)


def test_a_path_with_nothing_to_verify_is_an_error(verify):
    Path("empty").mkdir()
    assert "empty is not a run, a report or an export" in verify("empty", code=2)
    assert "nowhere is not a run, a report or an export" in verify("nowhere", code=2)


def test_a_training_that_was_not_made_cannot_be_made_up(verify):
    untrained = re.sub(r"training: \{[^}]*\}+", "training: {mode: evaluate}", SUITE.strip())
    assert "mode: evaluate" in untrained
    Path("other.yaml").write_text(untrained)
    run = bench_core.run("other.yaml", store="other", out="others", data=".")
    assert "no contradictions" in verify(run.folder, code=0, store="other")
    name = run.folder / "suite.yaml"
    name.write_text(name.read_text().replace("mode: evaluate", "epochs: 10"))
    digest = sha256(name.read_bytes()).hexdigest()
    edited_json(run.folder / "parts.json", lambda parts: parts.update(suite=digest))
    said = verify(run.folder, store="other")
    assert "suite.yaml: models.two is trained by the suite, but was planned for evaluation without training" in said


@pytest.mark.parametrize("folder", ["quickstart", "rnn", "strlm"])
def test_the_reports_of_the_repository_contradict_nothing(verify, folder):
    """Among them is one in which differences of 0 are shown with different numbers of digits."""
    found = {path.parent for path in (ROOT / "reports" / folder).rglob("report.md")}
    assert found
    assert "no contradictions" in verify(*found, code=0)
