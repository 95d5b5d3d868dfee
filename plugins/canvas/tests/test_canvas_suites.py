"""The shipped suite of canvases, in every profile."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from bench_canvas.plugin import MaskedDiffusionConfig, MaskPredictConfig, UnmaskConfig
from bench_core.suites import yaml_source
from bench_core.suites.cells import cells_of
from bench_core.suites.load import load as loaded
from bench_reports.language.of_suite import language

PATH = Path(__file__).parents[3] / "suites" / "canvas" / "passes.yaml"
PROFILES = [*yaml_source.read(PATH).data["profiles"]]
MASKED = {"by-confidence", "at-random", "from-left", "rewriting"}
load = cache(loaded)
by_profile = pytest.mark.parametrize("profile", PROFILES)


@by_profile
def test_rows_of_masked_diffusion_are_trained_once(profile):
    suite = load(PATH, profile)
    for task in suite.tasks:
        entries = [suite.models[name].at(task) for name in MASKED]
        assert isinstance(entries[0].config, MaskedDiffusionConfig)
        assert all((entry.config, entry.training) == (entries[0].config, entries[0].training) for entry in entries)


@by_profile
def test_every_model_is_decoded_by_decoders_of_its_own(profile):
    suite = load(PATH, profile)
    decoders = {name: {cell.decoder for cell in cells_of(suite) if cell.model == name} for name in suite.models}
    orders = {"by-confidence": "confidence", "at-random": "random", "from-left": "left"}
    for name, order in orders.items():
        configs = [suite.decoders[decoder] for decoder in decoders[name]]
        assert {(type(config), config.order) for config in configs} == {(UnmaskConfig, order)}
        assert {config.passes for config in configs} == {1, 2, 4, 8, 16, None}
    assert {type(suite.decoders[decoder]) for decoder in decoders["rewriting"]} == {MaskPredictConfig}
    assert sum(map(len, decoders.values())) == len(suite.decoders), "no decoder belongs to two models"


@by_profile
def test_models_have_the_same_layers_and_updates(profile):
    suite = load(PATH, profile)
    names = ("d_model", "heads", "layers", "feed_forward", "dropout")
    sizes = {tuple(getattr(entry.config, name) for name in names) for entry in suite.models.values()}
    assert len(sizes) == 1
    assert len({(entry.training.updates, entry.training.batch_size) for entry in suite.models.values()}) == 1


@by_profile
def test_the_figure_shows_quality_against_passes_on_a_log_axis(profile):
    (figure,) = (figure for figure in language(load(PATH, profile)).figures if figure.id == "by-passes")
    assert (figure.x, figure.y, figure.by) == ("passes", "bleu", ("model",))
    assert figure.scale.x == "log"


def test_small_has_three_seeds():
    assert len(load(PATH, "small").seeds) == 3
