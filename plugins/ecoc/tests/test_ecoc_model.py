"""Both models: laws of their losses, scores and steps, whatever they read in training; in float64."""

from dataclasses import replace

import pytest
import torch

from bench_core import STOP, Batch, Rng, Scoring, SuiteError, TaskInfo, Training
from bench_ecoc.inputs import ReplacedPositions, Replacements
from bench_ecoc.plugin import ECOCLMConfig, SoftmaxLMConfig

INFO = TaskInfo(vocabulary=["</s>", *"abcdefgh"], counts=[9, 8, 7, 6, 5, 4, 3, 2, 1])
RNG = Rng(7)
TRAINING = Training(step=0, steps=10, epoch=0, epochs=1, rng=RNG)
SMALL = {"embedding": 4, "hidden": 5, "dropout": 0, "initial_scale": 0.8}
SETTINGS = {
    "ecoc": (ECOCLMConfig, {"bits": 6}),
    "ecoc by groups": (ECOCLMConfig, {"bits": 6, "group": 3}),
    "dense": (ECOCLMConfig, {"bits": 6, "codes": "dense"}),
    "hybrid": (ECOCLMConfig, {"bits": 6, "codes": {"kind": "hybrid", "frequent": 3}}),
    "full": (SoftmaxLMConfig, {}),
    "hierarchical": (SoftmaxLMConfig, {"output": {"kind": "hierarchical", "size": 3}}),
    "adaptive": (SoftmaxLMConfig, {"output": {"kind": "adaptive", "cutoffs": [3]}}),
}
MIXED = [
    *(("ecoc", kind) for kind in ("scheduled", "soft", "clvms", "dlvms", "flips")),
    *(("hierarchical", kind) for kind in ("scheduled", "soft", "clvms", "dlvms")),
    *(("dense", kind) for kind in ("clvms", "dlvms", "flips")),
    ("hybrid", "scheduled"),
    ("hybrid", "soft"),
    ("full", "scheduled"),
    ("full", "sampled"),
    ("full", "soft"),
    ("adaptive", "soft"),
]


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model(kind="ecoc", info=INFO, **more):
    torch.manual_seed(1)
    config, settings = SETTINGS[kind]
    found = config.model_validate(SMALL | settings | more)
    lm = found.load()(found, info)
    lm.setup(info, Rng(4))
    return lm


def mixed(kind, inputs, share=1.0, **more):
    more_settings = {"flips": {"k": 2}, "sampled": {"kind": "scheduled", "choice": "sample"}}
    method = {"kind": inputs, "tau_max": share, "constant": True} | more_settings.get(inputs, {})
    return model(kind, inputs=method, **more)


def batch(lengths=(3, 1, 6, 4), prefix=2, size=9):
    number, steps = len(lengths), max(lengths)
    length = torch.tensor(lengths)
    gold = torch.randint(1, size, (number, steps)) * (torch.arange(steps) < length[:, None] - 1)
    prompt = torch.cat([torch.zeros(number, 1, dtype=torch.long), torch.randint(1, size, (number, prefix))], 1)
    return Batch(torch.arange(number), prompt, gold, length)


def stream(tokens, first, last):
    ids = torch.arange(len(tokens))
    gold = tokens[:, first + 1 : last + 1]
    return Batch(ids, tokens[:, first : first + 1], gold, ids * 0 + gold.shape[1], continues=first > 0)


def gradients(lm, value):
    lm.zero_grad()
    value.backward()
    return {
        name: (weights.grad.to_dense() if weights.grad is not None else None)
        for name, weights in lm.named_parameters()
    }


def reads(lm, number):
    """Count how often recurrent layers are called."""
    calls = []
    lm.rnn.register_forward_hook(lambda *_: calls.append(1))
    return lambda: len(calls) == number


# reading in training


@pytest.mark.parametrize(("kind", "inputs"), MIXED)
def test_a_probability_of_0_is_teacher_forcing_all_at_once(kind, inputs):
    plain, lm, rows = model(kind, sparse=False), mixed(kind, inputs, 0.0, sparse=False), batch()
    once = reads(lm, 1)
    loss, expected = lm.loss(rows, TRAINING).value, plain.loss(rows, TRAINING).value
    assert once()
    assert torch.equal(loss, expected)


