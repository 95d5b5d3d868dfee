"""p(target | prompt) of published models: equal to a loop over the logits of the joint text, also in windows."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import torch
from published import publish
from pydantic import ValidationError
from tiny_tokenizers import KINDS, tokenizer

from bench_core import Prompt, Rng, Scoring, SuiteError, TaskInfo
from bench_huggingface.plugin import PretrainedLMConfig

SCORING = Scoring("exact", Rng(0))
TEXT = "abba cab bad cafe face a b c decade of bee feed a cab abc "


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return publish(tmp_path_factory.mktemp("gpt2"), "gpt2")


@pytest.fixture(scope="module")
def model(saved):
    return saved.model()


def score(model, prompts, targets):
    batch = model.encode([Prompt(place, *one) for place, one in enumerate(prompts)], targets)
    with torch.no_grad():
        return model.score(batch, SCORING), batch


def looped(network, ids, first, end=2):
    """Return log p of the tokens from `first` on, and of the end, one token after another."""
    total = 0.0
    if first == 0:  # the model begins with its own first token
        ids, first = [1, *ids], 1
    with torch.no_grad():
        for place in range(first, len(ids) + 1):
            log_probs = network(torch.tensor([ids[:place]])).logits[0, -1].log_softmax(0)
            total += log_probs[([*ids, end])[place]].item()
    return total


def first_behind(own, ids, border):
    """Return the first token with which the text read so far goes beyond a border."""
    return next((k for k in range(len(ids)) if len(own.decode(ids[: k + 1])) > border), len(ids))


@pytest.mark.slow
def test_in_five_hundred_splits_a_target_has_the_probability_that_a_loop_over_the_joint_text_gives(saved, model):
    chance, splits = Random(3), []
    for _ in range(500):
        start = chance.randrange(len(TEXT) - 12)
        text = TEXT[start : start + chance.randrange(2, 12)]
        border = chance.randrange(1, len(text))
        splits.append((text[:border], text[border:]))
    found, batch = score(model, [(prompt,) for prompt, _ in splits], [target for _, target in splits])
    clean = 0
    for row, (prompt, target) in enumerate(splits):
        ids, alone = (saved.tokenizer(text).input_ids for text in (prompt + target, prompt))
        first = first_behind(saved.tokenizer, ids, len(prompt))
        assert found.log_probs[row].item() == pytest.approx(looped(saved.network, ids, first))
        assert batch.length[row].item() == len(ids) - first + 1
        assert batch.extras["spelled"][row].item() == (ids[: len(alone)] == alone)
        clean += ids[: len(alone)] == alone
    assert 100 < clean < 500


def test_a_few_splits_have_the_probability_that_a_loop_over_the_joint_text_gives(saved, model):
    for prompt, target in (("abba", " cab"), ("ab", "ba cab"), ("bad ", "cafe"), ("a", "b"), ("fa", "ce a")):
        found, _ = score(model, [(prompt,)], [target])
        ids = saved.tokenizer(prompt + target).input_ids
        first = first_behind(saved.tokenizer, ids, len(prompt))
        assert found.log_probs.item() == pytest.approx(looped(saved.network, ids, first))


@pytest.mark.parametrize("between", ["", " ", "\n", "  "])
def test_prompt_separator_and_target_are_one_text(saved, model, between):
    prompts = [(text, "", between) for text in ("bad", "abba cab")]
    found, batch = score(model, prompts, ["cafe", "face"])
    for row, (text, target) in enumerate((("bad", "cafe"), ("abba cab", "face"))):
        ids = saved.tokenizer(text + between + target).input_ids
        first = first_behind(saved.tokenizer, ids, len(text))
        assert found.log_probs[row].item() == pytest.approx(looped(saved.network, ids, first))
    if between == " ":
        assert batch.extras["spelled"].all()


@pytest.mark.parametrize("settings", [{"answer": "\n{answer}"}, {"prompt": "{prompt}:"}])
def test_templates_say_what_stands_between_and_no_separator_is_added(saved, settings):
    model = saved.model(**settings)
    found, _ = score(model, [("bad", "", " ")], ["cab"])
    other, _ = score(model, [("bad", "", "")], ["cab"])
    assert found.log_probs.tolist() == other.log_probs.tolist()


def test_a_separator_is_taken_off_outputs_and_nothing_else(model):
    (tokens,) = (model.encode([Prompt(0, "bad", "", " ")], [one]).gold[0, :-1].tolist() for one in ("cab",))
    assert model.output(tokens, Prompt(0, "bad", "", " ")) == "cab"
    assert model.output(tokens, Prompt(0, "bad", "", "")) == " cab"


@pytest.mark.quick(6)
@pytest.mark.parametrize("kind", KINDS)
def test_all_texts_of_up_to_four_signs_together_have_at_most_the_probability_one(tmp_path, kind):
    texts = ["".join(one) for length in range(5) for one in product("aAb ", repeat=length)]
    own = tokenizer(kind)
    saved = publish(tmp_path, "gpt2", seed=len(kind), vocab_size=len(own), bos_token_id=1, eos_token_id=2)
    own.save_pretrained(tmp_path)
    model = saved.model()
    for prompt in ("", "ab", "b a"):
        found, batch = score(model, [(prompt, "", "")] * len(texts), texts)
        assert found.log_probs[batch.extras["spelled"]].exp().sum().item() <= 1 + 1e-9


def test_a_control_token_in_a_target_is_text_and_an_end_where_that_is_allowed_is_an_error(saved, model):
    for text in ("ab</s>", "ab</s>cab", "<s>", "<turn>"):
        ids = model.encode([Prompt(0, "bad")], [text]).gold[0].tolist()
        assert model.numbering.swap(ids[:-1]) != saved.tokenizer("bad" + text).input_ids
    allowed = saved.model(control_tokens=True)
    with pytest.raises(SuiteError, match=r"the target of example 1 contains '</s>' \(token 2\), which is EOS"):
        score(allowed, [("bad",), ("bad",)], [" cab", " a</s> cab"])


def test_an_end_that_is_an_ordinary_token_is_an_error_inside_of_a_target_and_none_in_decoding(tmp_path):
    saved = publish(tmp_path, "gpt2")
    (token,) = saved.tokenizer("b").input_ids
    saved.rewrite("generation_config.json", eos_token_id=[2, token])
    model = saved.model()
    prompts = [("a",), ("c", "x")]
    assert torch.isfinite(score(model, prompts, [" c", " d"])[0].log_probs).all()
    batch = model.encode([Prompt(0, "a"), Prompt(1, "c")], [" c", "b"])
    model.start(model.encode([Prompt(0, "a")]))
    with pytest.raises(SuiteError, match=rf"example 1 contains 'b' \(token {token}\).*eos_token_id"):
        model.score(batch, SCORING)


def test_a_chat_template_keeps_its_control_tokens_and_reads_those_of_messages_as_text(tmp_path):
    chat = "{% for one in messages %}<turn>{{ one.content | trim }}{% endfor %}<turn>"
    saved = publish(tmp_path, "gpt2", chat=chat)
    model, turn = saved.model(chat=True), saved.tokenizer.convert_tokens_to_ids("<turn>")
    plain = model.tokens_of("abc ")
    assert plain == saved.tokenizer("<turn>abc<turn>", add_special_tokens=False).input_ids
    assert model.tokens_of("ab<turn>c ").count(turn) == 2
    assert saved.model(chat=True, control_tokens=True).tokens_of("ab<turn>c").count(turn) == 3
    loud = publish(tmp_path / "loud", "gpt2", chat="{% for one in messages %}{{ one.content | upper }}{% endfor %}")
    with pytest.raises(SuiteError, match=r"changes a message with control tokens \('a<turn>'\)"):
        loud.model(chat=True).tokens_of("a<turn>")


def in_windows(network, ids, first, positions, stride, end=2):
    """Return log p of the tokens from `first` on, each after what the first window that has it reads before."""
    total, whole = 0.0, [*ids, end]
    for place in range(first, len(whole)):
        start = 0
        while place - start > positions:
            start += stride
        with torch.no_grad():
            log_probs = network(torch.tensor([whole[start:place]])).logits[0, -1].log_softmax(0)
        total += log_probs[whole[place]].item()
    return total


@pytest.mark.parametrize("stride", [1, 3, 8])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_windows_score_each_token_once_as_a_loop_over_logits_does(tmp_path, name, stride):
    size = {"n_positions": 8} if name == "gpt2" else {"max_position_embeddings": 8}
    saved, chance = publish(tmp_path, name, **size), Random(1)
    model, asked = saved.model(stride=stride), []
    for _ in range(12):
        border, last = chance.randrange(0, 30), chance.randrange(1, 30)
        asked.append((TEXT[:border].rstrip(), TEXT[border : border + last]))
    found, batch = score(model, [(prompt,) for prompt, _ in asked], [target for _, target in asked])
    for row in range(len(asked)):
        read = batch.source[row, : batch.source_length[row]].tolist()
        ids = [*read, *model.numbering.swap(batch.gold[row, : batch.length[row] - 1].tolist())]
        wanted = in_windows(saved.network, ids, len(read), 8, stride)
        assert found.log_probs[row].item() == pytest.approx(wanted)
        assert found.values["stride"][row].item() == (stride if len(ids) > 8 else 0)
    assert 0 < (found.values["stride"] > 0).sum() < len(asked)


def test_a_text_that_fits_scores_as_without_windows_and_longer_ones_are_refused_without_a_stride(tmp_path):
    saved = publish(tmp_path, "gpt2", n_positions=8)
    free, moving = saved.model(), saved.model(stride=4)
    short = [("a",), ("b",)], [" c", " d"]
    assert score(free, *short)[0].log_probs.tolist() == score(moving, *short)[0].log_probs.tolist()
    assert score(moving, *short)[0].values == {}
    with pytest.raises(SuiteError, match=r"positions.*or score it with windows \(`stride: 4`\)"):
        score(free, [("a",)], [" c d e f g h c d e f g h c d"])
    with pytest.raises(SuiteError, match=r"the prompt of example 0.*or score it with windows \(`stride: 4`\)"):
        score(free, [("c d e f a c d e f g h c d",)], [" a"])
    with pytest.raises(SuiteError, match=r"`stride: 9` skip tokens.*8 positions"):
        saved.model(stride=9)
    with pytest.raises(SuiteError, match="the prompt of example 0"):
        moving.encode([Prompt(0, "c d e f a c d e f g h c d")])
    with pytest.raises(ValidationError, match="stride"):
        PretrainedLMConfig(path="x", stride=0)


@pytest.mark.parametrize("kind", ["byte fallback", "metaspace first", "metaspace always", "bytes", "pairs"])
def test_an_output_is_read_behind_its_prompt_and_keeps_its_first_spaces(tmp_path, kind):
    own = tokenizer(kind)
    publish(tmp_path, "gpt2", vocab_size=len(own))
    own.save_pretrained(tmp_path)
    model = PretrainedLMConfig(path=str(tmp_path), dtype="float64")
    model = model.load()(model, TaskInfo(["<stop>"], files=model.files(tmp_path)))
    for between in ("", " "):
        for target in ("  ab b", " a", "ab a"):
            prompt = Prompt(0, "b ab", "", between)
            batch = model.encode([prompt], [target])
            if batch.extras["spelled"].item():
                assert model.output(batch.gold[0, :-1].tolist(), prompt) == target
