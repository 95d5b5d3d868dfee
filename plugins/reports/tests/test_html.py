"""The page of a report: whole, inert, the same every time, and at work in a real browser."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, nan

import pytest
from bench_small.browser import Browser, installed
from bench_small.runs import HOSTILE, cell, hostile_run, number, paper, run_of, some_run, with_sections, written

from bench_core.terminal import visible
from bench_reports.content.cost_tables import dearest, stages_of
from bench_reports.content.numbers import number as number_in
from bench_reports.content.outputs import MAX_CHARACTERS, samples, side_by_side
from bench_reports.content.result_tables import differences_table, results_table
from bench_reports.content.tables import grids
from bench_reports.language.figure_schema import Figure
from bench_reports.language.schema import Claim
from bench_reports.render.html import HTML, html_page, html_text
from bench_reports.render.markdown import MARKDOWN
from bench_reports.render.report_document import costs_document

VOID = {"meta", "img", "wbr", "br", "link", "input", "hr"}
ENDED = {"script", "style", "title"}  # what holds text and nothing else
BREAKING = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e\x00\ud800<!--"


COSTS = """stage,what,key,seconds,cpu_seconds,peak_mib,examples,tokens,tokens_per_second,ms_per_example,parameters,updates
train,a,1,100.5,90,50,,,,,1000,5
decode,"b, <i>",2,2,1,70,10,1000,500,200,,
decode,c,3,3,,60.5,10,500,166.7,300,,
"""


class Reader(HTMLParser):
    """Reads a page strictly: every element is closed in its turn, every id is there once."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.tables = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open
        ids = [about["id"] for _, about in self.elements if "id" in about]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len({name for name, _ in attrs})
        about = dict(attrs)
        self.elements.append((tag, about))
        if tag in VOID:
            return
        self.open.append((tag, about))
        if tag == "table":
            self.tables[about["id"]] = []
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")

    def handle_startendtag(self, tag, attrs):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        path = [tag for tag, _ in self.open]
        self.texts.append(("/".join(path), data))
        if "td" in path or ("th" in path and "table" in path):
            self._table[-1][-1] += data

    @property
    def _table(self):
        return self.tables[[about["id"] for tag, about in self.open if tag == "table"][-1]]

    def found(self, tag, **wanted):
        return [about for name, about in self.elements if name == tag and wanted.items() <= about.items()]

    def data(self):
        """Return the block of outputs."""
        (text,) = (text for path, text in self.texts if path.endswith("section/script"))
        return json.loads(text)


def html(run, folder, name="report.html"):
    return written(run, folder)[name].decode()


def sample(model, decoder, text, number=7, **more):
    axes = {"task": "words", "model": model, "decoder": decoder, "split": "test", "hardware": "default", "seed": 0}
    return {
        "cell": axes,
        "id": number,
        "prompt": "",
        "text": text,
        "reference": "",
        "finished": True,
        "tokens": 3,
    } | more


def full_run(tmp_path):
    """Return a run with a published table, figures, claims and outputs, all of them hostile where they can be."""
    values = {"rnn": [3.0, 1.0, inf, 20.0], "lstm": [1.5, 10.25, 2.0, None]}
    cells = [
        cell(model, decoder, seed, {"rate": replace(number(value), reason=HOSTILE), "nats": number(2.0)})
        for model, row in values.items()
        for (decoder, seed), value in zip([("greedy", 0), ("greedy", 1), ("beam", 0), ("beam", 1)], row, strict=True)
    ]
    samples = [
        sample(
            "rnn", "greedy", f"the cat {BREAKING} sat", prompt="a prompt", reference="the cat sat", log_prob=-1.25
        ),
        sample("lstm", "greedy", "the dog sat", values={"order": [2, 0, 1], "bits": 0.5}, finished=False),
        sample("lstm", "beam", "x" * 1_000_000, 8),
        sample("rnn", "beam", "\u05d0\u05d1 12", 8),
    ]
    published = paper({"greedy": {"rnn": (1.0, 0.5), "lstm": (9.0, None)}})
    about = {
        "samples": samples,
        "source": 'A paper, arXiv:2002.02492, https://example.org/a?b="c',
        "profile": "small",
    }
    run = run_of(tmp_path, cells, {"reference": {"table": "p"}, "caption": HOSTILE}, published, **about)
    figure = Figure.model_validate({"id": "f", "kind": "scatter", "x": "rate", "y": "nats", "by": ["model"], "caption": HOSTILE})  # fmt: skip
    claim = Claim.model_validate(
        {"id": "M1", "text": HOSTILE, "assert": "v('rate', model='rnn', decoder='beam') < 3"}
    )
    return with_sections(run, figures=[figure], claims=[claim])