@pytest.mark.parametrize(("kind", "inputs"), MIXED)
def test_reading_gold_step_by_step_is_reading_it_all_at_once(kind, inputs, monkeypatch):
    plain, lm, rows = model(kind, sparse=False), mixed(kind, inputs, sparse=False), batch()
    monkeypatch.setattr(lm.method, "read", lambda places, mix: Replacements(lm.embed(places.gold), places.gold * 0.0))
    in_steps = reads(lm, 6)
    ours, theirs = (gradients(one, one.loss(rows, TRAINING).value) for one in (lm, plain))
    assert in_steps()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient)


@pytest.mark.parametrize("kind", ["ecoc", "hierarchical"])
@pytest.mark.parametrize("inputs", ["clvms", "dlvms"])
def test_latents_that_are_all_gold_read_as_teacher_forcing_does(kind, inputs, monkeypatch):
    plain, lm, rows = model(kind), mixed(kind, inputs), batch()
    read = lm.method.read
    monkeypatch.setattr(
        lm.method, "read", lambda places, mix: read(replace(places, coins=torch.zeros_like(places.coins)), mix)
    )
    loss, expected = lm.loss(rows, TRAINING).value, plain.loss(rows, TRAINING).value
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["ecoc", "full", "hierarchical", "adaptive"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_probability_of_1_reads_what_greedy_choice_would(kind, cell):
    """All but the opening: row by row, the cost is that of gold after the model's own choices."""
    lm, rows = mixed(kind, "scheduled", cell=cell), batch()
    plain = model(kind, cell=cell)
    costs = []
    with torch.no_grad():
        for row, length in enumerate(rows.length.tolist()):
            one = rows.select(torch.tensor([row]))
            log_probs, state = plain.start(one)
            own = []
            for token in one.gold[0, :length]:
                own.append(log_probs.argmax(1))
                costs.append(-log_probs[0, token])
                log_probs, state = plain.step(state, own[-1])
    lm.head.exact = True  # of a code, the exact costs are compared
    loss = lm.loss(rows, TRAINING).value
    assert loss.item() == pytest.approx(torch.stack(costs).mean().item(), rel=1e-9)


@pytest.mark.parametrize("kind", ["ecoc", "hierarchical"])
def test_a_probability_of_1_reads_the_hard_latents_of_the_model(kind):
    lm, rows, seen = mixed(kind, "clvms"), batch(), []
    tokens = lm.method.tokens
    lm.method.tokens = lambda places, mix: seen.append((places, tokens(places, mix))) or seen[-1][1]
    lm.loss(rows, TRAINING)
    assert len(seen) == 5
    for places, read in seen:
        assert places.coins.all()
        if kind == "ecoc":
            predicted = lm.head.bits(places.hidden) > 0
            differing = (lm.head.codebook[:, None].bool() != predicted).sum(2)  # [V, M]
            assert torch.equal(differing[read, torch.arange(len(read))], differing.amin(0))
        else:
            classes = lm.head.class_logits(places.hidden).argmax(1)
            assert torch.equal(lm.head.class_of[read], classes)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_neither_opening_nor_padding_is_replaced(share):
    lm, rows, seen = mixed("full", "scheduled", share), batch(), []
    read = lm.method.read
    lm.method.read = lambda places, mix: seen.append(places) or read(places, mix)
    lm.loss(rows, TRAINING)
    for places in seen:
        assert (places.step + 1 < rows.length[places.ids]).all()
        assert torch.equal(places.gold, rows.gold[places.ids, places.step])
    assert share < 1 or sum(len(places.ids) for places in seen) == (rows.length - 1).sum()


@pytest.mark.parametrize(("kind", "inputs"), MIXED)
def test_what_is_read_depends_neither_on_order_nor_on_neighbours(kind, inputs):
    lm, rows = mixed(kind, inputs, 0.4), batch()
    loss = lm.loss(rows, TRAINING)
    backwards = lm.loss(rows.select(torch.tensor([3, 2, 1, 0])), TRAINING)
    alone = [lm.loss(rows.select(torch.tensor([row])), TRAINING) for row in range(4)]
    torch.testing.assert_close(backwards.value, loss.value)
    torch.testing.assert_close(sum(one.value * one.weight for one in alone) / 14, loss.value)
    assert loss.value != lm.loss(rows, replace(TRAINING, rng=Rng(8))).value, "or nothing was drawn"


@pytest.mark.parametrize(("kind", "inputs"), [one for one in MIXED if one[1] in ("soft", "dlvms", "flips")])
def test_gradients_through_soft_inputs_are_those_of_finite_differences(kind, inputs):
    lm, rows = mixed(kind, inputs, sparse=False, hidden=3, embedding=2), batch((3, 2), prefix=0)
    lm.method.mix = lambda training, mix=lm.method.mix: replace(mix(training), temperature=2.0)
    assert torch.autograd.gradcheck(lambda *_: lm.loss(rows, TRAINING).value, tuple(lm.parameters()), fast_mode=True)


def test_nothing_is_replaced_outside_of_training():
    lm, rows = mixed("full", "scheduled").eval(), batch()
    assert torch.equal(lm.loss(rows, TRAINING).value, model("full").eval().loss(rows, TRAINING).value)


def test_training_tells_how_much_is_replaced():
    lm = model("full", inputs={"kind": "scheduled", "tau_max": 1})
    parts = lm.loss(batch(), Training(20, 40, 2, 5, RNG)).parts
    assert parts["p_mix"].item() == pytest.approx(0.5)
    assert not model("full").loss(batch(), TRAINING).parts


# how much of the inputs comes from other tokens than gold


def noted(lm, rows, training=TRAINING):
    """Return the share that a training loss logs, and the same from the tokens that were read."""
    total, read = [], lm.method.read

    def note(places, mix):
        result = read(places, mix)
        tokens = lm.method.tokens(places, mix) if hasattr(lm.method, "tokens") else None
        total.append(result.changed.sum() if tokens is None else (tokens != places.gold).sum())
        return result

    lm.method.read = note
    logged = lm.loss(rows, training).parts["mixed"].item()
    return logged, sum(total).item() / (rows.length - 1).sum().item()


def share_counted_twice(lm):
    """Return the logged share, which equals the counted one."""
    logged, counted = noted(lm, batch((9, 5, 7)))
    assert logged == pytest.approx(counted)
    return logged


@pytest.mark.parametrize(("kind", "inputs"), MIXED)
def test_the_logged_share_is_that_of_inputs_from_other_tokens(kind, inputs):
    assert 0 < share_counted_twice(mixed(kind, inputs)) <= 1


def test_inputs_that_are_replaced_by_the_gold_token_do_not_count():
    lm = mixed("full", "scheduled")
    lm.head.logits.weight.data.zero_()
    lm.head.logits.bias.data = torch.arange(9.0).flip(0)  # always predicts 0
    rows = replace(batch((9, 5, 7)), gold=torch.zeros(3, 9, dtype=torch.long))
    assert share_counted_twice(lm) > 0
    assert lm.loss(rows, TRAINING).parts["mixed"] == 0


def test_a_certain_prediction_of_gold_mixes_nothing_and_one_of_another_token_all():
    for kind, inputs in (("full", "scheduled"), ("full", "soft")):
        lm = mixed(kind, inputs)
        lm.head.logits.weight.data.zero_()
        lm.head.logits.bias.data = 500.0 * torch.eye(9)[3]
        for token, share in ((3, 0.0), (4, 1.0)):
            rows = replace(batch((9, 5, 7)), gold=torch.full((3, 9), token))
            assert lm.loss(rows, TRAINING).parts["mixed"].item() == pytest.approx(share)


@pytest.mark.parametrize(("kind", "inputs"), MIXED)
def test_scores_report_the_share_that_the_method_would_change_at_the_end_of_training(kind, inputs):
    lm, rows = mixed(kind, inputs, 0.6).eval(), batch()
    scoring = Scoring("exact", RNG)
    together = lm.score(rows, scoring).values["mixed"]
    states, _ = lm.predict(rows, scoring)
    mix = replace(lm.method.mix_after(1.0, RNG), share=0.6)
    for row, length in enumerate(rows.length.tolist()):
        total = 0.0
        for step in range(length - 1):
            ids = rows.ids[row : row + 1]
            coins = lm.method.coins(ids, step, mix)
            if coins.any():
                here = (states[row : row + 1, step], rows.gold[row : row + 1, step], coins, ids, step)
                total += lm.method.read(ReplacedPositions(*here), mix).changed.item()
        assert together[row].item() == pytest.approx(total / max(1, length - 1))
    alone = [lm.score(rows.select(torch.tensor([row])), scoring).values["mixed"] for row in range(4)]
    torch.testing.assert_close(torch.cat(alone), together)
    assert together[1] == 0, "its only input is the prompt"
    assert together.any()


def test_the_share_at_the_end_of_training_has_its_probability_and_not_that_of_the_first_epoch():
    lm, rows = model("full", inputs={"kind": "scheduled", "tau_max": 1.0}).eval(), batch((40,) * 20)
    lm.method.tokens = lambda places, mix: (places.gold + 1) % 9
    share = lm.score(rows, Scoring("exact", RNG)).values["mixed"].mean().item()
    assert share == pytest.approx(249 / 250, abs=5 * (1 / 250 / 780) ** 0.5)
    assert "mixed" not in model("full").eval().score(rows, Scoring("exact", RNG)).values


# what is reported of each token


@pytest.mark.parametrize("kind", SETTINGS)
def test_scores_report_the_best_token_and_the_rank_of_the_target_at_every_step(kind):
    lm, rows = model(kind).eval(), batch()
    scores = lm.score(rows, Scoring("exact", RNG))
    with torch.no_grad():
        for row, length in enumerate(rows.length.tolist()):
            one = rows.select(torch.tensor([row]))
            log_probs, state = lm.start(one)
            for step, token in enumerate(one.gold[0, :length]):
                found = {name: values[row, step].item() for name, values in scores.by_token.items()}
                ranked = log_probs[0].argsort(descending=True, stable=True).tolist()
                assert (found["gold"], found["best"]) == (token, ranked[0])
                assert found["rank"] == 1 + ranked.index(token)
                assert found["log_prob"] == pytest.approx(log_probs[0, token].item())
                log_probs, state = lm.step(state, token[None])
    torch.testing.assert_close(scores.by_token["log_prob"].sum(1), scores.log_probs)


def test_ranks_of_equally_probable_tokens_go_by_id():
    lm = model("full")
    for weights in lm.head.parameters():
        torch.nn.init.zeros_(weights)
    read = lm.head.read(torch.randn(9, 5), torch.arange(9))
    assert (read["best"].tolist(), read["rank"].tolist()) == ([0] * 9, [*range(1, 10)])


def test_a_bound_reports_no_tokens():
    assert not model("ecoc").eval().score(batch(), Scoring("bits", RNG)).by_token


def test_masks_are_the_same_at_all_steps_that_are_read_one_by_one():
    """With nothing left of the top layer's units but what its mask leaves, the same of them at every step."""
    lm, seen = mixed("full", "scheduled", dropout={"input": 0, "hidden": 0, "output": 0.5}), []
    lm.rnn.register_forward_hook(lambda _, inputs, result: seen.append(result[0] == 0))
    lm.loss(batch(), TRAINING)
    dropped = torch.cat(seen, 1)
    assert dropped.any()
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))


