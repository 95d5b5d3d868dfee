"""`bench_notebook.load` returns everything that stages wrote; which prompts and references may be shown."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace

import bench_small.plugin
import numpy as np
import pytest
from bench_small.plugin import LettersConfig
from bench_small.suites import SUITE

import bench_core
from bench_core import PluginError, Prediction, SuiteError, registry
from bench_core.computing.stages import sample_of
from bench_core.errors import StoreError
from bench_core.runs.quoting import may_quote, why_not_quoted
from bench_core.runs.results import read_run
from bench_core.runs.selecting import cell_name
from bench_core.stage_kinds import PREDICTIONS
from bench_core.storage.predictions import read_predictions, write_predictions
from bench_core.storage.store import Store
from bench_core.suites.axes import AXES
from bench_core.suites.load import load as load_suite
from bench_notebook import LoadedRun, load
from block_bootstrap import BLOCKS


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Run the small suite once; return the folder of its store and runs."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "suite.yaml").write_text(SUITE)
    with registry.extra(bench_small.plugin):
        run = bench_core.run(folder / "suite.yaml", store=folder / "store", out=folder / "runs", data=folder)
    run.folder.rename(folder / "runs" / "one")
    return folder


@pytest.fixture
def loaded(made):
    return load(made / "runs" / "one", made / "store")


def written(folder, key, kind="decode"):
    """Return the predictions of an artifact without `load`."""
    lines = gzip.decompress((folder / "store" / kind / key / PREDICTIONS).read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def test_every_prediction_of_every_cell_is_returned_as_written(made, loaded):
    cells = read_run(made / "runs" / "one").cells
    assert len(cells) == 8
    for cell in cells:
        for kind, name in (("decode", "decode"), ("score", "score/nats")):
            predictions, lines = [*loaded.outputs(cell.cell, kind)], written(made, cell.artifacts[name], kind)
            assert [
                (prediction.id, prediction.texts, prediction.references, prediction.target_log_prob)
                for prediction in predictions
            ] == [(line["id"], line["texts"], line["references"], line["target_log_prob"]) for line in lines]
            assert [[y.tokens for y in prediction.hypotheses] for prediction in predictions] == [
                [y["tokens"] for y in line["hypotheses"]] for line in lines
            ]
            assert len(predictions) == 13


def test_each_decoding_comes_once_for_each_cell_and_each_scoring_once_for_all_decoders(made, loaded):
    several = [*loaded.all_outputs()]
    assert [part.name for part in several if part.kind == "decode"] == [cell_name(row) for row in loaded.cells]
    scored = [part for part in several if part.kind == "score"]
    assert sorted((part.cell["model"], part.cell["seed"], part.by) for part in scored) == [
        (model, seed, "exact") for model in ("one", "two") for seed in (0, 1)
    ]
    assert all("decoder" not in part.cell for part in scored)
    stored = {(kind, key) for kind, key in Store(made / "store").entries() if kind in ("decode", "score")}
    assert {(part.kind, part.key) for part in several} == stored
    assert [*several[0]] == [*several[0]]  # can be iterated again


def test_cells_are_named_by_rows_axes_filters_or_words(loaded):
    expected = [*loaded.outputs(loaded.cells[-1])]
    for cell, axes in (
        ("model=two,decoder=draw,seed=1", {}),
        ("two/draw/seed 1", {}),
        ("mod=tw dec=dr,seed=1", {}),
        ("", {"model": "two", "decoder": "draw", "seed": 1}),
        ("seed=1", {"model": "two", "decoder": "draw"}),
    ):
        assert [*loaded.outputs(cell, **axes)] == expected


@pytest.mark.parametrize(
    ("cell", "axes", "message"),
    [
        ("model=two", {}, r"4 cells match 'model=two'. Choose by decoder \(argmax, draw\), seed \(0, 1\)."),
        ("", {}, "8 cells match"),
        ("", {"model": "three"}, "no cell of .* has model=three"),
        ("", {"modell": "two"}, "no axis 'modell'. Their axes are task, model"),
        ("model=three", {}, "no model of these cells is called 'three'"),
        ("two/draw/seed 1", {"kind": "decoding"}, "no kind 'decoding'"),
    ],
)
def test_ambiguous_and_unknown_cells_are_refused(loaded, cell, axes, message):
    with pytest.raises(SuiteError, match=message):
        loaded.outputs(cell, **axes)


def test_two_models_of_the_same_settings_have_the_same_scores_each_under_its_name(loaded):
    twin = replace(loaded.run.cells[0], cell={**loaded.run.cells[0].cell, "model": "twin"})
    twins = LoadedRun(replace(loaded.run, cells=[*loaded.run.cells[:1], twin]), loaded.store)
    assert [(part.kind, part.cell["model"]) for part in twins.all_outputs()] == [
        (kind, model) for model in ("one", "twin") for kind in ("decode", "score")
    ]


def test_several_likelihoods_are_chosen_by_name(loaded, tmp_path):
    """Several metrics may score a cell, each with another likelihood."""
    store, cell = Store(tmp_path / "store"), loaded.run.cells[0]
    keys = {f"score/{by}": name * 64 for by, name in (("exact", "a"), ("bound", "b"))}
    for place, key in enumerate(keys.values()):
        about = {"ingredients": {"settings": {"by": ("exact", "bound")[place]}}, "scheme": -1}
        with store.writing("score", key, about, sync=False) as folder:
            write_predictions(folder / PREDICTIONS, [Prediction(place, target_log_prob=-1.0)])
    rescored = LoadedRun(replace(loaded.run, cells=[replace(cell, artifacts=keys)]), store)
    assert {scored.by: [prediction.id for prediction in scored] for scored in rescored.all_outputs()} == {
        "exact": [0],
        "bound": [1],
    }
    assert [prediction.id for prediction in rescored.outputs(kind="score", by="bound")] == [1]
    for by in (None, "estimate"):
        with pytest.raises(SuiteError, match="set `by` to one of bound, exact"):
            rescored.outputs(kind="score", by=by)


def test_numbers_replicates_and_histories_equal_those_of_the_run(made, loaded):
    run = read_run(made / "runs" / "one")
    assert {(row["model"], row["decoder"], row["seed"], row["metric"]): row["value"] for row in loaded.numbers} == {
        (cell.cell["model"], cell.cell["decoder"], cell.cell["seed"], name): number.value
        for cell in run.cells
        for name, number in cell.numbers.items()
    }
    assert loaded.cells == run.rows()
    for cell in run.cells:
        for name, number in cell.numbers.items():
            draws = loaded.draws[cell_name(cell.cell), name]
            assert draws.shape == (1, 1000)
            assert abs(draws.mean() - number.value) < 4 * draws.std() + 1e-9
            assert np.array_equal(draws, run.draws[cell.artifacts[f"measure/{name}"]])
    trained = {(row["model"], row["seed"]) for row in loaded.histories}
    assert trained == {(model, seed) for model in ("one", "two") for seed in (0, 1)}
    assert [row["epoch"] for row in loaded.histories if (row["model"], row["seed"]) == ("two", 1)] == [1, 2, 3]


@pytest.mark.extra("bench-notebook", "frames")
def test_frames_equal_the_rows(loaded):
    assert loaded.cells_frame().to_dict("records") == loaded.cells
    assert len(loaded.numbers_frame()) == len(loaded.numbers) == 16
    assert loaded.draws_frame().shape == (1000, 16)
    assert len(loaded.histories_frame()) == len(loaded.histories)
    frame = loaded.outputs_frame(model="one", decoder="draw", seed=0)
    assert frame["texts"].tolist() == [
        prediction.texts for prediction in loaded.outputs(model="one", decoder="draw", seed=0)
    ]


@pytest.mark.extra("bench-notebook", "frames")
def test_the_frame_of_outputs_has_all_matching_cells_with_their_axes(loaded):
    whole, some = loaded.outputs_frame(), loaded.outputs_frame("model=one,seed=1")
    for frame, cells in ((whole, loaded.cells), (some, [{"model": "one", "seed": 1}])):
        rows = [
            (cell["model"], cell["decoder"], cell["seed"], prediction.id, prediction.texts)
            for cell in loaded.cells
            if any(all(cell[axis] == other.get(axis, cell[axis]) for axis in AXES) for other in cells)
            for prediction in loaded.outputs(cell)
        ]
        assert [*zip(*(frame[name] for name in ("model", "decoder", "seed", "id", "texts")), strict=True)] == rows
    scored = loaded.outputs_frame(kind="score")
    assert {*zip(scored["model"], scored["seed"], strict=True)} == {(m, s) for m in ("one", "two") for s in (0, 1)}
    assert len(scored) == len(scored.drop_duplicates(["model", "seed", "id"]))


def test_without_pandas_only_frames_fail_with_the_install_command(loaded, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for frame in (loaded.cells_frame, loaded.numbers_frame, loaded.draws_frame, loaded.histories_frame):
        with pytest.raises(PluginError, match="python -m pip install 'pandas"):
            frame()
    assert len(loaded.cells) == 8


def test_the_frame_of_replicates_uses_the_block_length_of_the_number(loaded, monkeypatch):
    first, rows = loaded.run.cells[0], np.arange(2000.0).reshape(2, 1000)
    for row, block in enumerate(BLOCKS[:2]):
        cell = replace(first, numbers={"ended": replace(first.numbers["ended"], block=block)})
        run = replace(loaded.run, cells=[cell])
        run.__dict__["draws"] = {first.artifacts["measure/ended"]: rows}
        monkeypatch.setattr("bench_notebook.loaded._frame", dict)
        frame = LoadedRun(run, loaded.store).draws_frame()
        assert next(iter(frame.values())).tolist() == rows[row].tolist()


def test_a_run_is_loaded_by_its_name_among_others(made, monkeypatch):
    monkeypatch.chdir(made)
    assert load("one", "store").run.folder == load("runs/one", "store").run.folder
    assert load("one", runs=made / "runs").run.cells == load(made / "runs" / "one").run.cells
    for name, message in (("two", "two is not a run"), ("suite.yaml", "is a file. `bench import suite.yaml` adds")):
        with pytest.raises(SuiteError, match=message):
            load(name)


def test_missing_predictions_are_reported_with_cell_and_advice(made, tmp_path):
    elsewhere = load(made / "runs" / "one", tmp_path / "elsewhere")
    predictions = elsewhere.outputs(model="one", decoder="draw", seed=0)
    with pytest.raises(
        StoreError, match=r"words/one/draw/test, seed 0: its decode .* is not in the store .*elsewhere"
    ):
        next(predictions)
    assert len(elsewhere.numbers) == 16


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path, good: path.write_bytes(good[:-9] + b"\0" + good[-8:]), "its digest differs from the manifest"),
        (lambda path, good: path.write_bytes(good[:50]), "it has 50 bytes"),
        (lambda path, good: path.unlink(), "there is no such file"),
    ],
)
def test_damaged_predictions_are_never_returned(made, loaded, damage, message):
    key = next(cell for cell in loaded.run.cells if cell.cell["model"] == "one").artifacts["decode"]
    path = made / "store" / "decode" / key / PREDICTIONS
    good = path.read_bytes()
    try:
        damage(path, good)
        with pytest.raises(StoreError, match=rf"words/one/argmax/test, seed 0: .*{message}"):
            next(loaded.outputs(loaded.cells[0]))
    finally:
        path.write_bytes(good)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "KeyError: 'hypotheses'"),
        (b"[1]", "TypeError"),
        (b"{", "JSONDecodeError"),
        (b'{"id": 0, "hypotheses": [], "texts": ["a"]}', "texts that are not strings, or not one per hypothesis"),
        (b'{"id": 0, "hypotheses": [], "references": [7]}', "texts that are not strings"),
        (b'{"id": 0, "hypotheses": [], "references": null}', "TypeError"),
        (b'{"id": 0, "hypotheses": [], "unheard": 1}', "TypeError"),
        (None, "EOFError"),
        (False, "BadGzipFile"),
    ],
)
def test_an_artifact_without_valid_predictions_is_reported_with_the_cell(tmp_path, loaded, content, message):
    store = Store(tmp_path / "store")
    with store.writing("decode", loaded.run.cells[0].artifacts["decode"], {}) as folder:
        whole = gzip.compress(content or b'{"id": 0, "hypotheses": []}')
        (folder / PREDICTIONS).write_bytes(whole if content else whole[:-4] if content is None else b"no gzip")
    with pytest.raises(StoreError, match=rf"words/one/argmax/test, seed 0: .*{message}"):
        next(load(loaded.run.folder, store.root).outputs(loaded.cells[0]))


def test_predictions_are_read_one_by_one(tmp_path, loaded, monkeypatch):
    """Taking a prediction does not read all predictions."""
    store, reads = Store(tmp_path / "store"), []
    prediction = next(loaded.outputs(loaded.cells[0]))
    with store.writing("decode", loaded.run.cells[0].artifacts["decode"], {}) as folder:
        write_predictions(folder / PREDICTIONS, [prediction] * 5000)
    original = read_predictions

    def count(path):
        return (reads.append(1) or prediction for prediction in original(path))

    monkeypatch.setattr("bench_notebook.cell_predictions.read_predictions", count)
    outputs = load(loaded.run.folder, store.root).outputs(loaded.cells[0])
    assert [next(outputs), next(outputs)] == [prediction, prediction]
    assert len(reads) == 2


# quoting


@pytest.fixture
def run_news(tmp_path, small, monkeypatch):
    """Return a function that runs a suite of two tasks; texts of the second, `news`, may not be shown."""
    licence = property(lambda task: "licence of the news: none" if task.file else "")
    monkeypatch.setattr(LettersConfig, "restriction", licence)
    (tmp_path / "news.txt").write_text("abc abcd acbd adb " * 4)

    def run(more=""):
        tasks = "  words: {name: letters}\n  news: {name: letters, file: news.txt}\n"
        text = SUITE.replace("  words: {name: letters}\n", tasks).replace("rows: [decoder]", "rows: [task, decoder]")
        (tmp_path / "suite.yaml").write_text(text + more)
        store = tmp_path / "store"
        return bench_core.run(tmp_path / "suite.yaml", seeds=1, store=store, out=tmp_path / "runs", data=tmp_path)

    return run


def shown(run):
    """Return the tasks whose samples show prompts, and the tasks whose samples show references."""
    samples = run.info["samples"]
    return [{sample["cell"]["task"] for sample in samples if sample[what]} for what in ("prompt", "reference")]


def withheld(run):
    """Return the tasks whose texts may not be shown, with reasons."""
    reasons = {name: why_not_quoted(name, about, run.suite.quote) for name, about in run.info["tasks"].items()}
    return {name: reason for name, reason in reasons.items() if reason}


@pytest.mark.slow
def test_quoting_tasks_changes_which_texts_are_shown_without_recomputation(tmp_path, run_news):
    first = run_news()
    stored = {*Store(tmp_path / "store").entries()}
    assert shown(first) == [{"words"}, {"words"}]
    assert withheld(first) == {"news": "licence of the news: none"}
    for more, hidden in (
        ("quote: false\n", ["news", "words"]),
        ("quote: [words]\n", ["news"]),
        ("quote: news\n", []),
        ("quote: [news, words]\n", []),
        ("quote: true\n", []),
    ):
        run = run_news(more)
        assert sorted(withheld(run)) == hidden
        assert shown(run) == [{"words", "news"} - {*hidden}] * 2
        assert {*Store(tmp_path / "store").entries()} == stored
        assert run.rows() == first.rows()


@pytest.mark.slow
def test_a_suite_sets_the_number_of_samples_without_recomputation(tmp_path, run_news):
    first, store = run_news("quote: true\n").info["samples"], Store(tmp_path / "store")
    stored = {*store.entries()}
    for number in (1, 3, 5):
        run = run_news(f"quote: true\nsamples: {number}\n")
        assert {*store.entries()} == stored
        assert run.info["samples"] == [
            {"cell": cell.cell} | sample_of(prediction)
            for cell in run.cells
            for prediction in read_predictions(store.get("decode", cell.artifacts["decode"]).file(PREDICTIONS))[
                :number
            ]
        ]
        assert (run.info["samples"] == first) == (number == 3)


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        ({"restricted": ""}, True),
        ({"restricted": "", "embedded": False}, True),
        ({"restricted": "a licence"}, False),
        ({"restricted": "a licence", "embedded": True}, False),
        ({"embedded": True}, True),  # of runs of older versions
        ({"embedded": None}, False),
        ({}, False),
    ],
)
def test_texts_are_shown_unless_the_data_or_the_suite_forbid_it(about, shown):
    assert may_quote("news", about, ()) == may_quote("news", about, ("words",)) == shown
    assert may_quote("news", about, True)
    assert may_quote("news", about, ("news",))
    assert not may_quote("news", about, False)


def test_quote_names_tasks_of_the_suite(suite_file):
    with pytest.raises(
        SuiteError, match=r"suite.yaml:\d+:\d+.*no task of this suite is called 'wrods'. Did you mean"
    ):
        load_suite(suite_file(SUITE + "quote: [wrods]\n"))
    with pytest.raises(SuiteError, match="quote"):
        load_suite(suite_file(SUITE + "quote: 3\n"))
    assert load_suite(suite_file(SUITE + "quote: words\n")).quote == ("words",)
    assert load_suite(suite_file(SUITE)).quote == ()
