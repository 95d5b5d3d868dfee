"""What a published model is found to lack without torch: from its JSON files, headers of weights, and its tokenizer.

Only what is certain is a problem: of lengths the least number of tokens, and of tokens at the border between prompt
and target those in every context.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, repeat
from math import inf
from pathlib import Path
from typing import Any

from bench_core import DataError, Inspection
from bench_huggingface.checkpoint import GENERATION, read_json
from bench_huggingface.folder import CONFIG, TOKENIZER
from bench_huggingface.plugin import CheckpointConfig

READ = 10_000  #: examples of a split whose tokens are counted
BORDER = 2  #: tokens by which what stands between prompt and target may change their sum
TOKENIZER_CONFIG, SPECIAL_TOKENS, TEMPLATE = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"
PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")  #: classes of tokenizers without tokens of their own
#: Names of tensors with a row for each token.
BY_TOKEN = re.compile(r"(^|\.)(wte|embed_tokens|word_embeddings|shared|embed_in|lm_head|embeddings)\.weight$")
#: Types of models whose positions are called so; others, such as T5, may have such a setting without using it.
BY_N_POSITIONS = ("codegen", "ctrl", "gpt2", "gpt_bigcode", "gptj", "openai-gpt")


class Checkpoint:
    """The files of a published model, with its settings in a suite."""

    def __init__(self, files: Mapping[str, Path], config: CheckpointConfig) -> None:
        self.files, self.config, self.folder = files, config, files[CONFIG].parent
        self.architecture = self._read(CONFIG)
        self.of_text = {**self.architecture, **(self.architecture.get("text_config") or {})}
        self.of_tokenizer = self._read(SPECIAL_TOKENS) | self._read(TOKENIZER_CONFIG)

    def problems(self) -> Iterator[str]:
        """Yield what a run would fail of, whatever the texts."""
        yield from self._unlike_weights()
        if getattr(self.config, "chat", False) and not self._has_template:
            yield (
                f"the tokenizer in {self.folder} has no chat template. Set `chat: false`, and write what the model "
                "expects into `prompt`."
            )
        if self._has_no_end:
            yield (
                f"neither {CONFIG} nor the tokenizer in {self.folder} says which token ends a text. Write it there "
                "as `eos_token_id`."
            )
        if self.ends and self.ends[0] >= self._size:
            yield f"the model in {self.folder} ends texts by token {self.ends[0]}, which it does not have."
        yield from (
            f"the stop string {text!r} would never appear: the tokenizer in {self.folder} has no tokens that read "
            "so. Correct it, or leave it out."
            for text in self.config.stop
            if not self._may_appear(text)
        )

    def _may_appear(self, stop: str) -> bool:
        """Return whether tokens may read as a stop string; what transformers cleans up is not known."""
        if not self.tokenizer or self.of_tokenizer.get("clean_up_tokenization_spaces") or stop in self._special:
            return True
        read = (self.tokenizer.encode(f"{context}{stop}", add_special_tokens=False) for context in ("", "a", "a "))
        return any(stop in self.tokenizer.decode(one.ids) for one in read)

    def skipped(self) -> Iterator[str]:
        """Yield what is not known without torch."""
        if not self.ends and not self._has_no_end:
            yield f"which token ends texts of the model in {self.folder}: no file there has `eos_token_id`"
        if self.positions == inf:
            yield f"whether texts fit into the positions of the model in {self.folder}: {CONFIG} does not have them"
        elif getattr(self.config, "chat", False):
            yield f"whether prompts fit into the positions of the model in {self.folder}, with its chat template"

    def check_texts(self, about: Inspection, use: Inspection, split: str) -> None:
        """Raise DataError for an example of a split that is too long, or whose target goes on after its end."""
        if not self.tokenizer or split not in about.prompts or not (use.is_decoded or use.is_scored):
            return
        self.tokenizer.encode_special_tokens = not self.config.control_tokens
        targets = about.references[split]() if use.is_scored and split in about.references else repeat(())
        for prompt, texts in islice(zip(about.prompts[split](), targets, strict=False), READ):
            what = f"example {prompt.id} of {split}"
            self._check_ends(what, texts)
            self._check_length(what, prompt.text, texts, use)

    def _check_length(self, what: str, prompt: str, targets: Sequence[str], use: Inspection) -> None:
        """Raise DataError for a prompt, or what is scored of an example, that is longer than the positions."""
        own, windows = self._tokens(prompt), getattr(self.config, "stride", None)
        if own > self.positions and (use.is_decoded or not windows):
            raise DataError(f"the prompt of {what} has at least {own} tokens, {self._advice(not use.is_decoded)}")
        before = max(0, own - BORDER) if self.config.family == "causal" else 0
        number = before + min(map(self._tokens, targets), default=0)
        if number > self.positions and not windows:
            raise DataError(f"the target of {what} ends at token {number} or later, {self._advice(True)}")

    def _check_ends(self, what: str, targets: Sequence[str]) -> None:
        """Raise DataError if all targets of an example have a token inside that ends texts."""
        inside = [self._end_inside(text) for text in targets]
        if inside and None not in inside:
            raise DataError(
                f"the target of {what} has {inside[0]!r} inside, which ends texts for the model in {self.folder}: no "
                "text goes on after its end. Leave the example out, or correct `eos_token_id` in "
                "generation_config.json (or `stop`, `control_tokens`)."
            )

    def _end_inside(self, text: str) -> str | None:
        """Return the name of a token that ends texts and is in the tokens of a target in every context."""
        control = set() if self.config.control_tokens else set(map(self._number, self._special))
        found = set(self.ends) - control  # in data, these are text
        for context in ("", " ", "a", "a "):
            encoded = self.tokenizer.encode(context + text, add_special_tokens=False)
            tokens = {one for one, (_, end) in zip(encoded.ids, encoded.offsets, strict=True) if end > len(context)}
            found &= tokens
        return self.tokenizer.id_to_token(min(found)) if found else None

    def _advice(self, in_windows: bool) -> str:
        """Return the rest of a message about a text that is too long, and whether windows may score it."""
        windows = f", or score it in windows (`stride: {max(1, int(self.positions) // 2)}`)"
        return (
            f"which do not fit into the {self.positions} positions of the model in {self.folder}. Shorten it, or "
            f"leave it out of the data{windows if in_windows and self.config.family == 'causal' else ''}."
        )

    def _unlike_weights(self) -> Iterator[str]:
        """Yield a problem for weights with other numbers of tokens than the description of the architecture."""
        from safetensors import safe_open

        sizes = {self.of_text.get(name) for name in ("vocab_size", "decoder_vocab_size")} - {None}
        for path in (path for path in self.files.values() if path.suffix == ".safetensors" and sizes):
            with safe_open(path, "numpy") as file:
                for name in filter(BY_TOKEN.search, file.keys()):
                    rows = file.get_slice(name).get_shape()[0]
                    if rows not in sizes:
                        yield (
                            f"{path} has {name!r} for {rows:,} tokens, and {self.files[CONFIG]} says `vocab_size: "
                            f"{self.of_text['vocab_size']}`. They do not belong together: fetch both anew."
                        )
                        return

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer, by the library `tokenizers`; None where the model has no file of it."""
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.files[TOKENIZER])) if TOKENIZER in self.files else None

    @cached_property
    def positions(self) -> float:
        """The most tokens that can be read, as far as the description of the architecture says; else infinity."""
        names = ["max_position_embeddings", "max_seq_len"]
        names += ["n_positions"] if self.of_text.get("model_type") in BY_N_POSITIONS else []
        return next((self.of_text[name] for name in names if isinstance(self.of_text.get(name), int)), inf)

    @cached_property
    def ends(self) -> list[int]:
        """The tokens that end texts, the usual one first; none if no file says it."""
        found = [self._read(name).get("eos_token_id") for name in (GENERATION, CONFIG)] + [self._end_of_tokenizer]
        first: Any = next((one for one in found if one is not None), [])
        more = [text for text in self.config.stop if text in self._special]
        ids = [*(first if isinstance(first, list) else [first]), *map(self._number, more)]
        return [one for one in dict.fromkeys(ids) if isinstance(one, int)]

    @property
    def _has_no_end(self) -> bool:
        """Whether no token ends texts; where files leave it out, architectures and tokenizers have their own."""
        is_plain = self.of_tokenizer.get("tokenizer_class") in PLAIN
        return not self.ends and "eos_token_id" in self.of_text and is_plain and self.tokenizer is not None

    @property
    def _end_of_tokenizer(self) -> int | None:
        name = self.of_tokenizer.get("eos_token")
        name = name.get("content") if isinstance(name, dict) else name
        return self._number(name) if isinstance(name, str) else None

    def _number(self, token: str) -> int | None:
        return self.tokenizer.token_to_id(token) if self.tokenizer else None

    @property
    def _special(self) -> set[str]:
        """The control tokens by name."""
        added = self.tokenizer.get_added_tokens_decoder().values() if self.tokenizer else ()
        return {one.content for one in added if one.special}

    @property
    def _size(self) -> float:
        """The number of tokens that the model can write, at most."""
        sizes = [self.of_text.get("vocab_size"), self.tokenizer and self.tokenizer.get_vocab_size()]
        return min((size for size in sizes if isinstance(size, int)), default=inf)

    @property
    def _has_template(self) -> bool:
        return TEMPLATE in self.files or bool(self.of_tokenizer.get("chat_template"))

    def _tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _read(self, name: str) -> dict[str, Any]:
        return read_json(self.files[name]) if name in self.files else {}
