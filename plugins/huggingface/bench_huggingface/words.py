"""The tokenizer of a checkpoint: tokens of prompts and targets, text of outputs, EOS tokens and stop strings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig

from bench_core import DataError, Prompt, SuiteError, thinking_in, without_thinking
from bench_huggingface.checkpoint import GENERATION, one_line, read_json
from bench_huggingface.folder import CONFIG
from bench_huggingface.joint_text import Joint, Parts, TextReader
from bench_huggingface.network import near
from bench_huggingface.plugin import CheckpointConfig

MAX_TAG_CHARS = 40


class CheckpointTokenizer:
    """Converts prompts, targets and outputs to and from the tokens of a checkpoint."""

    def __init__(self, folder: Path, config: CheckpointConfig, network: PreTrainedConfig) -> None:
        self.folder, self.config, self.network = folder, config, network
        self.tokenizer = _tokenizer(folder)
        self.reader = TextReader(self.tokenizer, config.control_tokens)
        self.configs = [read_json(folder / name) for name in (GENERATION, CONFIG) if (folder / name).is_file()]
        special = set(self.tokenizer.all_special_tokens)
        self.ends = self._ends([text for text in config.stop if text in special])
        self.stops = [text for text in config.stop if text not in special]
        for text in self.stops:
            self._check_stop(text)

    def __len__(self) -> int:
        return max(len(self.tokenizer), *(token + 1 for token in self._languages.values()), 0)

    @property
    def _languages(self) -> dict[str, int]:
        """The language tokens of M2M-100, which its tokenizer does not list elsewhere."""
        return getattr(self.tokenizer, "lang_token_to_id", {})

    def setting(self, name: str) -> Any:
        """Return a generation setting of the checkpoint; None if undefined."""
        value = next((config[name] for config in self.configs if config.get(name) is not None), None)
        return getattr(self.network.get_text_config(), name, None) if value is None else value

    @property
    def never(self) -> list[int]:
        """The tokens that the checkpoint forbids."""
        banned = [ids[0] for ids in self.setting("bad_words_ids") or [] if len(ids) == 1]
        return sorted({*banned, *(self.setting("suppress_tokens") or [])})

    def prompt(self, text: str) -> list[int]:
        """Return the tokens of a prompt, formatted by the templates in the settings; at least one token."""
        parts = self._parts(text)
        return [*self._before(parts), *self.reader.tokens(parts).ids] or [self._first()]

    def source(self, text: str) -> list[int]:
        """Return the encoder's input tokens for a text to translate or transform."""
        parts = fill(self.config.prompt, "{prompt}", text)
        before, after = self.reader.around("".join(part for part, _ in parts))
        return [*before, *self.reader.tokens(parts).ids, *after] or [self.ends[0]]

    def target(self, text: str) -> Joint:
        """Return a target without a prompt as the tokens that a decoder predicts."""
        parts = fill(self.config.answer, "{answer}", text)
        ids = self.reader.tokens(parts, of_target=True).ids
        return Joint([], ids, self.reader.spells([], ids, parts))

    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Tokenize a prompt and the target that continues it as one text."""
        parts = self._parts(prompt.text)
        answer = [(self.separator(prompt), False), *fill(self.config.answer, "{answer}", target)]
        result = self.reader.joint(self._before(parts), parts, answer)
        return result if result.prompt else replace(result, prompt=[self._first()])

    def separator(self, prompt: Prompt) -> str:
        """Return the separator between a prompt and its target: the task's, or nothing if templates separate them."""
        return prompt.separator if self._is_continuation else ""

    @property
    def _is_continuation(self) -> bool:
        """Whether a target directly follows the text of its prompt, with no template text between them."""
        is_adjacent = self.config.prompt.endswith("{prompt}") and self.config.answer.startswith("{answer}")
        return is_adjacent and not getattr(self.config, "chat", False)

    def output(self, tokens: Sequence[int], prompt: Prompt) -> str:
        """Decode tokens as the continuation of a prompt, without the separator.

        They are decoded after the tokens of the prompt, like scored targets, because some tokenizers drop a space at
        the beginning of a text.
        """
        if not self._is_continuation:
            return self.text(tokens)
        before = self.prompt(prompt.text)
        start, whole = self.decode(before), self.decode([*before, *tokens])
        lead = start + prompt.separator
        return self._truncate(whole.removeprefix(lead) if whole.startswith(lead) else self.decode(tokens))

    def decode(self, tokens: Sequence[int]) -> str:
        """Decode tokens without special tokens."""
        text: str = self.tokenizer.decode([*tokens], skip_special_tokens=True)
        return text

    def text(self, tokens: Sequence[int]) -> str:
        """Decode an output, truncated before the first stop string and without the text before `{answer}`."""
        return self._truncate(self.decode(tokens)).removeprefix(self.config.answer.partition("{answer}")[0])

    def answer(self, text: str, tokens: Sequence[int], prompt: Prompt) -> str:
        """Remove or keep the thinking in an output, even if its tags are control tokens, or raise SuiteError."""
        if self.config.thinking == "keep":
            return text
        whole = self._open_thinking_tag(prompt) + self.reader.read_back(tokens)
        if not (tag := thinking_in(whole)):
            return text
        if self.config.thinking == "drop":
            return self._truncate(self.reader.without_control(without_thinking(whole)[0]))
        raise SuiteError(
            f"the output of example {prompt.id} contains {tag}: {text[:60]!r}. Set `thinking: drop` in the model's "
            "settings to remove the thinking, or `thinking: keep` to keep it."
        )

    def _open_thinking_tag(self, prompt: Prompt) -> str:
        """Return the thinking tag that the template of a prompt opens; empty if there is no tag."""
        end = "".join(part for part, is_template in self._parts(prompt.text) if is_template).rstrip()[-MAX_TAG_CHARS:]
        tags = (end[start:] for start in range(len(end)))
        return next((tag for tag in tags if thinking_in(tag) == tag and not without_thinking(tag)[1]), "")

    def _truncate(self, text: str) -> str:
        """Truncate a text before its first stop string."""
        positions = [text.find(stop) for stop in self.stops if stop in text]
        return text[: min(positions, default=len(text))]

    def language(self, code: str) -> int:
        """Return the token of a language, such as `deu_Latn` or `__de__`; raise SuiteError if it does not exist."""
        if self.network.model_type == "marian":
            raise SuiteError(
                f"the model in {self.folder} (Marian) reads the target language at the beginning of the source. "
                f"Remove the language settings and set `prompt: '>>{code}<< {{prompt}}'`."
            )
        special = {**self.tokenizer.get_added_vocab(), **self._languages}  # an ordinary token may also be `de`
        for name in (code, f"__{code}__"):
            if name in special:
                return int(special[name])
        names = [name.strip("_") for name in special]
        raise SuiteError(f"the tokenizer in {self.folder} has no token for the language {code!r}.{near(code, names)}")

    def set_source_language(self, code: str) -> None:
        """Set the language of sources; raise SuiteError if the tokenizer does not support languages."""
        if self.network.model_type != "marian" and not hasattr(self.tokenizer, "src_lang"):
            raise SuiteError(
                f"the tokenizer in {self.folder} does not support source languages. Remove `source_language`, or "
                "write the model's input format in `prompt`."
            )
        self.language(code)
        self.tokenizer.src_lang = code

    def _parts(self, text: str) -> Parts:
        """Insert a prompt into the templates in the settings."""
        parts = fill(self.config.prompt, "{prompt}", text)
        return self._chat(text, parts) if getattr(self.config, "chat", False) else parts

    def _before(self, parts: Parts) -> list[int]:
        """Return the special tokens before a prompt, according to the tokenizer and the settings."""
        if getattr(self.config, "chat", False):
            return []
        before, _ = self.reader.around("".join(part for part, _ in parts))
        tokens = self.reader.tokens(parts).ids
        if not tokens and before and before[-1] in self.ends:  # a tokenizer may add EOS after an empty text
            before = before[:-1]
        wanted, first = getattr(self.config, "bos", None), self._first()
        if wanted is True and [*before, *tokens][:1] != [first]:
            return [first, *before]
        return before[1:] if wanted is False and before[:1] == [first] else before

    def _chat(self, data: str, parts: Parts) -> Parts:
        """Insert a message into the chat template; all text except `data` counts as template text."""
        text = "".join(part for part, _ in parts)
        if self.tokenizer.chat_template is None:
            raise SuiteError(
                f"the tokenizer in {self.folder} has no chat template. Set `chat: false`, and write the model's "
                "input format in `prompt`."
            )
        system = getattr(self.config, "system", None)
        messages = [*([{"role": "system", "content": system}] if system else []), {"role": "user", "content": text}]
        try:
            whole = str(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        except Exception as error:  # a template may raise anything
            raise SuiteError(f"the chat template in {self.folder} rejects the message: {one_line(error)}") from None
        if not self.reader.has_control(data):
            return [(whole, True)]
        content = data if whole.count(data) == 1 else data.strip()
        if whole.count(content) != 1:
            raise SuiteError(
                f"the chat template in {self.folder} changes a message with control tokens ({data[:60]!r}), so they "
                "cannot be read as text. Remove them, or set `control_tokens: true`."
            )
        before, _, after = whole.partition(content)
        return [(before, True), (content, False), (after, True)]

    def _first(self) -> int:
        """Return the BOS token."""
        token = self.setting("bos_token_id")
        if not isinstance(token, int):
            token = self.tokenizer.bos_token_id
        return self.ends[0] if token is None else int(token)

    def _ends(self, more: list[str]) -> list[int]:
        """Return the EOS tokens, starting with the main EOS; raise DataError if EOS is undefined."""
        value = self.setting("eos_token_id")
        if value is None:
            value = self.tokenizer.eos_token_id
        ids = value if isinstance(value, list) else [] if value is None else [value]
        ids = [*dict.fromkeys([*ids, *self.tokenizer.convert_tokens_to_ids(more)])]
        if not ids:
            raise DataError(
                f"neither {CONFIG} nor the tokenizer in {self.folder} defines EOS. Add it there as `eos_token_id`."
            )
        return ids

    def _check_stop(self, text: str) -> None:
        """Raise SuiteError if no tokens decode to a stop string."""
        for context in ("", "a", "a "):
            ids = self.tokenizer(f"{context}{text}", add_special_tokens=False).input_ids
            if text in self.decode(ids):
                return
        raise SuiteError(
            f"the stop string {text!r} can never occur: the tokenizer in {self.folder} cannot represent it "
            f"(decoded: {self.decode(ids)!r}). Correct or remove it."
        )


def fill(template: str, name: str, text: str) -> Parts:
    """Insert a text into a template."""
    before, _, after = template.partition(name)
    return [(before, True), (text, False), (after, True)]


def _tokenizer(folder: Path) -> Any:
    """Load the tokenizer in a folder; raise DataError if that fails, e.g. because a library is missing."""
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers may raise anything
        raise DataError(f"the tokenizer in {folder} cannot be loaded: {one_line(error)}") from None