# windows of a stream


@pytest.mark.parametrize("kind", SETTINGS)
def test_windows_of_a_stream_cost_as_the_whole(kind):
    lm, tokens = model(kind), torch.randint(0, 9, (3, 12))
    training, losses = TRAINING, []
    for first, last in [(0, 4), (4, 5), (5, 11)]:
        loss = lm.loss(stream(tokens, first, last), training)
        training = replace(training, memory=loss.memory)
        losses.append(loss.value * loss.weight)
    torch.testing.assert_close(sum(losses) / 33, lm.loss(stream(tokens, 0, 11), TRAINING).value)


def test_the_first_token_of_a_window_is_never_replaced():
    lm, tokens = mixed("full", "scheduled"), torch.randint(0, 9, (3, 2))
    window = stream(tokens, 0, 1)
    torch.testing.assert_close(lm.loss(window, TRAINING).value, model("full").loss(window, TRAINING).value)


# sources


@pytest.mark.parametrize("shape", [(7,), (3, 7)])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_source_begins_the_units_of_all_layers(shape, cell):
    info = replace(INFO, source_shape=shape)
    lm, rows = model("full", info, cell=cell), batch(prefix=0)
    source = torch.randn(4, *shape)
    vectors = source.mean(1) if len(shape) == 2 else source
    hidden = (vectors @ lm.source.weight.T + lm.source.bias).view(4, 2, 5)
    units = (hidden, torch.zeros_like(hidden)) if cell == "lstm" else (hidden,)
    masks = lm.rnn.masks(hidden, 4)
    expected = lm.head.logits(lm.rnn(lm.embed(rows.prompt), units, masks)[0]).log_softmax(2)[:, 0]
    torch.testing.assert_close(lm.start(replace(rows, source=source))[0], expected)
    assert not torch.allclose(lm.start(replace(rows, source=source.flip(0)))[0], expected)


