"""`bench score` prints the digits of sacrebleu's command, and its paired tests beside ours."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from bench_core import BenchError
from bench_recorded.commands.score import command

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "house",
    "runs",
    "sleeps",
    "don't",
    "big",
    "small",
    "red",
    "under",
    "over",
    "near",
    "tree",
    "green",
    "3.5",
    ",",
    ".",
    "„ja“",
    "猫",
]
NUMBER = 300


def noisy(lines, share, seed):
    """Return lines with a share of their words replaced, and every hundredth empty."""
    chance = random.Random(seed)
    replaced = [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in line.split()) for line in lines
    ]
    return ["" if place % 100 == seed else line for place, line in enumerate(replaced)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write references and the outputs of two systems; work in their folder."""
    monkeypatch.chdir(tmp_path)
    chance = random.Random(7)
    references = [" ".join(chance.choices(WORDS, k=chance.randint(3, 15))) for _ in range(NUMBER)]
    content = {
        "ref.txt": references, "ref2.txt": noisy(references, 0.1, 4),
        "a.txt": noisy(references, 0.2, 1), "b.txt": noisy(references, 0.22, 2),
    }  # fmt: skip
    for name, lines in content.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return content


def score(*words):
    """Return what the command prints as JSON."""
    done = CliRunner().invoke(command, [*words, "--json"], standalone_mode=False)
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def refusal(*words):
    done = CliRunner().invoke(command, [*words], standalone_mode=False)
    assert isinstance(done.exception, BenchError), done.exception or done.output
    return str(done.exception)


def sacrebleu(*words):
    """Return the lines that the command of sacrebleu prints."""
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", *words], capture_output=True, text=True, check=True,
        env={**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    return done.stdout


def number(text, metric):
    """Return scores, means, half widths and p-values that the command of sacrebleu prints in a column, by row."""
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    column = next(place for place, name in enumerate(rows[0]) if metric in name)
    cells = " ".join(row[column] for row in rows[1:])
    return [float(one) for one in re.findall(r"\d+\.\d+", cells)]


def digits(result):
    """Return ours, as that command rounds them."""
    found = []
    for one in result["systems"].values():
        found += [round(one["score"], 1), round(one["mean"], 1), round(one["half_width"], 1)]
        found += [] if one["p"] is None else [round(one["p"], 4)]
    return found


@pytest.mark.slow
def test_scores_and_paired_tests_have_the_digits_of_the_command_of_sacrebleu(files):
    found = score("--references", "ref.txt", "a.txt", "b.txt", "--metric", "bleu", "--metric", "chrf")
    printed = sacrebleu("ref.txt", "-i", "a.txt", "b.txt", "-m", "bleu", "chrf", "--paired-bs", "-f", "text")
    for name, label in (("bleu", "BLEU"), ("chrf", "chrF2")):
        expected = number(printed, label)
        assert len(expected) == 7, "a score, a mean and a half width each, and one p-value"
        assert digits(found["sacrebleu"][name]) == expected
        assert found["sacrebleu"][name]["signature"] in printed


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("bleu", ["-m", "bleu"]),
        ("bleu:lowercase=true,tokenize=intl", ["-m", "bleu", "-lc", "-tok", "intl"]),
        ("chrf:word_order=2", ["-m", "chrf", "--chrf-word-order", "2"]),
        ("ter", ["-m", "ter"]),
    ],
)
def test_the_table_has_all_digits_of_the_command_of_sacrebleu(files, metric, words):
    (entry,) = score("-r", "ref.txt", "-r", "ref2.txt", "a.txt", "-m", metric)["scores"]
    printed = json.loads(sacrebleu("ref.txt", "ref2.txt", "-i", "a.txt", "-w", "10", "-f", "json", *words))
    assert f"{entry['mean']:.10f}" == f"{printed['score']:.10f}"
    assert entry["signature"].startswith("nrefs:2|")


@pytest.mark.slow
@pytest.mark.parametrize(("test", "tails"), [("bootstrap", 1), ("permutation", 2)])
def test_our_paired_test_agrees_with_that_of_sacrebleu(files, test, tails):
    """Its bootstrap counts one tail, its exchanges both."""
    found = score("-r", "ref.txt", "a.txt", "b.txt", "-m", "chrf", "--test", test)
    ours = {one["row"]: one["p"] for one in found["scores"]}
    assert ours["system-1"] is None
    theirs = found["sacrebleu"]["chrf"]["systems"]["b.txt"]["p"]
    assert 0.01 < theirs < 0.5
    assert ours["system-2"] * tails / 2 == pytest.approx(theirs, abs=0.02)


