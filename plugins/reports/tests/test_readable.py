"""What a stranger reads in a report: words, not names of programs; lines that fit; nothing that is empty."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from bench_small.browser import Browser, installed
from bench_small.printing import needs_latex, overfull
from bench_small.runs import cell, number, paper, run_of, stored, with_sections, written

from bench_reports import document as doc
from bench_reports.content.cost_tables import dearest
from bench_reports.content.result_tables import results_table
from bench_reports.content.significance import _percent
from bench_reports.content.tables import grids
from bench_reports.language.of_suite import language
from bench_reports.language.schema import Claim
from bench_reports.render.latex import latex_report
from bench_reports.render.latex_tables import INCH, SIZES, Tabular, table_file
from bench_reports.render.report import screen, write_report
from bench_reports.verification.report import verify_report
from bench_reports.verification.written_tables import latex_rows, letters

LONG = "a caption that goes on and on, word after word, until no terminal could show it on a line of its own " * 2


def described(tmp_path, tasks, suite=None, table=None):
    """Return a run on some tasks of which it is known what they are made of."""
    one = cell("rnn", "greedy", 0, {"rate": number(1.0)})
    cells = [replace(one, cell={**one.cell, "task": task}) for task in tasks]
    about = {"tasks": tasks, "models": {"rnn": {"parameters": 1}, "lstm": {"parameters": 2}}}
    columns = {"rows": ["task", "model"], "columns": ["decoder"], **(table or {})}
    run = run_of(tmp_path, cells, columns, **about)
    return replace(run, suite=run.suite.model_copy(update=suite or {}))


def markdown(run, folder):
    return written(run, folder)["report.md"].decode()


def test_labels_of_a_suite_stand_in_what_is_said_of_the_whole_run(tmp_path):
    tasks = {"wt-2": {"corpus": "Wiki", "vocabulary": 5}, "ptb": {"corpus": "Penn", "vocabulary": 6}}
    text = markdown(described(tmp_path, tasks, {"labels": {"wt-2": "WikiText-2", "rnn": "RNN"}}), tmp_path / "report")
    assert "- Corpus: Penn (ptb), Wiki (WikiText-2)\n" in text
    assert "- Vocabulary: 5 (WikiText-2), 6 (ptb)\n" in text
    assert "- Models: RNN (1 parameter), lstm (2 parameters)\n" in text


def test_a_corpus_is_not_said_to_be_that_of_itself_or_of_the_only_task(tmp_path):
    alone = markdown(described(tmp_path, {"words": {"corpus": "Wiki", "vocabulary": 5}}), tmp_path / "a")
    assert "- Corpus: Wiki\n" in alone
    assert "- Vocabulary: 5\n" in alone
    two = described(tmp_path, {"wiki": {"corpus": "Wiki"}, "ptb": {"corpus": "Penn"}})
    assert "- Corpus: Penn (ptb), Wiki\n" in markdown(two, tmp_path / "b")


def test_statistics_have_words_for_headings(tmp_path):
    tasks = {"wt-2": {"statistics": {"train": {"mean_length": 2.5, "left_out_short": 3}}}}
    text = markdown(described(tmp_path, tasks, {"labels": {"wt-2": "WikiText-2"}}), tmp_path / "report")
    data = text.partition("## Data")[2].partition("##")[0]
    assert re.search(r"\| split +\| +mean length \| +left out short \|", data)
    assert re.search(r"\| WikiText-2, train \| +2\.50 \| +3 \|", data)
    assert "_" not in data


def test_names_in_notes_have_quotation_marks(tmp_path):
    suite = {"note": "`leak` is how\nit is trained; a ` alone stays."}
    text = markdown(described(tmp_path, {"a": {}}, suite, {"note": "Of `rnn` alone."}), tmp_path / "report")
    assert "- Note: ‘leak’ is how it is trained; a \\` alone stays.\n" in text
    assert "- Of ‘rnn’ alone.\n" in text


def test_a_note_of_a_published_table_is_a_sentence(tmp_path):
    published = paper({"greedy": {"rnn": (1.0, None)}}, note="means of all runs")
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0)})]
    text = markdown(run_of(tmp_path, cells, {"reference": {"table": "p"}}, published), tmp_path / "report")
    assert "(Table 1). Means of all runs.\n" in text


def test_what_only_the_paper_has_stands_below_the_labels_of_its_axes(tmp_path):
    published = paper({"rnn": {"words/greedy": (1.0, None), "wiki/greedy": (2.0, None), "alone": (3.0, None)}})
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.0)})]
    table = {"rows": ["model"], "columns": ["task", "decoder"], "reference": {"table": "p"}}
    run = run_of(tmp_path, cells, {**table, "labels": {"wiki": "WikiText", "greedy": "Greedy"}}, published)
    found = results_table(run, grids(run)[0])
    assert [*zip(*found.above, found.headings, strict=True)][1:] == [
        ("words", "Greedy"), ("WikiText", "Greedy"), ("", "alone"),
    ]  # fmt: skip


def test_no_line_of_a_terminal_is_longer_than_a_hundred_characters(tmp_path):
    names = ["a-name-of-a-claim-that-is-rather-long", "short"]
    claims = [
        Claim.model_validate({"id": name, "text": LONG, "assert": "v('rate', model='rnn') > 0"}) for name in names
    ]
    run = run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {"caption": LONG})
    text = screen(with_sections(run, claims=claims))
    assert max(map(len, text.split("\n"))) <= 100
    assert " ".join(LONG.split()) in " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "text"),
    [("30.9323", "30.9"), ("0.5123", "0.512"), ("1.6338", "1.63"), ("12345.6", "12,346"), ("105.55", "106"), ("3.0", "3"),
     ("", "–"), ("1e999", "inf"), ("1,2", "1,2"), ("words", "words")],
)  # fmt: skip
def test_costs_have_about_three_digits(value, text):
    assert dearest([{"what": "a", "stage": "train", "seconds": value}])[1][2] == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.0042, "0.42"), (0.042, "4.2"), (0.42, "42"), (0.999, "100"), (4.2, "420"), (9.99, "999")]
)
def test_percents_have_no_exponent(share, text):
    assert _percent(share) == text


def test_differences_that_are_not_comparable_are_verified_all_the_same(tmp_path):
    published = paper({"greedy": {"rnn": (1.0, None)}})
    cells = [cell("rnn", "greedy", 0, {"rate": number(1.5)})]
    run = stored(run_of(tmp_path, cells, {"reference": {"table": "p"}}, published, profile="small"))
    write_report(run, tmp_path / "report")
    assert [*verify_report(tmp_path / "report", run)] == []
    path = tmp_path / "report" / "report.md"
    for wrong in ("+0.51", "+0.50 better"):
        text = path.read_text()
        assert "+0.50" in text
        path.write_text(text.replace("+0.50", wrong))
        assert any(one.wrong for one in verify_report(tmp_path / "report", None)), wrong
        path.write_text(text)


def test_numbers_that_stand_in_words_below_a_drawing_are_those_of_its_data(tmp_path):
    run = stored(run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.5)})], {}))
    write_report(run, tmp_path / "report")
    with (tmp_path / "report" / "report.md").open("a") as file:
        file.write("\n8123 steps\n")
    told = "report.html lacks: 8123"
    assert any(told in one.text for one in verify_report(tmp_path / "report", None))
    (tmp_path / "report" / "figures").mkdir()
    (tmp_path / "report" / "figures" / "grown.csv").write_text("series,step,word\na,8123,b\n")
    assert not any(told in one.text for one in verify_report(tmp_path / "report", None))


def test_labels_of_statistics_of_data_stand_over_their_columns(tmp_path):
    statistics = {"words": {"statistics": {"train": {"mean_length": 2.5}, "test": {"mean_length": 3.5}}}}
    table = {"of": "tasks", "rows": ["task"], "columns": [], "values": ["train/mean_length", "test/mean_length"]}
    run = run_of(tmp_path, [], {**table, "labels": {"train/mean_length": "Length"}}, tasks=statistics)
    found = results_table(run, grids(run)[0])
    assert [*zip(*found.above, found.headings, strict=True)][1:] == [("", "Length"), ("test", "mean length")]


# Print


def table(headings, rows):
    file = doc.TableFile("t", "tab:t", "A table", 6.75, False, ())
    return doc.TableBlock("t", "t", headings, [[doc.text_cell(word) for word in row] for row in rows], file=file)


WIDE = table(["Model", *["Mutual information (bits) ↑ (~ estimate)"] * 6], [["An RNN", *["1.25 ± 0.25"] * 6]])


def test_headings_that_are_too_wide_stand_on_several_lines_and_others_on_one():
    assert Tabular.fitting(WIDE, 6.75).heading_lines == [
        ["", *["Mutual"] * 6], ["", *["information"] * 6], ["", *["(bits) ↑"] * 6], ["Model", *["(~ estimate)"] * 6],
    ]  # fmt: skip
    narrow = table(WIDE.headings[:3], [["An RNN", "1", "2"]])
    assert Tabular.fitting(narrow, 6.75).heading_lines == [narrow.headings]
    assert Tabular.fitting(WIDE, 6.75).width(SIZES[-1]) <= 6.75 * INCH < Tabular(WIDE).width(SIZES[-1])


def test_headings_on_several_lines_read_back_as_one():
    (headings, _) = latex_rows(table_file(WIDE))
    assert [*map(letters, headings)] == [*map(letters, WIDE.headings)]


def test_a_heading_breaks_within_no_word():
    narrow = table(["", *["Determinant-of-everything alone"] * 20], [["x", *["1"] * 20]])
    lines = Tabular.fitting(narrow, 3.25).heading_lines
    assert [words[1] for words in lines] == ["Determinant-of-everything", "alone"]


@needs_latex
def test_signatures_of_metrics_fit_the_lines_of_a_report(tmp_path):
    signature = "|".join(f"nrefs:{n}|order:{n}|reflen:closest|match:exact+stem+synonym|version:1.2" for n in range(9))
    notes = doc.Notes([f"bleu{n}: higher is better, signature {'x' * n}|{signature}." for n in range(9)])
    report = latex_report(doc.Document("A report", [], [doc.DocumentSection("Measurement", [notes])]))
    body = report.partition(r"\begin{document}")[2].partition(r"\end{document}")[0]
    assert [one for one in overfull(tmp_path, r"\setlength{\emergencystretch}{3em}" + body) if one > 1] == []


# Screens


@pytest.mark.skipif(installed() is None, reason="no Chromium is installed")
def test_a_phone_breaks_no_label_within_a_word_and_keeps_labels_in_sight(tmp_path):
    names = ["embedding-ecoc-with-bits", "softmax"]
    label = {"embedding-ecoc-with-bits": "Hierarchical softmax by frequency"}
    own = {"rate": number(1.0), "nats": number(1234.5)}
    cells = [cell(name, decoder, 0, own) for name in names for decoder in ("greedy", "beam")]
    table = {"rows": ["model"], "columns": ["decoder"], "values": ["rate", "nats"], "labels": label}
    run = run_of(tmp_path, cells, table, names=names)
    longer = {"rate": "Non-termination", "nats": "Log-probability"}
    table = language(run).tables[0].model_copy(update={"labels": {**label, **longer}})
    written(with_sections(run, tables=[table]), tmp_path / "report")
    with Browser(tmp_path / "home") as browser:
        browser.resize(390)
        browser.open(tmp_path / "report" / "report.html")
        word = "const cell = document.querySelector('#table-t tbody th').firstChild, range = document.createRange();"
        lines = "range.setStart(cell, 0); range.setEnd(cell, 'Hierarchical'.length); range.getClientRects().length"
        assert browser.value(f"(() => {{ {word} return ({lines.replace('; ', ', ')}) }})()") == 1
        scrolled = "const box = document.querySelector('#table-t').closest('.box'); box.scrollLeft = 80;"
        place = "document.querySelector('#table-t tbody th').getBoundingClientRect().left - box.getBoundingClientRect().left"
        left = browser.value(f"(() => {{ {scrolled} return [box.scrollLeft, {place}] }})()")
        assert left[0] > 0, "the table is wider than the screen"
        assert abs(left[1]) < 2
