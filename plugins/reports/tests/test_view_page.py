"""The page of `bench view` in a real browser: what it shows, how it is used, and what hostile data cannot do there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import nan
from pathlib import Path
from shlex import split
from statistics import mean, stdev
from threading import Thread
from urllib.parse import unquote

import pytest
from bench_small.browser import Browser, installed
from bench_small.runs import cell, hostile_run, number, paper, run_of
from bench_small.viewed import FIRST, SECOND, output, put, two_runs

from bench_reports.content.numbers import rounded, signed
from bench_reports.view.catalog import Catalog
from bench_reports.view.serving import Server
from bench_reports.view.writing import write

BREAKING = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e\x00<!--"
SETTLED = "new Promise(done => setTimeout(() => update().then(() => done(true)), 0))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if installed() is None:
        pytest.skip("no Chromium is installed")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that writes the page over a folder, and opens it at a fragment."""

    def opened(root, fragment="", width=1200):
        page = write(Catalog(root), tmp_path / "out")
        browser.ask("Page.navigate", url="about:blank")
        browser.events.clear()
        browser.resize(width)
        browser.ask("Page.navigate", url=page.absolute().as_uri() + fragment)
        browser._await(lambda one: one.get("method") == "Page.loadEventFired")
        browser.value(SETTLED)
        return browser

    return opened


@pytest.fixture
def shown(show, tmp_path):
    """Return a browser that shows two runs, the cells of both of them."""
    two_runs(tmp_path / "root")
    return show(tmp_path / "root")


def rows(browser, table="cells-of-runs"):
    """Return the texts of a table, its headings first."""
    script = f"[...document.querySelectorAll('#{table} tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    return [[" ".join(text.split()) for text in row] for row in browser.value(script)]


def texts(browser, selector):
    script = f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText)"
    return [" ".join(text.split()) for text in browser.value(script)]


def after(browser, script):
    """Do something, and wait until the page shows what follows from it."""
    browser.value(script)
    browser.value(SETTLED)


def click(browser, selector, place=0):
    after(browser, f"document.querySelectorAll({json.dumps(selector)})[{place}].click()")


def choose(browser, name, value):
    after(
        browser,
        f"(one => {{ one.value = {json.dumps(value)}; one.dispatchEvent(new Event('input', {{bubbles: true}}));"
        f" one.dispatchEvent(new Event('change', {{bubbles: true}})); }})(document.querySelector('[name={name}]'))",
    )


def only(browser, run):
    """Choose one run."""
    after(browser, f"state.run = {json.dumps([run])}")


def address(browser):
    return unquote(browser.value("location.hash").replace("+", " "))


def cells(browser):
    return [row[0] for row in rows(browser)[1:]]


def test_means_and_deviations_are_those_of_the_values(shown):
    for values in ([1.0, 2.0, 4.5], [1e12, 1e12 + 1], [0.1, 0.1, 0.1], [-3.0, 5.0]):
        found = shown.value(f"[mean({values}), deviation({values})]")
        assert found == pytest.approx([mean(values), stdev(values)], rel=1e-12, abs=1e-12)
    assert shown.value("[deviation([1]), deviation([1, Infinity]), deviation([NaN, 1])]") == [None] * 3
    assert shown.value("String(mean([1, Infinity]))") == "Infinity"


@pytest.mark.parametrize("digits", [0, 2, 30])
def test_numbers_are_written_as_in_reports(shown, digits):
    numbers = [
        0.0,
        -0.0,
        0.5,
        1.5,
        0.125,
        0.375,
        1.125e10,
        1.375e10,
        1.005,
        1.015,
        999.995,
        -0.004,
        2.5,
        1234567.891,
        9.9e9,
        1e10,
        -3.25e12,
        1e300,
        1e-30,
        float("inf"),
    ]
    spelled = json.dumps([str(one) for one in numbers])
    script = f"{spelled}.map(one => Number(WRITTEN[one] ?? one)).map(one => [rounded(one, {digits}), signed(one, {digits})])"
    ours = [[rounded(one, digits), signed(one, digits)] for one in numbers]
    tidy = lambda pairs: [[re.sub(r"e\+0*", "e+", text) for text in pair] for pair in pairs]  # noqa: E731
    assert tidy(shown.value(script)) == tidy(ours)
    assert shown.value("[rounded(NaN, 2), rounded(-Infinity, 2)]") == ["NaN", "−∞"]


