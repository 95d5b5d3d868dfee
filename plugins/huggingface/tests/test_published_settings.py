"""Settings of published models: stop strings, templates, beginnings, languages, and several tokens that end a text."""

from __future__ import annotations

import json

import pytest
import torch
from published import prompts, publish
from pydantic import ValidationError

from bench_core import STOP, Prompt, Rng, Scoring, SuiteError
from bench_decoders.plugin import GreedyConfig
from bench_huggingface.plugin import PretrainedLMConfig

SCORING = Scoring("exact", Rng(0))
CHAT = (
    "{% for one in messages %}<turn>{{ 'b' if one.role == 'user' else 'd' }}{{ one.content }}{% endfor %}"
    "{% if add_generation_prompt %}<turn>a{% endif %}"
)


def written(model, asked, tokens=12):
    """Return the hypotheses that greedy choice writes."""
    config = GreedyConfig(max_tokens=tokens)
    with torch.no_grad():
        return [row[0] for row in config.load()(config).decode(model, model.encode(asked), Rng(0))]


def read(saved, text, **settings):
    """Return what a model reads of a prompt, as text with its special tokens."""
    return saved.tokenizer.decode(saved.model(**settings).tokens_of(text))


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_text_ends_before_its_first_stop_string_and_the_row_has_stopped(tmp_path, name):
    saved = publish(tmp_path, name, seed=1)
    free, asked = saved.model(), prompts(12)
    texts = [free.text(one.tokens) for one in written(free, asked)]
    stop = next(text for text in texts if len(text) > 3)[1:3]
    model = saved.model(stop=[stop])
    found = written(model, asked)
    assert [model.text(one.tokens) for one in found] == [text.partition(stop)[0] for text in texts]
    assert any(stop in text for text in texts)
    for text, one in zip(texts, found, strict=True):
        assert one.finished or stop not in text
        assert stop not in free.text(one.tokens[:-1])  # nothing is written after the token that completes it


def test_steps_after_a_stop_string_cost_nothing_and_scores_say_the_same(tmp_path):
    saved = publish(tmp_path, "gpt2", seed=1)
    model, (asked,) = saved.model(stop=["b"]), [Prompt(0, "cab")]
    (one,) = written(model, [asked], tokens=40)
    batch = model.encode([asked], ["ab"])
    free = saved.model()
    tokens = free.encode([asked], ["ab"]).gold[0].tolist()
    assert model.text(tokens[:-1]) == "a"
    with torch.no_grad():
        found, without_end = model.score(batch, SCORING).log_probs.item(), 0.0
        log_probs, state = free.start(batch)
        for token in tokens[:-1]:
            without_end += log_probs[0, token].item()
            log_probs, state = free.step(state, torch.tensor([token]))
    assert found == pytest.approx(without_end)
    more = model.score(model.encode([asked], ["abc"]), SCORING).log_probs
    assert more.item() == -torch.inf  # or the same tokens would say it
    assert one.log_prob is None or one.log_prob <= 0


@pytest.mark.parametrize("stop", ["\n", "Z", "日"])
def test_a_stop_string_that_no_tokens_say_is_refused(tmp_path, stop):
    with pytest.raises(SuiteError, match=r"the stop string .* can never occur"):
        publish(tmp_path, "gpt2").model(stop=[stop])


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ValidationError, match="empty stop string"):
        PretrainedLMConfig(path="x", stop=["a", ""])


def test_a_special_token_as_stop_string_ends_texts_as_a_token(tmp_path):
    saved = publish(tmp_path, "gpt2")
    model, turn = saved.model(stop=["<turn>"]), saved.tokenizer.convert_tokens_to_ids("<turn>")
    assert model.words.ends == [2, turn]
    assert model.stops is None


