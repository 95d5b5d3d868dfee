"""The examples of a split as text, for systems with their own tokenizer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bench_core.computing.result_checks import brief, check_hypotheses, check_text_scores, gave, named
from bench_core.data import Batch, Hypothesis, Kind, Prediction, Prompt
from bench_core.decoder import TextDecoder
from bench_core.errors import PluginError
from bench_core.model import Generation, OwnVocabulary, TextScorer
from bench_core.task import Task


def separator_after(text: str, task: Task, given_separator: str | None = None) -> str:
    """Return the separator between a prompt and its target: `given_separator` or, by default, the task's."""
    default = "" if not text or text[-1].isspace() else str(getattr(task.config, "separator", " "))
    return default if given_separator is None else given_separator


@dataclass(frozen=True)
class Texts:
    """The prompts and targets of a split."""

    task: Task
    split: str

    def prompts(self, batch: Batch) -> list[Prompt]:
        """Return the prompts of the rows: their sources or, without sources, their token prompts as text."""
        ids, prompts = batch.ids.tolist(), batch.prompt[:, 1:].tolist()
        return [self._prompt(number, prefix) for number, prefix in zip(ids, prompts, strict=True)]

    def encode(self, model: OwnVocabulary, batch: Batch, scored: bool = False) -> Batch:
        """Return the rows in a model's vocabulary, with the first references as targets.

        Unless rows are `scored`, prompts are encoded without targets, and a missing target becomes EOS alone.
        """
        prompts, ids = self.prompts(batch), batch.ids.tolist()
        if scored:
            return encode(model, prompts, [self._target(number) for number in ids])
        rows = encode(model, prompts)
        full = encode(model, prompts, [self._reference(number) or "" for number in ids])
        apart = [alone != joint for alone, joint in zip(_prompts_of(rows), _prompts_of(full), strict=True)]
        extras = {**rows.extras, **full.extras, "apart": rows.ids.new_tensor(apart).bool()}
        return replace(rows, gold=full.gold, length=full.length, extras=extras)

    def spelled_differently(self, model: OwnVocabulary, prompts: Sequence[Prompt], rows: Batch) -> Mapping[int, str]:
        """Return, by id, the decoded targets that differ from the first reference due to the model's tokenizer.

        If a token spans the boundary between a prompt and its target, the target cannot continue the prompt and is
        encoded without it.
        """
        targets = {prompt.id: text for prompt in prompts if (text := self._reference(prompt.id)) is not None}
        apart = {*rows.ids[rows.extras["apart"]].tolist()}
        known = [prompt for prompt in prompts if prompt.id in targets]
        outputs = _outputs(model, [prompt for prompt in known if prompt.id not in apart], rows)
        if alone := [replace(prompt, text="", separator="") for prompt in known if prompt.id in apart]:
            outputs |= _outputs(model, alone, encode(model, alone, [targets[prompt.id] for prompt in alone]))
        return {number: text for number, text in outputs.items() if text != targets[number]}

    def own_targets(self, rows: Batch, groups: Mapping[int, int]) -> Iterator[Prediction]:
        """Yield predictions with the target sizes of rows from `encode`, in the model's tokens.

        EOS counts as a line break. Sizes are unknown for examples without references, and partly unknown for texts
        that their tokens do not reproduce.
        """
        spelled = rows.extras.get("spelled", rows.length * 0).tolist()
        for number, tokens, is_spelled in zip(rows.ids.tolist(), rows.length.tolist(), spelled, strict=True):
            text, group = self._reference(number), groups.get(number)
            if text is None:
                yield Prediction(number, group=group)
            elif is_spelled:
                yield Prediction(number, target_tokens=tokens, group=group, **_sizes(text, stop=True))
            else:
                yield Prediction(number, target_tokens=tokens, target_words=None, group=group)

    def score(
        self, model: TextScorer, batch: Batch, generation: Generation, kind: Kind, groups: Mapping[int, int]
    ) -> Iterator[Prediction]:
        """Score the first reference of each row as text, and yield predictions; EOS counts as a line break."""
        ids = batch.ids.tolist()
        targets = [self._target(number) for number in ids]
        scores = model.score_texts(self.prompts(batch), targets, generation)
        check_text_scores(scores, model, ids, kind)
        for number, target, score in zip(ids, targets, scores, strict=True):
            yield Prediction(
                number, target_log_prob=float(score.log_prob), target_tokens=score.tokens, group=groups.get(number),
                **_sizes(target, score.stop),
            )  # fmt: skip

    def _prompt(self, number: int, prefix: list[int]) -> Prompt:
        text = self._sources.get(number)
        if text is None:
            text = self.task.prompt(prefix) if prefix else ""
        separator = separator_after(text, self.task, self._separators.get(number))
        return Prompt(number, text, self._names.get(number, ""), separator)

    def _target(self, number: int) -> str:
        reference = self._reference(number)
        if reference is None:
            raise PluginError(
                f"example {number} of {self.split!r} has no reference for a model that scores texts. Add a reference."
            )
        return reference

    def _reference(self, number: int) -> str | None:
        """Return the first reference of an example; None if it has none."""
        return next(iter(self._references.get(number, ())), None)

    @cached_property
    def _references(self) -> Mapping[int, Sequence[str]]:
        return self.task.references(self.split)

    @cached_property
    def _sources(self) -> Mapping[int, str]:
        return self.task.sources(self.split)

    @cached_property
    def _separators(self) -> Mapping[int, str]:
        return self.task.separators(self.split)

    @cached_property
    def _names(self) -> Mapping[int, str]:
        return self.task.example_names(self.split)