def test_a_grid_is_known_by_its_mean():
    lm, rows = model("full", replace(INFO, source_shape=(3, 7))), batch()
    source = torch.randn(4, 3, 7)
    first, second = (lm.score(replace(rows, source=one), Scoring("exact", RNG)) for one in (source, source.flip(1)))
    torch.testing.assert_close(first.log_probs, second.log_probs)


# what is known of an example


def test_the_bit_error_rate_of_an_example_is_over_all_its_tokens():
    lm, rows = model("ecoc").eval(), batch()
    rates = lm.score(rows, Scoring("exact", RNG)).values["bit_error_rate"]
    for row, length in enumerate(rows.length.tolist()):
        one = rows.select(torch.tensor([row]))
        hidden, _ = lm.rnn(lm.embed(one.inputs), None, lm.rnn.masks(torch.zeros(1), 1))
        predicted = lm.head.bits(hidden[0, 2 : 2 + length]) > 0
        wrong = predicted != lm.head.codebook[one.gold[0, :length]].bool()
        assert rates[row].item() == pytest.approx(wrong.double().mean().item())
    assert 0 < rates.mean() < 1


@pytest.mark.parametrize(
    ("kind", "settings", "millions"),
    [
        ("full", {}, 0.4 * 10 + 0.01),  # half of the paper's 8.02, which has the embedding too
        ("hierarchical", {"output": {"kind": "hierarchical", "size": 10}}, 4.411),  # the paper's 4.4
        ("ecoc", {"bits": 1000}, 0.401),
    ],
)
def test_the_parameters_of_the_output_layer_are_those_of_the_paper(kind, settings, millions):
    info = replace(INFO, vocabulary=[str(token) for token in range(10_000)], counts=[1] * 10_000)
    lm = model(kind, info, hidden=400, layers=1, **settings).eval()
    told = lm.score(batch(), Scoring("exact", RNG)).values["decoder_parameters"]
    assert told.tolist() == pytest.approx([millions] * 4)


