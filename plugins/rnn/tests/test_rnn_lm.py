"""The recurrent language model: laws of its loss, scores and steps, in float64."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import linear

from bench_core import STOP, Batch, Rng, Scorer, Scoring, Stepper, TaskInfo, Training
from bench_rnn.cells import NotesGRU
from bench_rnn.plugin import Cell, RNNLMConfig

CELLS = get_args(Cell)
INFO = TaskInfo(vocabulary=["</s>", *"abcdef"])
RNG = Rng(7)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
SCORING = Scoring("exact", RNG)
WORDS = torch.tensor([1, 6, 2, 3])  # one for each row of `batch()`


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model(**settings):
    config = RNNLMConfig(**{"hidden": 5, "layers": 2} | settings)
    return config.load()(config, INFO)


def batch(lengths=(3, 1, 6, 4), prefix=2):
    """Return rows of random tokens that end in stop."""
    size, steps = len(lengths), max(lengths)
    length = torch.tensor(lengths)
    gold = torch.randint(1, 7, (size, steps)) * (torch.arange(steps) < length[:, None] - 1)
    prompt = torch.cat([torch.zeros(size, 1, dtype=torch.long), torch.randint(1, 7, (size, prefix))], 1)
    return Batch(torch.arange(size), prompt, gold, length)


def stream(tokens, first, last):
    """Return steps `first` to `last` of `tokens` [N, T + 1] as a window."""
    ids = torch.arange(len(tokens))
    gold = tokens[:, first + 1 : last + 1]
    return Batch(ids, tokens[:, first : first + 1], gold, ids * 0 + gold.shape[1], continues=first > 0)


def walked(lm, rows):
    """Return the log-probability of each row's target [N], by its steps."""
    log_probs, state = lm.start(rows)
    total, live = torch.zeros(len(rows)), torch.arange(len(rows))
    for actions in lm.chain(rows, RNG).T:
        total[live] += log_probs[torch.arange(len(live)), actions[live]]
        going = (actions[live] != STOP).nonzero()[:, 0]
        if not len(going):
            break
        live = live[going]
        log_probs, state = lm.step(state.select(going), actions[live])
    return total


def gradients(lm, value):
    return dict(zip(dict(lm.named_parameters()), torch.autograd.grad(value, list(lm.parameters())), strict=True))


def test_the_config_says_what_the_class_gives():
    assert {base for base in (Stepper, Scorer) if issubclass(RNNLMConfig.load(), base)} == RNNLMConfig.capabilities
    assert list(RNNLMConfig.likelihoods) == ["exact"]


@pytest.mark.parametrize("wrong", [{"hiden": 5}, {"cell": "lstn"}, {"dropout": 1.0}, {"layers": 0}])
def test_unknown_settings_and_values_are_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        RNNLMConfig(**wrong)


def test_a_tied_model_of_two_sizes_is_refused():
    with pytest.raises(ValidationError, match=r"`embedding` must equal `hidden`; they are 3 and 5"):
        RNNLMConfig(hidden=5, embedding=3, tied=True)
    assert RNNLMConfig(hidden=5, embedding=5, tied=True).tied
    with pytest.raises(ValidationError, match=r"they are one-hot and 5"):
        RNNLMConfig(hidden=5, embedding="one-hot", tied=True)


def test_a_variant_of_anything_but_the_gru_is_refused():
    with pytest.raises(ValidationError, match=r"`variant: notes` needs the GRU; 'lstm' has only one variant"):
        RNNLMConfig(cell="lstm", variant="notes")
    assert isinstance(model(cell="gru", variant="notes").rnn.layers, NotesGRU)
    assert type(model(cell="gru").rnn.layers) is torch.nn.GRU


def test_one_hot_tokens_are_embedded_by_the_first_layer():
    lm, embedded, rows = model(embedding="one-hot"), model(embedding=7), batch()
    assert not isinstance(lm.embed, torch.nn.Embedding)
    weights = lm.state_dict() | {"embed.weight": torch.eye(7)}
    embedded.load_state_dict(weights)
    torch.testing.assert_close(lm.loss(rows, TRAINING).value, embedded.loss(rows, TRAINING).value)
    assert lm.float().loss(rows, TRAINING).value.dtype == torch.float32


