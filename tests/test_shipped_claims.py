"""The claims of the shipped suites: each can fail, has a source, and gives reasons for its numbers.

`objections` returns what is wrong with the claims of a suite, and is tried on bad claims below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claim_values import can, comparisons, is_true, walk
from printed_values import printed

from bench_core.suites import yaml_source as located
from bench_core.suites.load import load
from bench_core.suites.suite import Suite
from bench_reports.language.expressions import COMPARISONS, Query, Term, read
from bench_reports.language.of_suite import language
from bench_reports.language.published import Published
from bench_reports.language.schema import Claim, Table

ROOT = Path(__file__).parent.parent
FILES = [path for path in sorted((ROOT / "suites").rglob("*.yaml")) if path.parent.name != "references"]
OF_PAPERS = {"quickstart": "strlm"}  # suites beside the folders of papers
OURS = {"passes", "trainings"}  # suites of no paper
SEEDS = 3  # a claim holds from three on
OVER_SEEDS = {"std", "std of seeds", "min of seeds", "max of seeds"}  # what no claim is about
MANY = 30  # comparisons of a paper whose numbers it prints
AGAINST = "Ours, against the text"  # how a note says that a claim is not the paper's
WHY_NOT = "No tolerance"  # how a reference file says that a number has none, and why


@pytest.mark.quick(12)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "suites")))
def test_nothing_can_be_said_against_the_claims_of_a_shipped_suite(path):
    for profile in (None, *located.read(path).data.get("profiles", ())):
        suite = load(path, profile)
        own = {claim.id for claim in language(suite).claims if path.stem in OURS}
        assert objections(suite, own or sources(OF_PAPERS.get(path.stem, path.parent.name))) == [], profile


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "suites")))
def test_a_published_number_beside_ours_has_a_tolerance_or_a_reason_for_none(path):
    suite = load(path)
    assert [text for table in language(suite).tables for text in without_tolerance(suite, table)] == []


@pytest.mark.parametrize("paper", ["ecoc", "indigo", "ssm", "strlm"])
def test_claims_are_true_of_the_numbers_that_their_papers_print(paper):
    suites = [load(path) for path in FILES if path.parent.name == paper]
    tried = [one for suite in suites for one in of_paper(suite)]
    assert len(tried) > MANY
    assert [text for text, truth in tried if not truth] == []


def of_paper(suite: Suite) -> Iterator[tuple[str, bool]]:
    """Yield every comparison of claims and premises for which the paper prints all numbers, and whether it is true."""
    ours = [claim for claim in language(suite).claims if AGAINST not in claim.note]
    for claim, text in [(one, text) for one in ours for text in (one.expression, *one.requires.values())]:
        for one in comparisons(_term(text)):
            values = {part.query: printed(suite, part.query) for part in walk(one) if part.query is not None}
            known = {query: value for query, value in values.items() if value is not None}
            if len(known) == len(values):
                yield f"{suite.name} {claim.id}: {one}, {[*known.values()]}", is_true(one, known)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "suites")))
def test_claims_at_the_size_of_the_paper_can_hold(path):
    suite = load(path)
    alone = [
        one.id
        for one in language(suite).claims
        if not re.search("one training of each|[Nn]othing is trained", one.note)
    ]
    assert not alone or len(suite.seeds) >= SEEDS, "a claim holds from three seeds on, or says why there are fewer"


def sources(paper: str) -> set[str]:
    """Return the ids in the table of claims on the page of a paper."""
    page = ROOT / "docs" / "papers" / f"{paper}.md"
    if not page.exists():
        return set()
    section = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    return {name.strip() for cell in cells[1:] for name in cell.split(",")}


def objections(suite: Suite, known: set[str]) -> list[str]:
    """Return what is wrong with the claims of a suite, in words."""
    return [f"{claim.id}: {text}" for claim in language(suite).claims for text in _of_claim(suite, claim, known)]


def _of_claim(suite: Suite, claim: Claim, known: set[str]) -> Iterator[str]:
    if foreign := _foreign(claim):
        yield f"is not in the language of claims: {foreign[0]}"
        return
    if not {claim.id[:end] for end in _ends(claim.id)} & known:
        yield "is not in the table of claims of its paper"
    for number in _numbers(claim):
        if not _is_explained(number, f"{claim.text} {claim.note}"):
            yield f"has the number {number:g}, of which text and note say nothing"
    for part in walk(_term(claim.expression)):
        if part.operation in COMPARISONS.values():
            left, right = (_experiment(one, suite) for one in part.parts)
            if left == right:
                yield f"compares an experiment with itself: {part.parts[0]} and {part.parts[1]}"
    yield from _of_premises(claim)


def _foreign(claim: Claim) -> list[str]:
    """Return what a claim or its premises ask for that no claim can: what cannot be read, and single seeds."""
    found = [read(text) for text in (claim.expression, *claim.requires.values())]
    unread = [text for one in found for text in one.problems]
    return unread or [
        str(part) for one in found if one.term for part in walk(one.term) if part.operation in OVER_SEEDS
    ]


def _of_premises(claim: Claim) -> Iterator[str]:
    asserted = comparisons(_term(claim.expression))
    premises = [one for text in claim.requires.values() for one in comparisons(_term(text))]
    if not can([*asserted, *premises]):
        yield "cannot hold where its premises are true"
    yield from (f"cannot fail by {one} where its premises are true" for one in asserted if not can(premises, [one]))


def _ends(name: str) -> list[int]:
    return [match.start() for match in re.finditer("-|$", name)]


def _term(text: str) -> Term:
    term = read(text).term
    if term is None:
        raise ValueError(f"{text} cannot be read")
    return term


def _numbers(claim: Claim) -> list[float]:
    """Return the numbers of a claim and of its premises, each once; exponents are no thresholds."""
    terms = [one for text in (claim.expression, *claim.requires.values()) for one in walk(_term(text))]
    exponents = {id(one.parts[1]) for one in terms if one.operation == "**"}
    return sorted({one.number for one in terms if one.operation == "number" and id(one) not in exponents} - {0.0})


def _is_explained(number: float, text: str) -> bool:
    """Return whether a text has a number, as it is or in per cent: 1.05 and 0.95 are also 5 %."""
    plain = {f"{number:g}", f"{number:,.10g}", repr(number), f"{number:.0e}".replace("e-0", "e-")}
    per_cent = {f"{round(100 * share, 6):g} %" for share in (abs(number - 1), number)}
    return any(re.search(rf"(?<![\d.,]){re.escape(one)}(?![\d]|[.,]\d)", text) for one in plain | per_cent)


def _experiment(term: Term, suite: Suite) -> Any:
    """Return a term with the settings of all parts in the place of their names."""
    if term.query is not None:
        return _settings(term.query, suite)
    return term.operation, term.number, tuple(_experiment(part, suite) for part in term.parts)


def _settings(query: Query, suite: Suite) -> Any:
    names = dict(query.axes)
    task = names.get("task", next(iter(suite.tasks), ""))
    decoder = names.get("decoder", next(iter(suite.decoders), ""))
    model = suite.models[names["model"]].at(task) if names.get("model") in suite.models else None
    parts: list[Any] = [
        _dump(suite.tasks.get(task)),
        _without_effect(_dump(model.config)) if model else names.get("model"),
        _dump(model.training) if model else None,
        _dump(suite.decoders.get(decoder)),
        _dump(suite.metrics.get(query.metric, query.metric)),
        names.get("split", next(iter(suite.splits), "")),
        names.get("hardware", ""),
    ]
    return repr(parts)


def _dump(part: Any) -> Any:
    return {"class": type(part).__name__, **part.model_dump()} if hasattr(part, "model_dump") else part


def _without_effect(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a model without those that change nothing: the noise of a search is dropout."""
    silent = {"search_noise"} if settings.get("dropout") == 0 else set()
    return {key: value for key, value in settings.items() if key not in silent}