def test_a_bound_is_not_above_what_it_bounds():
    lm, rows = model("ecoc").eval(), batch()
    exact, bits = (lm.score(rows, Scoring(by, RNG)).log_probs for by in ("exact", "bits"))
    assert (bits < exact).all()


def test_the_exact_loss_is_minus_the_exact_score():
    lm, rows = model("ecoc", loss="exact"), batch()
    expected = -lm.score(rows, Scoring("exact", RNG)).log_probs.sum() / 14
    torch.testing.assert_close(lm.loss(rows, TRAINING).value, expected)
    other = model("ecoc")
    bits = -other.score(rows, Scoring("bits", RNG)).log_probs.sum() / 14
    torch.testing.assert_close(other.loss(rows, TRAINING).value, bits)


def test_codes_that_are_learnt_exactly_begin_with_equal_tokens_and_short_steps():
    lm = model("ecoc", loss="exact")
    hidden = torch.randn(3, 5)
    assert lm.head.gain == pytest.approx((2 / 6) ** 0.5)
    torch.testing.assert_close(lm.head.bits(hidden), lm.head.gain * hidden @ lm.head.linear.weight.T)
    assert model("ecoc", loss="exact", codes="identity", bits=None).head.gain == 1
    assert model("ecoc", loss="exact", gain=0.25).head.gain == 0.25
    assert model("ecoc").head.gain == 1
    assert model("ecoc").head.linear.bias.any()
    with pytest.raises(ValueError, match="`gain` is a setting of `loss: exact`"):
        model("ecoc", gain=0.25)


