"""The examples of a split as text, for systems that read no tokens of a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bench_core.computing.result_checks import check_hypotheses, check_text_scores, gave, named, shown
from bench_core.data import Batch, Hypothesis, Kind, Outcome, Prompt
from bench_core.decoder import TextDecoder
from bench_core.errors import PluginError
from bench_core.model import Generation, OwnVocabulary, TextScorer
from bench_core.task import Task


def separator_after(text: str, task: Task, known: str | None = None) -> str:
    """Return what stands between a prompt and its target: `known`, or else the default of tasks."""
    own = "" if not text or text[-1].isspace() else str(getattr(task.config, "separator", " "))
    return own if known is None else known


@dataclass(frozen=True)
class Texts:
    """The prompts and targets of a split."""

    task: Task
    split: str

    def prompts(self, batch: Batch) -> list[Prompt]:
        """Return the prompts of the rows: the source of each, or else its prefix."""
        ids, openings = batch.ids.tolist(), batch.opening[:, 1:].tolist()
        return [self._prompt(number, prefix) for number, prefix in zip(ids, openings, strict=True)]

    def encoded(self, model: OwnVocabulary, batch: Batch, scored: bool = False) -> Batch:
        """Return the rows in the vocabulary of a model, each with its first reference as the target.

        Prompts of targets that are not scored are read without them; such a target may be missing: it is stop alone.
        """
        prompts, ids = self.prompts(batch), batch.ids.tolist()
        if scored:
            return encoded(model, prompts, [self._target(number) for number in ids])
        own = encoded(model, prompts)
        known = encoded(model, prompts, [self._reference(number) or "" for number in ids])
        apart = [one != other for one, other in zip(_prompts_of(own), _prompts_of(known), strict=True)]
        extras = {**own.extras, **known.extras, "apart": own.ids.new_tensor(apart).bool()}
        return replace(own, gold=known.gold, length=known.length, extras=extras)

    def written(self, model: OwnVocabulary, prompts: Sequence[Prompt], own: Batch) -> Mapping[int, str]:
        """Return the targets of rows that tokens of their model write differently from the first reference.

        A target is read apart from its prompt if one of their tokens spans the border, so that it cannot go on from
        the prompt.
        """
        due = {one.id: text for one in prompts if (text := self._reference(one.id)) is not None}
        apart = {*own.ids[own.extras["apart"]].tolist()}
        found = _outputs(model, [one for one in prompts if one.id in due and one.id not in apart], own)
        if alone := [replace(one, text="", separator="") for one in prompts if one.id in due and one.id in apart]:
            found |= _outputs(model, alone, encoded(model, alone, [due[one.id] for one in alone]))
        return {number: text for number, text in found.items() if text != due[number]}

    def own_targets(self, own: Batch, groups: Mapping[int, int]) -> Iterator[Outcome]:
        """Yield what is known of the targets of rows that `encoded` gave, in tokens of their model.

        Stop counts as a line break. Nothing is known of an example without references, nor the size of a text that
        its tokens do not spell.
        """
        spelled = own.extras.get("spelled", own.length * 0).tolist()
        for number, tokens, is_spelled in zip(own.ids.tolist(), own.length.tolist(), spelled, strict=True):
            text, group = self._reference(number), groups.get(number)
            if text is None:
                yield Outcome(number, group=group)
            elif is_spelled:
                yield Outcome(number, target_tokens=tokens, group=group, **_sizes(text, stop=True))
            else:
                yield Outcome(number, target_tokens=tokens, target_words=None, group=group)

    def scored(
        self, model: TextScorer, batch: Batch, generation: Generation, kind: Kind, groups: Mapping[int, int]
    ) -> Iterator[Outcome]:
        """Yield the outcome of each row, its first reference scored as text; stop counts as a line break."""
        ids = batch.ids.tolist()
        targets = [self._target(number) for number in ids]
        found = model.score_texts(self.prompts(batch), targets, generation)
        check_text_scores(found, model, ids, kind)
        for number, target, score in zip(ids, targets, found, strict=True):
            yield Outcome(
                number, target_log_prob=float(score.log_prob), target_tokens=score.tokens, group=groups.get(number),
                **_sizes(target, score.stop),
            )  # fmt: skip

    def _prompt(self, number: int, prefix: list[int]) -> Prompt:
        text = self._sources.get(number)
        if text is None:
            text = self.task.prompt(prefix) if prefix else ""
        separator = self._separators.get(number)
        return Prompt(number, text, self._names.get(number, ""), separator_after(text, self.task, separator))

    def _target(self, number: int) -> str:
        found = self._reference(number)
        if found is None:
            raise PluginError(
                f"example {number} of {self.split!r} has no reference, which a model that reads texts is to score."
            )
        return found

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
    """Return the sizes of a target as an outcome has them; stop counts as a line break."""
    size = len(text.encode("utf-8", "surrogatepass"))
    words = len(text.split())
    return {"target_words": words + stop, "target_bytes": size + stop, "target_characters": len(text) + stop}


def _prompts_of(batch: Batch) -> list[list[int]]:
    """Return the tokens of each prompt."""
    if batch.source is None or batch.source_length is None:
        return batch.opening.tolist()
    rows = zip(batch.source.tolist(), batch.source_length.tolist(), strict=True)
    return [row[:length] for row, length in rows]


def _outputs(model: OwnVocabulary, prompts: Sequence[Prompt], own: Batch) -> dict[int, str]:
    """Return the targets of rows as outputs of their model."""
    rows = zip(own.ids.tolist(), own.gold.tolist(), own.length.tolist(), strict=True)
    golds = {number: gold[: length - 1] for number, gold, length in rows}
    return {one.id: model.output(golds[one.id], one) for one in prompts}


def encoded(model: OwnVocabulary, prompts: Sequence[Prompt], targets: Sequence[str] | None = None) -> Batch:
    """Return what a model makes of prompts; raise PluginError unless it is one row for each, in order."""
    found: Any = model.encode(prompts, targets)
    if not isinstance(found, Batch) or found.ids.tolist() != [one.id for one in prompts]:
        raise gave(model, "encode", shown(found), "it is a Batch with the ids of the prompts.")
    return found


def written(
    decoder: TextDecoder, model: Any, prompts: Sequence[Prompt], generation: Generation
) -> list[list[Hypothesis]]:
    """Return what a text generator writes; raise PluginError unless each prompt has a hypothesis with a text."""
    found = decoder.decode_texts(model, prompts, generation)
    who, examples = named(model, "generate"), [one.id for one in prompts]
    check_hypotheses(found, who, examples, [decoder.config.max_tokens] * len(prompts), 1)
    for example, row in zip(examples, found, strict=True):
        if any(one.text is None for one in row):
            raise PluginError(f"{who} gave example {example} a hypothesis without a text.")
    return [[*row] for row in found]