def costly(run):
    run.folder.mkdir()
    (run.folder / "costs.csv").write_text(COSTS)
    return run


def test_every_element_is_closed_and_every_id_is_one(tmp_path):
    for place, run in enumerate((full_run(tmp_path), hostile_run(tmp_path), some_run(tmp_path))):
        found = Reader(html(run, tmp_path / str(place)))
        assert found.found("table", id="table-t")
        assert all(about.get("scope") in ("col", "row") for about in found.found("th"))
        assert len(found.found("caption")) == len(found.tables)
        assert len(found.found("img", alt=None)) == 0


def test_a_page_has_the_words_of_the_markdown_tables(tmp_path):
    run = full_run(tmp_path)
    found = Reader(html(run, tmp_path / "report"))
    (grid,) = grids(run)
    bare = lambda rows: [[re.sub(r"</?su[bp]>|\*\*|\\", "", word) for word in row] for row in rows]  # noqa: E731
    assert found.tables["table-t"] == bare(MARKDOWN.rows(results_table(run, grid)))
    assert found.tables["beside-t"] == bare(MARKDOWN.rows(differences_table(run, grid)))
    assert found.tables["table-t"][1][1].endswith("1.0 ± 0.5")
    assert [row[:2] for row in found.tables["claims"]] == [["claim", "verdict"], ["M1", "not tested"]]
    assert (
        found.tables["claims"][1][3]
        == "rate rnn/beam ∞; not true for the means; v('rate', model='rnn', decoder='beam'): not all numbers of its seeds and replicates are finite."
    )


def test_the_best_is_bold_as_in_every_format(tmp_path):
    run = some_run(tmp_path)
    (grid,) = grids(run)
    entries = [[replace(entry, best=place == 1) for place, entry in enumerate(row)] for row in grid.entries]
    _, (_, *cells), *_ = HTML.rows(results_table(run, replace(grid, entries=entries)))
    assert [re.sub(r"[\d.± ]+", "1", one) for one in cells][1] == "<strong>1</strong>"
    assert "<strong>" not in cells[0]


def test_cells_are_sorted_by_numbers_that_are_not_rounded(tmp_path):
    run = full_run(tmp_path)
    text = html(run, tmp_path / "report")
    body = text.split('<table id="table-t"')[1].split("</table>")[0]
    assert re.findall(r'data-value="([^"]*)"', body) == ["2.0", "5.875", "inf", "2.0"]
    failed = cell("rnn", "greedy", 0, status="failed", reason="no")
    text = html(run_of(tmp_path, [failed, cell("rnn", "beam", 0, {"rate": number(nan)})], {}), tmp_path / "b")
    assert "data-value" not in text.split('<table id="table-t"')[1].split("</table>")[0]


def test_hostile_text_is_text_wherever_it_lands(tmp_path):
    for place, run in enumerate((full_run(tmp_path), hostile_run(tmp_path))):
        text = html(run, tmp_path / str(place))
        found = Reader(text)
        assert len(found.found("script")) == 2
        assert not found.found("img", src="x")
        assert not any(name.startswith("on") or name == "style" for _, about in found.elements for name in about)
        words = [data for path, data in found.texts if not path.endswith(("script", "style"))]
        assert any(visible(HOSTILE) in data for data in words)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u2028\u2029]", text)
        assert text.encode()  # no half of a surrogate


def test_outputs_cannot_leave_their_block(tmp_path):
    text = html(full_run(tmp_path), tmp_path / "report")
    assert text.count("</script>") == 2
    data = Reader(text).data()
    first = data["examples"][0]["outputs"][0]
    assert first["text"] == f"the cat {visible(BREAKING)} sat"
    assert "</script><script>alert(1)</script>" in first["text"]
    assert "[U+2028][U+202E][U+0000][U+D800]<!--" in first["text"]