def test_the_cells_of_a_run_are_means_over_seeds_with_what_is_missing(shown):
    only(shown, f"runs/{FIRST}")
    assert rows(shown) == [
        ["cell", "rate ↓ %", "nats ↓ %"],
        ["rnn", "2.00 ± 1.00 (3)", "20.00 ± 10.00a (3)"],
        ["lstm", "4.25 ± 0.35 (2) 1 missing", "42.50 ± 3.54a (2) 1 missing"],
        ["gru", "7.00 ± 0.00 (3)", "≤ 70.00 ± 0.00b (3)"],
    ]
    notes = " ".join(texts(shown, "#cells-table .notes li"))
    assert "nats ↓ (%, lower is better): numbers differ: a exact likelihood, over 100 examples, signature a|b; b likelihood bound" in notes  # fmt: skip
    click(shown, "#cells-table .missing summary")
    assert texts(shown, ".missing dt") == ["failed: out of memory"]
    assert texts(shown, ".missing dd") == [f"{FIRST}: words/lstm/greedy/test, seed 2"]


def test_numbers_of_other_signatures_and_examples_are_marked_wherever_they_meet(shown):
    after(shown, "state.metric = ['rate']")
    found = dict(zip(cells(shown), (row[1] for row in rows(shown)[1:]), strict=True))
    assert found[f"rnn {FIRST}"] == "2.00 ± 1.00b (3)"
    assert found[f"rnn {SECOND}"] == "9.00a (1)"
    (note,) = [text for text in texts(shown, "#cells-table .notes li") if text.startswith("rate")]
    assert "a over 100 examples, sample s2, signature a|c; b over 100 examples, sample s1, signature a|b" in note


def test_numbers_of_other_examples_alone_are_marked_and_their_difference_says_so(show, tmp_path):
    for name, sample in ((FIRST, "s1"), (SECOND, "s2")):
        one = cell("rnn", "greedy", 0, {"rate": number(1.0, signature="a", sample=sample)})
        put(tmp_path / "root", name, run_of(tmp_path, [one], {}))
    shown = show(tmp_path / "root")
    assert [row[1] for row in rows(shown)[1:]] == ["1.00a", "1.00b"]
    for place in range(2):
        click(shown, "#cells-of-runs tbody input", place)
    assert rows(shown, "compared")[1][2] == "1.00b 0.00, different examples"


def test_runs_stand_in_columns_for_cells_of_the_same_name(shown):
    after(shown, "state.metric = ['rate']; state.columns = 'runs'")
    head, *body = rows(shown)
    assert head == ["cell", f"{SECOND} rate ↓ %", f"{FIRST} rate ↓ %"]
    assert body[0] == ["rnn", "9.00a (1)", "2.00 ± 1.00b (3)"]
    assert len(body) == 3


def test_seeds_stand_in_columns_with_their_mean_before_them(shown):
    only(shown, f"runs/{FIRST}")
    after(shown, "state.metric = ['rate']; state.columns = 'seeds'")
    head, *body = rows(shown)
    assert head == ["cell", "all seeds rate ↓ %", "seed 0 rate ↓ %", "seed 1 rate ↓ %", "seed 2 rate ↓ %"]
    assert body[1] == ["lstm", "4.25 ± 0.35 (2) 1 missing", "4.00", "4.50", "failed"]
    assert shown.value("document.querySelector('td.failed').title") == "out of memory"


def test_seeds_of_other_kinds_are_never_averaged(show, tmp_path):
    numbers = [number(1.0, kind="exact"), number(3.0, kind="bound"), number(5.0, kind="exact")]
    found = [cell("rnn", "greedy", seed, {"rate": one}) for seed, one in enumerate(numbers)]
    put(tmp_path / "root", FIRST, run_of(tmp_path, found, {}))
    shown = show(tmp_path / "root")
    assert rows(shown)[1][1] == "3.00 ± 2.83a (2) ≤ 3.00b (1)"


