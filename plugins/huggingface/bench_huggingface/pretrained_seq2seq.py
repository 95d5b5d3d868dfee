"""Published encoder-decoders, such as T5, BART, Marian, M2M-100 and NLLB."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from bench_core import Batch, DataError, Prompt, State, SuiteError, TaskInfo
from bench_huggingface.joint_text import Joint
from bench_huggingface.kv_cache import kept
from bench_huggingface.plugin import PretrainedSeq2SeqConfig
from bench_huggingface.pretrained import Pretrained, sources_of
from bench_huggingface.source_caches import Sources, cached_sources


@dataclass(frozen=True)
class Reading(State):
    """What a decoder has read of N rows."""

    past: Any  # a State: of the tokens that it has written
    sources: Sources


class PretrainedSeq2Seq(Pretrained):
    """p(y | x) = prod_t p(y_t | x, y_<t) of a decoder that attends to the encoded source x.

    What the decoder begins with, its start token and the language of the target, is given and not scored.
    """

    family = "seq2seq"

    def __init__(self, config: PretrainedSeq2SeqConfig, info: TaskInfo) -> None:
        super().__init__(config, info)
        if config.source_language is not None:
            self.words.read_from(config.source_language)
        self.prefix = self._prefix(config.target_language)

    def tokens_of(self, prompt: str) -> list[int]:
        return self.words.source(prompt)

    def joint(self, prompt: Prompt, target: str) -> Joint:
        """Read both apart, as encoder and decoder do."""
        return replace(self.words.target(target), prompt=self.words.source(prompt.text))

    def limit(self, batch: Batch) -> Tensor | None:
        most = self.positions
        return most and torch.full_like(batch.ids, most[0] - len(self.prefix) + 1)  # the last token is not read

    def begin(self, batch: Batch) -> tuple[Tensor, Reading]:
        source, mask = _masked(batch)
        tokens = self._begun(batch)
        found = self.network(input_ids=source, attention_mask=mask, decoder_input_ids=tokens, use_cache=True)
        cache = found.past_key_values
        sources = cached_sources(cache.cross_attention_cache, found.encoder_last_hidden_state, mask)
        return found.logits[:, -1], Reading(kept(cache.self_attention_cache, tokens), sources)

    def go_on(self, reading: Reading, tokens: Tensor) -> tuple[Tensor, Reading]:
        sources = reading.sources
        found = self.network(
            attention_mask=sources.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=sources.states),
            decoder_input_ids=tokens[:, None],
            past_key_values=EncoderDecoderCache(reading.past.opened(), sources.cache),
            use_cache=True,
        )
        return found.logits[:, -1], Reading(kept(found.past_key_values.self_attention_cache, tokens), sources)

    def logits(self, batch: Batch) -> Tensor:
        source, mask = _masked(batch)
        read = torch.cat([self._begun(batch), self.numbering.of_model(batch.gold[:, :-1])], 1)
        found = self.network(input_ids=source, attention_mask=mask, decoder_input_ids=read, use_cache=False)
        logits: Tensor = found.logits[:, -batch.gold.shape[1] :]
        return logits

    def _begun(self, batch: Batch) -> Tensor:
        """Return what the decoder begins with [N, K]."""
        return torch.tensor(self.prefix, device=batch.ids.device).expand(len(batch), -1)

    def _prefix(self, language: str | None) -> list[int]:
        """Return the tokens that the decoder begins with; raise DataError if the checkpoint does not say them."""
        start = self.words.setting("decoder_start_token_id")
        start = self.words.setting("bos_token_id") if start is None else start
        if not isinstance(start, int):
            raise DataError(
                f"the model in {self.folder} does not say what its decoder begins with. Write it into its "
                "generation_config.json as `decoder_start_token_id`."
            )
        forced = self.words.setting("forced_bos_token_id") if language is None else self.words.language(language)
        found = [start] if forced in (None, start) else [start, int(forced)]
        if max(found) >= self.network.get_input_embeddings().num_embeddings:
            raise SuiteError(
                f"the decoder of the model in {self.folder} would begin with token {max(found)}, which it does not "
                "have. The model and its tokenizer do not belong together."
            )
        return found


def _masked(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the sources and which of their places are real [N, S]."""
    source, length = sources_of(batch)
    return source, (torch.arange(source.shape[1], device=source.device) < length[:, None]).long()