def test_outputs_tell_what_is_known_of_them(tmp_path):
    data = Reader(html(full_run(tmp_path), tmp_path / "report")).data()
    one, other = data["examples"]
    assert data["cells"] == ["rnn/greedy", "lstm/greedy", "lstm/beam", "rnn/beam"]
    assert one["given"] == {"prompt": "a prompt", "reference": "the cat sat"}
    assert [output["facts"] for output in one["outputs"]] == [
        ["finished", "3 tokens", "log-probability −1.25 nats"],
        ["truncated at the limit", "3 tokens"],
    ]
    assert one["outputs"][1]["details"] == {"order": ["2", "0", "1"], "bits": "0.5"}
    assert [output["cell"] for output in other["outputs"]] == [2, 3]


@pytest.mark.slow
def test_an_output_is_cut_with_a_note_and_among_many_sooner(tmp_path):
    run = full_run(tmp_path)
    long = Reader(html(run, tmp_path / "report")).data()["examples"][1]["outputs"][0]["text"]
    assert long == f"{'x' * MAX_CHARACTERS} … [{MAX_CHARACTERS:,} of 1,000,000 characters]"
    (one,) = samples(run_of(tmp_path, [], {}, samples=[sample("rnn", "greedy", "y" * 5_000)]))
    many = replace(one, outputs=[*one.outputs] * 5_000, records=[*one.records] * 5_000)
    assert side_by_side([many])["examples"][0]["outputs"][0]["text"].startswith(f"{'y' * 600} …")


def test_text_from_right_to_left_is_kept_apart():
    assert html_text("\u05d0 1 <b>") == "<bdi>\u05d0 1 &lt;b&gt;</bdi>"
    assert html_text("é ± 1") == "é ± 1"
    assert html_text("\u202eabc") == "[U+202E]abc"


def test_a_page_loads_nothing(tmp_path):
    run = costly(full_run(tmp_path))
    for name in ("report.html", "costs.html"):
        text = html(run, tmp_path / name, name)
        found = Reader(text)
        assert not found.found("link")
        assert all(
            about["src"].startswith("data:image/svg+xml;base64,") for _, about in found.elements if "src" in about
        )
        assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)
        (policy,) = found.found("meta", **{"http-equiv": "Content-Security-Policy"})
        assert policy["content"].startswith("default-src 'none'; img-src data:; style-src 'sha256-")
        assert "unsafe" not in policy["content"]


@pytest.mark.slow
def test_only_the_source_is_linked_to(tmp_path):
    found = Reader(html(full_run(tmp_path), tmp_path / "report"))
    away = [about["href"] for about in found.found("a") if ":" in about["href"]]
    assert ("html/body/main/dl/div/dd", "A paper, ") in found.texts
    assert away == ["https://arxiv.org/abs/2002.02492", "https://example.org/a?b"]
    ids = {about["id"] for _, about in found.elements if "id" in about}
    assert {about["href"][1:] for about in found.found("a") if about["href"].startswith("#")} <= ids


@pytest.mark.slow
def test_files_that_a_page_refers_to_are_there(tmp_path):
    files = written(costly(full_run(tmp_path)), tmp_path / "report")
    for name in ("report.html", "costs.html"):
        links = {about["href"] for about in Reader(files[name].decode()).found("a")}
        near = {link for link in links if not link.startswith(("#", "https:"))}
        assert near <= files.keys()
        assert near


def test_a_table_is_there_for_spreadsheets_and_for_papers(tmp_path):
    links = [about["href"] for about in Reader(html(full_run(tmp_path), tmp_path / "report")).found("a")]
    assert [link for link in links if link.startswith("tables/")] == [
        "tables/t.csv", "tables/t.tex", "tables/t-published.tex",
    ]  # fmt: skip


def test_a_page_is_the_same_every_time_and_names_no_place(tmp_path):
    run = full_run(tmp_path)
    first = html(run, tmp_path / "a")
    moved = replace(run, folder=tmp_path / "elsewhere", cells=run.cells[::-1])
    assert html(moved, tmp_path / "b") == first
    assert str(tmp_path) not in first
    assert time.strftime("%Y-%m-%d") not in first


def test_a_run_without_anything_else_has_a_page(tmp_path):
    found = Reader(html(run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {}), tmp_path / "report"))
    assert [*found.tables] == ["table-t", "environments"]
    assert not [about for about in found.found("section") if about["id"].startswith(("outputs", "claims", "figure"))]
    assert not found.found("a", href="costs.html")
    assert len(found.found("script")) == 1


