"""Figures of orders: how outputs grew, which are shown, and that no word can harm a report."""

from __future__ import annotations

import csv
import json
import re
from itertools import permutations
from xml.etree import ElementTree

import pytest
from bench_small.runs import HOSTILE, cell, number, run_of, stored, with_sections, written
from bench_small.suites import SUITE
from pydantic import ValidationError

import bench_core
from bench_core import Hypothesis, Prediction
from bench_core.runs.sample_outputs import detailed
from bench_core.storage.store import Store
from bench_exchange.exporting import export_run
from bench_exchange.importing import import_run
from bench_exchange.merge import merge
from bench_indigo import generation_order
from bench_indigo.order_figures import MAX_WORD_CHARS, MAX_WORDS, items, relations, steps
from bench_reports.figures.drawing import draw
from bench_reports.figures.figure_notes import figure_notes
from bench_reports.figures.figures import pictures
from bench_reports.language.figure_schema import Figure
from bench_reports.language.of_suite import language

SPACE = "{http://www.w3.org/2000/svg}"
DREAM, ORDER = ["I", "have", "a", "dream"], [3, 0, 2, 1]
CELLS = [cell(model, "greedy", seed, {"rate": number(1.0)}) for model in ("rnn", "lstm") for seed in (0, 1)]


def sample(words, order, model="rnn", identity=7, seed=0, **more):
    axes = {
        "task": "words",
        "model": model,
        "decoder": "greedy",
        "split": "test",
        "hardware": "default",
        "seed": seed,
    }
    return {"cell": axes, "id": identity, "text": " ".join(words), "words": words, "order": order, **more}


def ordered_run(tmp_path, samples, cells=CELLS, **figure):
    about = {"id": "grown", "kind": "order", "examples": 2, "by": ["model"], **figure}
    run = run_of(tmp_path, cells, {}, samples=samples)
    return with_sections(run, figures=[Figure.model_validate(about)])


def the_picture(run):
    (picture,) = pictures(run)
    return picture


def drawing(run):
    return ElementTree.fromstring(draw(the_picture(run))["svg"])


def texts(root):
    return [each.text for each in root.iter(f"{SPACE}text")]


def test_every_step_has_its_word_its_slot_and_what_is_there_then():
    found = steps(DREAM, ORDER)
    assert [(step.word, step.position, step.slot) for step in found] == [
        ("dream", 3, 0), ("I", 0, 0), ("a", 2, 1), ("have", 1, 1),
    ]  # fmt: skip
    assert [step.sequence for step in found] == [
        ("dream",), ("I", "dream"), ("I", "a", "dream"), ("I", "have", "a", "dream"),
    ]  # fmt: skip


def test_relations_are_those_of_the_paper_and_only_grow():
    found = steps(["I", "dream"], [1, 0])
    assert items(found) == ["<s>", "</s>", "dream", "I"]
    assert relations(found) == [[0, -1, -1, -1], [1, 0, 1, 1], [1, -1, 0, 1], [1, -1, -1, 0]]
    longer = relations(steps(DREAM, ORDER))
    assert [row[:4] for row in longer[:4]] == relations(found)


@pytest.mark.parametrize("size", [1, 3, 4])
def test_positive_relations_of_a_row_add_up_to_where_it_stands(size):
    for order in permutations(range(size)):
        found = steps([f"w{place}" for place in range(size)], order)
        assert [sum(sign > 0 for sign in row) for row in relations(found)] == [0, size + 1, *(p + 1 for p in order)]
        assert [step.slot for step in found] == [sum(one < p for one in order[:turn]) for turn, p in enumerate(order)]


def test_an_empty_output_is_two_boundaries():
    assert relations(steps([], [])) == [[0, -1], [1, 0]]