@pytest.mark.parametrize("where", ["config.json", "generation_config.json"])
def test_the_probability_of_stop_is_that_of_all_tokens_that_end_a_text(tmp_path, where):
    saved = publish(tmp_path, "gpt2")
    ends = [2, 7, 9]
    saved.rewrite(where, eos_token_id=ends)
    if where == "config.json":
        (tmp_path / "generation_config.json").unlink()
    model = saved.model()
    batch = model.encode([Prompt(0, "cab")])
    found, _ = model.start(batch)
    with torch.no_grad():
        log_probs = saved.network(batch.source).logits[0, -1].log_softmax(0)
    assert found[0, STOP].item() == pytest.approx(log_probs[ends].logsumexp(0).item())
    assert (found[0, [7, 9]] == -torch.inf).all()
    others = [token for token in range(40) if token not in (0, *ends)]
    torch.testing.assert_close(found[0, others], log_probs[others])
    assert found.exp().sum().item() == pytest.approx(1)


def test_greedy_choice_stops_where_generate_meets_the_likeliest_end(tmp_path):
    """By their sum, a text may end where none of them alone is the likeliest: that differs from `generate`."""
    saved = publish(tmp_path, "gpt2", seed=2)
    saved.rewrite("generation_config.json", eos_token_id=[2, *range(4, 30)])
    found = written(saved.model(), prompts(12))
    saved.rewrite("generation_config.json", eos_token_id=2)
    assert sum(map(len, (one.tokens for one in found))) < sum(
        len(one.tokens) for one in written(saved.model(), prompts(12))
    )


def test_a_forbidden_token_is_never_written(tmp_path):
    saved = publish(tmp_path, "gpt2")
    token = int(saved.model().numbering.swap(written(saved.model(), [Prompt(0, "cab")])[0].tokens[:1])[0])
    saved.rewrite("generation_config.json", suppress_tokens=[token])
    model = saved.model()
    found, _ = model.start(model.encode([Prompt(0, "cab")]))
    assert found[0, model.numbering.swap([token])[0]] == -torch.inf
    assert found.exp().sum().item() == pytest.approx(1)


def test_a_prompt_stands_in_its_template_and_braces_in_it_stay(tmp_path):
    saved = publish(tmp_path, "gpt2")
    assert read(saved, "a {prompt} b", prompt="cab {prompt}: {x}") == saved.tokenizer.decode(
        saved.tokenizer("cab a {prompt} b: {x}").input_ids
    )


@pytest.mark.parametrize("template", ["", "no place", "{prompt} {prompt}", "{source}"])
def test_a_template_without_one_place_for_the_prompt_is_refused(template):
    with pytest.raises(ValidationError, match=r"use \{prompt\} exactly once"):
        PretrainedLMConfig(path="x", prompt=template)


def test_what_an_answer_begins_with_is_scored_and_taken_off_outputs(tmp_path):
    model = publish(tmp_path, "gpt2").model(answer=" {answer}")
    batch = model.encode([Prompt(0, "a")], ["cab"])
    assert model.words.decode(model.numbering.swap(batch.gold[0, :-1].tolist())) == " cab"
    assert model.text(batch.gold[0, :-1].tolist()) == "cab"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"chat": True}, "<turn>ba cab<turn>a"),
        ({"chat": True, "system": "be fed"}, "<turn>dbe fed<turn>ba cab<turn>a"),
        ({"chat": True, "prompt": "bad {prompt}"}, "<turn>bbad a cab<turn>a"),
        ({}, "a cab"),
        ({"bos": True}, "<s>a cab"),
        ({"bos": False}, "a cab"),
    ],
)
def test_a_prompt_is_a_message_of_the_chat_template_or_begins_as_said(tmp_path, settings, wanted):
    assert read(publish(tmp_path, "gpt2", chat=CHAT), "a cab", **settings) == wanted


def test_a_prompt_that_its_tokenizer_begins_is_not_begun_twice(tmp_path):
    saved = publish(tmp_path, "gpt2")
    file = tmp_path / "tokenizer.json"
    told = json.loads(file.read_text())
    begins = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    ends = [{"SpecialToken": {"id": "</s>", "type_id": 0}}]
    told["post_processor"] = {
        "type": "TemplateProcessing", "single": begins + ends, "pair": begins + ends,
        "special_tokens": {
            text: {"id": text, "ids": [token], "tokens": [text]} for text, token in (("<s>", 1), ("</s>", 2))
        },
    }  # fmt: skip
    file.write_text(json.dumps(told))
    assert read(saved, "cab") == read(saved, "cab", bos=True) == "<s>cab"  # and the end is taken off
    assert read(saved, "cab", bos=False) == "cab"


