from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import permutations

import pytest

from bench_core import SuiteError
from bench_indigo.illustrate import course, markdown, svg

DREAM = ["I", "have", "a", "dream"], [9, 1, 4, 1, 6, 2, 7, 2]  # dream; I dream; I a dream; I have a dream
TEXT = "{http://www.w3.org/2000/svg}text"
RECT = "{http://www.w3.org/2000/svg}rect"


def test_every_step_has_its_word_its_slot_and_what_is_there_then():
    found = course(*DREAM)
    assert [(step.word, step.slot) for step in found.steps] == [("dream", 0), ("I", 0), ("a", 1), ("have", 1)]
    assert [step.sequence for step in found.steps] == [
        ["dream"], ["I", "dream"], ["I", "a", "dream"], ["I", "have", "a", "dream"],
    ]  # fmt: skip
    assert [step.between for step in found.steps] == [
        ("<s>", "</s>"), ("<s>", "dream"), ("I", "dream"), ("I", "a"),
    ]  # fmt: skip


def test_relations_are_those_of_the_paper_and_only_grow():
    found = course(["I", "dream"], [9, 1, 4, 1])
    assert found.items == ["<s>", "</s>", "dream", "I"]
    assert found.relations == [[0, -1, -1, -1], [1, 0, 1, 1], [1, -1, 0, 1], [1, -1, -1, 0]]
    longer = course(*DREAM).relations
    assert [row[:4] for row in longer[:4]] == found.relations


@pytest.mark.parametrize("number", [1, 3, 4])
def test_positive_relations_of_a_row_add_up_to_where_it_stands(number):
    for order in permutations(range(number)):
        slots = [sum(earlier < place for earlier in order[:turn]) for turn, place in enumerate(order)]
        actions = [action for slot in slots for action in (5, slot + 1)]
        found = course([f"w{place}" for place in range(number)], actions)
        assert [sum(sign > 0 for sign in row) for row in found.relations] == [0, number + 1, *(p + 1 for p in order)]
        assert found.items[2:] == [f"w{place}" for place in order]
        assert [step.slot for step in found.steps] == slots


def test_two_keys_of_a_slot_show_the_same():
    tokens, actions = DREAM
    keys = [action + place // 2 + 1 if place % 2 else action for place, action in enumerate(actions)]
    assert svg(tokens, keys) == svg(*DREAM)
    assert markdown(tokens, keys) == markdown(*DREAM)


def test_slots_that_were_chosen_before_words_show_the_same():
    tokens, actions = DREAM
    turned = [action for word, slot in zip(actions[::2], actions[1::2], strict=True) for action in (slot, word)]
    assert svg(tokens, turned, position_first=True) == svg(*DREAM)
    assert markdown(tokens, turned, position_first=True) == markdown(*DREAM)


def test_left_to_right_every_word_goes_before_the_end():
    found = course(["a", "b", "c"], [4, 5, 6])
    assert [step.slot for step in found.steps] == [0, 1, 2]
    assert [step.between[1] for step in found.steps] == ["</s>"] * 3


def test_markdown_is_a_table_of_steps_and_one_of_relations():
    assert markdown(["I", "dream"], [9, 1, 4, 1]).splitlines() == [
        "| step | word | slot | between | sequence |",
        "| --- | --- | --- | --- | --- |",
        r"| 1 | **dream** | 0 | \<s\> ⟨ ⟩ \</s\> | \<s\> **dream** \</s\> |",
        r"| 2 | **I** | 0 | \<s\> ⟨ ⟩ dream | \<s\> **I** dream \</s\> |",
        "",
        "A row stands left (−) or right (+) of a column.",
        "",
        r"|  | 0 \<s\> | 1 \</s\> | 2 dream | 3 I |",
        "| --- | --- | --- | --- | --- |",
        r"| 0 \<s\> | 0 | − | − | − |",
        r"| 1 \</s\> | + | 0 | + | + |",
        r"| 2 dream | + | − | 0 | + |",
        r"| 3 I | + | − | − | 0 |",
    ]


HOSTILE = [
    "a|b",
    "<b>x</b>",
    "*",
    "\n",
    "\x00",
    "&amp;",
    "\ud800",
    "[x](y)",
    "",
    " ",
    "二重",
    "]]>",
    '"',
    "`x`",
    "\u2028",
]


def test_hostile_tokens_stay_in_their_cell():
    actions = [action for turn in range(len(HOSTILE)) for action in (3, turn // 2 + 1)]
    lines = markdown(HOSTILE, actions).splitlines()
    tables = [line for line in lines if line]
    steps, relations = tables[: len(HOSTILE) + 2], tables[len(HOSTILE) + 3 :]
    assert len(relations) == len(HOSTILE) + 4
    for line in steps:
        assert line.replace("\\|", "").count("|") == 6
    for line in relations:
        assert line.replace("\\|", "").count("|") == len(HOSTILE) + 4
    assert "<b>" not in "".join(lines)


def test_a_drawing_is_well_formed_whatever_the_tokens_are():
    actions = [action for turn in range(len(HOSTILE)) for action in (3, turn // 2 + 1)]
    drawing = svg(HOSTILE, actions)
    drawing.encode()
    root = ElementTree.fromstring(drawing)
    texts = [each.text for each in root.iter(TEXT)]
    assert texts.count("<b>x</b>") == len(
        [step for step in course(HOSTILE, actions).steps if "<b>x</b>" in step.sequence]
    )
    assert None not in texts


def test_a_drawing_marks_each_new_word_and_every_relation_inside_of_it():
    root = ElementTree.fromstring(svg(*DREAM))
    width, height = float(root.get("width")), float(root.get("height"))
    marked = [each for each in root.iter(RECT) if each.get("stroke")]
    assert len(marked) == 4
    assert len(list(root.iter(RECT))) == 1 + 4 + 6 * 6
    signs = [each.text for each in root.iter(TEXT) if each.text in ("+", "−")]
    assert signs.count("+") == signs.count("−") == 15
    for each in root.iter(RECT):
        assert 0 <= float(each.get("x", 0)) <= width - float(each.get("width"))
        assert 0 <= float(each.get("y", 0)) <= height - float(each.get("height"))
    for box in marked:  # a word begins inside of each box
        left, top = float(box.get("x")), float(box.get("y"))
        inside = [
            each.text
            for each in root.iter(TEXT)
            if left < float(each.get("x")) < left + float(box.get("width"))
            and top < float(each.get("y")) < top + float(box.get("height"))
        ]
        assert len(inside) == 1
        assert inside[0] in DREAM[0]


def test_an_empty_output_is_two_boundaries():
    assert course([], []).relations == [[0, -1], [1, 0]]
    assert markdown([], []).count("\n") == 9
    ElementTree.fromstring(svg([], []))


@pytest.mark.parametrize("actions", [[5], [5, 1, 6, 5], [5, 3, 6, 1], [5, 1, 6, 0]])
def test_actions_that_tell_no_order_are_refused(actions):
    for shown in (markdown, svg):
        with pytest.raises(SuiteError, match="do not tell the order of 2 tokens"):
            shown(["a", "b"], actions)