def test_a_number_that_is_not_defined_is_not_one_that_is_missing(show, tmp_path):
    found = [cell("rnn", "greedy", 0, {"rate": number(nan)}), cell("lstm", "greedy", 0, {"nats": number(1.0)})]
    put(tmp_path / "root", FIRST, run_of(tmp_path, found, {}))
    assert [row[1] for row in rows(show(tmp_path / "root"))[1:]] == ["NaN", "–"]


def test_a_click_on_a_heading_sorts_with_what_is_missing_last(shown):
    only(shown, f"runs/{FIRST}")
    orders = []
    for _ in range(3):
        click(shown, "#cells-of-runs th button", 1)
        orders.append((cells(shown), shown.value("document.querySelectorAll('#cells-of-runs th')[1].ariaSort")))
    assert orders == [
        (["rnn", "lstm", "gru"], "ascending"), (["gru", "lstm", "rnn"], "descending"), (["rnn", "lstm", "gru"], "none"),
    ]  # fmt: skip
    click(shown, "#cells-of-runs th button", 0)
    assert cells(shown) == ["gru", "lstm", "rnn"]
    after(shown, "document.querySelectorAll('#cells-of-runs th button')[2].focus(); document.activeElement.click()")
    assert shown.value("document.activeElement.dataset.id") == "nats"


@pytest.mark.parametrize(
    ("query", "runs", "found"),
    [("lstm", 2, 2), ("lstm|gru", 2, 4), ("-lstm", 2, 4), ("second", 1, 3), ("second lstm", 1, 1), ("small", 1, 3),
     ("RATE rnn", 2, 2), ("nats", 1, 3), ("-second -rnn", 1, 2), ("nothing like it", 0, 0), ("| -", 2, 6)],
)  # fmt: skip
def test_words_narrow_runs_and_cells(shown, query, runs, found):
    choose(shown, "q", query)
    after(shown, "state.run = []")
    assert shown.value("items.filter(one => !one.hidden).length") == runs
    assert len(cells(shown)) == found
    assert shown.value("document.getElementById('runs-count').textContent") == ("2" if runs == 2 else f"{runs} of 2")


def test_names_on_axes_narrow_runs_and_cells(shown):
    choose(shown, "model", "gru")
    assert len(cells(shown)) == 2
    choose(shown, "profile", "small")
    assert cells(shown) == ["words / gru / greedy / test"]
    choose(shown, "status", "failed")
    assert texts(shown, "#cells-table")[0] == "No cells match the filters."
    click(shown, "#filters button[type=reset]")
    assert len(cells(shown)) == 6
    assert address(shown) == ""


def test_metrics_are_chosen_by_boxes(shown):
    only(shown, f"runs/{FIRST}")
    click(shown, "#cell-controls fieldset input", 1)
    assert rows(shown)[0] == ["cell", "nats ↓ %"]
    assert texts(shown, "#cell-controls summary") == ["Metrics: 1 of 2"]
    assert address(shown) == f"#metric=nats&run=runs/{FIRST}"


def test_without_a_choice_the_cells_are_those_of_the_newest_suite(show, tmp_path):
    for place, suite in enumerate(("a", "b", "b")):
        run = run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {}, title=f"t{place}")
        put(
            tmp_path / "root",
            f"x-2026110{place + 1}-000000",
            replace(run, suite=run.suite.model_copy(update={"suite": suite})),
        )
    shown = show(tmp_path / "root")
    assert texts(shown, "#cells-count") == [
        "2 rows of 2 runs (the suite b of 3 runs; select others above, or filter)"
    ]
    click(shown, "#run-controls button")
    assert texts(shown, "#cells-count") == ["3 rows of 3 runs"]


def test_many_rows_are_shown_in_parts(show, tmp_path):
    models = [f"m{place}" for place in range(450)]
    found = [cell(model, "greedy", 0, {"rate": number(1.0)}) for model in models]
    put(tmp_path / "root", FIRST, run_of(tmp_path, found, {}, names=models))
    shown = show(tmp_path / "root")
    assert len(cells(shown)) == 200
    assert texts(shown, "#cells-table .more") == ["Show 200 more of 450 rows"]
    click(shown, "#cells-table .more")
    after(shown, "document.querySelector('#cells-table .more')?.click()")
    assert shown.value("document.querySelectorAll('#cells-of-runs tbody tr').length") >= 200


