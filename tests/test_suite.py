"""Suites: what is right is resolved, what is wrong is told at once, with its place."""

from __future__ import annotations

import re

import pytest
from bench_small.suites import SUITE

from bench_core.errors import SuiteError
from bench_core.suites import yaml_source as located
from bench_core.suites.load import load
from bench_reports.language.of_suite import language
from placed_settings import Located


def mistakes(path, **options):
    with pytest.raises(SuiteError) as error:
        load(path, **options)
    return str(error.value).replace(str(path), "S")


def test_the_small_suite_is_resolved(suite_file):
    suite = load(suite_file())
    assert suite.models["two"].config.scale == 2.0
    assert suite.models["two"].training.epochs == 3
    assert suite.decoders["draw"].max_tokens == 6
    assert suite.metrics["ended"].most == 6
    assert suite.seeds == [0, 1]


@pytest.mark.parametrize(("word", "precision"), [("float32", "fp32"), ("bfloat16", "bf16"), ("float16", "fp16")])
def test_a_precision_goes_by_the_names_of_torch_too(suite_file, word, precision):
    suite = load(suite_file(), settings=[f"hardware.precision={word}"])
    assert (
        suite.hardware["default"]
        == load(suite_file(), settings=[f"hardware.precision={precision}"]).hardware["default"]
    )
    assert suite.hardware["default"].precision == precision


def test_limits_fill_what_a_part_leaves_open_and_nothing_else(suite_file):
    suite = load(suite_file(**{"draw: {name: draw}": "draw: {name: draw, max_tokens: 3}"}))
    assert (suite.decoders["argmax"].max_tokens, suite.decoders["draw"].max_tokens) == (6, 3)
    suite = load(suite_file(**{"limits: {max_tokens: 6}": "limits: {}"}))
    assert suite.decoders["argmax"].max_tokens == suite.limits.max_tokens == 1000


def test_a_profile_is_laid_over_and_named(suite_file):
    suite = load(suite_file(), "tiny")
    assert (suite.label, suite.seeds, suite.tasks["words"].words) == ("tests/small-tiny", [0], 12)
    assert suite.models["one"].training.epochs == 1
    assert suite.models["one"].training.lr == 0.1
    assert "profiles" not in suite.effective


def test_a_profile_takes_a_part_away_by_null(suite_file):
    text = SUITE + "  less: {models: {two: null}}\n"
    assert list(load(suite_file(text), "less").models) == ["one"]


def test_an_overlay_that_names_a_part_declares_it_anew(suite_file):
    text = SUITE + "  other: {models: {two: {name: bigram, noisy: true}, one: {noisy: true}}}\n"
    suite = load(suite_file(text), "other")
    assert (suite.models["two"].config.scale, suite.models["two"].config.noisy) == (0.1, True)
    assert suite.models["one"].config.noisy
    assert load(suite_file(), settings=["models.two={name: bigram}"]).models["two"].config.scale == 0.1


