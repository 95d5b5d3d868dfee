"""The probabilities of different raw texts sum to at most 1, by a model that spends all of its own on their tokens."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import torch
from published import publish
from random_tokenizers import random_text, random_tokenizer
from tiny_tokenizers import KINDS, LOSSLESS, tokenizer

from bench_core import Prompt, Rng, Scoring
from bench_huggingface.joint_text import TextReader

TEXTS = ["".join(one) for length in range(5) for one in product("ab Aq\n", repeat=length)]
UNSEEN = [*map(chr, range(0x4E00, 0x4F90))]
END = 2


def greedy_model(folder, kind):
    """Return a model whose tokens are those of TEXTS and the end, each with the same probability, and no others."""
    own = tokenizer(kind)
    saved = publish(folder, "gpt2", vocab_size=len(own), bos_token_id=1, eos_token_id=END)
    own.save_pretrained(folder)
    model = saved.model()
    used = {END, *(token for text in TEXTS for token in own(text, add_special_tokens=False).input_ids)}
    network = model.network.transformer
    with torch.no_grad():
        network.ln_f.weight.zero_()
        network.ln_f.bias.zero_()[0] = 1
        network.wte.weight[:, 0] = -1000
        network.wte.weight[sorted(used), 0] = 0
    return model, len(used)


def masses(model, prompt):
    """Return the probability of each text [N], and whether it counts."""
    batch = model.encode([Prompt(place, prompt, "", "") for place in range(len(TEXTS + UNSEEN))], TEXTS + UNSEEN)
    with torch.no_grad():
        found = model.score(batch, Scoring("exact", Rng(0)))
    return found.log_probs.exp(), batch.extras["spelled"], batch.length


#: Kinds that read so many texts as the same tokens that, all counted, these have more than all of the probability.
LOSSY = (
    "words",
    "words in lower case",
    "pairs",
    "pairs in NFKC",
    "pairs of words",
    "unigram",
    "pieces",
    "pieces in lower case",
)


@pytest.mark.quick(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_all_texts_of_up_to_four_tokens_have_together_at_most_the_probability_one(tmp_path, kind):
    model, tokens = greedy_model(tmp_path, kind)
    for prompt in ("", "ab", "b a"):
        found, spelled, length = masses(model, prompt)
        torch.testing.assert_close(found[: len(TEXTS)], (1 / tokens) ** length[: len(TEXTS)].double())
        assert found[spelled].sum().item() <= 1 + 1e-9
        if prompt == "":
            assert kind not in LOSSY or found.sum().item() > 1, "without the check there are more"
            assert kind not in LOSSLESS or found[spelled].sum().item() > 0.1


@pytest.mark.slow
def test_of_a_thousand_random_tokenizers_and_texts_tokens_read_back_as_the_text_or_it_has_no_number():
    chance, counted, tokens_of = Random(7), 0, dict[object, set[str]]()
    for _ in range(100):
        own = random_tokenizer(chance)
        reader = TextReader(own, control=False)
        for number in range(10):
            prompt, text = (random_text(chance) if number % 2 else ""), random_text(chance)
            before, _ = reader.around(prompt)
            one = reader.joint(before, [(prompt, False)], [(text, False)])
            if one.spelled:
                counted += 1
                plain = [token for token in one.prompt if token > END]
                start, whole = (own.backend_tokenizer.decode(ids, False) for ids in (plain, [*plain, *one.target]))
                assert whole == start + text
                tokens_of.setdefault((id(own), *one.prompt, -1, *one.target), {text}).add(text)
    assert counted > 200
    assert all(len(texts) == 1 for texts in tokens_of.values())


@pytest.mark.slow
def test_in_five_hundred_splits_by_all_kinds_of_tokenizers_a_target_has_the_probability_of_a_loop_over_logits(
    tmp_path,
):
    chance, text, spelled = Random(11), "abba ab ba A aab\nbab  Ab b 日 a b ba", 0
    for place, kind in enumerate(KINDS):
        own = tokenizer(kind, begins=place % 2 == 0)
        saved = publish(tmp_path / str(place), "gpt2", vocab_size=len(own), bos_token_id=1, eos_token_id=END)
        own.save_pretrained(saved.folder)
        model = saved.model()
        borders = [sorted(chance.sample(range(len(text)), 3)) for _ in range(32)]
        prompts = [Prompt(row, text[first:border], "", "") for row, (first, border, _) in enumerate(borders)]
        batch = model.encode(prompts, [text[border:last] for _, border, last in borders])
        with torch.no_grad():
            found = model.score(batch, Scoring("exact", Rng(0)))
        for row, (first, border, last) in enumerate(borders):
            alone, whole = own(text[first:border]).input_ids, own(text[first:last]).input_ids
            if not batch.extras["spelled"][row]:
                continue
            spelled += 1
            assert whole[: len(alone)] == alone
            start = len(alone)
            if not start:
                whole, start = [1, *whole], 1
            assert found.log_probs[row].item() == pytest.approx(looped(saved.network, [*whole, END], start))
    assert spelled > 100


def looped(network, ids, first):
    """Return log p of the tokens from `first` on, one after another."""
    total = 0.0
    with torch.no_grad():
        for place in range(first, len(ids)):
            total += network(torch.tensor([ids[:place]])).logits[0, -1].log_softmax(0)[ids[place]].item()
    return total
