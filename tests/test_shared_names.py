"""Two plugins that provide all of each other's names: every command works, and no key changes."""

from __future__ import annotations

import json
import re

import bench_small.plugin
import pytest
from bench_small.command_line import bench_here
from bench_small.elsewhere import in_others
from bench_small.suites import SUITE
from bench_small.twins import twin

import bench_core
from bench_core import SuiteError
from bench_core.planning.plan import plan
from bench_core.planning.stage_code import stage_code
from bench_core.registry import extra, kinds, meaning, part, parts
from bench_core.suites.load import load

ONE = SUITE.replace("  two: {name: bigram, scale: 2.0}\n", "").replace("seeds: 2", "seeds: 1")


def of(distribution, text=ONE):
    """Return a suite whose parts are all named with their distribution."""
    return text.replace("{name: ", f"{{name: {distribution}/")


@pytest.fixture
def both(small, tmp_path):
    """Have the small plugin and a twin of every installed part."""
    folder = tmp_path / "packages"
    folder.mkdir()
    with twin(folder) as module, extra(module):
        yield module


@pytest.fixture
def keys(tmp_path):
    """Return a function that returns the keys of a suite, sorted."""

    def of_text(text):
        path = tmp_path / "keys.yaml"
        path.write_text(text)
        return sorted(plan(load(path), tmp_path).stages)

    return of_text


def test_every_kind_has_names_that_two_plugins_share(both):
    for kind in kinds():
        names = [one.config.name for one in parts(kind).values()]
        assert not {*names} & {*parts(kind)}, "all are shared, so none is found without its distribution"
        for name, found in parts(kind).items():
            assert part(kind, name) is found
            assert name == found.whole_name
    assert len(kinds()) > 7


def test_keys_depend_neither_on_another_plugin_nor_on_how_parts_are_named(small, tmp_path, keys):
    plain = keys(ONE)
    assert keys(of("bench_small")) == plain
    assert keys(of("Bench.Small")) == plain, "names of distributions are compared as installers do"
    with twin(tmp_path, ["bench_small"]) as module:
        with extra(module):
            assert keys(of("bench_small")) == plain
            theirs = keys(of("bench_twin"))
        assert len(theirs) == len(plain)
        assert not {*theirs} & {*plain}


def test_the_keys_of_the_other_plugin_depend_on_no_presence_either(tmp_path, keys):
    with extra(bench_small.plugin), twin(tmp_path, ["bench_small"]) as module:
        with extra(module):
            theirs = keys(of("bench_twin"))
        module_alone = module
    with extra(bench_small.plugin):
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setitem(__import__("sys").modules, "bench_twin", module_alone)
        with extra(module_alone):
            assert keys(ONE) == theirs
            assert keys(of("bench_twin")) == theirs


