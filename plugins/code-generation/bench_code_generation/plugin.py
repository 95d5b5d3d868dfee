"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, model_validator

from bench_code_generation.settings import Corpus, CPythonPairs
from bench_core import MetricConfig, Purpose, Source, TaskConfig, hookimpl
from bench_text.api import CorpusTaskConfig, Words
from bench_translation.api import Both, Tokenizers


class CodeGenerationConfig(CorpusTaskConfig):
    """Generation of a line of Python from its pseudo-code (Oda et al., 2015; Gu et al., 2019)."""

    name, target = "code-generation", "bench_code_generation.generation:CodeGeneration"
    inspector = "bench_code_generation.inspecting:inspect"
    source = Source.TOKENS
    cites = [
        "gu2019insertion",
        "corpus.name=django: oda2015",
        "corpus.name=django-clean: oda2015",
        "corpus.name=django-clean: yin2017",
        "tokenizer.source.kind=bpe: sennrich2016",
        "tokenizer.target.kind=bpe: sennrich2016",
    ]

    corpus: Corpus = CPythonPairs.model_construct(
        name="cpython-pairs"
    )  #: a name, a name with settings, or your own files
    tokenizer: Tokenizers = Both.model_construct(
        source=Words.model_construct(), target=Words.model_construct()
    )  #: tokenizer of both sides, or of each
    shared: bool = False  #: whether source and target share a vocabulary
    longest: PositiveInt | None = None  #: maximum tokens on either side of a training pair

    @model_validator(mode="after")
    def _sides_can_share(self) -> Self:
        if self.shared and self.tokenizer.source != self.tokenizer.target:
            raise ValueError("`shared: true` needs the same tokenizer for source and target. Change one of them")
        return self

    def at(self, split: str | None) -> Self:
        return super().at(split).model_copy(update={} if split in (None, "train") else {"longest": None})

    def purposes(self, split: str) -> Set[Purpose]:
        """Return all purposes for splits of the corpus, none for other splits."""
        from bench_code_generation.corpus import splits

        return set(Purpose) if split in splits(self.corpus) else set()

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of each file, or of the standard library."""
        from bench_code_generation.corpus import digests  # only when data are read

        return digests(self.corpus, data)


class ParsedCodeConfig(MetricConfig):
    """Common settings of metrics that parse outputs; nothing is executed."""

    range = 0, 100

    newline: Annotated[str, Field(pattern=r"^\S+$")] = "_newline_"  #: the word that ends a line


class CodeExactMatchConfig(ParsedCodeConfig):
    """Share of programs that match a reference after both are parsed and unparsed."""

    name, target = "code-exact-match", "bench_code_generation.matching:CodeExactMatch"
    of_texts = True
    cites = ["yin2017"]


class ParsesConfig(ParsedCodeConfig):
    """Share of programs that parse."""

    name, target = "parses", "bench_code_generation.matching:Parses"


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task."""
    return [CodeGenerationConfig]


@hookimpl
def bench_metrics() -> list[type[MetricConfig]]:
    """Return the metrics of code."""
    return [CodeExactMatchConfig, ParsesConfig]