def test_an_empty_prompt_is_the_token_that_begins_texts(tmp_path):
    assert publish(tmp_path, "gpt2").model().tokens_of("") == [1]


def test_a_chat_without_a_template_and_one_that_refuses_are_refused(tmp_path):
    plain = publish(tmp_path / "plain", "gpt2")
    with pytest.raises(SuiteError, match="has no chat template"):
        plain.model(chat=True).tokens_of("a")
    strict = publish(tmp_path / "strict", "gpt2", chat="{{ raise_exception('no system role') }}")
    with pytest.raises(SuiteError, match=r"rejects the message: no system role"):
        strict.model(chat=True, system="a").tokens_of("a")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"system": "be brief"}, "`system` needs `chat: true`"),
        ({"chat": True, "bos": False}, "remove `bos`"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        PretrainedLMConfig(path="x", **settings)


def test_a_decoder_begins_with_the_language_of_the_target(tmp_path):
    saved = publish(tmp_path, "m2m_100", codes=("__en__", "__de__"))
    assert saved.tokenizer.convert_tokens_to_ids("de") not in (None, saved.tokenizer.unk_token_id)  # but no language
    token = saved.tokenizer.convert_tokens_to_ids("__de__")
    model = saved.model(target_language="de")
    assert model.prefix == [2, token]
    assert saved.model(target_language="__de__").prefix == model.prefix
    assert saved.model().prefix == [2]
    source = torch.tensor([model.tokens_of("a cab")])
    row = saved.network.generate(
        source, attention_mask=torch.ones_like(source), max_new_tokens=9, do_sample=False, forced_bos_token_id=token
    )[0, 2:].tolist()
    (one,) = written(model, [Prompt(0, "a cab")], tokens=8)
    assert model.numbering.swap(one.tokens) == (row[: row.index(2)] if 2 in row else row)


def test_a_language_that_is_not_known_is_refused_with_what_is_near(tmp_path):
    saved = publish(tmp_path, "m2m_100", codes=("__eng__", "__deu__"))
    with pytest.raises(SuiteError, match=r"no token for the language 'egn'\. Did you mean 'eng'"):
        saved.model(target_language="egn")
    with pytest.raises(SuiteError, match="does not support source languages"):
        saved.model(source_language="eng")


@pytest.mark.parametrize("setting", ["source_language", "target_language"])
def test_marian_is_told_the_language_in_its_source(tmp_path, setting):
    saved = publish(tmp_path, "marian", codes=(">>fra<<",))
    with pytest.raises(
        SuiteError, match=r"reads the target language at the beginning of the source.*prompt: '>>fra<< \{prompt\}'"
    ):
        saved.model(**{setting: "fra"})
    assert read(saved, "cab", prompt=">>fra<< {prompt}") == ">>fra<< cab</s>"


@pytest.mark.slow
def test_a_source_begins_with_its_language_where_the_tokenizer_says_so(tmp_path):
    saved = publish(tmp_path, "m2m_100", codes=("eng_Latn", "deu_Latn"))
    nllb(saved)
    model = saved.model(source_language="deu_Latn", target_language="eng_Latn")
    assert saved.tokenizer.convert_ids_to_tokens(model.tokens_of("cab"))[0] == "deu_Latn"
    other = saved.model(source_language="eng_Latn", target_language="deu_Latn")
    assert other.tokens_of("cab")[1:] == model.tokens_of("cab")[1:]
    assert other.tokens_of("cab")[0] != model.tokens_of("cab")[0]
    assert other.prefix == [2, saved.tokenizer.convert_tokens_to_ids("deu_Latn")]


def nllb(saved):
    """Let the tokenizer of a checkpoint be one of NLLB."""
    saved.rewrite("tokenizer_config.json", tokenizer_class="NllbTokenizer")


@pytest.mark.parametrize(
    ("word", "dtype"), [("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"), ("fp64", "float64")]
)
def test_a_type_of_weights_goes_by_the_words_of_precision_too(word, dtype):
    assert PretrainedLMConfig(path="x", dtype=word) == PretrainedLMConfig(path="x", dtype=dtype)
    with pytest.raises(ValidationError, match="bfloat16"):
        PretrainedLMConfig(path="x", dtype="fp8")
