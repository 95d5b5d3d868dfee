"""Recorded systems beside a trained model: in tables, tests, claims and keys as any other system."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sacrebleu.metrics.chrf import CHRF

import bench_core
from bench_core import DataError, SuiteError
from bench_core.planning.plan import plan
from bench_core.storage.predictions import read_predictions
from bench_core.storage.store import Store
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_recorded.commands.score import command as score
from bench_reports.api import table_records, tables_text
from bench_reports.content.claims import judge
from bench_reports.render.report import write_report

REFERENCES = ["abcd"[: 1 + number % 4] * (1 + number % 2) for number in range(40)][2::3]  # of the split test
NUMBER = len(REFERENCES)

SUITE = """
    suite: tests/recorded
    tasks:
      words: {name: named-letters, prefix: 0}
    models:
      bigram: {name: bigram}
      perfect: {name: recorded, outputs: perfect.jsonl}
      worse: {name: recorded, outputs: {0: worse-0.txt, 1: worse-1.txt}}
    decoders:
      greedy: {name: greedy, max_tokens: 8}
      recorded: {name: as-recorded}
    metrics:
      exact: {name: exact-match}
      chrf: {name: chrf}
    training: {epochs: 1}
    seeds: 2
    tables:
      - {id: scores, rows: [model], values: [exact, chrf], baseline: perfect, differences: true}
    claims:
      - {id: better, text: Recorded is better., assert: "v('chrf', model='perfect') > v('chrf', model='bigram')"}
      - {id: seeds, text: So it is., assert: "v('chrf', model='worse') < v('chrf', model='perfect')"}
