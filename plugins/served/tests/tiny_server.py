"""A server of a tiny random GPT-2 with a real tokenizer: completions with log-probabilities, and chat."""

from __future__ import annotations

import threading

import torch
from servers import send
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

TEXTS = ["the cat sat on the mat, and the dog on the log", "où est le café? là-bas", "“yes” 😀 said the cat"]
TEMPLATE = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}<assistant>"


def tokenizer_of(merges=60):
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=257 + merges, initial_alphabet=alphabet, special_tokens=["</s>"], show_progress=False
    )
    inner.train_from_iterator(TEXTS * 3, trainer)
    found = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")
    found.chat_template = TEMPLATE
    return found


class Tiny:
    """The model, and its answers to requests."""

    def __init__(self, merges=60):
        torch.manual_seed(1)
        self.tokenizer, self.lock = tokenizer_of(merges), threading.Lock()
        sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 128, "initializer_range": 0.5}
        size = len(self.tokenizer)
        self.model = (
            GPT2LMHeadModel(GPT2Config(vocab_size=size, bos_token_id=0, eos_token_id=0, **sizes)).double().eval()
        )

    @torch.no_grad()
    def log_probs(self, ids):
        """Log-probabilities of the next token after each [T, V]."""
        return self.model(torch.tensor([ids])).logits[0].log_softmax(-1)

    def __call__(self, handler, path, body):
        with self.lock:
            text = body.get("prompt")
            if text is None:
                text = self.tokenizer.apply_chat_template(body["messages"], tokenize=False)
            answer = self.echoed(text) if body.get("echo") else self.written(text, body)
        choice, used = answer
        if path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
        usage = {"completion_tokens": used}
        send(handler, content={"model": body["model"], "choices": [{"index": 0, **choice}], "usage": usage})

    def echoed(self, text):
        ids = self.tokenizer(text)["input_ids"]
        found = self.log_probs(ids)
        log_probs = [None, *(float(found[place, token]) for place, token in enumerate(ids[1:]))]
        tokens = [self.tokenizer.decode([one]) for one in ids]
        offsets = [first for first, _ in self.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]]
        listed = {"tokens": tokens, "token_logprobs": log_probs, "text_offset": offsets}
        return {"text": text, "finish_reason": "length", "logprobs": listed}, 0

    def written(self, text, body):
        ids, new = self.tokenizer(text)["input_ids"], []
        generator = torch.Generator().manual_seed(body.get("seed", 0))
        while len(new) < body["max_tokens"]:
            log_probs = self.log_probs(ids + new)[-1]
            drawn = body["temperature"] > 0
            new += [
                int(torch.multinomial((log_probs / body["temperature"]).softmax(-1), 1, generator=generator))
                if drawn else int(log_probs.argmax())
            ]  # fmt: skip
            said = self.tokenizer.decode(new, skip_special_tokens=True)
            if new[-1] == 0 or any(stop in said for stop in body.get("stop", ())):
                return {"text": said, "finish_reason": "stop"}, len(new)
        return {"text": said, "finish_reason": "length"}, len(new)