def test_a_figure_that_is_not_drawn_says_why(tmp_path):
    figure = Figure.model_validate({"id": "f", "kind": "scatter", "x": "rate", "y": "nat", "by": ["model"]})
    run = some_run(tmp_path)
    run = with_sections(run, figures=[figure])
    text = html(run, tmp_path / "report")
    assert "<p>Not drawn: the run does not measure nat.</p>" in text
    assert "figures/f" not in text
    assert not Reader(text).found("img")


def test_what_limits_comparability_comes_first(tmp_path):
    text = html(full_run(tmp_path), tmp_path / "report")
    facts = text[: text.index("<section")]
    assert "<dt>Published numbers</dt><dd>not comparable: profile small</dd>" in facts


def test_costs_are_summed_up_by_kind_of_stage(tmp_path):
    tables = Reader(html_page(costs_document(some_run(tmp_path), stages_of(COSTS)))).tables
    assert tables["kinds"] == [
        ["stage", "stages", "seconds", "CPU seconds", "peak MiB", "tokens", "tokens/s"],
        ["train", "1", "100.5", "90.0", "50", "–", "–"],
        ["decode", "2", "5.0", "1.0", "70", "1,500", "300"],
    ]
    assert [row[:3] for row in tables["dearest"][1:]] == [
        ["a", "train", "100.50"], ["c", "decode", "3.00"], ["b, <i>", "decode", "2.00"],
    ]  # fmt: skip


def test_the_costs_in_a_column_have_as_many_digits_as_the_usual_one_deserves():
    stages = [{"what": f"{n} words", "seconds": one, "peak_mib": peak, "updates": "7"} for n, (one, peak) in enumerate(
        [("8.1149", "445"), ("0.518", "463.7"), ("3.7", "450.25")]
    )]  # fmt: skip
    headings, *rows = dearest(stages)
    column = {name: [row[place] for row in rows] for place, name in enumerate(headings)}
    assert column["what"] == ["0 words", "2 words", "1 words"]
    assert column["seconds"] == ["8.11", "3.70", "0.52"]
    assert column["peak MiB"] == ["445", "450", "464"]
    assert column["tokens/s"] == ["–"] * 3


@pytest.mark.parametrize("text", ["", "\ufffd\ufffd", "stage\na,b,c\n", "stage,seconds\nx,much\n\n,-1\n", '"'])
def test_costs_that_are_damaged_have_a_page_all_the_same(tmp_path, text):
    assert Reader(html_page(costs_document(some_run(tmp_path), stages_of(text)))).tables["kinds"][0][0] == "stage"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,024", 1024), ("−0.50 worse", -0.5), ("1e-3", 0.001), ("12.35 ± 5.18", 12.35), ("+3 %", 3), ("–", None),
     ("", None), (None, None), ("2-layer", None), ("v1", None), ("1.2.3", None), ("3x", None)],
)  # fmt: skip
def test_a_text_that_begins_with_a_number_has_one(text, value):
    assert number_in(text) == value


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if installed() is None:
        pytest.skip("no Chromium is installed")
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def shown(browser, tmp_path):
    """Return a browser that shows the full run, and a function that clicks on what a selector finds."""
    written(costly(full_run(tmp_path)), tmp_path / "report")
    browser.events.clear()
    browser.resize(1200)
    browser.open(tmp_path / "report" / "report.html")
    return browser


def column(browser, table, place):
    script = f"[...document.querySelectorAll('#{table} tbody tr')].map(row => row.cells[{place}].textContent)"
    return browser.value(script)


def pick(browser, name, value):
    browser.value(f"{name}.value = {value}; {name}.dispatchEvent(new Event('change'))")


def test_nothing_complains_and_nothing_is_asked_for(shown, tmp_path):
    shown.value("document.querySelectorAll('summary, th button').forEach(one => one.click())")
    pick(shown, "example", 1)
    shown.print(tmp_path / "report.pdf")
    shown.open(tmp_path / "report" / "costs.html")
    assert shown.complaints == []
    assert {url.partition(":")[0] for url in shown.requests} == {"file", "data"}
    assert [url.rpartition("/")[2] for url in shown.requests if url.startswith("file")] == [
        "report.html",
        "costs.html",
    ]
    assert (tmp_path / "report.pdf").stat().st_size > 1_000


