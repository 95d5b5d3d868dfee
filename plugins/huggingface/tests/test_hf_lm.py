"""What a causal language model says, against transformers' own words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import save_model
from torch import nn
from transformers.activations import NewGELUActivation

from bench_authors.testing import Case, check_model
from bench_core import Rng, Scoring, State, SuiteError, TaskInfo, Training
from bench_core.computing.building import load_weights
from bench_core.tensor_rows import Rows
from bench_huggingface import lm as module
from bench_huggingface.kv_cache import Buffered, Copied
from bench_huggingface.plugin import CausalLMConfig

WORDS = ["<stop>", *"abcdefghijk"]
NAMES = ["gpt2", "llama", "gpt_neox", "mistral", "gemma2", "mpt", "mamba"]
BUFFERED = {"gpt2", "llama", "gpt_neox", "mpt"}
RNG = Rng(3)
SCORING = Scoring("exact", RNG)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)


def own(model, batch):
    """Return log p of each target by transformers' forward over the whole text [N], without a cache."""
    with torch.no_grad():
        logits = model.network(torch.cat([batch.prompt, batch.gold], 1)).logits[:, batch.prompt.shape[1] - 1 : -1]
    log_probs = logits.log_softmax(2).gather(2, batch.gold[:, :, None])[:, :, 0]
    return (log_probs * batch.mask).sum(1)


def walked(model, batch):
    """Return log-probabilities of every step along `gold` [N, T, V]."""
    log_probs, state = model.start(batch)
    found = [log_probs]
    for tokens in batch.gold.T[:-1]:
        log_probs, state = model.step(state, tokens)
        found.append(log_probs)
    return torch.stack(found, 1)


def close(found, wanted):
    torch.testing.assert_close(found.float(), wanted.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "mistral", "gemma2"])
def test_every_architecture_keeps_the_contracts(config, name):
    check_model(Case.of(config(name)))


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_transformers_itself(tiny, rows, name):
    model, batch = tiny(name), rows()
    close(model.score(batch, SCORING).log_probs, own(model, batch))


@pytest.mark.parametrize("prefix", [0, 1, 6])
@pytest.mark.parametrize("name", NAMES)
def test_steps_give_what_the_whole_text_gives(tiny, rows, name, prefix):
    model, batch = tiny(name), rows(prefix=prefix, longest=12)
    text = torch.cat([batch.prompt, batch.gold], 1)
    with torch.no_grad():
        whole = model.network(text).logits.log_softmax(2)[:, prefix:-1]
    close(walked(model, batch), whole)


@pytest.mark.parametrize(("name", "kind"), [(name, Buffered if name in BUFFERED else Copied) for name in NAMES])
def test_plain_keys_and_values_are_buffered_and_any_other_cache_is_copied(tiny, rows, name, kind):
    model, batch = tiny(name), rows()
    _, state = model.start(batch)
    assert type(state.past) is kind
    assert type(model.step(state, batch.gold[:, 0])[1].past) is kind


@pytest.mark.parametrize("name", NAMES)
def test_states_that_share_a_past_do_not_disturb_each_other(tiny, rows, name):
    """A tree of states: each branch says what it says alone, whatever was stepped before it."""
    model, batch = tiny(name), rows()
    one, other, turn = torch.tensor([1, 2, 3, 4, 5]), torch.tensor([5, 4, 3, 2, 1]), torch.tensor([4, 0, 0, 2, 1])

    def alone(batch, *steps):
        log_probs, state = model.start(batch)
        for words in steps:
            log_probs, state = model.step(state, words)
        return log_probs

    _, root = model.start(batch)
    _, left = model.step(root, one)
    first, right = model.step(root, other)
    turned = left.select(turn)
    close(first, alone(batch, other))
    close(model.step(left, one)[0], alone(batch, one, one))
    close(model.step(right, one)[0], alone(batch, other, one))
    close(model.step(left, other)[0], alone(batch, one, other))
    close(model.step(turned, other)[0], alone(batch.select(turn), one[turn], other))
    close(model.step(turned.select(turn), other)[0], alone(batch.select(turn[turn]), one[turn[turn]], other))
    close(model.step(root, other)[0], alone(batch, other))


@dataclass(frozen=True)
class Outer(Rows):
    inner: State


@pytest.mark.parametrize("name", ["gpt2", "mistral"])
def test_a_memory_inside_of_another_is_selected_with_it(tiny, rows, name):
    model, batch, turn = tiny(name), rows(), torch.tensor([3, 3, 0])
    _, state = model.start(batch)
    _, state = model.step(state, torch.tensor([1, 2, 3, 4, 5]))
    state, words = state.select(torch.tensor([1, 0, 2, 4, 3])), torch.tensor([7, 8, 9])
    nested = Outer(state).select(turn).inner.change(torch.Tensor.detach)
    close(model.step(nested, words)[0], model.step(state.select(turn), words)[0])


