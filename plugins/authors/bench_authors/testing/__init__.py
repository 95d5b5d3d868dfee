"""The contracts of the interfaces as tests, for plugins.

A contract is a testable statement about an interface, such as `a_row_scores_alike_alone_and_in_a_batch`. One line
tests all contracts that apply to a part::

    from bench_authors.testing import Case, MetricCase, TaskCase, check_decoder, check_metric, check_model, check_task

    def test_the_lstm_keeps_the_contracts():
        check_model(Case.of(LSTMConfig(hidden=6)))

    @pytest.mark.parametrize("model", [toys.ToyRecurrentConfig, toys.ToyEncoderDecoderConfig, toys.InsertionConfig])
    def test_beam_search_keeps_the_contracts(model):
        check_decoder(Case.of(model(), BeamConfig(width=3, max_tokens=4)))

    def test_the_task_keeps_the_contracts(tmp_path):
        check_task(TaskCase.of(WordsConfig(corpus=SMALL), data=tmp_path, folder=tmp_path))

    def test_the_metric_keeps_the_contracts():
        check_metric(MetricCase.of(BLEUConfig()))

`Case.of` builds the model in float64 with large weights and creates a batch with a source that its Config accepts;
`batch`, `info`, `source`, `seed`, `scale` and `device` override the defaults. Broken contracts are raised as an
ExceptionGroup with a message for each. `MODEL_CONTRACTS`, `DECODER_CONTRACTS`, `TASK_CONTRACTS` and
`METRIC_CONTRACTS` list the contracts; to test a single contract: `if contract.applies(case): contract(case)`.

`bench check --contracts SUITE` tests the parts of a suite, with its settings, in a worker process (`trials`).

If a score differs from the sum of its steps, or there are no steps, a copy of the model is trained on random tokens.
If the copy scores these tokens better than is possible without seeing them, the message begins with "the model sees
what it predicts". Losses may ignore weights of examples, `extras["weight"]` [N]; otherwise a row of weight 3 must
count like three rows, in `value` and `weight`.

Models and decoders are also tested on an accelerator, which is simulated if none is available (`accelerators`,
`pretended`): results must equal CPU results, and updates must not wait for the device, except where
`bench_core.waits_for_device` declares the reason. `check_on_accelerator` tests only these contracts.

Text generators have separate contracts (`TextCase`, `check_text_generator`). Models with their own vocabulary are
tested on texts that they encode, without the contracts of losses.

`toys` is a plugin of tiny parts for tests, with one model of each family. Define further contracts with
`@catches(mutant, ...)`, which lists the mutants that the contract must catch.
"""

from bench_authors.looks.rows import float64
from bench_authors.testing import mutants, toys
from bench_authors.testing.accelerators import check_on_accelerator
from bench_authors.testing.cases import Case, MetricCase, TaskCase, TextCase, tiny_batch, tiny_info, tiny_predictions
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
    "tiny_predictions",
    "toys",
    "uncovered_code",
]
