"""The parts that this plugin provides, as Configs and hooks; does not import torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from bench_core import ModelConfig, Source, Stepper, TaskConfig, hookimpl, kinded
from bench_language_modeling.api import Corpus, digests
from bench_text.api import BytePairs, CorpusTaskConfig, Words

MIN_SENTENCES = 2  #: minimum number of sentences in a split

_Tokenizer: TypeAlias = Annotated[Words | BytePairs, Field(discriminator="kind")]
Tokenizer: TypeAlias = Annotated[_Tokenizer, BeforeValidator(kinded("word"), json_schema_input_type=str | _Tokenizer)]


class WordOrderConfig(CorpusTaskConfig):
    """Reconstruct a sentence from the bag of its words (Gu et al., 2019, arXiv:1902.01370)."""

    name, target = "word-order", "bench_word_order.recovery:WordOrder"
    inspector = "bench_word_order.inspecting:inspect"
    source = Source.BAG
    cites = ["gu2019insertion", "sentences=spacy: honnibal2020", "tokenizer.kind=bpe: sennrich2016"]

    corpus: Corpus = Field("cpython-docs", validate_default=True)  #: text corpus, as in language modeling
    tokenizer: Tokenizer = Words.model_construct()  #: tokenizer of source and target
    sentences: Literal["rule", "lines", "spacy"] = "rule"  #: how to split paragraphs, unless lines are sentences
    shortest: PositiveInt = 2  #: minimum number of tokens per sentence; shorter sentences are excluded
    longest: PositiveInt | None = None  #: maximum number of tokens per sentence; longer sentences are excluded
    examples: PositiveInt | None = None  #: maximum number of training sentences, evenly spaced over the corpus
    bag: Literal["sorted", "shuffled"] = "sorted"  #: order of source tokens: by id, or random
    seed: NonNegativeInt = 0  #: seed of shuffled bags

    @model_validator(mode="after")
    def _lengths_are_in_order(self) -> Self:
        if self.longest is not None and self.shortest > self.longest:
            raise ValueError(f"`shortest` ({self.shortest}) must be at most `longest` ({self.longest})")
        return self

    def at(self, split: str | None) -> Self:
        return super().at(split).model_copy(update={} if split in (None, "train") else {"examples": None})

    def reads(self, data: Path) -> Mapping[str, str]:
        """Return the digest of each file of the corpus; generated corpora have none."""
        return digests(self.corpus, data)


class BaselineConfig(ModelConfig):
    """Base Config of the word-order baselines."""

    capabilities, sources = {Stepper}, {Source.BAG}

    def exempt(self) -> Mapping[str, str]:
        contracts = ("the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart")
        return dict.fromkeys(contracts, "updates do not change it")


class BagOrderConfig(BaselineConfig):
    """A baseline that copies the bag in its sorted or shuffled order; it learns nothing."""

    name, target = "bag-order", "bench_text.copy_source:CopySource"


class BagBigramsConfig(BaselineConfig):
    """A baseline that chooses each next word from the bag by the previous word (Witten and Bell, 1991)."""

    name, target = "bag-bigrams", "bench_word_order.bag_bigrams:BagBigrams"
    cites = ["witten1991"]


@hookimpl
def bench_tasks() -> list[type[TaskConfig]]:
    """Return the task's Config."""
    return [WordOrderConfig]


@hookimpl
def bench_models() -> list[type[ModelConfig]]:
    """Return the Configs of the baselines."""
    return [BagOrderConfig, BagBigramsConfig]