def test_an_ambiguous_name_is_an_error_of_its_suite_with_its_line(both, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(of("bench_small").replace("{name: bench_small/argmax}", "{name: argmax}"))
    line = path.read_text().split("\n").index("  argmax: {name: argmax}") + 1
    found = bench_here("check", "suite.yaml", folder=tmp_path)
    assert found.returncode == 2
    said = "decoder 'argmax' is provided by bench_small and bench_twin. Write 'bench_small/argmax' or 'bench_twin/argmax'."
    assert f"suite.yaml:{line}:" in found.stderr
    assert said in " ".join(found.stderr.split())
    path.write_text(of("bench_small"))
    assert bench_here("check", "suite.yaml", folder=tmp_path).returncode == 0


def commands(run):
    """Return the words of every command that names no part, or names one with its distribution."""
    return [
        "list", "list models", "list --json", "schema", "store ls", "store verify", "runs ls", "doctor",
        "describe bench_small/bigram", "describe model bench_twin/bigram", "describe bench-metrics/bleu",
        "check suite.yaml", "check --build suite.yaml", "plan suite.yaml", "why suite.yaml",
        f"why {run}", f"show {run} model=one,decoder=argmax", f"outputs {run}", f"cite {run}", "cite suite.yaml",
        f"diff {run} decoder=argmax decoder=draw", f"report {run} --out again", f"verify {run}",
        f"export {run} -o there.zip", "import there.zip --store other --runs others",
        "score --references lines.txt lines.txt --metric bench-metrics/bleu", "new model another",
        "run suite.yaml --set models.one.name=bench_twin/bigram --only decoder=argmax --workers 0 --limit 2",
    ]  # fmt: skip


def expect_success(folder, words):
    found = bench_here(*words.split(), folder=folder)
    assert found.returncode == 0, f"bench {words}\n{found.stdout[-2000:]}\n{found.stderr[-2000:]}"
    return found.stdout


@pytest.mark.slow
def test_every_command_works_beside_a_plugin_with_all_names(both, tmp_path):
    (tmp_path / "suite.yaml").write_text(of("bench_small"))
    (tmp_path / "lines.txt").write_text("one line of words\nand another one\n")
    expect_success(tmp_path, "run suite.yaml --workers 0 --no-strict")
    (run,) = (tmp_path / "runs").iterdir()
    for words in commands(run.relative_to(tmp_path)):
        expect_success(tmp_path, words)


@pytest.mark.slow
def test_a_run_that_named_parts_alone_is_read_when_another_plugin_has_come(small, tmp_path):
    (tmp_path / "suite.yaml").write_text(ONE)
    expect_success(tmp_path, "run suite.yaml --workers 0 --no-strict")
    (run,) = (tmp_path / "runs").iterdir()
    name = run.relative_to(tmp_path)
    words = [
        f"show {name} model=one,decoder=argmax", f"cite {name}", f"diff {name} decoder=argmax decoder=draw",
        f"outputs {name}", f"verify {name}", f"report {name} --out again",
        f"export {name} -o there.zip", "import there.zip --store other --runs others",
    ]  # fmt: skip
    before = [expect_success(tmp_path, one) for one in words[:5]]
    with twin(tmp_path) as module, extra(module):
        assert [expect_success(tmp_path, one) for one in words[:5]] == before
        for one in words[5:]:
            said = expect_success(tmp_path, one)
            assert "no such part" not in said
        assert bench_here("run", "suite.yaml", folder=tmp_path).returncode == 2
        (tmp_path / "suite.yaml").write_text(of("bench_small"))
        assert "all stored, nothing computed" in expect_success(tmp_path, "run suite.yaml --workers 0")


def test_grids_profiles_settings_and_tasks_take_names_with_distributions(both, tmp_path):
    text = of("bench_small").replace(
        "  one: {name: bench_small/bigram}", "  one: {name: bench_twin/bigram, grid: {scale: [1.0, 2.0]}}"
    )
    text += "  other: {models: {one: {name: bench_small/bigram}}, decoders: {argmax: {name: bench_twin/argmax}}}\n"
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    suite = load(path)
    assert [*suite.models] == ["one/scale=1.0", "one/scale=2.0"]
    assert {type(one.config) for one in suite.models.values()} == {part("model", "bench_twin/bigram").config}
    changed = load(path, "other", ["metrics.ended.name=bench_twin/ended"])
    assert type(next(iter(changed.models.values())).config) is bench_small.plugin.BigramConfig
    assert type(changed.decoders["argmax"]) is part("decoder", "bench_twin/argmax").config
    assert type(changed.metrics["ended"]) is part("metric", "bench_twin/ended").config
    assert "bench_twin/ended" in json.dumps(changed.effective), "the name stands in runs as the suite has it"


def test_the_schema_has_each_name_that_a_suite_can_give(both, small):
    from bench_authors.commands.schema import schema

    text = json.dumps(schema())
    for kind in ("task", "model", "decoder", "metric", "probe", "processor"):
        for one in parts(kind).values():
            assert f'"{one.whole_name}"' in text
    assert '"bigram"' not in text


def test_the_schema_has_both_names_of_a_part_that_shares_none(small):
    from bench_authors.commands.schema import schema

    models = schema()["properties"]["models"]["additionalProperties"]["anyOf"]
    names = [one["properties"]["name"]["enum"] for one in models]
    assert ["bigram", "bench_small/bigram"] in names


def test_describe_lists_the_parts_that_share_a_name(both):
    found = bench_here("describe", "bigram")
    assert found.returncode == 2
    assert "Write 'bench_small/bigram' or 'bench_twin/bigram'" in found.stderr


def test_models_bring_probes_of_their_own_distribution(both, tmp_path):
    carrying = [one for one in parts("model").values() if one.config.probes and one.package == "bench_twin"]
    from bench_core.registry import name_beside

    for model in carrying:
        for probe in model.config.probes:
            assert name_beside("probe", probe, model.config) == f"bench_twin/{probe}"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bench-absent/bigram", "belongs to the distribution bench-absent, which is not installed. Install bench-absent. "
         "Or use 'bench_small/bigram', which is installed."),
        ("bench-absent/nothing", "belongs to the distribution bench-absent, which is not installed. Install bench-absent."),
        ("bench_small/bigrams", "bench_small provides no model called 'bigrams'. Did you mean 'bench_small/bigram'"),
        ("numpy/bigram", "numpy provides no model called 'bigram'."),
        ("/bigram", "no model is called '/bigram'. "),
    ],
)  # fmt: skip
def test_a_part_that_is_not_there_is_told_with_what_to_install(small, suite_file, name, told):
    path = suite_file(**{"one: {name: bigram}": f"one: {{name: {name}}}"})
    with pytest.raises(SuiteError, match=r"suite.yaml:7:\d+") as error:
        load(path)
    assert told in str(error.value)