def _sizes(text: str, stop: bool) -> dict[str, Any]:
    """Return the sizes of a target as fields of a prediction; EOS counts as a line break."""
    words, size = len(text.split()), len(text.encode("utf-8", "surrogatepass"))
    return {"target_words": words + stop, "target_bytes": size + stop, "target_characters": len(text) + stop}


def _prompts_of(batch: Batch) -> list[list[int]]:
    """Return the tokens of each prompt."""
    if batch.source is None or batch.source_length is None:
        return batch.prompt.tolist()
    return [row[:length] for row, length in zip(batch.source.tolist(), batch.source_length.tolist(), strict=True)]


def _outputs(model: OwnVocabulary, prompts: Sequence[Prompt], batch: Batch) -> dict[int, str]:
    """Return the targets of rows as outputs of their model."""
    rows = zip(batch.ids.tolist(), batch.gold.tolist(), batch.length.tolist(), strict=True)
    golds = {number: gold[: length - 1] for number, gold, length in rows}
    return {prompt.id: model.output(golds[prompt.id], prompt) for prompt in prompts}


def encode(model: OwnVocabulary, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
    """Encode prompts in a model's vocabulary; raise PluginError unless there is one row per prompt, in order."""
    batch: Any = model.encode(prompts, targets)
    if not isinstance(batch, Batch) or batch.ids.tolist() != [prompt.id for prompt in prompts]:
        raise gave(model, "encode", brief(batch), "expected a Batch with the ids of the prompts.")
    return batch


def generate_texts(
    decoder: TextDecoder, model: Any, prompts: Sequence[Prompt], generation: Generation
) -> list[list[Hypothesis]]:
    """Decode prompts with a text generator; raise PluginError unless each prompt has hypotheses with texts."""
    rows = decoder.decode_texts(model, prompts, generation)
    who, examples = named(model, "generate"), [prompt.id for prompt in prompts]
    check_hypotheses(rows, who, examples, [decoder.config.max_tokens] * len(prompts), 1)
    for example, row in zip(examples, rows, strict=True):
        if any(hypothesis.text is None for hypothesis in row):
            raise PluginError(f"{who} returned a hypothesis without a text for example {example}.")
    return [[*row] for row in rows]