def selected(shown, *places):
    only(shown, f"runs/{FIRST}")
    for place in places:
        click(shown, "#cells-of-runs tbody input", place)
    return shown


def test_selected_cells_are_compared_with_the_first_and_numbers_of_other_kinds_are_not(shown):
    selected(shown, 0, 1, 2)
    assert rows(shown, "compared") == [
        ["metric", "A", "B", "C"],
        ["rate ↓", "2.00 ± 1.00 (3)", "4.25 ± 0.35 (2) 1 missing +2.25", "7.00 ± 0.00 (3) +5.00"],
        ["nats ↓", "20.00 ± 10.00a (3)", "42.50 ± 3.54a (2) 1 missing +22.50", "≤ 70.00 ± 0.00b (3) different kind"],
    ]  # fmt: skip
    assert texts(shown, ".letters li span")[0] == f"A words / rnn / greedy / test {FIRST}, 3 seeds"
    assert texts(shown, "#selected") == ["(3)"]
    click(shown, ".letters button")
    assert [row[1].split()[0] for row in rows(shown, "compared")[1:]] == ["4.25", "42.50"]
    assert shown.value("[...document.querySelectorAll('#cells-of-runs tbody input')].map(one => one.checked)") == [False, True, True]  # fmt: skip


def test_selecting_a_cell_leaves_the_focus_where_it_is(shown):
    only(shown, f"runs/{FIRST}")
    shown.value("(one => { one.focus(); one.click(); })(document.querySelectorAll('#cells-of-runs tbody input')[1])")
    assert texts(shown, "#selected") == ["(1)"]
    assert shown.value("document.activeElement === document.querySelectorAll('#cells-of-runs tbody input')[1]")


def test_the_printed_command_compares_the_two_cells(shown):
    selected(shown, 0, 2)
    (command,) = texts(shown, ".commands code")
    assert command == f"bench diff runs/{FIRST} model=rnn model=gru"


def test_the_printed_command_can_be_given_to_a_shell(show, tmp_path):
    names = ("it's $HOME; rm -rf *", 'two "words"', "a,b=c", "hid\u202eden")
    found = [cell(name, "greedy", 0, {"rate": number(1.0)}) for name in names]
    put(tmp_path / "root", "-x y", run_of(tmp_path, found, {}, names=names))
    shown = show(tmp_path / "root")
    for place in range(4):
        click(shown, "#cells-of-runs tbody input", place)
    told = texts(shown, ".commands code")
    assert [split(one) for one in told] == [
        ["bench", "diff", "runs/-x y", f"model={names[0]}", f"model={other}"] for other in names[1:3]
    ]
    assert "A and D: a name has invisible characters." in texts(shown, ".commands p")


def test_cells_of_two_runs_are_compared_and_the_test_is_said_to_be_of_one(shown):
    after(shown, "state.columns = 'runs'")
    click(shown, "#cells-of-runs tbody input")
    head, rate, _ = rows(shown, "compared")
    assert head == ["metric", "A", "B"]
    assert rate[2].endswith("−7.00") or "different signature" in rate[2]
    assert "bench diff compares cells of one run" in texts(shown, ".commands")[0]


def test_published_numbers_stand_below_ours(show, tmp_path):
    found = [cell(model, "greedy", 0, {"rate": number(1.0)}) for model in ("rnn", "lstm")]
    published = paper({"greedy": {"rnn": (3.125, 0.5)}})
    put(tmp_path / "root", FIRST, run_of(tmp_path, found, {"reference": {"table": "p"}}, published))
    shown = show(tmp_path / "root")
    for place in range(2):
        click(shown, "#cells-of-runs tbody input", place)
    assert rows(shown, "compared")[1] == ["rate ↓", "1.00 published 3.125 ± 0.500 (Table 1)", "1.00 0.00"]