def test_two_parts_of_one_name_cannot_take_part_in_one_stage(both, tmp_path, keys):
    text = of("bench_small").replace(
        "  argmax: {name: bench_small/argmax}",
        "  argmax: {name: bench-decoders/temperature, temperature: 1.0, processors: PROCESSORS}",
    )
    with pytest.raises(
        SuiteError,
        match="processors bench-decoders/min-p and bench_twin/min-p have the same name, and one stage uses both",
    ):
        keys(text.replace("PROCESSORS", "[{name: bench-decoders/min-p}, {name: bench_twin/min-p}]"))
    ours, theirs = (keys(text.replace("PROCESSORS", f"[{one}/min-p]")) for one in ("bench-decoders", "bench_twin"))
    assert len({*ours} - {*theirs}) > 0, "the code of the processor is in the keys"


def test_parts_of_one_name_and_different_kinds_have_their_code_in_a_key_each():
    class One(bench_core.Config):
        name = "alike"

    class Other(bench_core.Config):
        name = "alike"
        inner: One = One()

    class Whole(bench_core.MetricConfig):
        name, target = "whole", "bench_small.parts:Ended"
        first: One = One()
        second: Other = Other()

    found = stage_code("measure", [("metric", Whole())])
    assert sorted(found.roots) == [
        "inner alike",
        f"inner alike ({__name__}:{Other.__qualname__})",
        "measure",
        "metric whole",
    ]
    assert found.roots.keys() == found.code.keys()


def test_a_recorded_name_means_the_part_whose_root_is_recorded(both):
    for distribution in ("bench_small", "bench_twin"):
        wanted = part("model", f"{distribution}/bigram")
        with meaning([wanted.root]):
            assert part("model", "bigram") is wanted
    with pytest.raises(SuiteError, match="is provided by"):
        part("model", "bigram")


@pytest.mark.nightly
def test_both_plugins_take_part_in_one_suite_in_workers(small, tmp_path):
    """The twin of a metric gives what it is the twin of, and contracts are tried on the model of each."""
    text = of("bench_small").replace(
        "  one: {name: bench_small/bigram}", "  one: {name: bench_small/bigram}\n  two: {name: bench_second/bigram}"
    ).replace("epochs: 3", "epochs: 1")  # fmt: skip
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with (
        twin(tmp_path, ["bench_small"], "bench_second") as module,
        extra(module),
        in_others(tmp_path / "packages", bench_small.plugin),
        in_others(tmp_path / "twins", module),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PYTHONPATH", ":".join(map(str, [tmp_path, tmp_path / "packages", tmp_path / "twins", *SMALL])))
        found = bench_core.run(path, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs", workers=1)
        (run,) = (tmp_path / "runs").iterdir()
        expect_success(tmp_path, f"verify {run} --again")
    assert {(cell.status, cell.reason) for cell in found.cells} == {("done", "")}
    values = {(cell.cell["model"], cell.cell["decoder"]): cell.numbers["nats"].value for cell in found.cells}
    assert values["one", "argmax"] == values["two", "argmax"]


SMALL = [re.sub(r"bench_small/plugin.py$", "", str(bench_small.plugin.__file__))]