def test_outputs_that_are_the_same_do_not_differ(files, tmp_path):
    (tmp_path / "copy.txt").write_bytes((tmp_path / "a.txt").read_bytes())
    other = score("-r", "ref.txt", "a.txt", "copy.txt")["scores"][1]
    assert other["change"] == 0
    assert other["p"] in (None, 1)


@pytest.mark.slow
def test_exchanges_are_those_of_sacrebleu_too(files):
    found = score("-r", "ref.txt", "a.txt", "b.txt", "--test", "permutation")
    printed = sacrebleu("ref.txt", "-i", "a.txt", "b.txt", "-m", "bleu", "--paired-ar", "-f", "text")
    score_a, score_b, p = number(printed, "BLEU")
    systems = found["sacrebleu"]["bleu"]["systems"]
    assert [round(one["score"], 1) for one in systems.values()] == [score_a, score_b]
    assert round(systems["b.txt"]["p"], 4) == p


def test_the_text_has_the_table_with_our_tests_and_below_it_labelled_those_of_sacrebleu(files):
    words = ["--references", "ref.txt", "a.txt", "b.txt", "--metric", "bleu", "--metric", "chrf"]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    ours, theirs = done.stdout.split("sacrebleu's own paired bootstrap resampling, as printed by its command:")
    assert "difference from a.txt" in " ".join(ours.split())
    assert "paired test over examples" in " ".join(ours.split())
    assert "seeds" not in ours.replace("without seeds", "")
    assert re.search(r"\nb\.txt +\d+\.\d \(\d+\.\d ± \d\.\d\), p = 0\.\d{4} ", theirs)
    assert "is one-tailed" in theirs
    assert "bleu: nrefs:1|bs:1000|seed:12345" in theirs
    assert "b.txt: 3 outputs are empty, the first at line 3." in done.stderr


def test_one_system_has_no_tests(files):
    assert score("-r", "ref.txt", "a.txt")["sacrebleu"] == {}


def test_other_metrics_stand_in_the_table_alone(files):
    found = score("-r", "ref.txt", "a.txt", "b.txt", "-m", "exact-match", "-m", "bleu")
    share = 100 * sum(map(str.__eq__, files["a.txt"], files["ref.txt"])) / NUMBER
    assert found["scores"][0]["mean"] == pytest.approx(share)
    assert [*found["sacrebleu"]] == ["bleu"]


def test_one_metric_can_be_had_with_several_settings(files):
    found = score("-r", "ref.txt", "a.txt", "-m", "chrf", "-m", "chrf:word_order=2")
    assert [one["value"] for one in found["scores"]] == ["chrf", "chrf-2"]
    assert found["scores"][0]["mean"] != found["scores"][1]["mean"]


def test_all_formats_give_what_lines_give(files, tmp_path):
    order = random.Random(2).sample(range(NUMBER), NUMBER)
    lines = [json.dumps({"id": place, "output": files["a.txt"][place]}) for place in order]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    nbest = [f"{place} ||| {files['a.txt'][place]} ||| f ||| -1\n{place} ||| worse ||| f ||| -2" for place in order]
    (tmp_path / "a.nbest").write_text("\n".join(nbest), encoding="utf-8")
    means = {one["mean"] for one in score("-r", "ref.txt", "a.txt", "a.jsonl", "a.nbest")["scores"]}
    assert len(means) == 1


