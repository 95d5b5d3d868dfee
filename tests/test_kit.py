"""The kit derives what authors of parts do not write, and what they write keeps every contract."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from types import ModuleType

import bench_kit.model
import bench_kit.plugin as parts
import numpy as np
import pytest
import torch
from torch import nn

import bench_core
from bench_authors.testing import (
    Case,
    MetricCase,
    check_decoder,
    check_metric,
    check_model,
    tiny_batch,
    tiny_info,
    toys,
)
from bench_authors.testing.pretended import Pretended
from bench_core import (
    Kind,
    ModelConfig,
    PluginError,
    Prediction,
    Rng,
    Scorer,
    Source,
    State,
    Stepper,
    SuiteError,
    Training,
    Vmappable,
    hookimpl,
    registry,
)
from bench_core.kit import (
    Cache,
    ExampleMetricConfig,
    Head,
    LanguageModel,
    LanguageModelConfig,
    SourceStates,
)
from bench_decoders.plugin import BeamConfig, GreedyConfig, NucleusConfig, TemperatureConfig

BIGRAM, LSTM = parts.BigramConfig(size=8), parts.StackedLSTMConfig(size=6)
GPT, MINGRU = parts.SmallGPTConfig(size=8, layers=2, heads=2), parts.MinGRUConfig(size=8)
ATTENTIVE = parts.AttentiveConfig(size=8)
MODELS = [BIGRAM, LSTM, GPT, MINGRU, ATTENTIVE]
DECODERS = [
    GreedyConfig(max_tokens=5),
    BeamConfig(width=3, max_tokens=5),
    NucleusConfig(mass=0.7, max_tokens=5),
    parts.EpsilonGreedyConfig(max_tokens=5, epsilon=0.5),
    TemperatureConfig(temperature=2, processors=[parts.LikelyConfig(nats=1)], max_tokens=5),
]
SOURCES = [source for source in Source if source is not Source.NONE]
TRAINING = Training(0, 1, 0, 1, Rng(0))


def named(config):
    return config.name


@pytest.mark.quick(2)
@pytest.mark.parametrize("config", MODELS, ids=named)
def test_a_model_in_one_method_keeps_the_contracts(config):
    tried = check_model(Case.of(config))
    assert ("windows_of_a_stream_score_as_the_whole_does" in tried) == (config in (LSTM, MINGRU))


@pytest.mark.quick(11)
@pytest.mark.parametrize("decoder", DECODERS, ids=named)
@pytest.mark.parametrize("config", MODELS, ids=named)
def test_decoders_keep_the_contracts_with_it(config, decoder):
    check_decoder(Case.of(config, decoder))


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("config", MODELS, ids=named)
def test_it_keeps_the_contracts_on_a_gpu_that_is_pretended(config):
    with Pretended():
        check_model(Case.of(config, device="cuda"))
        check_decoder(Case.of(config, BeamConfig(width=3, max_tokens=5), device="cuda"))


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize("source", SOURCES)
def test_an_encoder_decoder_of_any_source_keeps_the_contracts(source):
    check_model(Case.of(parts.AnySourceConfig(), source=source))
    check_decoder(Case.of(parts.AnySourceConfig(), BeamConfig(width=3, max_tokens=5), source=source))


def test_a_metric_in_one_method_keeps_the_contracts():
    check_metric(MetricCase.of(parts.OverlapConfig()))


@pytest.mark.parametrize("model", [toys.ToyRecurrentConfig, toys.ToyEncoderDecoderConfig, toys.InsertionConfig])
def test_a_decoder_in_one_method_keeps_the_contracts(model):
    check_decoder(Case.of(model(), parts.EpsilonGreedyConfig(max_tokens=6)))


@pytest.mark.parametrize(
    ("cls", "most"),
    [
        (bench_kit.model.Bigram, 7),
        (bench_kit.model.StackedLSTM, 8),
        (bench_kit.model.SmallGPT, 14),
        (bench_kit.model.Attentive, 14),
        (parts.OverlapConfig, 5),
        (parts.LikelyConfig, 4),
    ],
)
def test_it_takes_no_more_lines(cls, most):
    """Of the body, without its docstring, comments and empty lines."""
    source = textwrap.dedent(inspect.getsource(cls)).replace(cls.__doc__, "")
    lines = [line for line in source.splitlines()[1:] if line.strip(' "') and not line.strip().startswith("#")]
    assert len(lines) <= most, "\n".join(lines)


def test_a_config_names_itself_and_its_class_unless_it_says_otherwise():
    assert (LSTM.name, LSTM.target) == ("stacked-lstm", "bench_kit.model:StackedLSTM")
    assert (GPT.name, parts.EpsilonGreedyConfig.name) == ("small-gpt", "epsilon-greedy")

    class Other(parts.SmallGPTConfig):
        name, target = "other", "elsewhere:Other"

    assert (Other.name, Other.target) == ("other", "elsewhere:Other")
    assert (Other.capabilities, Other.likelihoods) == ({Stepper, Scorer}, {"exact": Kind.EXACT})


def test_its_configs_import_no_torch():
    code = "import sys, bench_core.kit as kit; [getattr(kit, n) for n in dir(kit) if 'Config' in n]"
    done = subprocess.run([sys.executable, "-c", f"{code}; sys.exit('torch' in sys.modules)"])
    assert done.returncode == 0


def test_its_names_are_shown_and_loaded():
    import bench_core.kit as kit

    assert {*kit.__all__} <= {*dir(kit)}
    assert all(getattr(kit, name).__doc__ for name in kit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Kache'"):
        _ = kit.Kache


def stepped(model, state, *actions):
    """Return the log-probabilities after some actions, the same in all rows."""
    for action in actions:
        log_probs, state = model.step(state, torch.full((2,), action))
    return log_probs


@pytest.mark.parametrize("config", MODELS, ids=named)
def test_two_chains_go_on_from_one_state_without_a_trace_of_each_other(config):
    case = Case.of(config)
    batch = case.batch.select(torch.tensor([0, 3]))
    with torch.no_grad():
        wanted = {}
        for chain in ((1, 2, 3), (2, 1, 4), (3, 3, 1)):
            _, state = case.model.start(batch)
            wanted[chain] = stepped(case.model, state, *chain)
        _, state = case.model.start(batch)
        after = {first: case.model.step(state, torch.full((2,), first))[1] for first in (1, 2, 3)}
        deeper = {chain: case.model.step(after[chain[0]], torch.full((2,), chain[1]))[1] for chain in wanted}
        for chain, found in wanted.items():
            torch.testing.assert_close(stepped(case.model, deeper[chain], chain[2]), found)


def test_rows_of_a_cache_are_selected_before_or_after_a_selection_alike():
    case = Case.of(GPT)
    with torch.no_grad():
        _, state = case.model.start(case.batch)
        _, state = case.model.step(state, torch.tensor([1, 2, 3, 4, 1]))
        one = state.select(torch.tensor([4, 1, 1, 0])).select(torch.tensor([2, 0, 3]))
        other = state.select(torch.tensor([1, 4, 0]))
        found, wanted = (case.model.step(each, torch.tensor([1, 2, 3]))[0] for each in (one, other))
    torch.testing.assert_close(found, wanted)


def test_changing_a_cache_applies_to_the_rows_that_are_selected():
    case = Case.of(GPT)
    with torch.no_grad():
        _, state = case.model.start(case.batch)
        chosen = state.select(torch.tensor([3, 0]))
        copied = chosen.change(torch.Tensor.clone)
        found, wanted = (case.model.step(each, torch.tensor([1, 2]))[0] for each in (copied, chosen))
    assert torch.equal(found, wanted)


def test_a_cache_gives_the_same_with_gradients_and_without():
    case = Case.of(GPT)
    found = []
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            _, state = case.model.start(case.batch)
            _, state = case.model.step(state, torch.tensor([1, 2, 3, 4, 1]))
            found.append(case.model.step(state, torch.tensor([2, 2, 3, 4, 1]))[0])
    assert found[0].requires_grad
    torch.testing.assert_close(*found)


def test_a_cache_reads_several_tokens_as_one_by_one():
    model = Case.of(GPT).model
    tokens = torch.tensor([[0, 1, 2, 3, 4, 1], [0, 4, 3, 2, 1, 1]])
    with torch.no_grad():
        whole, _ = model(tokens)
        first, past = model(tokens[:, :2])
        second, past = model(tokens[:, 2:5], past)
        third, past = model(tokens[:, 5:], past)
    torch.testing.assert_close(torch.cat([first, second, third], 1), whole)


def test_a_cache_copies_its_buffers_only_now_and_then():
    model, token = Case.of(GPT).model, torch.tensor([[1]])
    with torch.no_grad():
        _, past = model(token)
        buffers = set()
        for _ in range(100):
            _, past = model(token, past)
            buffers.add(past.layers[0].keys.data_ptr())
    assert len(buffers) < 10


def test_a_source_is_encoded_once_per_generation():
    case, calls = Case.of(ATTENTIVE, BeamConfig(width=3, max_tokens=6)), []
    encode = case.model.encode
    case.model.encode = lambda *given: calls.append(1) or encode(*given)
    case.decoded()
    assert len(calls) == 1


@pytest.mark.parametrize("heads", [0, 2])
def test_rows_share_the_states_of_their_source(heads):
    torch.manual_seed(0)
    inner = (heads,) if heads else ()
    keys, values, queries = (torch.randn(4, *inner, n, 5) for n in (3, 3, 2))
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]]).bool()
    sources = SourceStates(keys, values, mask)

    def alone(row, query):
        weights = (query @ keys[row].mT).masked_fill(~mask[row], -torch.inf).softmax(-1)
        return weights @ values[row]

    wanted = torch.stack([alone(row, queries[row]) for row in range(4)])
    torch.testing.assert_close(sources.attend(queries), wanted)
    for chosen in ([2, 2, 0, 2, 1], [3, 1, 2, 0], [3, 3], [1]):
        some = sources.select(torch.tensor(chosen))
        found = some.attend(queries[: len(chosen)] if len(chosen) <= 4 else queries[[0, 1, 2, 3, 0]])
        wanted = torch.stack([alone(row, queries[number % 4]) for number, row in enumerate(chosen)])
        torch.testing.assert_close(found, wanted)
        again = some.select(torch.tensor([len(chosen) - 1, 0]))
        wanted = torch.stack([alone(chosen[-1], queries[0]), alone(chosen[0], queries[1])])
        torch.testing.assert_close(again.attend(queries[:2]), wanted)


def test_states_of_sources_that_no_row_needs_are_dropped():
    sources = SourceStates(torch.randn(8, 3, 5), torch.randn(8, 3, 5), torch.ones(8, 3).bool())
    assert len(sources.select(torch.tensor([0, 0, 1, 2, 5, 5])).keys) == 4
    assert len(sources.select(torch.tensor([0, 1, 2, 3, 4])).keys) == 8


def test_what_grows_with_a_stream_is_refused_by_name():
    class Growing(LanguageModel):
        def __init__(self, config, info):
            super().__init__()
            self.embed = nn.Embedding(len(info.vocabulary), len(info.vocabulary))

        def forward(self, tokens, past=None):
            states = self.embed(tokens)
            return states, states if past is None else torch.cat([past, states], 1)

    model, batch = Growing(None, tiny_info()), tiny_batch()
    memory = model.loss(batch, TRAINING).memory
    with pytest.raises(PluginError, match=r"`past` of Growing.forward grows: .* Return a `Cache`"):
        model.loss(batch, replace(TRAINING, memory=memory))


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (lambda states: (states, nn.LSTM(2, 2)), r"a `past` with a LSTM, whose rows cannot be selected"),
        (lambda states: (states, [{states}]), r"a `past` with a set"),
        (
            lambda states: (states, states.transpose(0, 1)),
            r"a `past` with a tensor \[6, 5, 5\], but there are 5 rows",
        ),
        (lambda states: states[:, -1], r"states \[5, 5\] for tokens \[5, 6\]"),
        (lambda states: (states, None, None), r"a tuple for tokens \[5, 6\]"),
        (lambda states: [states, {"a": [nn.LSTM(2, 2)]}], r"a `past` with a LSTM"),
    ],
    ids=["module", "set", "layers first", "one state", "three", "list"],
)
def test_what_forward_returns_is_checked(returned, says):
    class Wrong(LanguageModel):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 5)

        def forward(self, tokens, past=None):
            return returned(self.embed(tokens))

    with pytest.raises(PluginError, match=f"Wrong.forward returned {says}"):
        Wrong().loss(tiny_batch(), TRAINING)


class Both(bench_kit.model.SmallGPT):
    """Attends to its past, and counts it."""

    def forward(self, tokens, past=None):
        count, cache = past or (tokens.new_zeros(len(tokens)), None)
        states, cache = super().forward(tokens, cache)
        return [states, {"count": count + tokens.shape[1], "cache": (cache,)}]


def test_a_cache_may_be_a_part_of_what_a_model_goes_on_from(monkeypatch):
    class Parts(Both):
        def forward(self, tokens, past=None):
            return super().forward(tokens, past and (past["count"], *past["cache"]))

    monkeypatch.setattr(type(GPT), "load", classmethod(lambda cls: Parts))
    assert "windows_of_a_stream_score_as_the_whole_does" not in check_model(Case.of(GPT))
    check_decoder(Case.of(GPT, BeamConfig(width=3, max_tokens=5)))


@pytest.mark.parametrize(
    ("calls", "says"),
    [([0, 0, 0], "an empty Cache was returned"), ([1, 2, 2], "a Cache of 1 layers was called once more")],
)
def test_a_cache_that_is_used_otherwise_than_it_should_is_an_error(calls, says):
    class Uneven(LanguageModel):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 5)

        def forward(self, tokens, past=None):
            cache, states = Cache.after(past), self.embed(tokens)
            for _ in range(calls.pop(0)):
                cache.attend(*[states[:, None]] * 3)
            return states, cache

    model = Uneven()
    with torch.no_grad():
        _, state = model.start(tiny_batch())
        with pytest.raises(PluginError, match=says):
            model.step(state, torch.ones(5, dtype=torch.long))


def test_rows_in_a_list_are_selected():
    class Listed(bench_kit.model.StackedLSTM):
        def forward(self, tokens, past=None):
            states, past = super().forward(tokens, past and tuple(past))
            return states, [*past]

    class ListedConfig(LanguageModelConfig):
        size: int = 6
        layers: int = 1

        @classmethod
        def load(cls):
            return Listed

    check_model(Case.of(ListedConfig()))
    check_decoder(Case.of(ListedConfig(), BeamConfig(width=3, max_tokens=5)))


@pytest.mark.parametrize("config", MODELS, ids=named)
def test_an_example_of_twice_the_weight_counts_as_two(config):
    case = Case.of(config)
    weights = torch.tensor([1.0, 2.0, 1.0, 1.0, 0.0])
    weighted = case.model.loss(replace(case.batch, extras={"weight": weights}), TRAINING)
    repeated = case.model.loss(case.batch.select(torch.tensor([0, 1, 1, 2, 3])), TRAINING)
    torch.testing.assert_close(weighted.value, repeated.value)
    assert weighted.weight == repeated.weight


def test_the_context_length_limits_generation_and_is_an_error_in_training():
    case = Case.of(GPT)
    case.model.context_length = 4
    assert case.model.limit(case.batch).tolist() == [3] * 5  # the opening has two of the four
    with pytest.raises(SuiteError, match="6 tokens exceed the context length 4 of SmallGPT"):
        case.scored("exact")


def test_logits_are_computed_for_target_tokens_alone():
    case, seen = Case.of(LSTM), []
    case.model.head.register_forward_hook(lambda head, given, found: seen.append(found.shape))
    case.model.loss(case.batch, TRAINING)
    assert seen == [(int(case.batch.length.sum()), 5)]


def test_scores_are_the_same_a_few_logits_at_a_time(monkeypatch):
    case = Case.of(LSTM)
    whole = case.scored("exact")
    monkeypatch.setattr("bench_core.kit.head.LOGITS", 7)
    torch.testing.assert_close(case.scored("exact"), whole)


def test_a_model_without_a_head_returns_logits():
    class Table(LanguageModel):
        def __init__(self, config, info):
            super().__init__()
            self.logits = nn.Embedding(len(info.vocabulary), len(info.vocabulary))

        def forward(self, tokens):
            return self.logits(tokens)

    class TableConfig(LanguageModelConfig):
        @classmethod
        def load(cls):
            return Table

    check_model(Case.of(TableConfig()))


@dataclass(frozen=True)
class Steps(State):
    number: torch.Tensor  # [N]


class Fading(Head):
    """Logits that shrink with every step; it counts those of the prefix too."""

    def __init__(self, size, tokens):
        super().__init__()
        self.logits = nn.Linear(size, tokens)

    def start(self, prefix):
        return Steps(prefix.new_full((len(prefix),), prefix.shape[1]))

    def log_probs(self, states, past):
        steps = past.number[:, None] + torch.arange(1, states.shape[1] + 1, device=states.device)
        logits = self.logits(states) / steps[:, :, None]
        return logits.log_softmax(2), Steps(past.number + states.shape[1])


@pytest.mark.quick(1, 2)
@pytest.mark.parametrize("config", MODELS, ids=named)
@pytest.mark.parametrize("continues", [True, False])
def test_a_head_with_a_state_goes_on_any_model(config, continues, monkeypatch):
    class WithFading(config.load()):
        def __init__(self, config, info):
            super().__init__(config, info)
            self.head = Fading(config.size, len(info.vocabulary))
            self.head.continues = continues

    monkeypatch.setattr(type(config), "load", classmethod(lambda cls: WithFading))
    tried = check_model(Case.of(config))
    assert ("windows_of_a_stream_score_as_the_whole_does" in tried) == (continues and config in (LSTM, MINGRU))
    check_decoder(Case.of(config, BeamConfig(width=3, max_tokens=5)))


class LengthsConfig(ExampleMetricConfig):
    """Words of the output."""

    better = 0

    def score(self, hypothesis, references):
        return np.float32(len(hypothesis.split())) or None


def test_a_metric_in_one_method_is_a_mean_by_the_weights_of_examples():
    metric = parts.OverlapConfig().load()(parts.OverlapConfig())
    predictions = [
        Prediction(0, references=["a b", "c"], texts=["a c"], weight=3.0),
        Prediction(1, references=["a b"], texts=["b"]),
    ]
    assert metric.combine([*metric.measure(predictions)]) == 100 * (3 * 1 + 1 * 0.5) / 4
    assert (metric.better, metric.unit, metric.signature) == (1, "%", "overlap")
    metric = LengthsConfig().load()(LengthsConfig())
    assert metric.better == 0
    assert [*metric.measure([Prediction(7, texts=["a b"])])] == [[2, 1]]
    with pytest.raises(
        PluginError, match=r"LengthsConfig.score returned None for example 7. It must return a finite"
    ):
        [*metric.measure([Prediction(7, texts=[""])])]


def test_the_signature_of_a_metric_is_its_name_and_settings_unless_it_sets_another():
    class CutConfig(bench_core.MetricConfig):
        name, target = "cut", "nowhere:Nothing"
        at: int = 3
        words: bool = False

    class Cut(bench_core.Metric[float]):
        better, unit = 0, ""

        def measure(self, predictions):
            return [0.0 for _ in predictions]

        def combine(self, parts):
            return 0.0

    class Signed(Cut):
        signature = "of its class"

    class Told(Cut):
        def __init__(self, config):
            super().__init__(config)
            self.signature = f"at:{config.at}"

    assert Cut(CutConfig()).signature == "cut|at:3|words:False"
    assert Cut(CutConfig(at=4)).signature != Cut(CutConfig()).signature
    assert Signed(CutConfig()).signature == "of its class"
    assert Told(CutConfig()).signature == "at:3"


def test_a_decoder_in_one_method_draws_by_example_and_step():
    def tokens(epsilon, decoder=None):
        case = Case.of(LSTM, decoder or parts.EpsilonGreedyConfig(max_tokens=9, epsilon=epsilon))
        return [one.tokens for (one,) in case.decoded()]

    case = Case.of(LSTM)
    assert tokens(1) == [one.tokens for one in case.model.sample(case.batch, 9, case.rng)]
    assert tokens(0) == tokens(0, GreedyConfig(max_tokens=9)) != tokens(1)


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda self, log_probs, uniform: log_probs.argmax(1, keepdim=True), r"a torch.int64 \[5, 1\] at step 1"),
        (lambda self, log_probs, uniform: uniform, r"a torch.float64 \[5\] at step 1"),
        (lambda self, log_probs, uniform: None, r"returned None at step 1"),
        (lambda self, log_probs, uniform: log_probs.argmax(1) * 0 - 1, r"other than 0 to 4 at step 1"),
        (lambda self, log_probs, uniform: log_probs.argmax(1) * 0 + 5, r"other than 0 to 4 at step 1"),
        (lambda self, log_probs, uniform: log_probs.argmin(1), r"an action of probability 0 at step 1"),
    ],
)
def test_what_choose_returns_is_checked(choose, says, monkeypatch):
    monkeypatch.setattr(parts.EpsilonGreedyConfig, "choose", choose)
    case = Case.of(LSTM, parts.EpsilonGreedyConfig(max_tokens=3))
    if "probability 0" in says:
        with torch.no_grad():
            case.model.head.bias[3] = -torch.inf
    with pytest.raises(PluginError, match=rf"EpsilonGreedyConfig.choose .*{says}. It must return a possible action"):
        case.decoded()


def test_they_run_in_a_suite(tmp_path):
    with registry.extra(parts):
        assert registry.part("model", "small-gpt").package == "bench_kit"
        assert registry.configured("decoder", {"name": "epsilon-greedy", "epsilon": 0.2}).epsilon == 0.2


@pytest.mark.parametrize("config", [BIGRAM, GPT], ids=named)
def test_several_seeds_of_it_train_vmapped(config, monkeypatch):
    class Together(config.load(), Vmappable):
        pass

    monkeypatch.setattr(type(config), "load", classmethod(lambda cls: Together))
    monkeypatch.setattr(type(config), "capabilities", {Stepper, Scorer, Vmappable})
    assert "copies_in_a_stack_lose_what_they_lose_alone" in check_model(Case.of(config))


def test_a_config_without_the_method_that_it_should_have_is_named():
    class ForgetfulConfig(ExampleMetricConfig):
        def scores(self, hypothesis, references):
            return 0

    module = ModuleType("bench_forgetful")
    module.bench_metrics = hookimpl(lambda: [ForgetfulConfig])
    with pytest.raises(PluginError, match=r"ForgetfulConfig lacks score. Add it"), registry.extra(module):
        pass
    assert "forgetful" not in registry.parts("metric")


def test_a_config_without_a_declaration_that_it_should_have_is_named():
    class BlankConfig(ModelConfig):
        name, target = "blank", "elsewhere:Blank"

    module = ModuleType("bench_blank")
    module.bench_models = hookimpl(lambda: [BlankConfig])
    with pytest.raises(PluginError, match=r"BlankConfig lacks capabilities. Add it"), registry.extra(module):
        pass