def test_outputs_of_an_example_stand_side_by_side_with_their_differences_marked(shown):
    selected(shown, 0, 1)
    assert texts(shown, ".example h3") == ["words / test, example 7", "words / test, example 8"]
    assert texts(shown, ".example .given dd")[:2] == ["the", "cat sat here"]
    assert texts(shown, ".example:first-child article .text") == ["dog sat here", "cat sat"]
    assert texts(shown, ".example:first-child ins") == ["dog"]
    assert "finished · 3 tokens · 2 of 3 words in common with the reference" in texts(shown, ".meta")
    after(shown, "document.querySelector('[name=base]').value = state.cell[1]")
    choose(shown, "base", shown.value("state.cell[1]"))
    assert texts(shown, ".example:first-child ins") == ["dog", "here"]
    choose(shown, "base", "none")
    assert texts(shown, ".example ins") == []


def test_outputs_of_other_prompts_are_never_set_beside_each_other(show, tmp_path):
    for name, prompt in ((FIRST, "one prompt"), (SECOND, "another")):
        samples = [output("rnn", "greedy", "x", prompt=prompt)]
        put(
            tmp_path / "root",
            name,
            run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {}, samples=samples),
        )
    shown = show(tmp_path / "root")
    for place in range(2):
        click(shown, "#cells-of-runs tbody input", place)
    assert sorted(texts(shown, ".example .given div:first-child dd")) == ["another", "one prompt"]
    assert shown.value("[...document.querySelectorAll('.example')].map(one => one.querySelectorAll('article').length)") == [1, 1]  # fmt: skip


def test_training_curves_are_lines_that_differ_in_more_than_colour(shown):
    selected(shown, 0, 1)
    lines = "[...document.querySelectorAll('.curves polyline')].map(one => [one.getAttribute('stroke-dasharray'), one.getAttribute('points').split(' ').length])"  # fmt: skip
    assert sorted(shown.value(lines)) == [["", 3], ["7 4", 2]]
    labels = "[...document.querySelectorAll('.curves .label')].map(one => one.textContent)"
    assert sorted(shown.value(labels)) == ["A", "B"]
    assert "A (seed 0) ends at 1, B (seed 0) ends at 3" in texts(shown, ".curves figcaption")[0]


def test_a_view_can_be_sent_as_an_address(show, tmp_path):
    two_runs(tmp_path / "root")
    shown = show(tmp_path / "root")
    choose(shown, "q", "words")
    choose(shown, "columns", "seeds")
    selected(shown, 0, 2)
    click(shown, "#cells-of-runs th button", 1)
    fragment, seen = shown.value("location.hash"), [rows(shown), rows(shown, "compared")]
    other = show(tmp_path / "root", fragment)
    assert [rows(other), rows(other, "compared")] == seen
    assert other.value("location.hash") == fragment


@pytest.mark.parametrize(
    "fragment",
    ["#cells", "#q=%", "#columns=none&sort=x&order=up", "#cell=%5B1%5D&cell=x&run=none&model=none&metric=none",
     "#base=x&curve=y&status=z", "#" + "a=b&" * 5_000],
)  # fmt: skip
def test_an_address_that_fits_nothing_does_no_harm(show, tmp_path, fragment):
    two_runs(tmp_path / "root")
    shown = show(tmp_path / "root", fragment)
    assert shown.complaints == []
    click(shown, "#filters button[type=reset]")
    after(shown, "state.metric = []; state.run = []; state.order = ''")
    assert len(cells(shown)) == 6


def test_going_back_in_the_history_shows_what_was_shown(shown):
    after(shown, "location.hash = '#model=gru'")
    shown.value("new Promise(done => setTimeout(done, 50))")
    assert len(cells(shown)) == 2
    after(
        shown, "new Promise(done => { addEventListener('hashchange', () => done(), {once: true}); history.back(); })"
    )
    shown.value(SETTLED)
    assert len(cells(shown)) == 6


def test_links_to_sections_keep_the_state(shown):
    choose(shown, "model", "gru")
    click(shown, "#sections a", 2)
    assert shown.value("document.activeElement.id") == "comparison"
    assert address(shown) == "#model=gru"


