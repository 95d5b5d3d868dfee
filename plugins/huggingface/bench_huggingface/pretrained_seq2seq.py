"""Published encoder-decoders, such as T5, BART, Marian, M2M-100 and NLLB."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from bench_core import Batch, DataError, Prompt, State, SuiteError, TaskInfo
from bench_huggingface.joint_text import Joint
from bench_huggingface.kv_cache import as_state
from bench_huggingface.plugin import PretrainedSeq2SeqConfig
from bench_huggingface.pretrained import PretrainedModel, sources_of
from bench_huggingface.source_caches import CachedSources, cached_sources


@dataclass(frozen=True)
class DecoderState(State):
    """The state of a decoder for N rows."""

    past: Any  # a State for the output tokens
    sources: CachedSources


class PretrainedSeq2Seq(PretrainedModel):
    """p(y | x) = prod_t p(y_t | x, y_<t) of a decoder that attends to the encoded source x.

    The decoder's initial tokens, start token and target language, are not scored.
    """

    family = "seq2seq"

    def __init__(self, config: PretrainedSeq2SeqConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        if config.source_language is not None:
            self.words.set_source_language(config.source_language)
        self.prefix = self._prefix(config.target_language)

    def tokens_of(self, prompt: str) -> list[int]:
        return self.words.source(prompt)

    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Tokenize the prompt for the encoder and the target for the decoder."""
        return replace(self.words.target(target), prompt=self.words.source(prompt.text))

    def limit(self, batch: Batch) -> Tensor | None:
        positions = self.positions
        return positions and torch.full_like(batch.ids, positions[0] - len(self.prefix) + 1)  # the last is not read

    def begin(self, batch: Batch) -> tuple[Tensor, DecoderState]:
        source, mask = _sources_and_mask(batch)
        tokens = self._initial_tokens(batch)
        output = self.network(input_ids=source, attention_mask=mask, decoder_input_ids=tokens, use_cache=True)
        cache = output.past_key_values
        sources = cached_sources(cache.cross_attention_cache, output.encoder_last_hidden_state, mask)
        return output.logits[:, -1], DecoderState(as_state(cache.self_attention_cache, tokens), sources)

    def advance(self, reading: DecoderState, tokens: Tensor) -> tuple[Tensor, DecoderState]:
        sources = reading.sources
        output = self.network(
            attention_mask=sources.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=sources.states),
            decoder_input_ids=tokens[:, None],
            past_key_values=EncoderDecoderCache(reading.past.reserve(), sources.cache),
            use_cache=True,
        )
        past = as_state(output.past_key_values.self_attention_cache, tokens)
        return output.logits[:, -1], DecoderState(past, sources)

    def logits(self, batch: Batch) -> Tensor:
        source, mask = _sources_and_mask(batch)
        inputs = torch.cat([self._initial_tokens(batch), self.numbering.of_model(batch.gold[:, :-1])], 1)
        output = self.network(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False)
        logits: Tensor = output.logits[:, -batch.gold.shape[1] :]
        return logits

    def _initial_tokens(self, batch: Batch) -> Tensor:
        """Return the initial tokens of the decoder [N, K]."""
        return torch.tensor(self.prefix, device=batch.ids.device).expand(len(batch), -1)

    def _prefix(self, language: str | None) -> list[int]:
        """Return the initial tokens of the decoder; raise DataError if the checkpoint does not define them."""
        start = self.words.setting("decoder_start_token_id")
        start = self.words.setting("bos_token_id") if start is None else start
        if not isinstance(start, int):
            raise DataError(
                f"the model in {self.folder} does not define the first token of its decoder. Add it to "
                "generation_config.json as `decoder_start_token_id`."
            )
        forced = self.words.setting("forced_bos_token_id") if language is None else self.words.language(language)
        prefix = [start] if forced in (None, start) else [start, int(forced)]
        if max(prefix) >= self.network.get_input_embeddings().num_embeddings:
            raise SuiteError(
                f"the decoder of the model in {self.folder} begins with token {max(prefix)}, which is not in its "
                "vocabulary. Tokenizer and model do not match."
            )
        return prefix


def _sources_and_mask(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the sources, and a mask of their positions that are not padding, both [N, S]."""
    source, length = sources_of(batch)
    return source, (torch.arange(source.shape[1], device=source.device) < length[:, None]).long()
