"""Work grows with what there is to do and no faster, and memory does not grow with what can be read one by one."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from bench_small.runs import number, paper, run_of, stored, written

from bench_core.runs.results import CellResult, read_run
from bench_core.storage.store import Store
from bench_upkeep.garbage import collect, damages, entries
from block_bootstrap import REPLICATES, write_replicates

AUDITED = ("open", "os.listdir", "os.scandir")
heard: list[str] | None = None


def hear(event, arguments):
    if heard is not None and event in AUDITED:
        heard.append(event)


sys.addaudithook(hear)  # it stays for the process, and is silent but in `opened`


def opened(work):
    """Return how many files and folders were opened during some work."""
    global heard
    heard = []
    try:
        work()
        return len(heard)
    finally:
        heard = None


def calls(work):
    """Return how many functions were called during some work, after a first time."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    work()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def peak(work):
    """Return the most bytes that Python held at a time during some work, besides what it held before."""
    work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def store_of(folder, number, size=1_000):
    """Return a store of decodings, each the input of a measurement."""
    store = Store(folder)
    for place in range(number):
        key, own = f"{place:064x}", f"{place + 10**9:064x}"
        with store.writing("decode", key, {"label": f"cell {place}"}, sync=False) as inside:
            (inside / "predictions.jsonl.gz").write_bytes(bytes(size))
        inputs = {"predictions": ["decode", key]}
        with store.writing("measure", own, {"scheme": 0, "ingredients": {"inputs": inputs}}, sync=False) as inside:
            (inside / "extra").mkdir()
            (inside / "extra" / "parts").write_bytes(bytes(size))
    return store


def keys(store):
    return {key for kind, key in store.entries() if kind == "measure"}


WORK = {
    "entries": lambda store: store.entries(),
    "ls": lambda store: [*entries(store)],
    "verify": lambda store: [*damages(store)],
    "gc": lambda store: collect(store, keys(store), dry=True),
}


@pytest.mark.parametrize("name", WORK)
def test_work_on_a_store_grows_with_the_number_of_artifacts_and_no_faster(tmp_path, name):
    few, many = store_of(tmp_path / "few", 40), store_of(tmp_path / "many", 80)
    work = WORK[name]
    assert opened(lambda: work(many)) <= 2 * opened(lambda: work(few))
    assert calls(lambda: work(many)) <= 2.1 * calls(lambda: work(few))


def test_a_listing_opens_no_file_of_an_artifact_but_its_manifest(tmp_path):
    store = store_of(tmp_path, 30)
    manifests, folders = 60, 60 + 30 + 3  # those of artifacts, those inside, and those of kinds with the store itself
    assert opened(lambda: [*entries(store)]) == manifests + folders


@pytest.mark.nightly
@pytest.mark.parametrize("large", ["files", "artifacts"])
def test_verification_holds_neither_files_nor_artifacts_in_memory(tmp_path, large):
    few = store_of(tmp_path / "few", 20, 1_000)
    more = store_of(tmp_path / "more", *((20, 4_000_000) if large == "files" else (400, 1_000)))

    def verify(store):
        for _, wrong, _ in damages(store):
            assert not wrong

    assert peak(lambda: verify(more)) < peak(lambda: verify(few)) + 400_000  # of 800 names, or of 160 MB


def cells_of(seeds, decoders=("greedy", "beam"), models=("rnn", "lstm")):
    for model, decoder, seed in product(models, decoders, range(seeds)):
        axes = {"task": "words", "model": model, "decoder": decoder, "split": "test", "hardware": "default"}
        name = f"{model}-{decoder}-{seed:05}"
        value = (hash_of(name) % 1000) / 10
        numbers = {"rate": number(value, sample="s", units=100), "nats": number(value / 7)}
        yield CellResult({**axes, "seed": seed}, "done", "", numbers, {"measure/rate": name, "decode": name})


def hash_of(name):
    return int.from_bytes(name.encode(), "big") * 2654435761 % 2**32


def many_cells(folder, seeds):
    """Return the folder of a run of four cells a seed, with draws."""
    folder.mkdir()
    cells = [*cells_of(seeds)]
    run = run_of(folder, cells, {"reference": {"table": "p"}}, paper({"greedy": {"rnn": (1.0, 0.5)}}))
    stored(run)
    names = sorted(one.artifacts["decode"] for one in cells)
    draws = ((name, (np.full(REPLICATES, hash_of(name) % 97) + np.arange(REPLICATES) % 7)[None]) for name in names)
    write_replicates(run.folder / "draws.safetensors", draws)
    return run.folder


@pytest.mark.slow
def test_a_report_takes_twice_the_work_for_twice_the_cells(tmp_path):
    few, many = (many_cells(tmp_path / str(seeds), seeds) for seeds in (60, 120))

    def report(folder):
        assert "report.html" in written(read_run(folder), tmp_path / "report")

    assert calls(lambda: report(many)) <= 2.1 * calls(lambda: report(few))
    assert opened(lambda: report(many)) <= 2 * opened(lambda: report(few))


@pytest.mark.slow
def test_a_run_holds_no_draws_but_those_that_are_asked_for(tmp_path):
    run = read_run(many_cells(tmp_path / "run", 200))
    assert (run.folder / "draws.safetensors").stat().st_size > 6_000_000
    assert peak(lambda: [draws.mean() for draws in run.draws.values()]) < 100_000


def test_results_of_a_report_have_every_cell_on_its_line(tmp_path):
    cells = [*cells_of(3)]
    cells[1] = replace(cells[1], probes={"p": {"numbers": {"bound": float("inf")}, "statements": [], "measured": {}}})
    cells[2] = replace(
        cells[2], status="failed", reason='a "reason"\nof two lines', numbers={"rate": number(float("nan"))}
    )
    (tmp_path / "run").mkdir()
    text = written(run_of(tmp_path, cells, {}), tmp_path / "report")["results.json"].decode()
    found = json.loads(text)
    assert [*found] == sorted(found)
    told = [one["cell"] for one in found["cells"]]
    assert len(told) == len(cells)
    assert all(one.cell in told for one in cells)
    infinite = [one for one in found["cells"] if one["probes"]]
    assert [one["probes"]["p"]["numbers"]["bound"] for one in infinite] == ["inf"]
    assert [one["numbers"]["rate"]["value"] for one in found["cells"] if one["status"] == "failed"] == ["nan"]
    assert all(
        json.loads(line.strip().rstrip(",")) in found["cells"] for line in text.splitlines()[2 : 2 + len(cells)]
    )
