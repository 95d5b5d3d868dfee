"""The documentation is true: links lead somewhere, examples fit, commands exist, and the tutorial does what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import api_reference
import click
import code_map
import command_reference
import pytest
import reference
import yaml
from click.testing import CliRunner

from bench_authors.settings_words import meaning
from bench_core.commands.main import bench
from bench_core.runs.results import read_run
from bench_core.suites import yaml_source as located
from bench_core.suites.cells import cells_of
from bench_core.suites.check import check_fit
from bench_core.suites.load import load
from bench_core.suites.schema import SuiteFile
from bench_core.suites.sections import added
from bench_core.suites.training import Strict
from bench_reports.language.of_suite import language
from bench_training.settings import Phase, TrainingConfig

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *DOCS,
    *sorted(
        page for folder in ("benchmarks", "plugins", "suites", "reports") for page in (ROOT / folder).rglob("*.md")
    ),
]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

name = lambda path: str(path.relative_to(ROOT))  # noqa: E731


def prose(text):
    """Return a page without its code."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


def blocks(page, *languages):
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = {}
    for heading in re.findall(r"^#{1,6} +(.+?) *$", BLOCK.sub("", page.read_text()), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower().replace("\\", "")).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if not number else f"{slug}-{number}" for slug, most in found.items() for number in range(most + 1)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    broken = []
    for link in re.findall(r"\]\(<?([^)>\s]+)>?\)", prose(page.read_text())):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_of_the_documentation_can_be_reached():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        links = {(page, link) for page in new for link in re.findall(r"\]\(([^)#\s]+)", prose(page.read_text()))}
        new = {path for page, link in links if (path := (page.parent / link).resolve()) in DOCS} - reached
    assert {*DOCS} <= reached


@pytest.mark.parametrize("page", ["suites", "parts"])
def test_the_reference_is_up_to_date(page):
    assert (ROOT / "docs" / f"{page}.md").read_text() == reference.page(page), "run `make schema`"


def assert_written(name, pages):
    docs = ROOT / "docs"
    paths = [docs / f"{name}.md", *(docs / name).glob("*.md")]
    assert {path.relative_to(docs).as_posix(): path.read_text() for path in paths} == pages, "run `make schema`"


def test_the_reference_of_public_names_is_up_to_date():
    assert_written("api", api_reference.pages())


def test_the_reference_of_commands_is_up_to_date():
    assert (ROOT / "docs" / "commands.md").read_text() == command_reference.page(), "run `make schema`"


def test_the_map_of_the_code_is_up_to_date():
    assert_written("code", code_map.pages())


def test_every_key_of_a_suite_has_a_meaning():
    classes = [Phase, TrainingConfig, *Strict.__subclasses__()]
    assert SuiteFile in classes
    keys = {(one, key) for one in classes for key in one.model_fields}
    assert not {(one.__name__, key) for one, key in keys if not meaning(one, key)}, "give each a `#:` comment"
    shown = (ROOT / "docs" / "suites.md").read_text()
    assert all(f"| `{one.model_fields[key].alias or key}` |" in shown for one, key in keys)


def test_the_meaning_of_a_setting_is_the_comment_beside_it():
    from bench_rnn.plugin import RNNLMConfig
    from bench_strlm.plugin import SelfTerminatingRNNLMConfig

    assert meaning(RNNLMConfig, "hidden") == "units per layer"
    assert meaning(SelfTerminatingRNNLMConfig, "hidden") == "units per layer"  # inherited
    assert "`hidden` | whole number > 0 | `256` | units per layer" in reference.settings([RNNLMConfig], "setting")


def merged(page):
    """Yield the suites of a page: its first, and that with each fragment laid over what came before, key by key."""
    suite, apart = {}, page.name != "tutorial.md"  # in the tutorial one example builds on the other
    for text in blocks(page, "yaml"):
        data = yaml.safe_load(text)
        if not isinstance(data, dict) or not set(data) <= {*SuiteFile.model_fields, *added()}:
            continue
        if "suite" in data:
            suite = data
        if suite:
            found = {**suite, **data}
            suite = suite if apart else found
            yield text, found


