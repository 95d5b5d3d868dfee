"""The Transformer keeps the contracts with every output layer, and reads what its settings say."""

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import Case, check_model, float64
from bench_core import Batch, Rng, Scoring, TaskInfo, Training
from bench_output_layers.plugin import TransformerLMConfig
from bench_output_layers.transformer import TransformerLM

SMALL = {"d_model": 8, "heads": 2, "layers": 2, "feed_forward": 16, "sparse": False, "context": 64}
OUTPUTS = [
    "full",
    {"kind": "codes", "bits": 5},
    {"kind": "hierarchical", "size": 2},
    {"kind": "nce", "samples": 8},
    {"kind": "sampled", "samples": 3},
    {"kind": "adaptive", "cutoffs": [2]},
]
INFO = TaskInfo([f"w{token}" for token in range(13)], [3, 40, 7, 7, 1, 90, 12, 5, 5, 2, 66, 4, 1])


def settings_of(value):
    return value if isinstance(value, str) else "-".join(map(str, value.values()))


def model(**settings):
    config = TransformerLMConfig.model_validate({**SMALL, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = TransformerLM(config, INFO)
    made.setup(INFO, Rng(1))
    return made


def batch(rows=4, prompt=1, length=6):
    tokens = torch.randint(13, (rows, prompt + length), generator=torch.Generator().manual_seed(3))
    ids = torch.arange(rows)
    return Batch(ids, tokens[:, :prompt], tokens[:, prompt:], ids * 0 + length)


@pytest.mark.quick(2)
@pytest.mark.parametrize("output", OUTPUTS, ids=settings_of)
def test_every_output_layer_keeps_the_contracts(output):
    check_model(Case.of(TransformerLMConfig.model_validate({**SMALL, "output": output})))


def test_a_tied_transformer_keeps_the_contracts():
    check_model(Case.of(TransformerLMConfig.model_validate({**SMALL, "tied": True})))


def test_logits_of_a_tied_transformer_are_products_with_the_embedding():
    made = model(tied=True).eval()
    states, _ = made(torch.tensor([[1, 5]]))
    torch.testing.assert_close(made.head.scores(states), states @ made.embed.weight.T)
    assert sum(weights is made.embed.weight for weights in made.parameters()) == 1


def test_layers_equal_those_of_torch():
    with float64():
        made = model(dropout=0.0)
        tokens = batch().gold
        states = made.embed(tokens) + made.positions(torch.arange(6))
        causal = torch.nn.Transformer.generate_square_subsequent_mask(6)
        for layer in made.layers:
            torchs = torch.nn.TransformerEncoderLayer(
                8, 2, 16, 0.0, activation="gelu", batch_first=True, norm_first=True
            )
            parts = (torchs.self_attn.in_proj_weight, torchs.self_attn.in_proj_bias)
            own = (layer.read.weight, layer.read.bias)
            parts += (*torchs.self_attn.out_proj.parameters(), *torchs.linear1.parameters())
            own += (*layer.join.parameters(), *layer.expand.parameters())
            parts += (*torchs.linear2.parameters(), *torchs.norm1.parameters(), *torchs.norm2.parameters())
            own += (*layer.shrink.parameters(), *layer.norms.parameters())
            with torch.no_grad():
                for weights, value in zip(parts, own, strict=True):
                    weights.copy_(value)
            states = torchs(states, causal, is_causal=True)
        torch.testing.assert_close(made(tokens)[0], made.norm(states), atol=1e-12, rtol=1e-12)


def test_a_state_depends_on_order_and_never_on_later_tokens():
    with float64():
        made = model().eval()
        tokens = batch().gold
        states, _ = made(tokens)
        later = tokens.clone()
        later[:, 4:] = (later[:, 4:] + 1) % 13
        assert made(later)[0][:, :4].equal(states[:, :4])
        swapped = tokens[:, [1, 0, 2, 3, 4, 5]]
        assert not made(swapped)[0][:, 2:].allclose(states[:, 2:])


def test_windows_of_a_stream_are_independent():
    made = model().eval()
    scores = made.score(batch(), Scoring(Rng(1), "exact"))
    assert scores.memory is None
    assert made.loss(batch(), Training(0, 1, 0, 1, Rng(1))).memory is None


def test_initial_predictions_are_nearly_uniform():
    for tied in (False, True):
        value = model(tied=tied).eval().loss(batch(), Training(0, 1, 0, 1, Rng(1))).value
        assert abs(value.item() - torch.tensor(13.0).log().item()) < 0.05, tied


@pytest.mark.parametrize("output", ["codes", "nce", "full"])
def test_an_update_of_sparse_embeddings_touches_only_tokens_that_were_read(output):
    made = model(output=output, sparse=None)
    made.loss(batch(), Training(0, 1, 0, 1, Rng(1))).value.backward()
    assert made.embed.weight.grad.is_sparse
    assert {*made.embed.weight.grad.coalesce().indices()[0].tolist()} == {*batch().inputs.flatten().tolist()}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_model": 10, "heads": 4}, "10 is not divisible by 4"),
        ({"tied": True, "output": "codes"}, r"`output: codes` has no weight for each token"),
        ({"tied": True, "output": {"kind": "adaptive", "cutoffs": [2]}}, r"`output: adaptive` has no weight"),
        ({"tied": True, "sparse": True}, "every update changes all of them"),
        ({"output": "hybrid"}, "hybrid"),
        ({"dropout": 1.0}, "less than 1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TransformerLMConfig.model_validate(settings)


def test_equal_models_have_equal_settings_and_labels_are_smoothed_by_the_full_softmax_alone():
    assert TransformerLMConfig() == TransformerLMConfig(sparse=True)
    assert TransformerLMConfig(tied=True) == TransformerLMConfig(tied=True, sparse=False)
    sparse = TransformerLMConfig.model_validate({"tied": True, "output": "sampled"}).sparse
    assert sparse
    outputs = [TransformerLMConfig.model_validate({"output": output}) for output in OUTPUTS]
    assert [config.smooths_labels() for config in outputs] == [True, *[False] * 5]


def test_generation_ends_with_the_context():
    made = model(context=9).eval()
    assert made.limit(batch(prompt=4)).tolist() == [6] * 4
    with pytest.raises(Exception, match="exceed the context length 9 of TransformerLM"):
        made.score(batch(prompt=4, length=7), Scoring(Rng(1), "exact"))
