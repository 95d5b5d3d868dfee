"""`bench cite`: references of what a suite names, as BibTeX that a plain reader can read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import bench_small.plugin
import pytest
from bench_small.runs import run_of, stored

from bench_core.commands.main import main
from bench_core.errors import PluginError
from bench_core.registry import kinds, parts
from bench_reports import citations
from bench_reports.citations import Citation, Citations, bibliography, of_part, parse_bibtex
from bench_text.corpora import catalogue

ROOT = Path(__file__).parents[3]
PACKAGES = ["bench_core", *sorted(path.parent.name for path in ROOT.glob("plugins/*/bench_*/citations.bib"))]
CONFIGS = [one.config for kind in kinds() for one in parts(kind).values()]
SUITE = """
suite: tests/cited
source: someone@example.org
tasks:
  ptb: {name: language-modeling, corpus: ptb, tokenizer: {kind: bpe, vocab_size: 300}}
  english: {name: language-modeling, corpus: english}
models:
  lstm: {name: rnn-lm}
  gru: {name: rnn-lm, cell: gru, grid: {tied: [true, false]}}
metrics:
  perplexity: {name: perplexity}
"""


@pytest.fixture
def cite(tmp_path, monkeypatch, capsys):
    def run(*words, code=0, suite=SUITE):
        path = tmp_path / "suite.yaml"
        path.write_text(suite)
        monkeypatch.setattr(sys, "argv", ["bench", "cite", *(words or [str(path)])])
        with pytest.raises(SystemExit) as stop:
            main()
        out, errors = capsys.readouterr()
        assert stop.value.code == code, out + errors
        return out + errors

    return run


def read(text):
    """Read BibTeX as BibTeX does: whatever stands outside of an entry means nothing, and an @ begins one."""
    found, place = {}, 0
    while (place := text.find("@", place)) >= 0:
        kind, key = re.compile(r"@([a-z]+)\{([A-Za-z0-9_:-]+),").match(text, place).groups()
        depth, end = 1, text.index("{", place)
        while depth:
            end += 1
            depth += {"{": 1, "}": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
        fields = dict(re.findall(r"\n  (\w+) = \{(.*)\},", text[place:end]))
        assert key not in found, "each once"
        assert text[place:end].count("\n  ") == len(fields), "a field a line"
        found[key], place = (kind, fields), end
    return found


# what the packages cite


@pytest.mark.parametrize("package", PACKAGES)
def test_bibliographies_are_plain_sorted_and_whole(package):
    known = bibliography(package)
    assert [*known] == sorted(known)
    needed = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle", "book": "publisher",
              "phdthesis": "school", "techreport": "institution", "misc": "title"}  # fmt: skip
    for key, one in known.items():
        assert str(one).isascii(), key
        assert {"title", "author", needed[one.kind]} <= one.fields.keys(), key
        assert key == "bench" or re.fullmatch(r"(19|20)\d\d", one.fields["year"]), key
        assert re.search(one.fields.get("year", ""), key), key
        assert read(str(one)) == {key: (one.kind, dict(one.fields))}


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_parts_cite_what_there_is_under_settings_that_there_are(config):
    for word in config.cites:
        setting, equals, value = word.rpartition(": ")[0].partition("=")
        if equals:
            assert setting.partition(".")[0] in config.model_fields, word
        settings = {} if not equals else json.loads(nested(setting, value))
        assert word.rpartition(" ")[2] in [one.key for one in of_part(config, settings)], word


def nested(setting, value):
    told = value if value in ("true", "false") or value.isdigit() else json.dumps(value)
    for word in reversed(setting.split(".")):
        told = f'{{"{word}": {told}}}'
    return told


def test_everything_in_a_bibliography_is_cited():
    cited = {
        (config.__module__.partition(".")[0], word.rpartition(" ")[2]) for config in CONFIGS for word in config.cites
    }
    cited |= {("bench_text", key) for corpus in catalogue().values() for key in corpus.cites} | {
        ("bench_core", "bench")
    }
    assert {(package, key) for package in PACKAGES for key in bibliography(package)} <= cited


def test_packages_that_cite_the_same_work_do_so_in_the_same_words():
    known: dict[str, Citation] = {}
    for package in PACKAGES:
        for key, one in bibliography(package).items():
            assert known.setdefault(key, one) == one


def test_every_corpus_of_the_catalogue_is_cited():
    assert all(citations.of_corpus(name) for name in catalogue())
    assert citations.of_corpus("english") == []


def test_this_project_is_cited_as_its_citation_file_says():
    (title,) = re.findall(r'^title: "(.*)"$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    (version,) = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    fields = bibliography(citations.PACKAGE)[citations.CORE].fields
    assert (fields["title"], fields["note"]) == (title, f"Version {version}")


# the command


def test_a_suite_is_cited_with_all_that_it_names_and_nothing_else(cite):
    text = cite()
    found = read(text)
    assert [*found] == [
        "bench", "zhang2021dive", "sennrich2016", "marcus1993", "mikolov2010", "hochreiter1997", "cho2014", "press2017",
        "jelinek1977",
    ]  # fmt: skip
    assert "% metric perplexity\n@article{jelinek1977" in text
    assert "% corpus english of task english: unknown" in text
    assert "% model gru (rnn-lm)\n@inproceedings{press2017" in text, "a grid is cited by its own name, once"
    assert cite() == text
    assert [*json.loads(cite(*sys.argv[2:], "--json"))["references"][0]] == ["key", "type", "fields", "for"]


def test_a_comment_begins_no_entry(cite):
    assert "someone(at)example.org" in cite()


def test_a_setting_that_is_changed_changes_what_is_cited(cite, tmp_path):
    cite()
    found = read(cite(str(tmp_path / "suite.yaml"), "--set", "models.lstm.cell=tanh"))
    assert "elman1990" in found
    assert "hochreiter1997" not in found


def test_processors_are_cited_with_their_decoder(cite):
    decoders = "decoders: {warm: {name: temperature, temperature: 2, processors: [min-p]}, cold: {name: greedy}}\n"
    text = cite(suite=SUITE + decoders)
    assert "% min-p in decoder warm (temperature)\n@misc{nguyen2024" in text
    assert "nguyen2024" not in cite(suite=SUITE + decoders.replace(", processors: [min-p]", ""))


def test_a_run_is_cited_though_a_part_of_it_is_not_installed(cite, tmp_path):
    run = run_of(tmp_path, [], {})
    stored(run)
    text = cite(str(run.folder))
    assert "% metric rate: not installed" in text
    assert [*read(text)] == ["bench", "lowerre1976"], "beam search is"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["."], "is not a run"),
        ([".", "--profile", "small"], "Omit --profile and --set"),
    ],
)
def test_what_cannot_be_cited_is_told(cite, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in cite(*words, code=2)


# gathering


def reference(key, title, year="2020"):
    return Citation(key, "misc", {"title": title, "author": "A", "year": year})


def test_one_work_stands_there_once_whatever_its_keys():
    found = Citations()
    found.add("a", [reference("one", "On {Words}")])
    found.add("b", [reference("two", "On words")])
    assert [*found.entries] == ["one"]
    assert found.users == {"one": ["a", "b"]}


def test_two_works_with_one_key_get_two(cite):
    found = Citations()
    found.add("a", [reference("smith2020", "On words")])
    found.add("b", [reference("smith2020", "On other words")])
    assert [*found.entries] == ["smith2020", "smith2020-2"]
    assert str(found.entries["smith2020-2"]).startswith("@misc{smith2020-2,")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@misc{a,\n  title = {x", ":2: .*premature end of file"),
        ("@misc{a,\n  title x}", ":2: .*'=' expected"),
        ("@misc{a, year = 2020}\n@misc{a, year = 2021}", "citations.bib: repeated bibliography entry: a"),
    ],
)
def test_files_that_are_no_bibtex_are_told_with_the_line(text, message):
    with pytest.raises(PluginError, match=message):
        [*parse_bibtex(text, Path("citations.bib"))]


def test_values_may_have_braces_inside_and_lines():
    (one,) = parse_bibtex("@Article{a1,\n title = {On {Words}\n  and}, year = 2020 ,\n}\n", Path("x.bib"))
    assert one == Citation("a1", "article", {"title": "On {Words} and", "year": "2020"})


def test_a_key_that_no_file_has_is_a_mistake_of_the_plugin(small):
    class Config(bench_small.plugin.EndedConfig):
        cites = ["nobody1900"]

    with pytest.raises(PluginError, match=r"'nobody1900', which is not in the citations\.bib"):
        of_part(Config, {})
