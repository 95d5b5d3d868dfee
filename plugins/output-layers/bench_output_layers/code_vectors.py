"""The word vectors of a codebook."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from bench_core import DataError, PluginError, Rng, TaskInfo
from bench_output_layers.codebooks import CodebookConfig, VectorCodebookConfig
from bench_output_layers.vectors import Vectors, vectors_of


def vectors_for(
    codebook: CodebookConfig, info: TaskInfo, sentences: Sequence[list[int]] | None = None, rng: Rng | None = None
) -> Vectors | None:
    """Return the vectors of a task's tokens, from a file or learned from `sentences`.

    None if they are not needed or, without a file, not learned yet.
    """
    if not codebook.needs_vectors():
        return None
    if not isinstance(codebook, VectorCodebookConfig):
        raise PluginError(
            f"the codebook {codebook.name!r} needs word vectors, but lacks their settings: extend "
            "`VectorCodebookConfig`, which has `vectors` and `vector_size`."
        )
    return vectors_of(info, codebook.vector_size, sentences, rng)


def about(vectors: Vectors, counts: Tensor, codebook: CodebookConfig) -> Mapping[str, str]:
    """Return notes on the vectors of tokens with `counts`; raise DataError if no token has a vector."""
    tokens, missing = len(counts), int((~vectors.known).sum())
    if missing == tokens:
        raise DataError(
            f"none of the {tokens:,} tokens with codewords has a word vector ({vectors.name}). Provide vectors of "
            "the same language and case, or choose `codes` without vectors, such as `dense`."
        )
    notes = {"word vectors": vectors.description(counts)}
    if missing and codebook.without_vector:
        notes["tokens without a vector"] = f"{missing:,} of {tokens:,}, which {codebook.without_vector}"
    return notes