def test_files_of_one_name_are_told_apart_by_their_folders(files, tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_bytes((tmp_path / "a.txt").read_bytes())
    found = score("-r", "ref.txt", "x/a.txt", "y/a.txt")
    assert [*found["systems"]] == ["x/a.txt", "y/a.txt"]
    assert [*found["sacrebleu"]["bleu"]["systems"]] == ["x/a.txt", "y/a.txt"]
    assert "two systems are called 'a.txt'" in refusal("-r", "ref.txt", "a.txt", "a.txt")


@pytest.mark.quick(1, 3)
@pytest.mark.parametrize("name", ["a|b", "*", "{x}", "null", "1", "[link](x)"])
def test_any_name_is_shown_as_it_is(files, name):
    found = score("-r", "ref.txt", "a.txt", "b.txt", "--name", name, "--name", "other")
    assert [one["row_label"] for one in found["scores"]] == [name, "other"]


def test_nothing_is_left_behind(files, tmp_path):
    before = {*tmp_path.rglob("*")}
    score("-r", "ref.txt", "a.txt")
    assert {*tmp_path.rglob("*")} == before


WRONG = {
    ("-m", "blue"): "no metric is called 'blue'. Did you mean 'bleu'?",
    (
        "-m",
        "bleu:lowercas=true",
    ): "--metric bleu: lowercas: Extra inputs are not permitted. See `bench describe bleu`.",
    ("-m", "bleu:smooth"): "--metric bleu:smooth: write settings as NAME:KEY=VALUE,KEY=VALUE.",
    (
        "-m",
        "perplexity",
    ): "--metric perplexity: this metric needs a model, but files of outputs have only texts",
    ("-m", "length"): "--metric length: this metric needs tokens, but files of outputs have only texts",
    ("--name", "one", "--name", "two"): "--name is given 2 times for 1 files. Give one name per file.",
    ("-r", "short.txt"): "short.txt has 299 lines, but ref.txt has 300. Each must have one line per example.",
    ("-r", "missing.txt"): "missing.txt cannot be read (No such file or directory). Correct its path.",
    ("--source", "missing.txt"): "missing.txt cannot be read (No such file or directory). Correct its path.",
    ("--source", "short.txt"): "short.txt has 299 lines, but ref.txt has 300.",
    ("short.txt",): "short.txt has 299 outputs, but the split 'test' has 300 examples.",
    ("latin.txt",): "latin.txt:2: byte 1 of the line, 0xfc, is not UTF-8.",
    ("named.jsonl",): "named.jsonl:1 has id 'x', but the 300 examples of 'test' are numbered from 0 to 299",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_what_is_wrong_is_named(files, tmp_path, words):
    (tmp_path / "short.txt").write_text("a\n" * (NUMBER - 1))
    (tmp_path / "latin.txt").write_bytes(b"a\n\xfc\n")
    (tmp_path / "named.jsonl").write_text('{"id": "x", "output": "a"}\n')
    assert WRONG[words] in refusal("-r", "ref.txt", "a.txt", *words)


def test_ids_that_are_no_numbers_can_be_left_out_of_account(files, tmp_path):
    lines = [json.dumps({"id": f"x{place}", "output": line}) for place, line in enumerate(files["a.txt"])]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    found = score("-r", "ref.txt", "a.txt", "a.jsonl", "--match", "order")
    assert len({one["mean"] for one in found["scores"]}) == 1


def test_a_seed_of_sacrebleu_counts_and_one_that_is_none_is_named(files, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    assert "|seed:7|" in score("-r", "ref.txt", "a.txt", "b.txt")["sacrebleu"]["bleu"]["signature"]
    monkeypatch.setenv("SACREBLEU_SEED", "seven")
    assert "SACREBLEU_SEED is 'seven'. Set it to an integer or to none" in refusal("-r", "ref.txt", "a.txt", "b.txt")


@pytest.mark.slow
def test_outputs_in_pieces_are_joined_or_refused_and_the_result_says_which(files, tmp_path):
    def cut(name):
        lines = [re.sub(r"(\w)(\w)", r"\1@@ \2", line) for line in files[name]]
        (tmp_path / f"cut-{name}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return f"cut-{name}"

    plain, pieces = score("-r", "ref.txt", "a.txt", "b.txt"), ["--pieces", "subword-nmt"]
    found = score("-r", "ref.txt", cut("a.txt"), "b.txt", *pieces, "--pieces", "none")
    assert digits(found["sacrebleu"]["bleu"]) == digits(plain["sacrebleu"]["bleu"])
    assert found["pieces"] == {"cut-a.txt": "subword-nmt", "b.txt": "none"}
    assert [one["mean"] for one in found["scores"]] == [one["mean"] for one in plain["scores"]]
    for words in (["-r", "ref.txt", "cut-a.txt"], ["-r", cut("ref.txt"), "a.txt"]):
        assert "looks split into subword-nmt pieces" in refusal(*words)
    assert "contain no marks of subword-nmt pieces" in refusal("-r", "ref.txt", "cut-a.txt", "b.txt", *pieces)
    joined = score("-r", "cut-ref.txt", "a.txt", "--reference-pieces", "subword-nmt")["scores"][0]
    assert joined["mean"] == plain["scores"][0]["mean"]
    assert "refs:pieces=subword-nmt" in joined["signature"]
    text = CliRunner().invoke(command, ["-r", "ref.txt", "cut-a.txt", *pieces], standalone_mode=False).stdout
    assert "cut-a.txt: subword-nmt pieces joined." in text
    as_they_are = score("-r", "ref.txt", "cut-a.txt", "--pieces", "none")["scores"][0]["mean"]
    assert as_they_are < joined["mean"] - 10
    assert "--pieces is given 3 times for 2 files" in refusal(
        "-r", "ref.txt", "a.txt", "b.txt", *pieces, *pieces, *pieces
    )


def test_a_language_without_spaces_must_be_named_or_its_characters_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    references, outputs = ["京都は日本の古い都", "猫が庭で眠っている"], ["京都は日本の古い街", "猫が庭で眠っている"]
    for name, lines in (("ref.txt", references), ("a.txt", outputs)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert "100 % of letters of the references" in refusal("-r", "ref.txt", "a.txt")
    assert "100 % of letters of the references" in refusal("-r", "ref.txt", "a.txt", "-m", "ter")
    from sacrebleu.metrics.bleu import BLEU

    expected = BLEU(tokenize="char").corpus_score(outputs, [references]).score
    assert score("-r", "ref.txt", "a.txt", "-m", "bleu:tokenize=char")["scores"][0]["mean"] == expected > 80


REPORTED = {
    "m@@ at": ("the c@@ at sat on the m@@ at", "the cat sat on the mat", "subword-nmt"),
    "spacers": ("▁the ▁c at ▁sat ▁on ▁the ▁m at", "the cat sat on the mat", "sentencepiece"),
    "a log": ("H-0\t-0.5\tthe c@@ at sat on the m@@ at", "the cat sat on the mat", "subword-nmt"),
}


@pytest.mark.parametrize("way", REPORTED)
def test_perfect_outputs_in_pieces_have_the_score_of_perfect_outputs(tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    cut, reference, pieces = REPORTED[way]
    for name, line in (("ref.txt", reference), ("a.txt", cut)):
        (tmp_path / name).write_text(f"{line}\n", encoding="utf-8")
    assert "Set `pieces: " in refusal("-r", "ref.txt", "a.txt")
    assert score("-r", "ref.txt", "a.txt", "--pieces", pieces)["scores"][0]["mean"] == pytest.approx(100)
    assert score("-r", "ref.txt", "a.txt", "--pieces", "none")["scores"][0]["mean"] < 80


@pytest.mark.slow
def test_answers_after_thinking_have_the_score_of_the_answers(files, tmp_path):
    def write(name, start):
        lines = [json.dumps({"output": start + line}) for line in files["a.txt"]]
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return name

    plain = score("-r", "ref.txt", write("plain.jsonl", ""))["scores"][0]["mean"]
    thought = write("thought.jsonl", "<think>\nThe cat? A dog runs, then.\n</think>\n\n")
    assert "has <think> in an output" in refusal("-r", "ref.txt", thought)
    assert score("-r", "ref.txt", thought, "--thinking", "drop")["scores"][0]["mean"] == pytest.approx(plain)
    assert score("-r", "ref.txt", thought, "--thinking", "keep")["scores"][0]["mean"] < plain - 10


@pytest.mark.slow
def test_latex_is_a_whole_table_of_the_digits_of_the_text(files):
    words = ["-r", "ref.txt", "a.txt", "b.txt", "-m", "bleu", "-m", "chrf"]
    text, latex = (CliRunner().invoke(command, [*words, *more]).output for more in ([], ["--format", "latex"]))
    (row,) = re.findall(r"(?m)^a\S* +.*$", text.partition("sacrebleu's own")[0])
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    assert r"\bottomrule" in latex
    for digits in re.findall(r"\d+\.\d+", row):
        assert digits in latex


@pytest.mark.slow(3)
@pytest.mark.parametrize(("count", "wrong"), [(30, 1), (100, 3), (12, 1)])
@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter"])
def test_intervals_stay_within_the_range_of_a_metric_and_are_about_those_of_resampling(
    tmp_path, monkeypatch, metric, count, wrong
):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(count)
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "over", "mat", "hill", "big", "red", "old", "house"]
    references = [" ".join(chance.choices(words, k=chance.randrange(6, 14))) for _ in range(count)]
    outputs = [" ".join(chance.choices(words, k=9)) if n < wrong else line for n, line in enumerate(references)]
    for name, lines in (("ref.txt", references), ("a.txt", outputs)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (found,) = score("-r", "ref.txt", "a.txt", "-m", metric)["scores"]
    low, high = found["low"], found["high"]
    mean = found["mean"]
    assert low < mean < high
    assert low >= 0
    assert metric == "ter" or high <= 100
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    their = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[metric]()
    drawn = []
    for _ in range(300):
        rows = chance.choices(range(count), k=count)
        drawn.append(their.corpus_score([outputs[n] for n in rows], [[references[n] for n in rows]]).score)
    spread = sorted(drawn)[292] - sorted(drawn)[7]
    assert 0.6 * spread < high - low < 2.5 * spread
