"""Checks published models without torch: their JSON files, weight headers, and tokenizer.

Problems are reported only if they are certain: lengths are lower bounds, and tokens at the boundary of prompt and
target must occur in every context.
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

MAX_EXAMPLES = 10_000  #: examples per split whose tokens are counted
BOUNDARY_SLACK = 2  #: maximum change of the number of tokens at the boundary between prompt and target
TOKENIZER_CONFIG, SPECIAL_TOKENS, TEMPLATE = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"
GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")  #: tokenizer classes without built-in tokens
#: Names of tensors with one row per token.
BY_TOKEN = re.compile(r"(^|\.)(wte|embed_tokens|word_embeddings|shared|embed_in|lm_head|embeddings)\.weight$")
#: Model types with `n_positions`; others, such as T5, may have this setting without using it.
BY_N_POSITIONS = ("codegen", "ctrl", "gpt2", "gpt_bigcode", "gptj", "openai-gpt")


class Checkpoint:
    """The files of a published model and its settings in a suite."""

    def __init__(self, files: Mapping[str, Path], config: CheckpointConfig) -> None:
        self.files, self.config, self.folder = files, config, files[CONFIG].parent
        self.architecture = self._read(CONFIG)
        self.of_text = {**self.architecture, **(self.architecture.get("text_config") or {})}
        self.of_tokenizer = self._read(SPECIAL_TOKENS) | self._read(TOKENIZER_CONFIG)

    def problems(self) -> Iterator[str]:
        """Yield problems that make every run fail, regardless of its texts."""
        yield from self._size_mismatches()
        if getattr(self.config, "chat", False) and not self._has_template:
            yield (
                f"the tokenizer in {self.folder} has no chat template. Set `chat: false`, and write the model's "
                "input format in `prompt`."
            )
        if self._lacks_eos:
            yield (
                f"neither {CONFIG} nor the tokenizer in {self.folder} defines EOS. Add it there as `eos_token_id`."
            )
        if self.ends and self.ends[0] >= self._size:
            yield f"EOS of the model in {self.folder} is token {self.ends[0]}, which is not in its vocabulary."
        yield from (
            f"the stop string {text!r} can never occur: the tokenizer in {self.folder} cannot represent it. "
            "Correct or remove it."
            for text in self.config.stop
            if not self._may_appear(text)
        )

    def _may_appear(self, stop: str) -> bool:
        """Return whether tokens may decode to a stop string; True if unknown due to clean-up by transformers."""
        if not self.tokenizer or self.of_tokenizer.get("clean_up_tokenization_spaces") or stop in self._special:
            return True
        texts = (f"{context}{stop}" for context in ("", "a", "a "))
        encodings = (self.tokenizer.encode(text, add_special_tokens=False) for text in texts)
        return any(stop in self.tokenizer.decode(encoding.ids) for encoding in encodings)

    def unchecked(self) -> Iterator[str]:
        """Yield properties that cannot be checked without torch."""
        if not self.ends and not self._lacks_eos:
            yield f"which token is EOS for the model in {self.folder}: no file there has `eos_token_id`"
        if self.positions == inf:
            yield f"whether texts fit in the positions of the model in {self.folder}: {CONFIG} lacks their number"
        elif getattr(self.config, "chat", False):
            yield f"whether prompts with the chat template fit in the positions of the model in {self.folder}"

    def check_texts(self, about: Inspection, use: Inspection, split: str) -> None:
        """Raise DataError if an example of a split is too long or has EOS inside its target."""
        if not self.tokenizer or split not in about.prompts or not (use.is_decoded or use.is_scored):
            return
        self.tokenizer.encode_special_tokens = not self.config.control_tokens
        targets = about.references[split]() if use.is_scored and split in about.references else repeat(())
        for prompt, texts in islice(zip(about.prompts[split](), targets, strict=False), MAX_EXAMPLES):
            what = f"example {prompt.id} of {split}"
            self._check_ends(what, texts)
            self._check_length(what, prompt.text, texts, use)

    def _check_length(self, what: str, prompt: str, targets: Sequence[str], use: Inspection) -> None:
        """Raise DataError if a prompt or a scored text exceeds the model's positions."""
        length, windows = self._tokens(prompt), getattr(self.config, "stride", None)
        if length > self.positions and (use.is_decoded or not windows):
            raise DataError(f"the prompt of {what} has at least {length} tokens, {self._advice(not use.is_decoded)}")
        before = max(0, length - BOUNDARY_SLACK) if self.config.family == "causal" else 0
        number = before + min(map(self._tokens, targets), default=0)
        if number > self.positions and not windows:
            raise DataError(f"the target of {what} ends at token {number} or later, {self._advice(True)}")

    def _check_ends(self, what: str, targets: Sequence[str]) -> None:
        """Raise DataError if every target of an example contains EOS before its end."""
        inside = [self._end_inside(text) for text in targets]
        if inside and None not in inside:
            raise DataError(
                f"the target of {what} contains {inside[0]!r}, which is EOS for the model in {self.folder}. "
                "Remove the example, or correct `eos_token_id` in generation_config.json (or `stop`, "
                "`control_tokens`)."
            )

    def _end_inside(self, text: str) -> str | None:
        """Return the name of an EOS token that a target contains regardless of its context, or None."""
        control = set() if self.config.control_tokens else set(map(self._number, self._special))
        common = set(self.ends) - control  # ordinary text in data
        for context in ("", " ", "a", "a "):
            encoded = self.tokenizer.encode(context + text, add_special_tokens=False)
            pairs = zip(encoded.ids, encoded.offsets, strict=True)
            common &= {token for token, (_, end) in pairs if end > len(context)}
        return self.tokenizer.id_to_token(min(common)) if common else None

    def _advice(self, in_windows: bool) -> str:
        """Return the end of a message about a long text, with advice on windows if windows can score it."""
        windows = f", or score it with windows (`stride: {max(1, int(self.positions) // 2)}`)"
        return (
            f"which exceeds the {self.positions} positions of the model in {self.folder}. Shorten it, or "
            f"remove it from the data{windows if in_windows and self.config.family == 'causal' else ''}."
        )

    def _size_mismatches(self) -> Iterator[str]:
        """Yield a problem if the vocabulary sizes of weights and configuration differ."""
        from safetensors import safe_open

        sizes = {self.of_text.get(name) for name in ("vocab_size", "decoder_vocab_size")} - {None}
        for path in (path for path in self.files.values() if path.suffix == ".safetensors" and sizes):
            with safe_open(path, "numpy") as file:
                for name in filter(BY_TOKEN.search, file.keys()):
                    rows = file.get_slice(name).get_shape()[0]
                    if rows not in sizes:
                        yield (
                            f"{path} has {name!r} for {rows:,} tokens, but {self.files[CONFIG]} has `vocab_size: "
                            f"{self.of_text['vocab_size']}`. These files do not match. Download both again."
                        )
                        return

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the `tokenizers` library; None if the model has no such file."""
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.files[TOKENIZER])) if TOKENIZER in self.files else None

    @cached_property
    def positions(self) -> float:
        """The maximum number of input tokens according to the configuration; infinity if not stated."""
        names = ["max_position_embeddings", "max_seq_len"]
        names += ["n_positions"] if self.of_text.get("model_type") in BY_N_POSITIONS else []
        return next((self.of_text[name] for name in names if isinstance(self.of_text.get(name), int)), inf)

    @cached_property
    def ends(self) -> list[int]:
        """The EOS tokens, starting with the main EOS; empty if no file defines EOS."""
        candidates = [self._read(name).get("eos_token_id") for name in (GENERATION, CONFIG)] + [self._tokenizer_eos]
        first: Any = next((each for each in candidates if each is not None), [])
        more = [text for text in self.config.stop if text in self._special]
        ids = [*(first if isinstance(first, list) else [first]), *map(self._number, more)]
        return [token for token in dict.fromkeys(ids) if isinstance(token, int)]

    @property
    def _lacks_eos(self) -> bool:
        """Whether EOS is undefined; architectures and tokenizers may have a default that files omit."""
        is_generic = self.of_tokenizer.get("tokenizer_class") in GENERIC_TOKENIZERS
        return not self.ends and "eos_token_id" in self.of_text and is_generic and self.tokenizer is not None

    @property
    def _tokenizer_eos(self) -> int | None:
        name = self.of_tokenizer.get("eos_token")
        name = name.get("content") if isinstance(name, dict) else name
        return self._number(name) if isinstance(name, str) else None

    def _number(self, token: str) -> int | None:
        return self.tokenizer.token_to_id(token) if self.tokenizer else None

    @property
    def _special(self) -> set[str]:
        """The names of control tokens."""
        added = self.tokenizer.get_added_tokens_decoder().values() if self.tokenizer else ()
        return {token.content for token in added if token.special}

    @property
    def _size(self) -> float:
        """The maximum number of tokens that the model can predict."""
        sizes = [self.of_text.get("vocab_size"), self.tokenizer and self.tokenizer.get_vocab_size()]
        return min((size for size in sizes if isinstance(size, int)), default=inf)

    @property
    def _has_template(self) -> bool:
        return TEMPLATE in self.files or bool(self.of_tokenizer.get("chat_template"))

    def _tokens(self, text: str) -> int:
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _read(self, name: str) -> dict[str, Any]:
        return read_json(self.files[name]) if name in self.files else {}