def test_a_click_on_a_heading_sorts_by_number_and_a_third_gives_the_order_back(shown):
    assert column(shown, "table-t", 0) == ["greedy", "beam"]
    click = "document.querySelector('#table-t thead th:nth-child(2) button').click()"
    way = "document.querySelector('#table-t thead th:nth-child(2)').ariaSort"
    orders = []
    for _ in range(3):
        shown.value(click)
        orders.append((shown.value(way), column(shown, "table-t", 0)))
    assert orders == [
        ("ascending", ["greedy", "beam"]), ("descending", ["beam", "greedy"]), ("none", ["greedy", "beam"]),
    ]  # fmt: skip


def test_numbers_are_sorted_as_such_with_what_is_missing_last(browser, tmp_path):
    values = {"m-9": 10.0, "m-10": -2.0, "none": None, "m-1": 9.0, "all": inf, "deep": 1234.5}
    cells = [cell(name, "greedy", 0, {"rate": number(value)}) for name, value in values.items() if value is not None]
    cells.append(cell("none", "greedy", 0, status="failed", reason="no luck"))
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": ["decoder"]}, names=tuple(values))
    written(run, tmp_path / "report")
    browser.open(tmp_path / "report" / "report.html")
    assert column(browser, "table-t", 0) == [*values]
    click = "document.querySelectorAll('#table-t thead button')[{}].click()".format
    browser.value(click(1))
    assert column(browser, "table-t", 0) == ["m-10", "m-1", "m-9", "deep", "all", "none"]
    browser.value(click(1))
    assert column(browser, "table-t", 0) == ["all", "deep", "m-9", "m-1", "m-10", "none"]
    browser.value(click(0))
    assert column(browser, "table-t", 0) == ["all", "deep", "m-1", "m-9", "m-10", "none"]
    ways = "[...document.querySelectorAll('#table-t thead th')].map(one => one.ariaSort)"
    assert browser.value(ways) == ["ascending", "none"]


def test_two_outputs_are_set_side_by_side_with_their_differences_marked(shown):
    marks = "(side, mark) => [...document.querySelectorAll(`#${side}-output ${mark}`)].map(one => one.textContent)"
    assert shown.value("[left.selectedOptions[0].text, right.selectedOptions[0].text]") == [
        "rnn/greedy",
        "lstm/greedy",
    ]
    assert shown.value(f"({marks})('left', 'del')")[0].startswith("cat </script><script>alert(1)</script>")
    assert shown.value(f"({marks})('right', 'ins')") == ["dog"]
    assert (
        shown.value("document.querySelector('#right-output .meta').textContent")
        == "truncated at the limit · 3 tokens"
    )
    assert shown.value("document.querySelector('#given').textContent") == "prompta promptreferencethe cat sat"
    order = "[...document.querySelectorAll('#right-output ruby')].map(one => one.textContent)"
    assert shown.value(order) == ["the2", "dog0", "sat1"]
    pick(shown, "left", "[...left.options].at(-1).value")  # the reference
    assert shown.value(f"({marks})('left', 'del')") == ["cat"]
    shown.value("swap.click()")
    assert shown.value(f"[({marks})('left', 'del'), ({marks})('right', 'ins')]") == [["dog"], ["cat"]]


def test_hostile_outputs_do_no_harm_in_a_browser(shown):
    assert shown.value("[document.scripts.length, document.images.length]") == [2, 1]
    pick(shown, "example", 1)
    assert shown.value("document.querySelector('#left-output .text').textContent.length") > MAX_CHARACTERS
    opened = (
        "new Promise(done => { every.addEventListener('toggle', () => done(every.innerText)); every.open = true; })"
    )
    assert "\u05d0\u05d1 12" in shown.value(opened)
    for width in (390, 1200):
        shown.resize(width)
        assert shown.value("document.documentElement.scrollWidth") == width
    assert shown.complaints == []


def test_on_paper_every_output_is_there_and_nothing_to_click(shown):
    shown.ask("Emulation.setEmulatedMedia", media="print")
    shown.value("window.dispatchEvent(new Event('beforeprint'))")
    assert shown.value("document.querySelectorAll('#printed tbody tr').length") == 4
    assert shown.value("[...document.querySelectorAll('details')].every(one => one.open)")
    seen = "[...document.querySelectorAll('select, nav, .controls')].filter(one => one.checkVisibility()).length"
    assert shown.value(seen) == 0
    shown.value("window.dispatchEvent(new Event('afterprint'))")
    shown.ask("Emulation.setEmulatedMedia", media="")
    assert shown.value("document.querySelectorAll('#printed *').length") == 0
