"""A published number is of another test set, unless the suite names the digest of a file that its task reads."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import pytest
from bench_small.listed import FiledConfig
from bench_small.runs import cell, run_of

from bench_authors.availability import _digests
from bench_reports.content.grid import GridEntry
from bench_reports.content.verdicts import same_examples
from bench_reports.language.schema import Reference
from bench_reports.plugin import ReportContents

DIGEST = "0" * 64


def of(run, tasks):
    return replace(run, info={**run.info, "read": {"tasks": tasks}})


@pytest.mark.parametrize("said", [f"sha256:{DIGEST}", "", f"sha256:{'1' * 64}"])
def test_examples_are_the_same_where_the_task_reads_the_file_that_the_suite_names(tmp_path, said):
    entry = GridEntry("done", cells=(cell("rnn", "greedy", 0),))
    run, task = run_of(tmp_path, entry.cells, {}), entry.cells[0].cell["task"]
    reference = Reference(table="one", same_examples=said)
    assert same_examples(of(run, {task: {"test.txt": DIGEST}}), reference, entry) == said.endswith(DIGEST)
    assert not same_examples(of(run, {"another": {"test.txt": DIGEST}}), reference, entry)
    assert not same_examples(run, reference, entry)


@pytest.mark.parametrize("text", ["text", "another text"])
def test_a_digest_that_no_task_reads_is_reported_at_its_place(tmp_path, text):
    (tmp_path / "test.txt").write_text(text)
    said = f"sha256:{sha256(b'text').hexdigest()}"
    tables = [SimpleNamespace(reference=None), SimpleNamespace(reference=Reference(table="a", same_examples=said))]
    suite = SimpleNamespace(sections={"tables": tables}, tasks={"t": FiledConfig(file="test.txt")}, folder=tmp_path)
    found = [*ReportContents().unavailable(suite, lambda task: _digests(task, tmp_path, tmp_path))]
    if text == "text":
        assert not found
    else:
        ((keys, problem),) = found
        assert keys == ("tables", 1, "reference", "same_examples")
        assert said in problem