"""

WORSE = [
    ["".join(random.Random(f"{seed}/{place}").choices("xyzw", k=4)) for place in range(NUMBER)] for seed in (0, 1)
]


@pytest.fixture
def write(tmp_path, monkeypatch, suite_file, writers):
    """Write the suite and its outputs."""
    monkeypatch.chdir(tmp_path)
    order = random.Random(1).sample(range(NUMBER), NUMBER)
    lines = [{"id": f"test/{number}", "output": REFERENCES[number], "log_prob": -1.0} for number in order]
    (tmp_path / "perfect.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for seed, texts in enumerate(WORSE):
        (tmp_path / f"worse-{seed}.txt").write_text("".join(f"{text}\n" for text in texts))
    return lambda text=SUITE, **replaced: suite_file(text, **replaced)


@pytest.fixture
def go(write, run_here):
    return lambda text=SUITE, **replaced: run_here(write(text, **replaced))


def of(run, model, seed=0):
    (found,) = [one for one in run.cells if one.cell["model"] == model and one.cell["seed"] == seed]
    return found


@pytest.mark.slow
def test_recorded_and_trained_systems_stand_in_one_table_with_tests(go, tmp_path):
    run = go()
    assert {(one.status, one.reason) for one in run.cells} == {("done", "")}
    cells = [(one.cell["model"], one.cell["decoder"], one.cell["seed"]) for one in run.cells]
    assert sorted(cells) == [
        ("bigram", "greedy", 0), ("bigram", "greedy", 1), ("perfect", "recorded", 0),
        ("worse", "recorded", 0), ("worse", "recorded", 1),
    ]  # fmt: skip
    assert of(run, "perfect").numbers["exact"].value == 100
    for seed in (0, 1):
        truth = CHRF().corpus_score(WORSE[seed], [REFERENCES]).score
        assert of(run, "worse", seed).numbers["chrf"].value == truth
    rows = {one["row"]: one for one in table_records(run)["scores"] if one["value"] == "chrf"}
    assert {name: one["n"] for name, one in rows.items()} == {"bigram": 2, "perfect": 1, "worse": 2}
    assert rows["perfect"]["p"] is None
    assert rows["bigram"]["p"] is not None
    assert rows["worse"]["p"] < 0.01
    text = tables_text(run, 160)
    assert "Fixed system without seeds: perfect." in text
    assert "Mean ± standard deviation over 2 seeds." in text


def test_outputs_are_stored_with_their_references_ids_and_log_probabilities(go, tmp_path):
    run = go()
    key = of(run, "perfect").artifacts["decode"]
    predictions = [*read_predictions(tmp_path / "store" / "decode" / key / "predictions.jsonl.gz")]
    assert [one.texts for one in predictions] == [[text] for text in REFERENCES]
    assert [one.references for one in predictions] == [[text] for text in REFERENCES]
    assert {one.hypotheses[0].log_prob for one in predictions} == {-1.0}


def test_claims_of_recorded_systems_say_that_these_stand_as_they_are(go):
    better, seeds = judge(go())
    remark = "is a fixed system: its training variance is unknown"
    assert better.verdict == "holds in these training runs"
    assert any(one.endswith(remark) and "perfect" in one for one in better.remarks)
    assert [one for one in seeds.remarks if remark in one and "worse" in one] == []
    assert seeds.verdict.startswith("holds")


def test_two_systems_that_stand_as_they_are_are_compared_over_examples_alone(go):
    run = go(
        **{
            "worse: {name: recorded, outputs: {0: worse-0.txt, 1: worse-1.txt}}": (
                "worse: {name: recorded, outputs: worse-0.txt}"
            )
        }
    )
    _, seeds = judge(run)
    assert seeds.verdict == "holds"
    assert len([one for one in seeds.remarks if "is a fixed system" in one]) == 2


def test_a_run_is_verified_and_that_a_system_has_no_seeds_cannot_be_made_up(go, tmp_path):
    verifying = pytest.importorskip("bench_exchange.verifying")
    run = go()

    def wrong():
        remarks = verifying.Verifier(Store(tmp_path / "store")).verify(run.folder)
        return [one.text for one in remarks if one.wrong]

    assert wrong() == []
    path = run.folder / "run.json"
    about = json.loads(path.read_text())
    about["models"]["worse"]["one_system"] = True
    path.write_text(json.dumps(about))
    assert [text for text in wrong() if "one_system of model 'worse' is True, which differs from the store" in text]


def test_one_seed_of_a_trained_model_does_not_make_it_a_fixed_system(go):
    run = go(**{"seeds: 2": "seeds: 1", "{0: worse-0.txt, 1: worse-1.txt}": "{0: worse-0.txt}"})
    models = run.info["models"]
    assert {name for name, about in models.items() if about.get("one_system")} == {"perfect"}
    better, _ = judge(run)
    assert better.verdict == "holds in this training run"
    text = tables_text(run, 160)
    assert "One seed. Fixed system without seeds: perfect." in text


def test_a_run_of_recorded_systems_alone_speaks_of_no_seeds(go):
    lines = ["      bigram: {name: bigram}\n", "      greedy: {name: greedy, max_tokens: 8}\n"]
    lines += ["    training: {epochs: 1}\n", SUITE[SUITE.index("    claims:") :]]
    removed = {**dict.fromkeys(lines, ""), "{0: worse-0.txt, 1: worse-1.txt}": "worse-0.txt"}
    text = tables_text(go(**removed), 160)
    assert "Fixed systems without seeds." in text
    assert "One seed" not in text
    assert "training" not in text


def test_reports_of_such_a_run_are_written(go, tmp_path):
    files = {path.name: path for path in write_report(go(), tmp_path / "reports")}
    assert {"report.html", "report.md"} <= {*files}
    text = files["report.md"].read_text(encoding="utf-8")
    assert " 0 parameters" not in text, "a recorded system has none, and nobody counts them"
    assert "perfect is a fixed system" in text


def keys(path, tmp_path):
    found = plan(load(path), tmp_path)
    return {(cell.model, cell.seed): artifacts["decode"] for cell, artifacts in found.of_cell.items()}


def test_what_a_file_says_is_in_the_key_of_its_outputs_and_where_it_lies_is_not(write, tmp_path):
    path = write()
    before = keys(path, tmp_path)
    (tmp_path / "worse-1.txt").write_text("".join(f"{text}!\n" for text in WORSE[1]))
    changed = keys(path, tmp_path)
    assert {name for name in before if before[name] != changed[name]} >= {("worse", 1)}
    assert not {name for name in before if before[name] != changed[name]} & {("bigram", 0), ("perfect", 0)}
    (tmp_path / "perfect.jsonl").rename(tmp_path / "renamed.jsonl")
    moved = keys(write(**{"perfect.jsonl": "renamed.jsonl"}), tmp_path)
    assert moved == changed


def test_a_missing_file_is_named_with_its_place_in_the_suite(write, tmp_path):
    with pytest.raises(DataError) as found:
        plan(load(write(**{"perfect.jsonl": "missing.jsonl"})), tmp_path)
    assert "missing.jsonl" in str(found.value)
    assert "Correct its path" in str(found.value)


def test_a_wrong_file_fails_its_cells_alone(go, tmp_path, write):
    path = write()
    (tmp_path / "worse-1.txt").write_text("a\n")
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs", workers=0)
    assert [one.cell["model"] for one in run.cells if one.status == "failed"] == ["worse"]
    assert "worse-1.txt has 1 output, but the split 'test' has 13 examples" in of(run, "worse", 1).reason


def test_outputs_pass_no_vocabulary(go, tmp_path):
    text = "ß 猫 ‚a‘ <unk> \t two  spaces"
    strange = "".join(f"{json.dumps({'output': text})}\n" for _ in range(NUMBER))
    (tmp_path / "strange.jsonl").write_text(strange)
    run = go(**{"perfect.jsonl": "strange.jsonl"})
    predictions = read_predictions(
        tmp_path / "store" / "decode" / of(run, "perfect").artifacts["decode"] / "predictions.jsonl.gz"
    )
    assert {one.texts[0] for one in predictions} == {text}


def refusal(write, **replaced):
    suite = load(write(**replaced))
    with pytest.raises(SuiteError) as found:
        check_fit(suite, cells_of(suite))
    return str(found.value)


def test_a_system_without_any_seed_of_the_suite_is_named(write):
    text = refusal(write, **{"{0: worse-0.txt, 1: worse-1.txt}": "{7: worse-0.txt}"})
    assert "worse" in text
    assert "recorded has none of the seeds 0, 1. Set `seeds`." in text


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("{name: perplexity}", "perplexity"),
        ("{name: length}", "length measures tokens; recorded returns only text."),
    ],
)
def test_metrics_that_need_probabilities_or_tokens_refuse_recorded_outputs(write, metric, words):
    text = refusal(write, **{"exact: {name: exact-match}": f"exact: {metric}"})
    assert words in text
    assert "bigram x" not in text


def test_the_example_of_the_readme_is_a_suite_with_its_cells(tmp_path):
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "suite.yaml"
    path.write_text(
        "suite: tests/readme\ntasks: {sentences: {name: translation}}\nmetrics: {bleu: {name: bleu}}\nseeds: 3\n"
        + block
    )
    suite = load(path)
    cells = cells_of(suite)
    check_fit(suite, cells)
    systems = ("ours", "beam"), ("theirs", "recorded"), ("retrained", "recorded")
    seeds = {(model, decoder): [] for model, decoder in systems}
    for one in cells:
        seeds[one.model, one.decoder].append(one.seed)
    assert [*seeds.values()] == [[0, 1, 2], [0], [0, 1, 2]]


BESIDE = """
    suite: tests/beside
    tasks:
      words: {name: named-letters, prefix: 0, words: 900}
    models:
      bigram: {name: bigram}
      theirs: {name: recorded, outputs: theirs.txt}
    decoders:
      greedy: {name: greedy, max_tokens: 8}
      recorded: {name: as-recorded}
    metrics:
      chrf: {name: chrf}
    training: {epochs: 1}
    tables:
      - {id: scores, rows: [model], values: [chrf], baseline: theirs, test: permutation}