def test_an_overlay_that_says_its_kind_is_declared_anew(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("tokenizer: {kind: word, most_words: 9}\nother: {tokenizer: {kind: bpe, vocab_size: 300}}\n")
    source = located.read(path)
    source.overlay(source.data["other"], ("other",))
    assert source.data["tokenizer"] == {"kind": "bpe", "vocab_size": 300}


def test_a_suite_knows_which_keys_were_set(suite_file):
    assert load(suite_file(), settings=["models.one.scale=1e-3", "seeds=2"]).changes == ["models.one.scale", "seeds"]


def test_settings_reach_into_keys_with_dots(suite_file):
    text = SUITE.replace("draw: {name: draw}", "draw-0.5: {name: draw}")
    suite = load(suite_file(text), settings=["decoders.draw-0.5.max_tokens=2", "models.one.scale=1e-3"], seeds=3)
    assert suite.decoders["draw-0.5"].max_tokens == 2
    assert suite.models["one"].config.scale == 0.001
    assert suite.seeds == [0, 1, 2]


def test_a_model_may_train_its_own_way(suite_file):
    text = {"two: {name: bigram, scale: 2.0}": "two: {name: bigram, training: {lr: 1e-2, select: {split: train}}}"}
    plan = load(suite_file(**text)).models["two"].training
    assert (plan.lr, plan.epochs, plan.select.split, plan.select.metric) == (0.01, 3, "train", "nats")


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(suite_file):
    text = """
    suite: a
    titel: A
    tasks: {w: {name: lettres}, v: {name: letters, words: none}}
    models: {one: {name: bigram, sclae: 1}, two: {scale: 1}}
    decoders: {d: {name: draw, max_tokens: 0}}
    metrics: {m: {name: ended}}
    training: {lr: -1, optimiser: adam}
    seeds: [1, 1]
    tables: [{id: t, rows: [decoders], values: []}]
    """
    lines = mistakes(suite_file(text)).splitlines()
    assert [line.split(": ")[0] for line in lines[:-1]] == [
        "S:3:1",
        "S:4:13",
        "S:4:48",
        "S:5:30",
        "S:5:41",
        "S:6:28",
        "S:8:12",
        "S:8:20",
        "S:9:1",
        "S:10:25",
        "S:10:36",
    ]
    assert lines[-1] == "11 problems."
    assert "Did you mean 'title'" in lines[0]
    assert "Did you mean 'letters'" in lines[1]
    assert "Did you mean 'scale'" in lines[3]
    assert "Did you mean 'optimizer'" in lines[7]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: argmax", "name: argmx", "S:10:12: no decoder is called 'argmx'. Did you mean 'argmax'"),
        ("values: [ended", "values: [endde", "no metric of this suite is called 'endde'. Did you mean 'ended'"),
        ("rows: [decoder]", "rows: []", "table 'main' does not say which decoder: argmax, draw."),
        ("rows: [decoder]", "rows: [seed]", "average over seeds"),
        ("rows: [decoder]", "rows: [decoder, model]", "an axis can occur only once in rows and columns"),
        ("{metric: nats}", "{metric: natz}", "no metric of this suite is called 'natz'"),
        ("{metric: nats}", "{metric: nats, decoder: drow}", "no decoder of this suite is called 'drow'"),
        ("seeds: 2", "seeds: 0", "S:16:1: 'seeds' must be greater than 0 (found 0)"),
        ("threads: 1", "threads: 1, gpu: 3", "unknown key 'gpu'"),
        ("suite: tests/small", "suite: ../escape", "S:2:1: 'suite'"),
        (
            "limits: {max_tokens: 6}",
            "limits: {max_tokens: 6}\nskip: [{model: tow}]",
            "no model of this suite is called 'tow'",
        ),
        ("max_tokens: 6", "max_tokens: six", "'max_tokens'"),
        ("seeds: 2", "seeds: 2\nseeds: 3", "the key 'seeds' appears twice"),
        ("title: Small", "title: [Small", "invalid YAML"),
        ("id: main", "id: main, reference: {table: nowhere}", "no published table has the id 'nowhere'"),
        ("lr: 0.1", "lr: .inf", "'lr'"),
        ("lr: 0.1", "lr: 0.1, schedule: inverse-sqrt", "needs `warmup`"),
        ("title: Small", "labels: {tow: Second}", "S:3:10: unknown name 'tow'. Did you mean 'two'"),
        ("id: main", "id: main, labels: {neds: Ended}", "unknown name 'neds'"),
        ("id: main", "id: main, digits: {endde: 3}", "this table has no value 'endde'. Did you mean 'ended'"),
        ("id: main", "id: main, digits: -1", "'digits'"),
        ("id: main", "id: main, width: narrow", "'width'"),
        ("id: main", "id: main, spread: all", "'spread'"),
        ("id: main", "id: main, differences: true", "`differences` need a `baseline`, the name of a row"),
        (
            "  - {id: main,",
            "  - {id: main, pairs: true, rows: [decoder], columns: [model], values: [ended]}\n  - {id: main-pairs,",
            "S:21:6: the id 'main-pairs' is reserved for the pairs of another table",
        ),
        ("id: main", "id: main, baseline: drow", "no row of this table is called 'drow'. Did you mean 'draw'"),
    ],
)
def test_a_mistake_is_told_with_place_and_remedy(suite_file, old, new, message):
    assert message in mistakes(suite_file(**{old: new}))


def test_labels_may_name_parts_axes_rows_columns_and_what_a_profile_takes_away(suite_file):
    labels = "{one: First, argmax: Greedy, ended: Ended, words: W, test: T, decoder: Search, one/nats: Nats}"
    path = suite_file(**{"title: Small": f"labels: {labels}", "tiny: {seeds": "tiny: {models: {one: null}, seeds"})
    assert load(path, "tiny").labels["one"] == load(path).labels["one"] == "First"
    assert "unknown name 'one/draw'" in mistakes(suite_file(**{"title: Small": "labels: {one/draw: x}"}))


