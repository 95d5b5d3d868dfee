"""Recurrent encoder-decoders: laws of loss, scores and steps, search against brute force, strings turned round."""

from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_decoder, check_model, tiny_batch
from bench_core import STOP, Batch, Rng, Scoring, Source, State, SuiteError, TaskInfo, Training
from bench_core.kit import Head
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_rnn.api import Seq2Seq
from bench_rnn.plugin import Seq2SeqConfig

RNG = Rng(7)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
SCORING = Scoring("exact", RNG)
INFO = TaskInfo(["</s>", *"abcd"], source_vocabulary=["</s>", *"uvwxyz"])
ALIKE = TaskInfo(["</s>", *"abcd"], source_vocabulary=["</s>", *"abcd"])
ROWS = tiny_batch(source=Source.TOKENS)
KINDS = ["none", "dot", "bilinear", "additive"]


@pytest.fixture
def double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model(info=INFO, **settings):
    config = Seq2SeqConfig(**{"hidden": 6} | settings)
    return config.load()(config, info)


def value(one, rows):
    return one.loss(rows, TRAINING).value


@pytest.mark.quick(2, 2)
@pytest.mark.parametrize(
    "settings",
    [
        {"cell": "tanh"},
        {"cell": "relu", "layers": 1},
        {"cell": "gru", "variant": "notes", "embedding": 4},
        {"cell": "lstm", "tied": True, "dropout": 0.1},
        {"cell": "lstm", "bidirectional": True},
        {"cell": "tanh", "bidirectional": True, "attention": "dot"},
        {"cell": "lstm", "attention": "bilinear", "tied": True},
        {"cell": "gru", "bidirectional": True, "attention": "additive", "dropout": 0.1},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_the_encoder_decoder_keeps_the_contracts(settings):
    check_model(Case.of(Seq2SeqConfig(hidden=6, **settings)))


def test_a_model_of_one_shared_matrix_keeps_the_contracts():
    rows = replace(ROWS, source=ROWS.source.clamp(max=4))
    check_model(Case.of(Seq2SeqConfig(hidden=6, shared=True, tied=True, attention="dot"), info=ALIKE, batch=rows))


@dataclass(frozen=True)
class Told(State):
    steps: torch.Tensor  # [N] target steps so far


class Impatient(Head[Told]):
    """Stop becomes more probable with every target step."""

    def __init__(self, hidden, tokens):
        super().__init__()
        self.logits = torch.nn.Linear(hidden, tokens)

    def start(self, prefix):
        return Told(prefix.new_zeros(len(prefix)))

    def log_probs(self, hidden, past):
        steps = past.steps[:, None] + torch.arange(1, hidden.shape[1] + 1, device=hidden.device)
        logits = self.logits(hidden) + torch.nn.functional.pad(steps[:, :, None], (0, self.logits.out_features - 1))
        return logits.log_softmax(2), Told(steps[:, -1])


class ImpatientSeq2Seq(Seq2Seq):
    def __init__(self, config, info):
        super().__init__(config, info, Impatient(config.hidden, len(info.vocabulary)))


class ImpatientConfig(Seq2SeqConfig):
    @classmethod
    def load(cls):
        return ImpatientSeq2Seq


@pytest.mark.slow
def test_another_output_layer_with_a_memory_of_its_own_keeps_the_contracts():
    check_model(Case.of(ImpatientConfig(hidden=6, attention="dot")))


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_beam_search_keeps_the_contracts_with_it(attention):
    config = Seq2SeqConfig(hidden=6, attention=attention, bidirectional=True)
    check_decoder(Case.of(config, BeamConfig(width=3, max_tokens=4)))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tied": True, "embedding": 3}, r"`embedding` must equal `hidden`; they are 3 and 256"),
        ({"cell": "lstm", "variant": "notes"}, r"`variant: notes` needs the GRU"),
        ({"attention": "general"}, r"attention"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        Seq2SeqConfig(**wrong)


def test_encoder_and_decoder_are_as_deep_and_as_wide():
    one = model(layers=3, hidden=4, tied=True)
    assert len(one.encoder.directions[0]) == one.decoder.layers.num_layers == 3
    assert one.decoder.layers.hidden_size == 4
    one.loss(ROWS, TRAINING)


@pytest.mark.parametrize(
    ("source", "told"), [("uvwx", "token 1 is 'u' and 'a'"), ("abc", "have 4 and 5 tokens. Tokenize")]
)
def test_two_vocabularies_cannot_share_an_embedding(source, told):
    with pytest.raises(SuiteError, match=told):
        model(TaskInfo(["</s>", *"abcd"], source_vocabulary=["</s>", *source]), shared=True)


def test_a_shared_matrix_is_one():
    one = model(ALIKE, shared=True, tied=True)
    assert one.source.weight is one.embed.weight is one.head.weight
    assert [weight.shape for weight in one.parameters()].count((5, 6)) == 1


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("prefix", [0, 2])
def test_step_by_step_is_all_at_once(double, attention, prefix):
    one, rows = model(attention=attention, bidirectional=True), tiny_batch(source=Source.TOKENS, prefix=prefix)
    log_probs, state = one.start(rows)
    total, live = torch.zeros(len(rows)), torch.arange(len(rows))
    for actions in rows.gold.T:
        total[live] += log_probs[torch.arange(len(live)), actions[live]]
        going = (actions[live] != STOP).nonzero()[:, 0]
        if not len(going):
            break
        live = live[going]
        log_probs, state = one.step(state.select(going), actions[live])
    torch.testing.assert_close(one.score(rows, SCORING).log_probs, total, rtol=1e-12, atol=1e-12)


def test_without_attention_every_step_reads_the_state_that_was_handed_over(double):
    one = model(cell="lstm", embedding=3)
    row = ROWS.select(torch.tensor([3]))
    _, handed = one.encoder(one.source(row.source[:, : int(row.source_length)]), row.source_length)
    read = torch.cat([one.embed(row.inputs), handed[0][:, -1:].expand(-1, row.inputs.shape[1], -1)], 2)
    state = tuple(part.transpose(0, 1).contiguous() for part in handed)
    wanted = one.head(one.decoder.layers(read, state)[0]).log_softmax(2)
    gains = wanted.gather(2, row.gold[:, :, None])[0, : int(row.length)]
    torch.testing.assert_close(one.score(row, SCORING).log_probs[0], gains.sum())


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_what_pads_a_source_or_a_target_changes_nothing(double, attention, bidirectional):
    one = model(cell="lstm", attention=attention, bidirectional=bidirectional)
    pads = torch.arange(ROWS.source.shape[1]) >= ROWS.source_length[:, None]
    noisy = replace(
        ROWS,
        source=ROWS.source.where(~pads, torch.randint(1, 7, pads.shape)),
        gold=ROWS.gold.where(ROWS.mask, torch.randint(1, 5, ROWS.gold.shape)),
    )
    wider = replace(ROWS, source=torch.nn.functional.pad(ROWS.source, (0, 3), value=6))
    for other in (noisy, wider):
        torch.testing.assert_close(value(one, other), value(one, ROWS))
        torch.testing.assert_close(one.score(other, SCORING).log_probs, one.score(ROWS, SCORING).log_probs)
        torch.testing.assert_close(one.start(other)[0], one.start(ROWS)[0])


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_an_empty_source_is_a_lone_stop(double, attention):
    one, some = model(attention=attention, bidirectional=True), ROWS.source_length.clone()
    some[2] = 0
    rows = replace(ROWS, source_length=some)
    alone = replace(ROWS.select(torch.tensor([2])), source=ROWS.source[:1, :0], source_length=some[2:3])
    stop = replace(alone, source=torch.tensor([[STOP]]), source_length=torch.tensor([1]))
    found = one.score(rows, SCORING).log_probs
    torch.testing.assert_close(found[2:3], one.score(stop, SCORING).log_probs)
    torch.testing.assert_close(found[2:3], one.score(alone, SCORING).log_probs)
    assert value(one, rows).isfinite()


def test_only_real_target_tokens_are_projected_and_a_source_is_encoded_once():
    one, projected, encoded = model(attention="dot").eval(), [], []
    one.head.register_forward_pre_hook(lambda _, inputs: projected.append(inputs[0].shape))
    one.encoder.register_forward_hook(lambda *_: encoded.append(1))
    one.score(ROWS, SCORING)
    assert projected == [(int(ROWS.length.sum()), 6)]
    config = BeamConfig(width=3, max_tokens=6)
    config.load()(config).decode(one, ROWS, RNG)
    assert len(encoded) == 2


@pytest.mark.parametrize("attention", KINDS)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_beam_search_finds_what_brute_force_finds(double, cell, attention):
    info = TaskInfo(["</s>", *"abc"], source_vocabulary=INFO.source_vocabulary)
    one = model(info, cell=cell, attention=attention, bidirectional=True).eval()
    with torch.no_grad():
        for weights in one.parameters():
            weights.mul_(3)
    targets = [target for length in range(4) for target in product([1, 2, 3], repeat=length)]  # 40
    config = BeamConfig(width=81, finish="exhausted", max_tokens=4, outputs=40)
    narrow = BeamConfig(width=2, finish="exhausted", max_tokens=4)
    found, some = (c.load()(c).decode(one, ROWS, RNG) for c in (config, narrow))
    for row, hypotheses in enumerate(found):
        every = ROWS.select(torch.full((40,), row))
        gold = torch.tensor([[*target, *[STOP] * (4 - len(target))] for target in targets])
        every = replace(every, gold=gold, length=torch.tensor([len(target) + 1 for target in targets]))
        scores = one.score(every, SCORING).log_probs
        wanted = dict(zip(targets, scores.tolist(), strict=True))
        assert hypotheses[0].tokens == list(targets[int(scores.argmax())])
        assert [h.log_prob for h in hypotheses] == pytest.approx([wanted[tuple(h.tokens)] for h in hypotheses])
        assert all(h.log_prob <= hypotheses[0].log_prob + 1e-12 for h in some[row] if h.finished)


def reversals(number, longest, seed):
    """Return strings of up to `longest` of four letters, to be turned round."""
    draws = torch.Generator().manual_seed(seed)
    length = torch.randint(1, longest + 1, (number,), generator=draws)
    places = torch.arange(longest)
    real = places < length[:, None]
    source = torch.randint(1, 5, (number, longest), generator=draws) * real
    back = source.gather(1, (length[:, None] - 1 - places) % longest) * real
    prompt = torch.zeros(number, 1, dtype=torch.long)
    return Batch(torch.arange(number), prompt, torch.nn.functional.pad(back, (0, 1)), length + 1, source, length)


def share_turned_round(longest, updates, **settings):
    """Return which share of 300 strings is turned round exactly, after some training on others."""
    torch.manual_seed(0)
    one = model(ALIKE, layers=1, **settings)
    optimizer = torch.optim.Adam(one.parameters(), 0.01)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.1, updates)
    for step in range(updates):
        optimizer.zero_grad()
        value(one, reversals(64, longest, step)).backward()
        torch.nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        optimizer.step()
        rate.step()
    rows, config = reversals(300, longest, -1), GreedyConfig(max_tokens=longest + 2)
    with torch.no_grad():
        found = config.load()(config).decode(one.eval(), rows, RNG)
    gold = [row[: length - 1] for row, length in zip(rows.gold.tolist(), rows.length.tolist(), strict=True)]
    return sum(h.tokens == wanted for (h,), wanted in zip(found, gold, strict=True)) / 300


@pytest.mark.quick(1)
@pytest.mark.parametrize("attention", ["none", "bilinear"])
def test_it_learns_to_turn_short_strings_round(attention):
    assert share_turned_round(4, 200, attention=attention, hidden=48) > 0.95


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("updates", "settings"),
    [
        (800, {"hidden": 64, "attention": "none"}),
        (500, {"hidden": 48, "attention": "additive"}),
        (500, {"hidden": 48, "attention": "bilinear", "bidirectional": True}),
    ],
    ids=lambda value: value["attention"] if isinstance(value, dict) else str(value),
)
def test_it_learns_to_turn_strings_of_eight_round(updates, settings):
    assert share_turned_round(8, updates, **settings) > 0.95
