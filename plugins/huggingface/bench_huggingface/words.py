"""The tokenizer of a checkpoint: prompts and targets as its tokens, tokens as text, and what ends a text."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedConfig

from bench_core import DataError, Prompt, SuiteError, thinking_in, without_thinking
from bench_huggingface.checkpoint import GENERATION, read_json
from bench_huggingface.folder import CONFIG
from bench_huggingface.joint_text import Joint, Parts, TextReader
from bench_huggingface.plugin import CheckpointConfig

LONGEST_TAG = 40  #: characters


class Words:
    """What a checkpoint reads and writes, in its own numbers of tokens."""

    def __init__(self, folder: Path, config: CheckpointConfig, network: PreTrainedConfig) -> None:
        self.folder, self.config, self.network = folder, config, network
        self.tokenizer = _tokenizer(folder)
        self.reader = TextReader(self.tokenizer, config.control_tokens)
        self.written = [read_json(folder / name) for name in (GENERATION, CONFIG) if (folder / name).is_file()]
        special = set(self.tokenizer.all_special_tokens)
        self.ends = self._ends([text for text in config.stop if text in special])
        self.stops = [text for text in config.stop if text not in special]
        for text in self.stops:
            self._check_stop(text)

    def __len__(self) -> int:
        return max(len(self.tokenizer), *(token + 1 for token in self._languages.values()), 0)

    @property
    def _languages(self) -> dict[str, int]:
        """Return the tokens of languages of M2M-100, which its tokenizer counts among no others."""
        return getattr(self.tokenizer, "lang_token_to_id", {})

    def setting(self, name: str) -> Any:
        """Return what the checkpoint says about the generation of texts; None if nothing."""
        found = next((one[name] for one in self.written if one.get(name) is not None), None)
        return getattr(self.network.get_text_config(), name, None) if found is None else found

    @property
    def never(self) -> list[int]:
        """Return the tokens that the checkpoint forbids in any text."""
        banned = [one[0] for one in self.setting("bad_words_ids") or [] if len(one) == 1]
        return sorted({*banned, *(self.setting("suppress_tokens") or [])})

    def prompt(self, text: str) -> list[int]:
        """Return the tokens of a prompt to go on from, by the templates of the settings; at least one."""
        parts = self._parts(text)
        return [*self._before(parts), *self.reader.tokens(parts).ids] or [self._first()]

    def source(self, text: str) -> list[int]:
        """Return the tokens of a text to translate or transform, as its encoder reads them."""
        parts = filled(self.config.prompt, "{prompt}", text)
        before, behind = self.reader.around("".join(part for part, _ in parts))
        return [*before, *self.reader.tokens(parts).ids, *behind] or [self.ends[0]]

    def target(self, text: str) -> Joint:
        """Return the tokens of a target that stands alone, as a decoder writes it."""
        parts = filled(self.config.answer, "{answer}", text)
        ids = self.reader.tokens(parts, of_target=True).ids
        return Joint([], ids, self.reader.spells([], ids, parts))

    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Return the tokens of a prompt and of the target that goes on from it, read as one text."""
        parts = self._parts(prompt.text)
        answer = [(self.separator(prompt), False), *filled(self.config.answer, "{answer}", target)]
        found = self.reader.joint(self._before(parts), parts, answer)
        return found if found.prompt else replace(found, prompt=[self._first()])

    def separator(self, prompt: Prompt) -> str:
        """Return what stands between a prompt and its target: that of the task, unless templates say it."""
        return prompt.separator if self._goes_on else ""

    @property
    def _goes_on(self) -> bool:
        """Whether a target follows the text of its prompt, with no template between them."""
        glued = self.config.prompt.endswith("{prompt}") and self.config.answer.startswith("{answer}")
        return glued and not getattr(self.config, "chat", False)

    def output(self, tokens: Sequence[int], prompt: Prompt) -> str:
        """Return tokens as what goes on from a prompt, without the separator.

        They are read behind the tokens of the prompt, as scored targets are: at the beginning of a text, some
        tokenizers leave out a space.
        """
        if not self._goes_on:
            return self.text(tokens)
        before = self.prompt(prompt.text)
        start, whole = self.decoded(before), self.decoded([*before, *tokens])
        lead = start + prompt.separator
        return self._ended(whole.removeprefix(lead) if whole.startswith(lead) else self.decoded(tokens))

    def decoded(self, tokens: Sequence[int]) -> str:
        """Return tokens as text, without special ones."""
        found: str = self.tokenizer.decode([*tokens], skip_special_tokens=True)
        return found

    def text(self, tokens: Sequence[int]) -> str:
        """Return tokens as an output: before the first stop string, without what `answer` puts before it."""
        return self._ended(self.decoded(tokens)).removeprefix(self.config.answer.partition("{answer}")[0])

    def answer(self, text: str, tokens: Sequence[int], prompt: Prompt) -> str:
        """Return an output without its thinking, whose tags may be control tokens; raise SuiteError if unsettled."""
        if self.config.thinking == "keep":
            return text
        whole = self._thinking_begun(prompt) + self.reader.read_back(tokens)
        if not (tag := thinking_in(whole)):
            return text
        if self.config.thinking == "drop":
            return self._ended(self.reader.without_control(without_thinking(whole)[0]))
        raise SuiteError(
            f"the output of example {prompt.id} has {tag}, and would be compared with that: {text[:60]!r}. Set "
            "`thinking: drop` of the model to take it off, or `thinking: keep`."
        )

    def _thinking_begun(self, prompt: Prompt) -> str:
        """Return the tag with which the template of a prompt begins thinking; mostly nothing."""
        end = "".join(part for part, is_template in self._parts(prompt.text) if is_template).rstrip()[-LONGEST_TAG:]
        tags = (end[place:] for place in range(len(end)))
        return next((tag for tag in tags if thinking_in(tag) == tag and not without_thinking(tag)[1]), "")

    def _ended(self, text: str) -> str:
        """Return a text up to the first stop string in it."""
        places = [text.find(stop) for stop in self.stops if stop in text]
        return text[: min(places, default=len(text))]

    def language(self, code: str) -> int:
        """Return the token of a language, such as `deu_Latn` or `__de__`; raise SuiteError if there is none."""
        if self.network.model_type == "marian":
            raise SuiteError(
                f"the model in {self.folder} (Marian) reads at the beginning of a source which language to write. "
                f"Leave out its languages and set `prompt: '>>{code}<< {{prompt}}'`."
            )
        special = {**self.tokenizer.get_added_vocab(), **self._languages}  # an ordinary token may be `de` as well
        for name in (code, f"__{code}__"):
            if name in special:
                return int(special[name])
        names = [name.strip("_") for name in special]
        near = " or ".join(map(repr, get_close_matches(code, names, n=3)))
        hint = f" Did you mean {near}?" if near else ""
        raise SuiteError(f"the tokenizer in {self.folder} has no token of the language {code!r}.{hint}")

    def read_from(self, code: str) -> None:
        """Read sources as texts of a language; raise SuiteError where the tokenizer knows of none."""
        if self.network.model_type != "marian" and not hasattr(self.tokenizer, "src_lang"):
            raise SuiteError(
                f"the tokenizer in {self.folder} knows no languages of sources. Leave out `source_language`, or put "
                "what the model expects into `prompt`."
            )
        self.language(code)
        self.tokenizer.src_lang = code

    def _parts(self, text: str) -> Parts:
        """Return a prompt, filled into the templates of the settings."""
        parts = filled(self.config.prompt, "{prompt}", text)
        return self._chat(text, parts) if getattr(self.config, "chat", False) else parts

    def _before(self, parts: Parts) -> list[int]:
        """Return the tokens that a prompt begins with before its own, by its tokenizer and the settings."""
        if getattr(self.config, "chat", False):
            return []
        text = "".join(part for part, _ in parts)
        found, _ = self.reader.around(text)
        own = self.reader.tokens(parts).ids
        if not own and found and found[-1] in self.ends:  # it may put an end behind a text without tokens
            found = found[:-1]
        wanted, first = getattr(self.config, "bos", None), self._first()
        if wanted is True and [*found, *own][:1] != [first]:
            return [first, *found]
        return found[1:] if wanted is False and found[:1] == [first] else found

    def _chat(self, data: str, parts: Parts) -> Parts:
        """Return a message in the chat template, of which the data are no part."""
        text = "".join(part for part, _ in parts)
        if self.tokenizer.chat_template is None:
            raise SuiteError(
                f"the tokenizer in {self.folder} has no chat template. Set `chat: false`, and write what the model "
                "expects into `prompt`."
            )
        system = getattr(self.config, "system", None)
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": text})
        try:
            whole = str(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        except Exception as error:  # whatever a template raises
            why = " ".join(str(error).split()) or type(error).__name__
            raise SuiteError(f"the chat template in {self.folder} refuses a message: {why}") from None
        if not self.reader.has_control(data):
            return [(whole, True)]
        said = data if whole.count(data) == 1 else data.strip()
        if whole.count(said) != 1:
            raise SuiteError(
                f"the chat template in {self.folder} changes a message that holds control tokens ({data[:60]!r}), so "
                "they cannot be read as text. Take them out, or set `control_tokens: true`."
            )
        before, _, behind = whole.partition(said)
        return [(before, True), (said, False), (behind, True)]

    def _first(self) -> int:
        """Return the token that begins texts."""
        found = self.setting("bos_token_id")
        if not isinstance(found, int):
            found = self.tokenizer.bos_token_id
        return self.ends[0] if found is None else int(found)

    def _ends(self, more: list[str]) -> list[int]:
        """Return the tokens that end a text, the usual one first; raise DataError if there is none."""
        found = self.setting("eos_token_id")
        if found is None:
            found = self.tokenizer.eos_token_id
        ids = found if isinstance(found, list) else [] if found is None else [found]
        ids = [*dict.fromkeys([*ids, *self.tokenizer.convert_tokens_to_ids(more)])]
        if not ids:
            raise DataError(
                f"neither {CONFIG} nor the tokenizer in {self.folder} says which token ends a text. Write it there "
                "as `eos_token_id`."
            )
        return ids

    def _check_stop(self, text: str) -> None:
        """Raise SuiteError if no tokens read as such a stop string."""
        for context in ("", "a", "a "):
            ids = self.tokenizer(f"{context}{text}", add_special_tokens=False).input_ids
            if text in self.decoded(ids):
                return
        raise SuiteError(
            f"the stop string {text!r} would never appear: the tokenizer in {self.folder} has no tokens that read so "
            f"(it reads it as {self.decoded(ids)!r}). Correct it, or leave it out."
        )


def filled(template: str, name: str, text: str) -> Parts:
    """Return a template with a text in its place."""
    before, _, behind = template.partition(name)
    return [(before, True), (text, False), (behind, True)]


def _tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a folder; raise DataError if it cannot be loaded, such as for want of a library."""
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # it has many ways to fail
        why = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"the tokenizer in {folder} cannot be loaded: {why}") from None