def of_extras(page):
    """Return a page as a parameter, skipped without the extras that its examples need."""
    needed = [pytest.mark.extra("bench-data", "datasets")] if page.name == "bring-your-own.md" else []
    return pytest.param(page, marks=needed, id=name(page))


@pytest.mark.parametrize("page", [of_extras(page) for page in DOCS if "```yaml" in page.read_text()])
def test_examples_of_suites_fit_in_every_profile(page, tmp_path):
    (tmp_path / "references").mkdir()
    for text in blocks(page, "yaml"):
        if text.startswith("paper:"):
            (tmp_path / "references" / "example.yaml").write_text(text)
    for text, suite in merged(page):
        path = tmp_path / "suite.yaml"
        path.write_text(text if "suite" in yaml.safe_load(text) else yaml.safe_dump(suite, sort_keys=False))
        for profile in (None, *located.read(path).data.get("profiles", ())):
            loaded = load(path, profile)
            check_fit(loaded, cells_of(loaded))


def commands(page):
    """Return the commands of a page, without their comments."""
    joined = "\n".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    indented = BLOCK.sub("", page.read_text()).replace("\\\n", " ")
    lines = [*joined, *re.findall(r"^    ((?:bench|make) .*)$", indented, re.MULTILINE)]
    words = [shlex.split(line, comments=True) for line in lines]
    return [[*takewhile(lambda word: word not in ("<", ">"), line)] for line in words if line]


def parsed(group, words, parent=None):
    """Parse a command line as `bench` would, down to the verb, without doing anything."""
    context = group.make_context(words[0], [*words[1:]], parent=parent)
    if isinstance(group, click.Group):
        _, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
        parsed(command, [command.name, *rest], context)


