"""What `bench check` says of canvases that do not fit their suite."""

from __future__ import annotations

from copy import deepcopy

import pytest
import yaml

from bench_canvas.inspecting import inspect
from bench_canvas.plugin import MaskedDiffusionConfig
from bench_core import Inspection, Prompt
from bench_core.errors import BenchError
from bench_core.suites.load import load

SUITE = {
    "suite": "canvases",
    "tasks": {"invented": {"name": "translation", "longest": 11}},
    "models": {"masked": {"name": "masked-diffusion", "places": 12}},
    "decoders": {"all": {"name": "unmask"}, "few": {"name": "unmask", "passes": 12}},
    "metrics": {"bleu": {"name": "bleu"}},
    "training": {"updates": 1},
}


def problems(tmp_path, **changes):
    suite = {**deepcopy(SUITE), **changes}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(suite, sort_keys=False))
    try:
        load(path)
    except BenchError as error:
        return str(error)
    return ""


def line_of(tmp_path, key):
    """Return the line of the first `key` in the suite."""
    lines = (tmp_path / "suite.yaml").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(f"{key}:"))


def test_a_suite_that_fits_has_no_problems(tmp_path):
    assert problems(tmp_path) == ""


@pytest.mark.parametrize("decoder", ["unmask", "mask-predict"])
def test_more_passes_than_places_are_a_problem_of_the_decoder(tmp_path, decoder):
    text = problems(tmp_path, decoders={"many": {"name": decoder, "passes": 13}})
    assert f"suite.yaml:{line_of(tmp_path, 'passes')}:" in text
    assert "13 passes cannot write the 12 places of 'masked': each pass writes at least one place." in text


def test_skipped_pairs_have_no_problem(tmp_path):
    decoders = {**SUITE["decoders"], "many": {"name": "unmask", "passes": 13}}
    assert problems(tmp_path, decoders=decoders, skip=[{"model": "masked", "decoder": "many"}]) == ""
    other = problems(tmp_path, decoders=decoders, skip=[{"model": "masked", "decoder": "few"}])
    assert "13 passes" in other


def test_a_canvas_without_places_of_its_own_has_no_problem(tmp_path):
    models = {"masked": {"name": "masked-diffusion"}}
    assert problems(tmp_path, models=models, decoders={"many": {"name": "unmask", "passes": 500}}) == ""


def test_targets_that_are_too_long_are_a_problem_of_the_model(tmp_path):
    text = problems(tmp_path, tasks={"invented": {"name": "translation", "longest": 12}})
    assert f"suite.yaml:{line_of(tmp_path, 'places')}:" in text
    assert "targets of 'invented' have up to 12 tokens (`longest`) and EOS; the canvas has 12 places." in text
    assert "Set `places` to 13 or more" in text
    by_task = {"masked": {"name": "masked-diffusion", "places": 12, "by_task": {"invented": {"places": 13}}}}
    assert problems(tmp_path, tasks={"invented": {"name": "translation", "longest": 12}}, models=by_task) == ""


@pytest.mark.parametrize(("prefix", "wrong"), [(11, False), (12, True), (13, True)])
def test_a_prompt_that_fills_the_canvas_is_a_problem_of_the_model(tmp_path, prefix, wrong):
    tasks = {"news": {"name": "sequence-completion", "corpus": "english", "prefix": prefix}}
    text = problems(tmp_path, tasks=tasks)
    assert (f"prompts of 'news' have {prefix} tokens (`prefix`) and fill the canvas of 12 places." in text) == wrong


@pytest.mark.parametrize("places", [5, 4, 3, None])
def test_targets_with_more_words_than_places_are_a_warning_that_names_an_example(tmp_path, places):
    texts = {7: "a b", 8: "a b c d", 9: "a b c"}
    task = Inspection(
        tmp_path,
        prompts={"test": lambda: [Prompt(number, "") for number in texts]},
        references={"test": lambda: [[text, "another reference of many words"] for text in texts.values()]},
    )
    inspection = Inspection(tmp_path, splits=["valid", "test"], tasks={"own": task})
    inspect(MaskedDiffusionConfig(places=places), inspection)
    if places in (5, None):
        assert inspection.warnings == []
        return
    (warning,) = inspection.warnings
    number = 1 if places == 4 else 2
    assert warning == (
        f"{number} of 3 targets in 'test' of own do not fit on a canvas of {places} places, such as example 8, with 4 "
        "words and EOS. They cannot be scored. Increase `places`."
    )
    assert inspection.problems == []