def test_nothing_is_asked_for_and_nothing_complains(shown):
    selected(shown, 0, 1)
    after(shown, "document.querySelectorAll('summary').forEach(one => one.click())")
    assert shown.complaints == []
    assert [url.partition("#")[0].rpartition("/")[2] for url in shown.requests if "about:" not in url] == [
        "index.html"
    ]


def test_hostile_text_does_nothing_in_a_browser(show, tmp_path):
    run = hostile_run(tmp_path)
    found = [*run.cells, cell(BREAKING, "greedy", 0, {"rate": number(1.0, signature=BREAKING)}),
             cell(BREAKING, "beam", 0, status="failed", reason=BREAKING)]  # fmt: skip
    samples = [output(BREAKING, "greedy", BREAKING, prompt=BREAKING, reference="\u05d0\u05d1 " + BREAKING)]
    about = {**run.info, "title": BREAKING, "samples": samples, "profile": BREAKING}
    put(tmp_path / "root" / "<b>\u202e\udcff", FIRST, replace(run, cells=found, info=about), "report")
    shown = show(tmp_path / "root")
    number_of_rows = len(cells(shown))
    for place in range(number_of_rows):
        click(shown, "#cells-of-runs tbody input", place)
    after(shown, "document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert shown.value("document.images.length + document.querySelectorAll('iframe, object').length") == 0
    assert shown.value("document.scripts.length") == 3
    assert "</script><script>alert(1)</script>" in shown.value("document.querySelector('.example .text').textContent")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00]", shown.value("document.body.textContent"))
    for width in (390, 1440):
        shown.resize(width)
        assert shown.value("document.documentElement.scrollWidth") == width
    assert shown.complaints == []


def test_a_phone_needs_no_scrolling_sideways_and_tables_scroll_inside_of_their_boxes(show, tmp_path):
    two_runs(tmp_path / "root")
    shown = selected(show(tmp_path / "root", width=390), 0, 1, 2)
    assert shown.value("document.documentElement.scrollWidth") == 390
    assert not shown.value("document.getElementById('filters').open")
    assert shown.value("(box => box.scrollWidth > box.clientWidth)(document.querySelector('#comparison .box'))")


def test_everything_can_be_reached_by_keyboard_and_has_a_name(shown):
    selected(shown, 0, 1)
    after(shown, "document.querySelectorAll('details').forEach(one => { one.open = true; })")
    nodes = shown.ask("Accessibility.getFullAXTree")["nodes"]
    used = ("button", "checkbox", "combobox", "searchbox", "link", "region", "table", "figure", "img")
    unnamed = [
        node["role"]["value"]
        for node in nodes
        if not node.get("ignored")
        and node.get("role", {}).get("value") in used
        and not node.get("name", {}).get("value")
    ]
    assert set(unnamed) <= {"figure"}
    outside = (
        "[...document.querySelectorAll('button, input, select, summary, a, .box')].filter(one => one.tabIndex < 0)"
    )
    assert shown.value(f"{outside}.length") == 0


def test_a_damaged_run_is_shown_with_the_reason(show, tmp_path):
    first, _ = two_runs(tmp_path / "root")
    (first.folder / "cells.jsonl").write_text("{")
    shown = show(tmp_path / "root")
    after(shown, "document.querySelectorAll('.run details').forEach(one => { one.open = true; })")
    assert "cells.jsonl" in " ".join(texts(shown, ".run p.bad"))
    assert shown.value("document.querySelectorAll('.run > input')[1].disabled")
    assert len(cells(shown)) == 3


