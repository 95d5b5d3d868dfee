"""How many seeds comparisons would need: what is shown of a run, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from bench_small.runs import run_of, sampled

from bench_core.errors import SuiteError
from bench_reports.content.power_table import power_rows


def pilot(tmp_path, seeds=5, spread=0.5, examples=2_000, scale="linear"):
    """Return a run of three models whose trainings differ by `spread`, on easy examples."""
    samples = {}
    for place, (name, mean) in enumerate({"a": 5.0, "b": 5.5, "c": 9.0}.items()):
        dice = np.random.default_rng(place)
        samples[name] = [
            (mean + spread * dice.normal() + 0.1 * dice.normal(size=examples)).tolist() for _ in range(seeds)
        ]
    cells = sampled(tmp_path, samples, scale=scale)
    return run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, names=["a", "b", "c"])


def test_smaller_differences_need_more_seeds_and_more_seeds_find_smaller_ones(tmp_path):
    run = pilot(tmp_path)
    needed = [max(row["needed"] for row in power_rows(run, 5, {"rate": apart})) for apart in (0.3, 1.0, 3.0)]
    assert needed[0] > needed[1] > needed[2] >= 2
    found = [power_rows(run, seeds, {})[0]["would find"] for seeds in (2, 3, 10, 100)]
    assert found == sorted(found, reverse=True)


def test_without_a_difference_that_which_was_seen_is_taken(tmp_path):
    rows = power_rows(pilot(tmp_path), 5, {})
    assert [(row["A"], row["B"], row["pilot"]) for row in rows] == [("a", "b", 5), ("a", "c", 5)]
    assert rows[1]["difference"] == pytest.approx(4, abs=1)
    assert rows[1]["needed"] < 5 < rows[0]["needed"]


@pytest.mark.slow
def test_the_number_that_is_needed_would_find_the_difference(tmp_path):
    run = pilot(tmp_path, seeds=30)
    needed = power_rows(run, 5, {"rate": 0.4})[0]["needed"]
    assert power_rows(run, needed, {})[0]["would find"] == pytest.approx(0.4, rel=0.08)


def test_of_perplexities_a_difference_is_a_ratio(tmp_path):
    run = pilot(tmp_path, scale="log")
    row = power_rows(run, 5, {"rate": 1.1})[0]
    assert row["difference"] == pytest.approx(1.1)
    assert row["would find"] > 1
    assert power_rows(run, 5, {"rate": 1 / 1.1})[0]["needed"] == row["needed"]
    with pytest.raises(SuiteError, match=r"compared by ratio: use a ratio such as rate=1\.05, not -1"):
        power_rows(run, 5, {"rate": -1.0})


def test_too_few_examples_are_not_made_up_for_by_seeds(tmp_path):
    dice = np.random.default_rng(0)
    hard = {name: [(mean + dice.normal(size=10)).tolist() for _ in range(3)] for name, mean in (("a", 5), ("b", 6))}
    cells = sampled(tmp_path, {name: [seeds[0]] * 3 for name, seeds in hard.items()})
    run = run_of(tmp_path, cells, {"rows": ["model"], "columns": []}, names=["a", "b"])
    assert power_rows(run, 5, {"rate": 0.05})[0]["needed"] is None


def test_a_pilot_of_one_seed_and_metrics_without_a_table_are_refused(tmp_path):
    with pytest.raises(SuiteError, match="the training variance is unknown"):
        power_rows(pilot(tmp_path, seeds=1), 5, {})
    with pytest.raises(SuiteError, match=r"no table of .* has the metric 'rte'\. Did you mean 'rate'"):
        power_rows(pilot(tmp_path), 5, {"rte": 1.0})


def test_the_command_tells_it_for_the_seeds_of_a_suite(suite_file, tmp_path, small):
    import json

    from bench_small.suites import SUITE
    from click.testing import CliRunner

    import bench_core
    from bench_core.commands.main import bench as cli

    path = suite_file(SUITE.replace("rows: [decoder], columns: [model]", "rows: [model, decoder]"))
    run = bench_core.run(path, store=tmp_path / "store", out=tmp_path / "runs").folder
    words = ["plan", str(path), "--power", str(run), "--store", str(tmp_path / "store")]
    done = CliRunner().invoke(cli, [*words, "--difference", "ended=5", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert {row["metric"] for row in rows} >= {"ended"}
    assert all(row["difference"] == 5 for row in rows if row["metric"] == "ended")
    text = CliRunner().invoke(cli, words)
    assert "would find: the difference detectable with the 2 seeds of this suite." in text.output
    wrong = CliRunner().invoke(cli, [*words, "--difference", "ended"])
    assert wrong.exit_code == 2
    assert "'ended' is not a metric with a difference, such as bleu=0.5." in wrong.output