def test_unknown_profiles_and_settings_are_refused(suite_file):
    assert "no profile 'tny'. Did you mean 'tiny'" in mistakes(suite_file(), profile="tny")
    assert "expected KEY.KEY=VALUE" in mistakes(suite_file(), settings=["seeds"])
    assert "--set models.one.scal: unknown key 'scal'" in mistakes(suite_file(), settings=["models.one.scal=1"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("models.one.scale=", "--set models.one.scale: 'scale' must be a number"),
        ("models..scale=1", "--set models..scale=1: expected KEY.KEY=VALUE"),
        ("mod\x1bels=1", r"--set 'mod\x1bels=1': expected KEY.KEY=VALUE"),
        ("m" * 500 + "=1", f"--set {'m' * 100} …: unknown key"),
        ("models.one.scale=1\nseeds: 3", "--set models.one.scale: expected one value, found several keys"),
        ("models.one.scale=[1", "--set models.one.scale:1:10: invalid YAML"),
        ("splits.0=test", "set lists as a whole, such as --set 'splits=[valid, test]'"),
        ("seeds=1000000000000", "at most 100,000 seeds are possible"),
        ("limits.max_tokens=0x" + "f" * 5000, "--set limits.max_tokens:1:8: integers must be at most"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_a_line(suite_file, setting, message):
    told = mistakes(suite_file(SUITE + "splits: [test]\n"), settings=[setting])
    assert message in told
    assert len(told) < 1000


def test_a_list_is_set_as_a_whole(suite_file):
    text = SUITE + "splits: [test]\n"
    assert load(suite_file(text), settings=["splits=[valid]"]).splits == ["valid"]


def test_more_cells_than_can_be_planned_are_refused_before_they_are_made(suite_file):
    told = mistakes(suite_file(**{"scale: 2.0": f"grid: {{scale: {[*range(1000)]}}}"}), seeds=500)
    assert "S:6:1: a suite can have at most 250,000 cells" in told
    assert "this suite has 1,001 models x 2 decoders x 500 seeds" in told
    assert "at most 100,000 seeds" in mistakes(suite_file(), seeds=10**400)


def test_of_many_mistakes_the_first_are_told_and_none_at_length(suite_file):
    models = [f"m{number}: {{name: bigram, scale: {'x' * 2000}}}" for number in range(300)]
    lines = mistakes(
        suite_file(**{"one: {name: bigram}": "\n  ".join(["one: {name: bigram}", *models])})
    ).splitlines()
    assert lines[-1] == "300 problems, the first 100 shown."
    assert len(lines) == 101
    assert max(map(len, lines)) < 1000


def test_mistakes_in_a_profile_stand_at_their_own_place(suite_file):
    text = SUITE + "  wrong: {models: {one: {scale: big}}}\n"
    line = text.count("\n")
    assert f"S:{line}:26: 'scale'" in mistakes(suite_file(text), profile="wrong")


REFERENCES = """
paper: A paper
tables:
  - id: printed
    place: Table 1
    rows: {best: {first: {mean: 1.5, std: 0.1}}, random: {first: {mean: 2}}}
"""


def test_published_rows_must_be_mapped(suite_file, tmp_path):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.yaml").write_text(REFERENCES)
    table = "values: [ended], where: {model: one}, reference: {table: printed, rows: %s, columns: {first: %s}}"
    path = lambda rows, column="one": suite_file(  # noqa: E731
        SUITE.replace("values: [ended, nats]", table % (rows, column))
    )
    suite = load(path("{best: argmax, random: draw}"))
    assert language(suite).published["printed"].rows["best"]["first"].mean == 1.5
    assert "published 'random' must be mapped" in mistakes(path("{best: argmax}"))
    load(path("{best: argmax, random: null}"))
    assert "no row or column 'worst'" in mistakes(path("{best: argmax, random: draw, worst: draw}"))
    assert "published 'first' must be mapped" in mistakes(path("{best: argmax, random: draw}", "onne"))


def test_references_of_a_wrong_shape_are_refused_with_their_place(suite_file, tmp_path):
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "a.yaml").write_text(REFERENCES.replace("mean: 1.5", "mean: 1.5, sd: 3"))
    assert re.search(r"a\.yaml:6:\d+: ", mistakes(suite_file()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"", "expected a mapping"),
        (b"- a", "expected a mapping"),
        (b"a: !!python/object:os.system x", "tags such as"),
        (b"a: &x [*x]", "S"),
        (b"suite: 2001-01-01", "a date is not a valid value"),
        (b"? [a]\n: b", "expected text as a key"),
        (b"a: \x00", "invalid YAML"),
        (b"? {a: 1}\n: b", "expected text as a key"),
        (b"tasks: [{a: 1}]\nmodels: 3\nsuite: x", "S:1:1: 'tasks'"),
        (b"a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
         b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]", "too many values"),
        (b"a: 1\nb: {c: &x {d: *x}}", "S:2:8: invalid YAML: an alias inside its own anchor"),
        (b"a: &a\n  <<: *a\n  b: 1", "an alias inside its own anchor"),
        (b"a:\n  b: " + b"[" * 50 + b"]" * 50, "S:2:45: too many values or levels"),
        (b"a: " + b"[" * 10_000, "S:1:44: too many values or levels"),
        (b"a: 1\nb: !!int x", "S:2:4: invalid YAML: 'x' cannot be read as int"),
        (b"a: 1\nb: " + b"9" * 5000, "S:2:4: invalid YAML: '99999999999999999999' cannot be read as int"),
        (b"a: 0x" + b"f" * 5000, "S:1:4: integers must be at most 9,223,372,036,854,775,807"),
        (b"? 0x" + b"f" * 5000 + b"\n: 1", "integers must be at most 9,223,372,036,854,775,807"),
        (b"a: 1\nb: c\x1bd", "S:2:5: invalid YAML: '\\x1b' is an invalid character"),
        (b'a: 1\nb: "c\\0"', "S:2:4: '\\x00' is an invalid character"),
        (b'a: 1\nb: {"\\ud800": 1}', "S:2:5: '\\ud800' is an invalid character"),
        (b"1: a\n'1': b", "the key '1' appears twice"),
        (b"a" * (2**24 + 1), "larger than 16,777,216 bytes"),
    ],
)  # fmt: skip
def test_files_that_are_no_suites_are_refused(tmp_path, small, content, message):
    path = tmp_path / "suite.yaml"
    path.write_bytes(content)
    assert message in mistakes(path)


def test_yaml_is_read_by_the_rules_of_version_1_2(suite_file):
    suite = load(suite_file(**{"title: Small": "title: on"}), settings=["models.one.scale=1e-3", "seeds=[010]"])
    assert suite.title == "on"
    assert suite.seeds == [10]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1, 2\nb: 3\n", "S:2:2: invalid YAML: the `[` at 1:4 is not closed, or a comma is missing."),
        ("a: {b: 1\nc: 3\n", "invalid YAML: the `{` at 1:4 is not closed, or a comma is missing."),
        ("a: 'b\nc: 3\n", "invalid YAML: the quote at 1:4 is not closed."),
        ("a: b: c\n", "S:1:5: invalid YAML: a key with its `:` does not belong here."),
        ("a:\n\tb: 1\n", "S:2:1: invalid YAML: tab found. Indent with spaces."),
        ("a: @b\n", "S:1:4: invalid YAML: text cannot begin with @. Quote it."),
        ("a: *b\n", "S:1:4: invalid YAML: no anchor &b is defined before it."),
        ('a: "b\\qc"\n', "has no meaning after a backslash. Use single quotes."),
        ("a: 1\nb\nc: 2\n", "there is no key with a `:` at 2:1. Write `KEY: VALUE`, or indent it as text."),
        ("a:\n  b: 1\n c: 2\n", "S:3:2: invalid YAML: this line is not indented like the other entries"),
        (
            "a: 1\n---\nb: 2\n",
            "S:2:1: invalid YAML: `---` begins a second document. Keep only one document per file.",
        ),
    ],
)
def test_what_is_no_yaml_is_told_in_plain_words(tmp_path, content, message):
    path = tmp_path / "suite.yaml"
    path.write_text(content)
    told = mistakes(path)
    assert message in told
    assert not re.search("scanning|parsing|token|<block", told)