def test_vectors_are_learnt_of_whole_rows_and_told_of():
    lm = model("ecoc", codes={"kind": "gray-walk", "order": "embedding", "vector_size": 3})
    rows, seen = batch(), []
    survey = lm.head.fit_statistics
    lm.head.fit_statistics = lambda sentences, info, rng: seen.extend(sentences) or survey(sentences, info, rng)
    assert not lm.notes()
    lm.fit_statistics(lambda: iter([rows, rows]), RNG)
    assert len(seen) == 8
    assert seen[2] == [*rows.prompt[2, 1:].tolist(), *rows.gold[2].tolist()]
    assert seen[1] == [*rows.prompt[1, 1:].tolist(), STOP]
    assert "skip-gram" in " ".join(lm.notes().values())


def test_nothing_is_surveyed_where_the_order_needs_no_vectors():
    def batches():
        raise AssertionError("the training split was read")

    for kind in SETTINGS:
        model(kind).fit_statistics(batches, RNG)


# weights


def test_weights_begin_small_and_forget_gates_open():
    torch.manual_seed(1)
    config = SoftmaxLMConfig(embedding=30, hidden=40)
    lm = config.load()(config, INFO)
    for name, weights in lm.named_parameters():
        if weights.dim() > 1:
            assert weights.abs().max() <= 0.1
            assert weights.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.1), name
        elif "bias_ih" in name:
            assert torch.equal(weights, torch.cat([torch.zeros(40), torch.ones(40), torch.zeros(80)]))
        else:
            assert not weights.any()


@pytest.mark.parametrize(
    ("kind", "inputs"), [("ecoc", "dlvms"), ("ecoc", "flips"), ("full", "scheduled"), ("full", "soft")]
)
def test_embeddings_have_sparse_gradients_unless_all_are_mixed(kind, inputs):
    lm, rows = mixed(kind, inputs), batch()
    lm.loss(rows, TRAINING).value.backward()
    assert lm.embed.weight.grad.is_sparse == (inputs != "soft")


@pytest.mark.parametrize("kind", ["ecoc", "hierarchical"])
def test_sparse_gradients_are_those_of_tokens_that_were_read(kind):
    sparse, dense, rows = model(kind), model(kind, sparse=False), batch()
    for lm in (sparse, dense):
        lm.loss(rows, TRAINING).value.backward()
    gradient = sparse.embed.weight.grad.coalesce()
    assert set(gradient.indices()[0].tolist()) == set(rows.inputs.flatten().tolist())
    torch.testing.assert_close(gradient.to_dense(), dense.embed.weight.grad)


def test_factors_of_another_length_are_refused_when_it_is_built():
    with pytest.raises(SuiteError, match="`factors`"):
        model("ecoc", inputs={"kind": "clvms", "factors": [1]})


def test_dropout_acts_in_training_alone():
    lm, plain, rows = model("full", dropout=0.5), model("full"), batch()
    assert lm.loss(rows, TRAINING).value != lm.loss(rows, TRAINING).value
    lm.eval()
    torch.testing.assert_close(lm.start(rows)[0], plain.start(rows)[0])
    torch.testing.assert_close(lm.loss(rows, TRAINING).value, plain.loss(rows, TRAINING).value)


@pytest.mark.parametrize("kind", ["full", "hierarchical"])
def test_a_tied_model_learns_one_matrix_from_inputs_and_outputs(kind):
    untied, tied = (model(kind, embedding=5, tied=tied, sparse=False) for tied in (False, True))
    matrix = {"full": "head.logits.weight", "hierarchical": "head.leaves.weight"}[kind]
    untied.load_state_dict(tied.state_dict())
    assert tied.get_parameter(matrix) is tied.embed.weight
    windows = batch()
    for each in (untied, tied):
        each.loss(windows, TRAINING).value.backward()
    sum_of_gradients = untied.get_parameter(matrix).grad + untied.embed.weight.grad
    torch.testing.assert_close(tied.embed.weight.grad, sum_of_gradients)
