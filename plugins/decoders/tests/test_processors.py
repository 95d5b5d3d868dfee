"""Processors: what they leave of a distribution, what they are given, and how suites name them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from pydantic import Field, ValidationError

import bench_core
from bench_authors.commands.schema import schema
from bench_authors.testing import Case, check_decoder, toys
from bench_core import STOP, PluginError, Rng, Stepper, SuiteError, hookimpl
from bench_core.planning.stage_maker import described
from bench_core.registry import configured, extra, installed, parts
from bench_core.suites.load import load
from bench_decoders.plugin import (
    BeamConfig,
    ConsistentNucleusConfig,
    ConsistentTopKConfig,
    GreedyConfig,
    MinPConfig,
    NucleusConfig,
    ProcessorConfig,
    StepwiseConfig,
    TemperatureConfig,
    TopKConfig,
    bench_decoders,
)
from bench_decoders.processing import ActionHistory, apply


class RepeatPenaltyConfig(ProcessorConfig):
    """Makes actions less probable for each time that their row has chosen them."""

    penalty: float = Field(ge=0)  #: nats for each time

    def process(self, log_probs, actions):
        counts = torch.zeros_like(log_probs)
        counts.scatter_add_(
            1, actions.clamp(max=log_probs.shape[1] - 1), torch.ones_like(actions, dtype=log_probs.dtype)
        )
        return log_probs - self.penalty * counts


class InPlaceConfig(ProcessorConfig):
    """Writes into what it is given, shifts all by a constant, and leaves stop out before the third action."""

    def process(self, log_probs, actions):
        if actions.shape[1] < 2:
            log_probs[:, STOP] = -torch.inf
        log_probs += 100
        actions.fill_(0)
        return log_probs


@pytest.fixture
def third():
    """Install the processors of this file as another plugin would bring them."""
    module = ModuleType("bench_third")
    module.bench_processors = hookimpl(lambda: [RepeatPenaltyConfig, InPlaceConfig], specname="bench_processors")
    with extra(module):
        yield


STEPWISE = [
    GreedyConfig(max_tokens=6),
    TemperatureConfig(max_tokens=6, temperature=1),
    TemperatureConfig(max_tokens=6, temperature=1.7),
    TopKConfig(max_tokens=6, k=3),
    NucleusConfig(max_tokens=6, mass=0.8),
    ConsistentTopKConfig(max_tokens=6, k=2, temperature=0.8),
    ConsistentNucleusConfig(max_tokens=6, mass=0.4),
]
CHAINS = {
    "min-p": [MinPConfig(share=0.3)],
    "repeat-penalty": [RepeatPenaltyConfig(penalty=1.5)],
    "in-place": [InPlaceConfig()],
    "several": [RepeatPenaltyConfig(penalty=2), MinPConfig(share=0.2)],
}
by_decoder = pytest.mark.parametrize("config", STEPWISE, ids=lambda config: config.name)
by_chain = pytest.mark.parametrize("chain", CHAINS.values(), ids=[*CHAINS])
by_model = pytest.mark.parametrize("kind", ["recurrent", "insertion"])


def with_chain(config, *chain):
    return config.model_copy(update={"processors": [*chain]})


def decode(config, model, rows, rng=3):
    return [found for (found,) in config.load()(config).decode(model, rows, Rng(rng))]


def logs(*rows):
    return torch.tensor(rows, dtype=torch.float64).log()


# min-p


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.5, 0.9, 1.0])
def test_min_p_leaves_the_actions_that_are_probable_enough_by_brute_force(share):
    draw = torch.Generator().manual_seed(7)
    log_probs = torch.randn(200, 6, generator=draw, dtype=torch.float64).mul(1.5).log_softmax(1)
    log_probs[::3, 2] = -torch.inf
    log_probs = log_probs.log_softmax(1)
    found = apply(MinPConfig(share=share), log_probs, torch.empty(200, 0), 0).exp().tolist()
    for row, left in zip(log_probs.exp().tolist(), found, strict=True):
        kept = [p if p >= share * max(row) else 0 for p in row]
        assert left == pytest.approx([p / sum(kept) for p in kept])


def test_min_p_draws_from_what_it_leaves(table, batch):
    rows = 4000
    config = with_chain(TemperatureConfig(max_tokens=1, temperature=1), MinPConfig(share=0.3))
    found = decode(config, table(lambda prefix: (0.1, 0.5, 0.25, 0.15)), batch(rows))
    counts = torch.tensor([(one.actions or [0])[0] for one in found]).bincount(minlength=4).tolist()
    assert counts[0] == 0
    for count, share in zip(counts[1:], (0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9), strict=True):
        assert abs(count / rows - share) <= 4 * math.sqrt(share * (1 - share) / rows)


def test_min_p_looks_at_the_distribution_after_the_temperature(table, batch):
    """.5, .3 and .2 become .66, .24 and .11 at temperature 0.5: a third of the best excludes the last alone before."""
    model = table(lambda prefix: (0, 0.5, 0.3, 0.2))
    for temperature, wanted in ((1, {1, 2, 3}), (0.5, {1, 2}), (0.4, {1})):
        config = with_chain(TemperatureConfig(max_tokens=1, temperature=temperature), MinPConfig(share=0.35))
        assert {one.actions[0] for one in decode(config, model, batch(300))} == wanted, temperature


@by_model
@pytest.mark.parametrize("config", STEPWISE[1:], ids=lambda config: config.name)
def test_a_share_next_to_nothing_changes_no_bit_of_sampling(request, batch, config, kind):
    model = request.getfixturevalue(kind)(vocabulary=7, seed=2)
    found = decode(with_chain(config, MinPConfig(share=1e-300)), model, batch(60))
    assert found == decode(config, model, batch(60))
    assert found != decode(with_chain(config, MinPConfig(share=0.5)), model, batch(60)), "the case must bite"


@by_model
@by_decoder
def test_a_share_of_one_is_greedy_choice(request, batch, config, kind):
    model = request.getfixturevalue(kind)(vocabulary=7, seed=2)
    greedy = decode(GreedyConfig(max_tokens=6), model, batch(60))
    assert decode(with_chain(config, MinPConfig(share=1)), model, batch(60)) == greedy


@pytest.mark.parametrize("share", [0, -0.1, 1.1, math.nan])
def test_a_share_without_a_meaning_is_refused(share):
    with pytest.raises(ValidationError, match="share"):
        MinPConfig(share=share)


# what processors are given, and what becomes of what they return


@pytest.mark.quick(2, 6)
@by_chain
@by_decoder
def test_decoders_with_processors_keep_the_contracts_with_every_model(config, chain):
    for toy in toys.bench_models():
        if Stepper in toy.capabilities:
            check_decoder(Case.of(toy(), with_chain(config, *chain)))


@pytest.mark.quick(7, 15)
@by_model
@by_chain
@by_decoder
def test_rows_have_their_own_history_when_others_leave(request, batch, config, chain, kind):
    limits = [1, 2, 6, 3, 2, 6, 1, 5, 4, 6, 3, 2]
    model = request.getfixturevalue(kind)(vocabulary=4, seed=3)
    rows, config = batch(12, limits, first=70), with_chain(config, *chain)
    together = decode(config, model, rows)
    assert [decode(config, model, rows.select(torch.tensor([row])))[0] for row in range(12)] == together
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    assert [decode(config, model, rows.select(order))[place] for place in order.argsort().tolist()] == together


@by_model
def test_a_processor_is_given_the_actions_of_every_row_so_far(request, batch, kind):
    seen = []

    class SpyConfig(ProcessorConfig):
        def process(self, log_probs, actions):
            seen.append(actions.tolist())
            return log_probs

    model = request.getfixturevalue(kind)(vocabulary=5, seed=3)
    config = with_chain(TemperatureConfig(max_tokens=7, temperature=1), SpyConfig())
    found = decode(config, model, batch(40))
    chains = [one.actions + [STOP] * one.finished for one in found]
    for step, rows in enumerate(seen):
        assert rows == [chain[:step] for chain in chains if len(chain) > step]
    assert len(seen) == max(map(len, chains))
    assert len({len(rows) for rows in seen}) > 3, "rows must leave"


def test_history_follows_the_rows_that_are_left():
    history, ids = ActionHistory(), torch.tensor([7, 3, 9, 5])
    assert history.of(ids).shape == (4, 0)
    history.add(ids, torch.tensor([1, 2, 3, 4]))
    history.add(ids[[0, 2, 3]], torch.tensor([5, 6, 7]))
    assert history.of(ids[[2, 3]]).tolist() == [[3, 6], [4, 7]]


def test_the_order_of_a_list_is_the_order_of_application(table, batch):
    class NoBestConfig(ProcessorConfig):
        def process(self, log_probs, actions):
            return log_probs.scatter(1, log_probs.argmax(1, keepdim=True), -torch.inf)

    model = table(lambda prefix: (0, 0.5, 0.3, 0.2))
    for chain, wanted in (
        ([NoBestConfig(), MinPConfig(share=0.5)], {2, 3}),
        ([MinPConfig(share=0.5), NoBestConfig()], {2}),
    ):
        found = decode(with_chain(TemperatureConfig(max_tokens=1, temperature=1), *chain), model, batch(200))
        assert {one.actions[0] for one in found} == wanted


def test_a_processor_is_given_normalised_log_probabilities():
    class CheckConfig(ProcessorConfig):
        def process(self, log_probs, actions):
            torch.testing.assert_close(log_probs.logsumexp(1), torch.zeros(2, dtype=torch.float64))
            return log_probs

    log_probs = logs((0.1, 0.6, 0.3), (0.4, 0.3, 0.3))
    for processor in (MinPConfig(share=0.6), InPlaceConfig(), CheckConfig()):
        log_probs = apply(processor, log_probs, torch.empty(2, 0), 0)
    assert log_probs[0].tolist() == [-math.inf, 0, -math.inf]


def test_what_was_impossible_stays_impossible():
    class AllEqualConfig(ProcessorConfig):
        def process(self, log_probs, actions):
            return torch.zeros_like(log_probs)

    found = apply(AllEqualConfig(), logs((0, 0.9, 0.1), (0.8, 0.2, 0)), torch.empty(2, 0), 0)
    assert found.exp().tolist() == [pytest.approx([0, 0.5, 0.5]), pytest.approx([0.5, 0.5, 0])]


def test_rows_that_a_processor_leaves_alone_keep_their_bits_whatever_happens_to_others():
    log_probs = torch.randn(5, 300, generator=torch.Generator().manual_seed(0)).mul(3).log_softmax(1)
    log_probs[:2] = torch.zeros(2, 300).log_softmax(1)
    found = apply(MinPConfig(share=0.5), log_probs, torch.empty(5, 0), 0)
    assert torch.equal(found[:2], log_probs[:2])
    assert found[2:].isinf().any(1).all()


def test_the_log_probability_of_a_hypothesis_is_the_models_own_though_a_processor_writes_into_it(recurrent, batch):
    config = with_chain(GreedyConfig(max_tokens=4), InPlaceConfig())
    for row, found in enumerate(decode(config, recurrent(seed=1), batch(9))):
        assert len(found.actions) >= 2, "stop was left out twice"
        model, total = recurrent(seed=1), 0.0
        log_probs, state = model.start(batch(1, first=row))
        for action in found.actions + [STOP] * found.finished:
            total += log_probs[0, action].item()
            log_probs, state = model.step(state, torch.tensor([action])) if action else (log_probs, state)
        assert found.log_prob == pytest.approx(total)


class BrokenConfig(ProcessorConfig):
    returns: str

    def process(self, log_probs, actions):
        if len(actions[0]) < 2:
            return log_probs
        closed = torch.full_like(log_probs, -torch.inf)
        return {
            "nothing": torch.where(torch.arange(len(actions))[:, None] > 0, log_probs, closed),
            "nan": log_probs.masked_fill(log_probs < -1, torch.nan),
            "infinity": torch.full_like(log_probs, torch.inf),
            "shape": log_probs[:, 1:],
            "whole numbers": log_probs.int(),
            "list": log_probs.tolist(),
        }[self.returns]


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ("nothing", "excluded every action of a row"),
        ("nan", "returned NaN or infinity"),
        ("infinity", "returned NaN or infinity"),
        ("shape", r"returned torch.float64 \[\d+, 2\], not log-probabilities of shape \[\d+, 3\]"),
        ("whole numbers", "returned torch.int32"),
        ("list", "returned a list"),
    ],
)
@pytest.mark.parametrize("config", STEPWISE[:2], ids=lambda config: config.name)
def test_a_processor_that_returns_no_distribution_is_an_error_with_its_name_and_step(
    table, batch, config, returns, message
):
    model = table(lambda prefix: (0.05, 0.9, 0.05))
    with pytest.raises(PluginError, match=rf"processor 'broken' \(.*BrokenConfig.process\) {message}.* step 3"):
        decode(with_chain(config, BrokenConfig(returns=returns)), model, batch(50))


# suites

FOUND = {"argmax: {name: argmax}": "argmax: {name: greedy, processors: %s}"}


def written(text):
    return {old: new % text for old, new in FOUND.items()}


def test_a_suite_names_processors_by_words_and_mappings(suite_file, third):
    suite = load(suite_file(**written("[min-p, {name: min-p, share: 0.5}, {name: repeat-penalty, penalty: 2}]")))
    assert suite.decoders["argmax"].processors == [
        MinPConfig(share=0.1), MinPConfig(share=0.5), RepeatPenaltyConfig(penalty=2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "mark", "message"),
    [
        ("[min-q]", "min-q", "no processor is called 'min-q'. Did you mean 'min-p'"),
        ("[min-p, {name: min-q, share: 0.1}]", "name: min-q", "no processor is called 'min-q'. Did you mean 'min-p'"),
        ("[{name: min-p, shar: 0.1}]", "shar:", "'shar': unknown key. Did you mean 'share'"),
        ("[{name: min-p, share: 2}]", "share", "'share' must be at most 1 (found 2)"),
        ("[min-p, {name: repeat-penalty}]", "{name: rep", "the key 'penalty' is missing"),
        ("[{share: 0.1}]", "{share", "expected a name or a mapping with `name`, such as `{name: min-p"),
        ("[7]", "7]", "expected a name or a mapping with `name`, such as `{name: min-p"),
        ("min-p", "processors", "'processors' must be a list (found 'min-p')"),
    ],
)
def test_a_wrong_processor_is_reported_with_its_place(suite_file, third, text, mark, message):
    path = suite_file(**written(text))
    ((number, line),) = ((n, line) for n, line in enumerate(path.read_text().splitlines(), 1) if "greedy" in line)
    with pytest.raises(SuiteError) as error:
        load(path)
    (told,) = str(error.value).splitlines()
    assert message in told
    assert told.startswith(f"{path}:{number}:{line.index(mark) + 1}: ")


def test_two_wrong_keys_of_a_processor_are_reported_together(suite_file):
    with pytest.raises(SuiteError, match=r"'shar'.*\n.*'least'.*\n2 problems"):
        load(suite_file(**written("[{name: min-p, shar: 0.1, least: 3}]")))


@by_chain
@by_decoder
def test_settings_with_processors_survive_json(third, config, chain):
    config = with_chain(config, *chain)
    settings = json.loads(json.dumps(described(config)))
    assert configured("decoder", settings) == config
    assert settings["processors"] == [described(one) for one in chain]
    assert type(config)(**config.model_dump()) == config


def test_processors_are_in_the_schema_of_suites(third):
    jsonschema = pytest.importorskip("jsonschema")
    whole = schema()

    def fits(processors):
        decoders = {"d": {"name": "greedy", "processors": processors}}
        rules = {**whole, "properties": {"decoders": whole["properties"]["decoders"]}, "required": []}
        return jsonschema.Draft202012Validator(rules).is_valid({"decoders": decoders})

    good = ["min-p", {"name": "min-p"}, {"name": "min-p", "share": 0.5}, {"name": "repeat-penalty", "penalty": 1}]
    assert fits([])
    assert all(fits([one]) for one in good)
    assert fits(good)
    bad = [
        "min-q", "repeat-penalty", {"name": "min-q"}, {"name": "min-p", "shar": 1}, {"name": "min-p", "share": 2},
        {"share": 0.5}, {"name": "repeat-penalty"}, 7,
    ]  # fmt: skip
    assert not any(fits([one]) for one in bad)


@pytest.mark.slow
def test_a_processor_of_another_plugin_runs_in_a_suite(suite_file, tmp_path, third):
    path = suite_file(**written("[{name: repeat-penalty, penalty: 9}, in-place]"))
    run = bench_core.run(path, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs", seeds=1)
    assert {(cell.status, cell.reason) for cell in run.cells} == {("done", "")}
    for cell in run.cells:
        if cell.cell["decoder"] == "argmax":
            outputs = json.loads((tmp_path / "store/decode" / cell.artifacts["decode"] / "samples.json").read_text())
            assert all(len(one["text"]) >= 2 for one in outputs), "stop was left out twice"


def test_the_processor_of_the_readme_does_what_it_says(recurrent, batch):
    page = (Path(__file__).parents[1] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    module = ModuleType("bench_readme")
    exec(compile(code, "README.md", "exec", dont_inherit=True), vars(module))
    with extra(module):
        rows, settings = batch(60), {"max_tokens": 9, "temperature": 1}
        free, held = (
            decode(TemperatureConfig(**settings, processors=chain), recurrent(seed=1), rows)
            for chain in ([], [{"name": "least-actions", "number": 4}])
        )
    assert min(len(one.actions) for one in free) < 4 == min(len(one.actions) for one in held)


@pytest.mark.slow
def test_a_processor_that_fails_fails_its_cells_with_its_name(suite_file, tmp_path):
    module = ModuleType("bench_fourth")
    module.bench_processors = hookimpl(lambda: [BrokenConfig], specname="bench_processors")
    with extra(module):
        path = suite_file(**written("[{name: broken, returns: infinity}]"))
        run = bench_core.run(path, data=tmp_path, store=tmp_path / "store", out=tmp_path / "runs", seeds=1)
    reasons = {cell.reason for cell in run.cells if cell.cell["decoder"] == "argmax"}
    assert reasons
    assert all("processor 'broken'" in reason and "at step 3" in reason for reason in reasons)


def test_a_processor_of_two_plugins_is_refused_where_it_is_used_with_both():
    module = ModuleType("bench_fifth")
    module.bench_processors = hookimpl(lambda: [MinPConfig], specname="bench_processors")
    with extra(module):
        with pytest.raises(ValidationError, match=r"processor 'min-p' is provided by .* Write .*'bench_fifth/min-p'"):
            TopKConfig(k=2, processors=["min-p"])
        chosen = TopKConfig(k=2, processors=["bench_fifth/min-p", {"name": "bench-decoders/min-p", "share": 0.5}])
        assert [one.name for one in chosen.processors] == ["min-p", "min-p"]


def test_a_processor_of_another_plugin_is_gone_with_it(third):
    assert [*parts("processor")] == ["in-place", "min-p", "repeat-penalty"]
    assert parts("processor")["in-place"].distribution == "bench_third"


def test_decoders_that_choose_step_by_step_take_processors_and_others_do_not():
    taking = {config.name for config in bench_decoders() if "processors" in config.model_fields}
    assert taking == {config.name for config in STEPWISE}
    assert all(issubclass(type(config), StepwiseConfig) for config in STEPWISE)
    with pytest.raises(ValidationError):
        BeamConfig(processors=["min-p"])


def test_a_processor_takes_its_name_from_its_class():
    assert (MinPConfig.name, RepeatPenaltyConfig.name) == ("min-p", "repeat-penalty")
    assert "bench-decoders" not in installed().broken


def test_processors_import_no_torch():
    code = "import sys, bench_decoders.plugin as p; p.MinPConfig(); assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