@pytest.mark.parametrize("page", [page for page in PAGES if "reports" not in page.parts], ids=name)
def test_commands_are_those_of_bench(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in commands(page):
        while "=" in words[0]:  # a variable of the environment
            words = words[1:]
        if words[0] == "bench":
            parsed(bench, words)
        elif words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= {*targets}


def test_a_wrong_command_would_be_seen():
    for words in (["bench", "rnu"], ["bench", "run", "a.yaml", "--profil", "x"], ["bench", "store", "lst"]):
        with pytest.raises(click.UsageError):
            parsed(bench, words)


@pytest.fixture
def tutorial(tmp_path, monkeypatch):
    """Write the files of the tutorial, its suite with all that is added to it, and go there."""
    for path, text in re.findall(
        r"(?<=\n\n)`([\w/-]+\.\w+)`(?:(?!\n\n).)*\n\n```\w+\n(.*?)^```$", TUTORIAL, re.DOTALL | re.MULTILINE
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    *_, (_, suite) = merged(ROOT / "docs" / "tutorial.md")
    (tmp_path / "stop.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "bench-first")
    return tmp_path


@pytest.fixture
def first(tutorial):
    """Install the plugin of the tutorial for the time of a test."""
    import bench_first

    from bench_core import registry

    with registry.extra(bench_first):
        yield
    for module in [one for one in sys.modules if one.startswith("bench_first")]:
        del sys.modules[module]


def test_the_mistakes_of_the_tutorial_are_told_as_it_says(tutorial):
    first = next(text for language, text in BLOCK.findall(TUTORIAL) if language == "yaml")
    wrong = re.sub(r"( +)greedy: .*", r"\1greedy: {name: greedi}", first).replace("hidden", "hiden")
    wrong = wrong.replace("non-termination, length]", "non-termination, lenght]")
    (tutorial / "wrong.yaml").write_text(wrong)
    found = CliRunner().invoke(bench, ["check", "wrong.yaml"], standalone_mode=False)
    assert found.return_value == 2
    assert "no decoder is called 'greedi'. Did you mean 'greedy'?" in found.stderr
    assert "Did you mean 'hidden'?" in found.stderr
    assert found.stderr.replace("wrong.yaml", "stop.yaml") in TUTORIAL


@pytest.mark.slow
def test_the_suite_of_the_tutorial_runs_with_its_plugin(tutorial, first):
    own = next(
        words[3:] for words in commands(ROOT / "docs" / "tutorial.md") if "metrics.ending={name: ending}" in words
    )
    words = ["run", "stop.yaml", "--profile", "quick", "--workers", "0", *own]
    found = CliRunner().invoke(bench, words, standalone_mode=False, catch_exceptions=False)
    assert found.return_value == 0
    (folder,) = (tutorial / "runs").iterdir()
    run = read_run(folder)
    assert len(run.cells) == 3 * 4
    assert all(0 <= one.numbers["ending"].value <= 100 for one in run.cells)
    (report,) = (path.read_text() for path in (tutorial / "reports").glob("stop-quick+*/report.md"))
    assert re.search(r"\| Decoder +\| +tanh<br>Non-termination \(%\) ↓ \| +tanh<br>ending", report)
    assert re.search(r"\| fresh +\|", report)
    assert r"signature ending\|sign:." in report
    assert all(claim in report for claim in ("lstm-fits-better", "beam-is-shorter"))


@pytest.mark.nightly
def test_the_tests_of_the_tutorials_plugin_pass(tutorial):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "bench-first"]
    environment = {"PYTHONPATH": "bench-first", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    assert "5 passed" in subprocess.run(command, capture_output=True, text=True, env=environment, check=False).stdout


@pytest.mark.parametrize("page", [page for page in DOCS if page.parent.name == "papers"], ids=name)
def test_the_page_of_a_paper_has_all_of_its_suites(page):
    text, paper = page.read_text(), page.stem
    suites = sorted((ROOT / "suites" / paper).glob("*.yaml"))
    assert suites
    section = text.partition("\n<!-- reports: ")[0]
    assert not [suite.name for suite in suites if f"suites/{paper}/{suite.name})" not in section]


@pytest.mark.parametrize("page", [page for page in DOCS if page.parent.name == "papers"], ids=name)
def test_the_page_of_a_paper_says_which_suite_draws_each_figure_or_why_none_does(page):
    section = page.read_text().partition("\n## Figures\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.*?) ?\| (.+?) \|$", section, re.MULTILINE)[2:]
    assert rows
    for _, link, about in rows:
        found = re.fullmatch(r"\[`.+`\]\((.+\.yaml)\)", link)
        drawn = set(re.findall(r"`([a-z0-9-]+)`", about.partition(";")[0])) if found else set()
        if not found:
            assert len(about.split()) > 3, "a reason"
            continue
        assert drawn, about
        shown = {one.id for one in language(load(page.parent / found[1])).figures}
        assert drawn <= shown, (found[1], drawn - shown)


def test_the_worked_examples_of_the_statistics_are_right():
    from scipy.stats import binomtest

    from bench_reports.statistics.comparisons import holm
    from bench_reports.statistics.equivalence import verdict_of
    from bench_reports.statistics.estimate import NONE, Estimate, together
    from bench_reports.statistics.intervals import summary
    from bench_reports.statistics.tails import VariancePart

    text = " ".join((ROOT / "docs" / "statistics.md").read_text().split())
    found = summary([6.2, 59.8, 0.0])
    assert f"{found.mean:.2f} ± {found.std:.2f}" in text
    for k in (0, 31):
        low, high = binomtest(k, 500).proportion_ci(method="exact")
        assert f"[{100 * low:.2f}, {100 * high:.2f}]" in text
    assert holm([0.01, 0.03, 0.04]) == pytest.approx([0.03, 0.06, 0.06])
    part = together([VariancePart(4.0**2 / 5, 4), VariancePart(5.18**2 / 10, 9)])
    apart = Estimate(11.0 - 12.35, part, NONE, NONE)
    assert f"difference −{-apart.value:.2f}, standard error {part.variance**0.5:.2f}" in text
    assert [verdict_of(apart, tolerance, -1) for tolerance in (6, 5)] == ["equivalent", "cannot tell"]
    for freedom, multiple in ((1, "39.1"), (2, "8.8"), (4, "4.7"), (9, "3.5"), (1e9, "2.8")):
        assert f"{Estimate(0.0, VariancePart(1.0, freedom), NONE, NONE).detectable():.1f}" == multiple
        assert multiple in text