def test_buffers_grow_with_what_is_read(tiny, rows):
    model, batch = tiny(), rows(number=3, longest=60)
    steps = walked(model, batch)
    log_probs = steps.gather(2, batch.gold[:, :, None])[:, :, 0]
    close((log_probs * batch.mask).sum(1), own(model, batch))


def test_a_step_writes_one_place_and_copies_nothing(tiny, rows):
    model, batch = tiny(), rows()
    _, state = model.start(batch)
    _, state = model.step(state, batch.gold[:, 0] + 1)
    _, after = model.step(state, batch.gold[:, 1] + 1)
    before, then = ([buffer.data_ptr() for pair in one.past.layers for buffer in pair] for one in (state, after))
    assert before == then
    everyone = state.select(torch.arange(5))
    _, after = model.step(everyone, batch.gold[:, 1] + 1)  # has to: another state wrote first
    assert before != [buffer.data_ptr() for pair in after.past.layers for buffer in pair]


def test_dropped_rows_leave_their_memory(tiny, rows):
    model, batch = tiny(), rows(number=40)
    _, state = model.start(batch)
    _, state = model.step(state.select(torch.tensor([7])), torch.tensor([1]))
    assert {len(buffer) for pair in state.past.layers for buffer in pair} == {1}


def test_one_operation_computes_what_transformers_takes_eight_for(tiny):
    model = tiny("gpt2")
    assert not [module for module in model.modules() if isinstance(module, NewGELUActivation)]
    fast = [module for module in model.modules() if isinstance(module, nn.GELU)]
    assert len(fast) == model.network.config.n_layer
    inputs = torch.linspace(-8, 8, 201, dtype=torch.float64)
    torch.testing.assert_close(fast[0](inputs), NewGELUActivation()(inputs), rtol=1e-12, atol=1e-14)


def test_only_what_predicts_the_target_is_projected(tiny, rows):
    model, batch, seen = tiny(), rows(), []
    model.network.lm_head.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape[:2])))
    model.loss(batch, TRAINING)
    model.score(batch, SCORING)
    _, state = model.start(batch)
    model.step(state, batch.gold[:, 0])
    assert seen == [(5, 9), (5, 9), (5, 1), (5, 1)]


def test_the_gradient_of_logits_is_not_filled_anew_for_a_part_that_is_all(tiny, rows):
    """A cut of all logits, or their division into one part, costs as much memory as they do."""
    model, batch = tiny("gpt2"), rows()
    node, names = model.loss(batch, Training(0, 1, 0, 1, Rng(0))).value.grad_fn, []
    while node is not None and not node.name().startswith(("Mm", "Addmm", "Bmm")):
        names.append(node.name())
        node = next((one for one, _ in node.next_functions if one is not None), None)
    assert node is not None
    assert "IndexSelectBackward0" in names, "the real tokens are chosen"
    assert not [name for name in names if name.startswith(("Slice", "Split", "Cat"))]


def test_scoring_by_portions_gives_the_same_and_reads_less_padding(tiny, rows, monkeypatch):
    model, batch, seen = tiny(), rows(number=8), []
    whole = model.score(batch, SCORING).log_probs
    model.network.lm_head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[:2]))
    monkeypatch.setattr(module, "MAX_LOGITS", 2 * 9 * len(WORDS))
    close(model.score(batch, SCORING).log_probs, whole)
    lengths = batch.length.sort().values
    assert seen == [(2, longest) for longest in lengths[1::2].tolist()]


def test_scores_add_up_in_float64_and_the_loss_is_their_mean(tiny, rows):
    model, batch = tiny(), rows()
    scores, loss = model.score(batch, SCORING).log_probs, model.loss(batch, TRAINING)
    assert scores.dtype == torch.float64
    assert loss.weight.item() == batch.length.sum().item()
    close(loss.value, -scores.sum() / batch.length.sum())


def test_what_stands_right_of_stop_changes_nothing(tiny, rows):
    model, batch = tiny(), rows()
    noisy = replace(batch, gold=batch.gold.where(batch.mask, 7))
    assert not torch.equal(noisy.gold, batch.gold)
    close(model.loss(noisy, TRAINING).value, model.loss(batch, TRAINING).value)
    close(model.score(noisy, SCORING).log_probs, model.score(batch, SCORING).log_probs)


def test_setup_leaves_the_model_as_it_was_to_be_trained(config):
    model = config().load()(config(), TaskInfo(WORDS))
    model.setup(TaskInfo(WORDS), RNG)
    assert model.training
    assert model.network.training


def test_weights_come_from_torchs_generator(tiny):
    first, again, other = (tiny(seed=seed).state_dict() for seed in (1, 1, 2))
    name = "network.transformer.wte.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])


def test_the_task_decides_size_and_special_tokens(tiny):
    settings = tiny(words=[str(word) for word in range(31)]).network.config
    assert (settings.vocab_size, settings.bos_token_id, settings.eos_token_id, settings.pad_token_id) == (
        31,
        0,
        0,
        None,
    )