"""


@pytest.mark.slow
def test_300_lines_have_the_digits_of_the_command_of_sacrebleu_in_one_table_with_a_trained_model(go, tmp_path):
    (tmp_path / "theirs.txt").write_text("a\n" * 300)
    key = of(go(BESIDE), "bigram").artifacts["decode"]
    predictions = [*read_predictions(tmp_path / "store" / "decode" / key / "predictions.jsonl.gz")]
    chance = random.Random(5)
    ours = [one.texts[0] for one in predictions]
    theirs = [one.references[0] if chance.random() < 0.8 else chance.choice("abcd") * 3 for one in predictions]
    content = {"ref.txt": [one.references[0] for one in predictions], "ours.txt": ours, "theirs.txt": theirs}
    for name, lines in content.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    rows = {one["row"]: one for one in table_records(go(BESIDE))["scores"]}
    command = [sys.executable, "-m", "sacrebleu", "ref.txt", "-i", "theirs.txt", "ours.txt", "-m", "chrf", "-w", "9"]
    done = subprocess.run([*command, "--paired-ar", "-f", "json"], capture_output=True, text=True, check=True)
    for name, line in zip(("theirs", "bigram"), json.loads(done.stdout), strict=True):
        assert rows[name]["mean"] == pytest.approx(line["chrF2"]["score"], rel=1e-12)
    p = line["chrF2"]["p_value"]
    assert 0.001 < p < 0.9, "a test that could have come out otherwise"
    assert rows["bigram"]["p"] == pytest.approx(p, abs=0.04)
    words = ["-r", "ref.txt", "theirs.txt", "ours.txt", "--metric", "chrf", "--test", "permutation", "--json"]
    beside = CliRunner().invoke(score, words, standalone_mode=False)
    assert beside.exception is None, beside.exception
    systems = json.loads(beside.stdout)["sacrebleu"]["chrf"]["systems"]
    assert systems["ours.txt"]["p"] == pytest.approx(p, rel=1e-12)
    assert systems["ours.txt"]["score"] == pytest.approx(rows["bigram"]["mean"], rel=1e-12)
