"""The interfaces as tests, for every plugin.

A contract is a sentence about an interface that a test can refute, such as
`a_row_scores_alike_alone_and_in_a_batch`. A plugin tries all that apply to its parts with one line each::

    from bench_authors.testing import Case, MetricCase, TaskCase, check_decoder, check_metric, check_model, check_task

    def test_the_lstm_keeps_the_contracts():
        check_model(Case.of(LSTMConfig(hidden=6)))

    @pytest.mark.parametrize("model", [toys.RecurrentConfig, toys.EncoderDecoderConfig, toys.InsertionConfig])
    def test_beam_search_keeps_the_contracts(model):
        check_decoder(Case.of(model(), BeamConfig(width=3, max_tokens=4)))

    def test_the_task_keeps_the_contracts(tmp_path):
        check_task(TaskCase.of(WordsConfig(corpus=SMALL), data=tmp_path, folder=tmp_path))

    def test_the_metric_keeps_the_contracts():
        check_metric(MetricCase.of(BLEUConfig()))

`Case.of` builds the model in float64 with large weights and invents a batch with the source that its Config takes;
`batch`, `info`, `source`, `seed`, `scale` and `device` choose others. What is broken comes as one ExceptionGroup, a
sentence for each contract. The lists `MODEL_CONTRACTS`, `DECODER_CONTRACTS`, `TASK_CONTRACTS` and `METRIC_CONTRACTS`
hold the contracts themselves, to be tried one by one: `if contract.applies(case): contract(case)`.

`bench check --contracts SUITE` tries them on the parts of a suite, with its settings, in a worker process (`trials`).

Where a score differs from the sum of its steps, or has no steps to compare with, a copy of the model is trained on
random tokens: if it scores them better than anything can that does not know them, the message begins with "the model
sees what it predicts". Weights of examples, `extras["weight"]` [N], may be ignored; a loss that knows them counts a
row that weighs 3 like three rows, in `value` and `weight`.

Models and decoders are also tried on an accelerator, a pretended one where there is no other (`accelerators`,
`pretended`): they compute there what they compute on the CPU, and an update does not wait for it, except where
`bench_core.waits_for_device` says why. `check_on_accelerator` tries these contracts alone.

Text generators have contracts of their own (`TextCase`, `check_text_generator`); a model with a vocabulary of its own
is tried on texts that it encodes, without those about losses.

`toys` is a plugin of tiny parts, one model of each family, for tests that need something to work with. A contract of
one's own is written with `@catches(mutant, ...)`, which names the mistakes that it must find.
"""

from bench_authors.looks.rows import float64
from bench_authors.testing import mutants, toys
from bench_authors.testing.accelerators import check_on_accelerator
from bench_authors.testing.cases import Case, MetricCase, TaskCase, TextCase, tiny_batch, tiny_info, tiny_outcomes
from bench_authors.testing.contracts import Contract, catches, patched
from bench_authors.testing.decoders import DECODER_CONTRACTS, check_decoder
from bench_authors.testing.executed_code import uncovered_code
from bench_authors.testing.metrics import METRIC_CONTRACTS, check_metric
from bench_authors.testing.models import MODEL_CONTRACTS, check_model
from bench_authors.testing.tasks import TASK_CONTRACTS, check_task
from bench_authors.testing.text_generators import TEXT_CONTRACTS, check_text_generator

__all__ = [
    "DECODER_CONTRACTS",
    "METRIC_CONTRACTS",
    "MODEL_CONTRACTS",
    "TASK_CONTRACTS",
    "TEXT_CONTRACTS",
    "Case",
    "Contract",
    "MetricCase",
    "TaskCase",
    "TextCase",
    "catches",
    "check_decoder",
    "check_metric",
    "check_model",
    "check_on_accelerator",
    "check_task",
    "check_text_generator",
    "float64",
    "mutants",
    "patched",
    "tiny_batch",
    "tiny_info",
    "tiny_outcomes",
    "toys",
    "uncovered_code",
]