def without_tolerance(suite: Suite, table: Table) -> list[str]:
    """Return the columns of the published table beside ours that have neither a tolerance nor a reason for none."""
    if table.reference is None:
        return []
    printed: Published = language(suite).published[table.reference.table]
    shown = [name for name in printed.columns if table.reference.columns.get(name, name) is not None]
    if WHY_NOT in printed.note:
        return []
    return [f"{printed.id}: {name}" for name in shown if printed.tolerance_of(name) is None]


def indigo() -> Suite:
    return load(ROOT / "suites" / "indigo" / "table-5.yaml", "invented")


def with_claim(suite: Suite, **changes: Any) -> Suite:
    """Return the suite with its second claim changed, and no other."""
    return replace(
        suite, sections={**suite.sections, "claims": [language(suite).claims[1].model_copy(update=changes)]}
    )


def without_dropout(suite: Suite) -> Suite:
    models = {
        name: replace(entry, config=entry.config.model_copy(update={"dropout": 0.0}))
        for name, entry in suite.models.items()
    }
    return replace(suite, models=models)


BETTER = (
    "v('bleu', model='SAO', decoder='beam-4', split='test') > v('bleu', model='L2R', decoder='beam-4', split='test')"
)
BAD: Mapping[str, tuple[Callable[[], Suite], str]] = {
    "a threshold without a reason": (
        lambda: with_claim(indigo(), expression=f"{BETTER} + 0.7"),
        "has the number 0.7, of which text and note say nothing",
    ),
    "a threshold that was changed, and not its reason": (
        lambda: with_claim(
            indigo(), expression=f"{BETTER} + 0.7", note="0.75 BLEU are half of what the paper gains."
        ),
        "has the number 0.7, of which text and note say nothing",
    ),
    "a premise with a number of which nothing is said": (
        lambda: with_claim(indigo(), requires={"it is trained": f"{BETTER} - 20"}),
        "has the number 20, of which text and note say nothing",
    ),
    "one value on both sides": (
        lambda: with_claim(
            indigo(),
            expression="all(v('bleu', model=m, decoder='beam-4', split='test') <= "
            "v('bleu', model='SAO', decoder='beam-4', split='test') for m in ['L2R', 'SAO'])",
        ),
        "compares an experiment with itself",
    ),
    "noise that is not there": (lambda: without_dropout(with_claim(indigo())), "compares an experiment with itself"),
    "the best of several seeds": (
        lambda: with_claim(indigo(), expression=BETTER.replace("> v(", "> max(v(") + ")"),
        "is not in the language of claims",
    ),
    "no source": (lambda: with_claim(indigo(), id="X1"), "is not in the table of claims of its paper"),
    "a premise that decides it": (
        lambda: with_claim(indigo(), expression=BETTER, requires={"0.1 BLEU are gained": f"{BETTER} + 0.1"}),
        "cannot fail by",
    ),
    "a premise that excludes it": (
        lambda: with_claim(indigo(), expression=BETTER, requires={"it is worse": BETTER.replace(">", "<")}),
        "cannot hold where its premises are true",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_claim_is_found(name):
    make, text = BAD[name]
    found = objections(make(), sources("indigo"))
    assert any(text in one for one in found), found


def test_a_published_table_without_a_tolerance_is_found():
    suite = load(ROOT / "suites" / "indigo" / "table-4.yaml")
    (table,) = (one for one in language(suite).tables if one.reference)
    printed = language(suite).published[table.reference.table]
    bare = printed.model_copy(update={"tolerance": {"BLEU": printed.tolerance_of("BLEU")}})
    assert without_tolerance(suite, table) == []
    assert without_tolerance(replace(suite, sections={**suite.sections, "published": {printed.id: bare}}), table) == [
        f"{printed.id}: accuracy"
    ]


@pytest.mark.parametrize(
    ("number", "text"), [(1.05, "5 %"), (0.9, "10 %"), (7776, "7,776 sequences"), (1e-6, "1e-6 nats"), (30, "30.")]
)
def test_a_number_is_explained_as_it_is_or_in_per_cent(number, text):
    assert _is_explained(number, text)
    assert not _is_explained(number, "300, 1.055 and 50 %")
