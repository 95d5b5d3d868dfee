"""The baseline that copies."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench_authors.testing import Case, check_decoder, check_model, tiny_batch, tiny_info
from bench_core import STOP, Purpose, Rng, Size, Source, SuiteError
from bench_decoders.plugin import BeamConfig, GreedyConfig
from bench_translation.plugin import CopySourceConfig, TranslationConfig

UNKNOWN = "⍰"  # as a token `<unk>` reads
LEARNING = {"the_loss_is_finite_and_weighs_target_tokens", "eight_examples_can_be_learnt_by_heart"}


def case(decoder=None):
    """Sources of all lengths, in one vocabulary with the targets."""
    info = tiny_info(Source.TOKENS)
    info = replace(info, source_vocabulary=info.vocabulary)
    batch = tiny_batch(source=Source.TOKENS)
    source = torch.tensor([[1, 2, 0, 0], [4, 4, 3, 0], [0, 0, 0, 0], [2, 0, 0, 0], [3, 1, 4, 0]])
    batch = replace(batch, source=source, source_length=(source != STOP).sum(1) + 1)
    return Case.of(CopySourceConfig(), decoder, info=info, batch=batch)


def test_it_keeps_all_contracts_but_those_of_learning():
    tried = check_model(case())
    assert "selected_rows_go_on_as_they_would" in tried
    assert not LEARNING & {*tried}


def test_a_source_may_end_without_a_stop():
    info = tiny_info(Source.TOKENS)
    info = replace(info, vocabulary=info.source_vocabulary, counts=[])
    check_model(Case.of(CopySourceConfig(), info=info))
    found = Case.of(CopySourceConfig(), GreedyConfig(max_tokens=9), info=info)
    check_decoder(found)
    rows, lengths = found.batch.source.tolist(), found.batch.source_length.tolist()
    sources = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    assert [one.tokens for (one,) in found.decoded()] == sources


@pytest.mark.parametrize("decoder", [GreedyConfig(max_tokens=9), BeamConfig(max_tokens=9, width=3, alpha=0.75)])
def test_every_search_finds_the_source(decoder):
    found = [row[0] for row in case(decoder).decoded()]
    assert [one.tokens for one in found] == [[1, 2], [4, 4, 3], [], [2], [3, 1, 4]]
    assert all(one.finished and one.log_prob == 0 for one in found)


def test_a_long_source_is_cut_off_at_the_limit():
    found = case(GreedyConfig(max_tokens=2)).decoded()[1][0]
    assert (found.tokens, found.finished) == ([4, 4], False)


def test_what_it_says_reads_as_the_source_does(tmp_path):
    config = TranslationConfig.model_validate({"corpus": {"name": "invented", "sentences": 60}, "shared": True})
    task = config.load()(config, tmp_path)
    info = task.prepare(tmp_path)
    (batch,) = task.batches("test", Purpose.DECODE, Size(100))
    model = CopySourceConfig().load()(CopySourceConfig(), info)
    decoder = GreedyConfig(max_tokens=60)
    found = decoder.load()(decoder).decode(model, batch, Rng(0))
    sources = task.sources("test")
    assert sum(UNKNOWN not in task.text(row[0].tokens) for row in found) > 3
    for number, (one,) in zip(batch.ids.tolist(), found, strict=True):
        text = task.text(one.tokens)
        assert text == sources[number] or UNKNOWN in text


def test_two_vocabularies_are_refused():
    info = tiny_info(Source.TOKENS)
    assert list(info.source_vocabulary) != list(info.vocabulary)
    with pytest.raises(SuiteError, match="`shared: true`"):
        CopySourceConfig().load()(CopySourceConfig(), info)