def test_dropout_is_the_architectures_own_and_acts_in_training_alone(tiny, rows):
    model, batch = tiny(resid_pdrop=0.5), rows()
    assert model.network.config.attn_pdrop == 0.1
    assert model.loss(batch, TRAINING).value == model.loss(batch, TRAINING).value
    model.train()
    assert model.loss(batch, TRAINING).value != model.loss(batch, TRAINING).value


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "mamba"])
def test_a_stored_model_says_what_it_said(tiny, rows, config, tmp_path, name):
    """Tied weights are stored once; what is not stored, such as rotary frequencies, is made anew."""
    model, batch, path = tiny(name, seed=5), rows(), tmp_path / "weights.safetensors"
    save_model(model, str(path))
    other = tiny(name, seed=6)
    load_weights(other, path)
    close(other.score(batch, SCORING).log_probs, model.score(batch, SCORING).log_probs)
    close(walked(other, batch), walked(model, batch))
    if model.network.config.tie_word_embeddings:
        assert other.network.get_output_embeddings().weight is other.network.get_input_embeddings().weight


def test_there_is_room_for_as_many_tokens_as_the_network_has_positions(tiny, rows):
    model, batch = tiny(n_positions=10), rows(prefix=3, longest=7)
    assert model.limit(batch).tolist() == [7] * 5
    walked(model, batch)
    model.score(batch, SCORING)
    longer = rows(prefix=4, longest=7)
    for fails in (model.score, model.loss):
        with pytest.raises(SuiteError, match=r"11 tokens exceed the 10 positions \(`n_positions`\)"):
            fails(longer, SCORING if fails == model.score else TRAINING)
    with pytest.raises(SuiteError, match="11 tokens"):
        model.limit(rows(prefix=10))


def test_an_architecture_without_positions_has_no_limit(tiny, rows):
    assert tiny("mamba").limit(rows()) is None


def test_without_bos_the_first_token_is_not_read(tiny, rows):
    model, whole, batch = tiny(bos=False), tiny(), rows()
    shorter = torch.cat([batch.prompt[:, 1:], batch.gold], 1)
    with torch.no_grad():
        log_probs = model.network(shorter).logits.log_softmax(2)[:, 2:-1]
    close(walked(model, batch), log_probs)
    close(model.score(batch, SCORING).log_probs, own(model, replace(batch, prompt=batch.prompt[:, 1:])))
    assert (model.limit(batch) - whole.limit(batch)).tolist() == [1] * 5
    with pytest.raises(SuiteError, match=r"`bos: false` leaves the input empty"):
        model.start(rows(prefix=0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model_type": "gpt3"}, r"no causal language model of type 'gpt3'\. Did you mean .*'gpt2'"),
        ({"model_type": "gpt2", "n_layers": 3}, r"'gpt2' has no setting 'n_layers'\. Did you mean 'n_layer'"),
        ({"model_type": "gpt2", "vocab_size": 3}, r"'vocab_size', which is determined by the task"),
        ({"model_type": "gpt2", "eos_token_id": 3}, r"'eos_token_id', which is determined by the task"),
        ({"model_type": "gpt2", "n_layer": "x"}, r"'gpt2' cannot be built: .*n_layer"),
        ({"model_type": "gpt2", "n_embd": 10, "n_head": 3}, r"'gpt2' cannot be built: .*divisible"),
        ({"model_type": "gemma3"}, r"is not a text-only model\. Use its language model\. Did you mean 'gemma3_text'"),
        ({"model_type": "openai-gpt", "n_embd": 16, "n_head": 2}, r"does not support a cache"),
    ],
)
def test_an_architecture_that_cannot_be_is_refused_in_one_line(wrong, message):
    settled = CausalLMConfig(architecture=wrong)
    with pytest.raises(SuiteError, match=message) as caught, torch.device("meta"):
        settled.load()(settled, TaskInfo(WORDS))
    assert "\n" not in str(caught.value)


def test_other_names_that_the_architecture_knows_are_taken():
    settled = CausalLMConfig(
        architecture={"model_type": "gpt2", "hidden_size": 8, "n_head": 2, "num_hidden_layers": 1}
    )
    assert settled.load()(settled, TaskInfo(WORDS)).network.config.n_embd == 8


def test_a_network_that_sees_what_comes_is_refused():
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    both_ways, causal = (
        CausalLMConfig(architecture={"model_type": "bert", "is_decoder": one, **small}) for one in (False, True)
    )
    model = both_ways.load()(both_ways, TaskInfo(WORDS))
    with pytest.raises(SuiteError, match=r"predictions of .* differ with these settings.*`is_decoder`"):
        model.setup(TaskInfo(WORDS), RNG)
    causal.load()(causal, TaskInfo(WORDS)).setup(TaskInfo(WORDS), RNG)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "either `path`"),
        ({"path": "gpt2", "architecture": {"model_type": "gpt2"}}, "either `path`"),
        ({"architecture": {"n_layer": 2}}, "needs a `model_type`"),
        ({"path": ""}, "path"),
        ({"path": "gpt2", "trust": True}, "trust"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        CausalLMConfig(**wrong)