def test_a_small_start_knows_nothing_and_has_no_biases():
    lm, rows = model(hidden=100, initial_scale=0.01), batch()
    matrices = [weight for weight in lm.parameters() if weight.dim() > 1]
    for weight in matrices:
        assert weight.std().item() == pytest.approx(0.01, rel=0.15)
        assert weight.mean().abs() < 4 * 0.01 / weight.numel() ** 0.5
    assert not any(weight.any() for weight in lm.parameters() if weight.dim() == 1)
    assert lm.loss(rows, TRAINING).value.exp().item() == pytest.approx(7, rel=0.01)


def test_characters_are_learnt_from_as_many_guesses_as_there_are_to_less_than_two():
    tokens = torch.tensor([[ord(letter) - ord("a") + 1 for letter in "themachinereadsthetimemachine"]])
    lm, window, perplexities = (
        model(cell="gru", hidden=32, layers=1, initial_scale=0.01),
        stream(tokens % 7, 0, 28),
        [],
    )
    optimizer = torch.optim.Adam(lm.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        loss = lm.loss(window, TRAINING).value
        loss.backward()
        optimizer.step()
        perplexities.append(loss.exp().item())
    assert perplexities[0] == pytest.approx(7, rel=0.01)
    assert perplexities[-1] < 2


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary():
    config = RNNLMConfig(hidden=3)
    lm, rows = config.load()(config, TaskInfo([str(token) for token in range(27)])), batch()
    for weight in lm.head.parameters():
        torch.nn.init.zeros_(weight)
    assert (-lm.score(rows, SCORING).log_probs.sum() / 14).exp().item() == pytest.approx(27)


def test_an_lstm_gives_what_torch_gives():
    lm, rows = model(embedding=3), batch()
    lstm, logits = torch.nn.LSTM(3, 5, 2, batch_first=True), torch.nn.Linear(5, 7)
    lstm.load_state_dict(lm.rnn.layers.state_dict())
    logits.load_state_dict(lm.head.state_dict())
    read = torch.cat([rows.prompt, rows.gold], 1)[:, :-1]
    expected = logits(lstm(lm.embed.weight[read])[0]).log_softmax(2)[:, 2:]  # from the last token of the prefix on
    first, _ = lm.start(rows)
    torch.testing.assert_close(first, expected[:, 0])
    real = torch.stack([expected[n, range(t), rows.gold[n, :t]].sum() for n, t in enumerate(rows.length.tolist())])
    torch.testing.assert_close(lm.score(rows, SCORING).log_probs, real)


@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize("cell", CELLS)
def test_the_score_is_the_sum_of_its_steps_after_any_prefix(cell, prefix):
    lm, rows = model(cell=cell), batch(prefix=prefix)
    torch.testing.assert_close(lm.score(rows, SCORING).log_probs, walked(lm, rows), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_a_selected_state_goes_on_as_its_rows_do(cell):
    lm, rows, chosen = model(cell=cell), batch(), torch.tensor([2, 0, 0, 3])
    _, state = lm.start(rows)
    together, _ = lm.step(state, WORDS)
    selected, _ = lm.step(state.select(chosen), WORDS[chosen])
    torch.testing.assert_close(selected, together[chosen])


@pytest.mark.parametrize("cell", CELLS)
def test_windows_of_a_stream_score_and_cost_as_the_whole(cell):
    lm, tokens = model(cell=cell), torch.randint(0, 7, (3, 12))  # stops too, where sentences end
    whole = stream(tokens, 0, 11)
    scoring, training, scores, losses = SCORING, TRAINING, [], []
    for first, last in [(0, 4), (4, 5), (5, 11)]:
        window = stream(tokens, first, last)
        score, loss = lm.score(window, scoring), lm.loss(window, training)
        scoring, training = replace(scoring, memory=score.memory), replace(training, memory=loss.memory)
        scores.append(score.log_probs)
        losses.append(loss.value * loss.weight)
    torch.testing.assert_close(sum(scores), lm.score(whole, SCORING).log_probs)
    torch.testing.assert_close(sum(losses) / 33, lm.loss(whole, TRAINING).value)


def test_the_loss_is_the_mean_over_target_tokens():
    lm, rows = model(), batch()
    loss = lm.loss(rows, TRAINING)
    assert loss.weight.item() == 14
    torch.testing.assert_close(loss.value, -lm.score(rows, SCORING).log_probs.sum() / 14)


@pytest.mark.parametrize("tied", [False, True])
def test_projecting_real_tokens_only_changes_neither_loss_nor_gradients(tied):
    lm, rows = model(tied=tied), batch()
    hidden, _ = lm.rnn(lm.embed(rows.inputs))
    log_probs = linear(hidden, lm.head.weight, lm.head.bias).log_softmax(2)[:, 2:]
    full = -(log_probs.gather(2, rows.gold[:, :, None])[:, :, 0] * rows.mask).sum() / rows.mask.sum()
    ours = lm.loss(rows, TRAINING).value
    torch.testing.assert_close(ours, full, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients(lm, ours), gradients(lm, full), rtol=0, atol=1e-12)


def test_only_real_target_tokens_are_projected(monkeypatch):
    lm, rows, seen = model(), batch(), []
    lm.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))
    lm.loss(rows, TRAINING)
    lm.score(rows, SCORING)
    assert seen == [(14, 5), (14, 5)]