def test_a_report_shows_the_steps_and_the_relations_of_every_output(tmp_path):
    samples = [sample(DREAM, ORDER), sample(["so", "be", "it"], [0, 1, 2], "lstm", 9)]
    files = written(ordered_run(tmp_path, samples, caption="As they grew"), tmp_path / "report")
    text = files["report.md"].decode()
    assert "![As they grew](figures/grown.svg)" in text
    assert re.findall("^### (.*example.*)$", text, re.MULTILINE)[:2] == ["rnn, example 7", "lstm, example 9"]
    lines = text[text.index("### rnn, example 7") : text.index("### lstm, example 9")].splitlines()
    rows = [[word.strip() for word in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[2:6] == [
        ["1", "dream", "0", "&lt;s&gt; **dream** &lt;/s&gt;"],
        ["2", "I", "0", "&lt;s&gt; **I** dream &lt;/s&gt;"],
        ["3", "a", "1", "&lt;s&gt; I **a** dream &lt;/s&gt;"],
        ["4", "have", "1", "&lt;s&gt; I **have** a dream &lt;/s&gt;"],
    ]
    assert rows[8:] == [
        ["0 &lt;s&gt;", "0", "−", "−", "−", "−", "−"],
        ["1 &lt;/s&gt;", "+", "0", "+", "+", "+", "+"],
        ["2 dream", "+", "−", "0", "+", "+", "+"],
        ["3 I", "+", "−", "−", "0", "−", "−"],
        ["4 a", "+", "−", "−", "+", "0", "+"],
        ["5 have", "+", "−", "−", "+", "−", "0"],
    ]
    told = list(csv.DictReader(files["figures/grown.csv"].decode().splitlines()))
    assert [(row["series"], row["word"], row["position"], row["slot"]) for row in told][:2] == [
        ("rnn, example 7", "dream", "3", "0"), ("rnn, example 7", "I", "0", "0"),
    ]  # fmt: skip
    assert told[3]["sequence"] == "I have a dream"
    assert files["figures/grown.pdf"].startswith(b"%PDF")
    assert "figures/grown.pdf" in files["report.tex"].decode()
    assert b'<a href="figures/grown.svg">' in files["report.html"]


def places(root):
    """Return left, right, top and bottom of what is filled with a colour."""
    for path in root.iter(f"{SPACE}path"):
        colour = re.search("fill: (#......)", path.get("style", ""))
        if colour and path.get("d"):
            numbers = [float(one) for one in re.findall(r"-?[\d.]+", path.get("d"))]
            yield colour[1], (min(numbers[::2]), max(numbers[::2]), min(numbers[1::2]), max(numbers[1::2]))


def at(text):
    """Return where a text of a drawing stands."""
    found = re.search(r"translate\(([\d.]+) ([\d.]+)\)", text.get("transform", "")) or re.search(
        r"()()", text.get("transform", "")
    )
    return (float(found[1]), float(found[2])) if found[1] else (float(text.get("x")), float(text.get("y")))


@pytest.mark.slow
def test_a_drawing_boxes_each_new_word_and_colours_every_relation_inside_of_it(tmp_path):
    root = drawing(ordered_run(tmp_path, [sample(DREAM, ORDER)], by=[], where={"model": "rnn"}))
    _, _, width, height = map(float, root.get("viewBox").split())
    squares = [*places(root)]
    boxes = [place for colour, place in squares if colour == "#c7e9c0"]
    assert len(boxes) == 4
    assert (
        sum(colour == "#9ecae1" for colour, _ in squares) == sum(colour == "#fdae6b" for colour, _ in squares) == 15
    )
    for _, (left, right, top, bottom) in squares:
        assert -0.1 <= left < right <= width + 0.1
        assert -0.1 <= top < bottom <= height + 0.1
    shown = texts(root)
    assert shown.count("+") == shown.count("−") == 15
    for (left, right, top, bottom), word in zip(boxes, ["dream", "I", "a", "have"], strict=True):
        inside = [
            text.text
            for text in root.iter(f"{SPACE}text")
            if left < at(text)[0] < right and top < at(text)[1] < bottom
        ]
        assert inside == [word]
    assert shown[0] == "example 7"


@pytest.mark.slow
def test_the_same_run_is_drawn_as_the_same_bytes(tmp_path):
    run = ordered_run(tmp_path, [sample(DREAM, ORDER)])
    assert draw(the_picture(run)) == draw(the_picture(run))


WORDS = [HOSTILE, "a|b", "<b>x</b>", "*", "\n", "\x00", "&amp;", "\ud800", "[x](y)", "", " ", "二重", "]]>", '"',
         "`x`", "\u2028", "$x$", "\ufffe", "\\", "w" * 99]  # fmt: skip


@pytest.mark.slow
def test_hostile_words_stay_in_their_cell_and_the_drawing_is_well_formed(tmp_path):
    order = [*range(0, len(WORDS), 2), *range(1, len(WORDS), 2)]
    run = ordered_run(tmp_path, [sample(WORDS, order)])
    files = written(run, tmp_path / "report")
    lines = files["report.md"].decode().split("\n### rnn, example 7\n")[1].split("\n- ")[0].splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) == len(WORDS) + 2 + len(WORDS) + 4
    for line in tables[: len(WORDS) + 2]:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 5
    for line in tables[len(WORDS) + 2 :]:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == len(WORDS) + 4
    assert "<b>" not in "".join(tables)
    shown = texts(ElementTree.fromstring(files["figures/grown.svg"]))
    assert shown.count("<b>x</b>") == sum(WORDS[2] in step.sequence for step in steps(WORDS, order))
    assert not [text for text in shown if not (text or "").strip()]
    assert max(map(len, shown)) <= MAX_WORD_CHARS + 4, "what is very long is cut"


def test_a_long_output_is_shown_in_its_beginnings_and_says_so(tmp_path):
    words = [f"w{place}" for place in range(MAX_WORDS + 5)]
    picture = the_picture(ordered_run(tmp_path, [sample(words, [*reversed(range(len(words)))])]))
    assert [step.position for step in picture.series[0].rows] == [*reversed(range(5, MAX_WORDS + 5))]
    assert relations(picture.series[0].rows)[1] == [1, 0, *[1] * MAX_WORDS]
    assert f"rnn, example 7: the first {MAX_WORDS} of {MAX_WORDS + 5} words." in picture.notes


def test_a_number_shows_the_first_examples_and_ids_show_just_those(tmp_path):
    samples = [sample(["a"], [0], identity=1), *(sample(DREAM, ORDER, identity=each) for each in (2, 3, 4))]
    for examples, wanted in ((1, [2]), (2, [2, 3]), (20, [2, 3, 4, 1]), ([3, 1, 99], [1, 3]), (3, [2, 3, 4])):
        picture = the_picture(ordered_run(tmp_path, samples, examples=examples))
        assert [one.label for one in picture.series] == [f"rnn, example {each}" for each in wanted]


@pytest.mark.parametrize(
    "odd",
    [
        {"words": "abcd"}, {"words": [1, 2, 3, 4]}, {"order": [0, 0, 1, 2]}, {"order": [0, 1, 2]}, {"order": "3021"},
        {"order": [0, 1, 2, 4]}, {"order": [0.0, 1, 2, 3]}, {"order": None}, {"order": [[0], 1, 2, 3]}, {"order": [True, 0, 2, 3]},
    ],
)  # fmt: skip
def test_a_run_from_elsewhere_that_tells_no_order_is_left_out(tmp_path, odd):
    run = ordered_run(tmp_path, [sample(DREAM, ORDER) | odd])
    assert the_picture(run).empty == "none of its cells has anything to draw."
    why = "the run stores no output that its order figure may show"
    assert any(
        note == f"Left out: words/rnn/greedy/test, seed 0; words/lstm/greedy/test, seed 0: {why}."
        for note in figure_notes(run, the_picture(run))
    )


def test_a_stored_run_draws_the_same(tmp_path):
    run = ordered_run(tmp_path, [sample(DREAM, ORDER)])
    again = stored(run)
    assert language(again).figures == language(run).figures
    assert (
        written(again, tmp_path / "one")["figures/grown.svg"] == written(run, tmp_path / "two")["figures/grown.svg"]
    )


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({}, "a figure of orders needs `examples`"),
        ({"examples": 0}, "examples"),
        ({"examples": 21}, "examples"),
        ({"examples": [-1]}, "examples"),
        ({"examples": 1, "values": ["rate"]}, "a figure of orders has no `values`"),
        ({"examples": 1, "width": 3}, "its size depends on the text"),
        ({"examples": 1, "kind": "box", "values": ["rate"]}, "a box has no `examples`"),
    ],
)
def test_settings_that_do_not_fit_are_refused(figure, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        Figure.model_validate({"id": "f", "kind": "order", **figure})


def prediction(identity, tokens, actions, text="x", **more):
    return Prediction(identity, hypotheses=[Hypothesis(tokens, True, -1.0, actions)], texts=[text], **more)


PREDICTIONS = [
    prediction(0, [3], [3, 1]),
    prediction(1, [1, 2], [2, 1, 1, 1]),
    prediction(2, [2, 2], [2, 1, 2, 2]),
    prediction(5, [1, 2, 3], [2, 1, 3, 2, 1, 1]),
]
VOCABULARY = ["<stop>", "a", "b", "c"]


def courses(chosen, predictions=PREDICTIONS, **more):
    found = generation_order.courses(predictions, chosen, VOCABULARY, **more)
    return {number: (one["words"], one["order"]) for number, one in found.items()}


def test_a_run_keeps_words_and_their_order_of_the_chosen_examples():
    assert courses([2]) == {1: (["a", "b"], [1, 0]), 2: (["b", "b"], [0, 1])}
    assert courses([2], hidden=[1]) == {2: (["b", "b"], [0, 1]), 5: (["a", "b", "c"], [1, 2, 0])}
    assert [*courses([9])] == [0, 1, 2, 5]
    assert courses([[5, 77], [0]]) == {0: (["c"], [0]), 5: (["a", "b", "c"], [1, 2, 0])}


def test_what_is_known_of_an_output_stays_and_others_come_after_it():
    samples = [{"id": 1, "text": "kept", "steps": ["b", "a b"]}, {"id": 2, "text": "too"}]
    found = detailed(samples, PREDICTIONS, [generation_order.courses(PREDICTIONS, [[1, 5]], VOCABULARY)])
    assert [one["id"] for one in found] == [1, 2, 5]
    assert found[0] == {**samples[0], "words": ["a", "b"], "order": [1, 0]}
    assert found[1] == samples[1]
    assert found[2]["text"] == "x"
    assert "order" not in samples[0]
    json.dumps(found)


def test_of_outputs_of_unknown_order_nothing_is_kept():
    assert courses([2], [*PREDICTIONS, prediction(6, [1, 2], [1])]) == {}


GROWN = """
figures:
  - {id: grown, kind: order, examples: [3, 0], by: [decoder], where: {model: one}}
  - {id: firsts, kind: order, examples: 1, where: {model: two, decoder: draw}}
"""


@pytest.mark.nightly
def test_a_run_carried_elsewhere_and_merged_there_draws_the_same(tmp_path, suite_file):
    path = suite_file(SUITE.strip() + GROWN)
    (tmp_path / "words.txt").write_text("ab abc abcd a b c d ab ab abc d d a")
    made = {"profile": "tiny", "store": tmp_path / "store", "out": tmp_path / "runs", "data": tmp_path}
    whole = bench_core.run(path, settings=["seeds=[0, 1]"], **made)
    told = [one for one in whole.info["samples"] if "order" in one]
    assert {(one["cell"]["model"], one["cell"]["decoder"], one["id"]) for one in told} >= {
        ("one", "argmax", 0), ("one", "argmax", 3), ("one", "draw", 3),
    }  # fmt: skip
    for one in told:
        assert one["order"] == [*range(len(one["words"]))]
        assert "".join(one["words"]) == one["text"].replace(" ", "")
    assert {one["id"] for one in whole.info["samples"] if one["cell"]["model"] == "one"} == {0, 1, 2, 3}
    drawn = [draw(picture) for picture in pictures(whole)]
    assert [len(picture.series) for picture in pictures(whole)] == [4, 1]
    imported = []
    for seed in (0, 1):
        part = bench_core.run(path, settings=[f"seeds=[{seed}]"], **made)
        export_run(part, Store(tmp_path / "store"), tmp_path / f"{seed}.zip", numbers_only=bool(seed))
        imported.append(import_run(tmp_path / f"{seed}.zip", Store(tmp_path / "home"), tmp_path / "away").run)
    merged = merge(imported, tmp_path / "merged")
    assert [draw(picture) for picture in pictures(merged)] == drawn