def test_without_scripts_the_page_is_a_list_of_runs_with_links(browser, show, tmp_path):
    two_runs(tmp_path / "root")
    browser.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page = write(Catalog(tmp_path / "root"), tmp_path / "out")
        browser.open(page)
        words = browser.ask("DOM.getOuterHTML", nodeId=browser.ask("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert words.count('class="run"') == 2
    assert 'href="files/reports/words/report.html"' in words
    assert re.search(r'<section id="cells"[^>]*hidden', words)


def test_reports_open_from_the_page(show, tmp_path):
    two_runs(tmp_path / "root")
    shown = show(tmp_path / "root")
    link = shown.value("document.querySelector('a.report').href")
    shown.ask("Page.navigate", url=link)
    shown._await(lambda one: one.get("method") == "Page.loadEventFired")
    assert shown.value("document.querySelector('h1').textContent") == "Words <first>"
    assert Path(unquote(link.removeprefix("file://"))).is_file()


@pytest.fixture
def served(browser, tmp_path):
    """Return a browser that shows the page as the server sends it."""
    two_runs(tmp_path / "root")
    with Server(Catalog(tmp_path / "root")) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        visit(browser, server.address)
        yield browser
        visit(browser, "about:blank")
        server.shutdown()
        thread.join()


def visit(browser, url):
    browser.events.clear()
    browser.ask("Page.navigate", url=url)
    browser._await(lambda one: one.get("method") == "Page.loadEventFired")


def test_the_served_page_is_at_work_and_asks_for_nothing_else(served):
    served.value(SETTLED)
    assert len(cells(served)) == 6
    assert served.complaints == []
    asked = [url for url in served.requests if not url.endswith("/favicon.ico")]
    assert asked == [served.value("location.href")]


def test_a_served_report_is_at_work(served):
    visit(served, served.value("document.querySelector('a.report').href"))
    assert served.value("document.querySelector('h1').textContent") == "Words <first>"
    assert served.value("typeof compare") == "function"  # its script ran
    assert served.complaints == []


def test_scripts_of_a_report_cannot_read_the_page(served, tmp_path):
    hostile = "<script>fetch('../../../').then(one => one.text()).then(text => { document.title = text; }, () => { document.title = 'refused'; })</script>"  # fmt: skip
    (tmp_path / "root/reports/words/report.html").write_text(f"<title>asking</title>{hostile}")
    visit(served, served.value("document.querySelector('a.report').href"))
    wait = "new Promise(done => { const look = () => document.title === 'asking' ? setTimeout(look, 10) : done(document.title); look(); })"  # fmt: skip
    assert served.value(wait) == "refused"
    assert served.value("(() => { try { return String(localStorage) } catch { return 'refused' } })()") == "refused"


@pytest.mark.parametrize("width", [1400, 500, 390])
def test_no_word_of_a_heading_is_broken_unless_it_is_very_long(show, tmp_path, width):
    names = {"log-probability": 1.0, "non-termination": 2.0, "perplexity": 3.0, "m" * 300: 4.0}
    cells = [cell("rnn", "greedy", 0, {name: number(value) for name, value in names.items()})]
    run = run_of(tmp_path, cells, {"values": ["perplexity"]})
    run = replace(run, suite=run.suite.model_copy(update={"metrics": {name: {"name": "m"} for name in names}}))
    put(tmp_path / "root", FIRST, run)
    browser = show(tmp_path / "root", width=width)
    lines = browser.value(
        """[...document.querySelectorAll('#cells-of-runs thead button')].map(one => {
          const range = document.createRange(), text = document.createTreeWalker(one, NodeFilter.SHOW_TEXT).nextNode();
          return text.data.split(/(?<=-)|\\s/).filter(Boolean).map(word => {
            const start = text.data.indexOf(word);
            range.setStart(text, start);
            range.setEnd(text, start + word.length);
            return [word, new Set([...range.getClientRects()].map(box => box.top)).size];
          });
        })"""
    )
    found = {word: count for line in lines for word, count in line}
    assert found.keys() >= {"log-", "probability", "termination", "perplexity", "m" * 300}
    assert {word for word, count in found.items() if count > 1} == {"m" * 300}
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [1400, 500, 390])
def test_runs_with_a_report_and_without_one_are_in_line(show, tmp_path, width):
    two_runs(tmp_path / "root")
    browser = show(tmp_path / "root", width=width)
    lefts = "[...document.querySelectorAll('.run {}')].map(one => one.getBoundingClientRect().left)"
    assert len(browser.value("[...document.querySelectorAll('.run > .report')]")) == 1
    for part in (".of", ".state"):
        found = browser.value(lefts.format(part))
        assert len(found) == 2
        assert found[0] == pytest.approx(found[1], abs=0.5), part