def test_scoring_by_portions_gives_the_same(monkeypatch):
    lm, rows, seen = model(), batch(), []
    expected = lm.score(rows, SCORING).log_probs
    lm.head.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    monkeypatch.setattr("bench_core.kit.head.LOGITS", 4 * 7)
    torch.testing.assert_close(lm.score(rows, SCORING).log_probs, expected)
    assert seen == [4, 4, 4, 2]


def test_scores_add_up_in_float64_whatever_the_weights():
    lm = model().float()
    assert lm.score(batch(), SCORING).log_probs.dtype == torch.float64
    assert lm.loss(batch(), TRAINING).value.dtype == torch.float32


@pytest.mark.parametrize("cell", CELLS)
def test_the_gradient_of_the_loss_is_that_of_finite_differences(cell):
    lm, rows = model(cell=cell, hidden=2, embedding=3), batch(lengths=(2, 3))
    assert torch.autograd.gradcheck(lambda *_: lm.loss(rows, TRAINING).value, tuple(lm.parameters()))


def test_a_tied_model_has_one_matrix_whose_gradient_adds_both_uses():
    lm, apart, rows = model(tied=True), model(), batch()
    assert lm.head.weight is lm.embed.weight
    assert [weight.shape for weight in lm.parameters()].count((7, 5)) == 1
    apart.load_state_dict(lm.state_dict())
    tied, free = (gradients(m, m.loss(rows, TRAINING).value) for m in (lm, apart))
    torch.testing.assert_close(tied["embed.weight"], free["embed.weight"] + free["head.weight"])
    assert free["embed.weight"].any()
    assert free["head.weight"].any()


def test_neither_loss_nor_score_depends_on_what_stands_right_of_the_stop():
    lm, rows = model(), batch()
    noisy = replace(rows, gold=rows.gold.where(rows.mask, torch.randint(1, 7, rows.gold.shape)))
    wider = replace(rows, gold=torch.nn.functional.pad(rows.gold, (0, 3)))
    for other in (noisy, wider):
        assert not torch.equal(other.gold, rows.gold)
        torch.testing.assert_close(lm.score(other, SCORING).log_probs, lm.score(rows, SCORING).log_probs)
        ours, theirs = (lm.loss(b, TRAINING).value for b in (rows, other))
        torch.testing.assert_close(theirs, ours)
        torch.testing.assert_close(gradients(lm, theirs), gradients(lm, ours))


def test_dropout_acts_in_training_alone():
    lm, rows = model(dropout=0.5, layers=1), batch()
    plain = model(layers=1)
    plain.load_state_dict(lm.state_dict())

    def value(m):
        return m.loss(rows, TRAINING).value.item()

    assert value(lm) != value(lm)
    assert value(lm.eval()) == value(lm) == value(plain)


@pytest.mark.parametrize("layers", [1, 3])
def test_dropout_meets_embeddings_layers_and_the_top(layers):
    lm, seen = model(dropout=0.5, layers=layers), []
    lm.dropout.register_forward_hook(lambda _, inputs, dropped: seen.append((dropped == 0).double().mean().item()))
    lm.loss(batch(lengths=(20,) * 40), TRAINING)
    assert lm.rnn.layers.dropout == (0.5 if layers > 1 else 0.0)
    assert seen == pytest.approx([0.5, 0.5], abs=0.1)


@pytest.mark.quick(2, 1)
@pytest.mark.parametrize("cell", CELLS)
def test_eight_sentences_are_learnt_by_heart(cell):
    lm, rows = model(cell=cell, hidden=24), batch(lengths=(4, 7, 1, 5, 6, 3, 7, 2))
    prefixes = torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4, 5, 6]))  # all eight differ
    rows = replace(rows, prompt=torch.cat([rows.prompt[:, :1], prefixes], 1))
    optimizer, losses = torch.optim.Adam(lm.parameters(), 0.02), []
    for _ in range(80):
        optimizer.zero_grad()
        loss = lm.loss(rows, TRAINING).value
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