def test_values_that_cannot_be_read_do_not_hide_other_mistakes_and_are_told_once(suite_file):
    text = SUITE.replace("title: Small", "title: 2026-01-01").replace("scale: 2.0", "scale: !!int x")
    lines = mistakes(
        suite_file(text.replace("name: argmax", "name: argmx").replace("seeds: 2", "seeds: 0"))
    ).splitlines()
    assert [line.split(" ")[0] for line in lines[:-1]] == ["S:3:8:", "S:8:30:", "S:10:12:", "S:16:1:"]


@pytest.mark.parametrize(
    "text",
    [
        "a: !!int x\n",
        "a: 1\na: 2\n",
        "d: 2024-99-99\n",
        "a: &x {b: 1}\nc: {<<: *x, d: *x}\n",
        "%YAML 1.1\n---\nb: 010\n",
    ],
)
def test_a_text_that_is_read_again_has_the_same_values_and_problems_whatever_its_first_reader_changed(text):
    def read(path):
        try:
            return located.parse(text, path, tolerant=True)
        except SuiteError as error:
            return str(error)

    first = read("a.yaml")
    wanted = repr(first)
    if isinstance(first, Located):
        first.data.clear()
        first.problems.clear()
    assert repr(read("a.yaml")) == wanted
    assert repr(read("b.yaml")) == wanted.replace("a.yaml", "b.yaml")


@pytest.mark.parametrize("number", [0, 1001, "all"])
def test_the_number_of_samples_is_bounded(suite_file, number):
    assert re.search(r"S:\d+:\d+: .*samples", mistakes(suite_file(SUITE + f"samples: {number}\n")))
