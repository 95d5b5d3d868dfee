"""What `bench check` says of texts of a published model is what a run says of them."""

from __future__ import annotations

from random import Random

import pytest
from published import publish

from bench_core import Inspection, Prompt, Rng, Scoring, SuiteError
from bench_huggingface.checkpoint_check import BOUNDARY_SLACK
from bench_huggingface.inspecting import inspect_checkpoint

POSITIONS = 24


def refuses(config, folder, prompt, target):
    """Return what `bench check` says of an example that is decoded and scored."""
    task = Inspection(folder, prompts={"test": lambda: [prompt]}, references={"test": lambda: [[target]]})
    found = Inspection(folder, splits=["test"], tasks={"own": task}, is_decoded=True, is_scored=True)
    inspect_checkpoint(config, found)
    return found.problems


def fails(model, prompt, target):
    """Return what a run says of it."""
    try:
        model.encode([prompt])
        model.score(model.encode([prompt], [target]), Scoring("exact", Rng(0)))
    except SuiteError as error:
        return str(error)
    return ""


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("name", "settings", "ends"),
    [
        ("gpt2", {}, [2]),
        ("bart", {}, [2, 11]),
        ("gpt2", {"control_tokens": True}, [2, 10, 20]),
        ("gpt2", {"prompt": "<turn> {prompt} ", "answer": "b {answer}"}, [2, 30]),
        ("llama", {"bos": True, "stop": ["<turn>"]}, [2]),
        ("t5", {}, [2, 15]),
        ("bloom", {}, [2, 8, 9, 10]),
    ],
)
def test_a_text_is_refused_only_if_a_run_fails_of_it_and_always_if_it_is_clearly_too_long(
    name, settings, ends, tmp_path
):
    size = {"gpt2": "n_positions", "t5": "n_positions", "bloom": "seq_length"}.get(name, "max_position_embeddings")
    saved, chance = publish(tmp_path, name, **{size: POSITIONS}), Random(name)
    saved.rewrite("generation_config.json", eos_token_id=ends)
    model, config = saved.model(**settings), saved.config(**settings)
    seen = set()
    for number in range(120):
        texts = ["".join(chance.choices("abcdef  </s>", k=chance.randint(1, 40))).strip() or "a" for _ in range(2)]
        texts[1] += chance.choice(["", "", "", "</s>", "</s>a", "<turn>b"])
        prompt = Prompt(number, texts[0], separator=chance.choice(["", " "]))
        found, why = refuses(config, saved.folder, prompt, texts[1]), fails(model, prompt, texts[1])
        assert bool(why) or not found, (texts, found)
        assert not found or ("inside" in why) == ("inside" in found[0]) or len(found) == 1, (found, why)
        tokens = [len(saved.tokenizer.tokenize(text)) for text in texts]
        if model.positions and max(tokens) > POSITIONS + 2 * BOUNDARY_SLACK:
            assert found, (texts, why)
        seen.add((bool(found), bool(why)))
    assert (False, False) in seen
    assert (True, True) in seen
