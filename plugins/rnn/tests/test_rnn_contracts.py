"""The contracts of all models."""

from typing import get_args

import pytest

from bench_authors.testing import Case, check_model
from bench_authors.testing.contracts import check
from bench_authors.testing.models import MODEL_CONTRACTS
from bench_rnn.plugin import Cell, RNNLMConfig

STRATEGIES = [
    {"kind": "truncated", "tau": 1},
    {"kind": "detach", "tau": 2},
    {"kind": "randomized", "pi": 0.5},
]


@pytest.mark.parametrize("cell", get_args(Cell))
def test_the_recurrent_model_keeps_the_contracts(cell):
    check_model(Case.of(RNNLMConfig(cell=cell, hidden=6, dropout=0.1)))


def test_a_gru_of_the_notes_keeps_the_contracts():
    check_model(Case.of(RNNLMConfig(cell="gru", variant="notes", hidden=6, dropout=0.1)))


def test_a_tied_model_keeps_the_contracts():
    check_model(Case.of(RNNLMConfig(hidden=6, tied=True)))


def test_a_model_that_reads_tokens_as_they_are_keeps_the_contracts():
    check_model(Case.of(RNNLMConfig(hidden=6, embedding="one-hot", initial_scale=0.5)))


@pytest.mark.parametrize("cell", [*get_args(Cell), "gru of the notes"])
@pytest.mark.parametrize("bptt", STRATEGIES, ids=lambda bptt: bptt["kind"])
def test_every_cell_is_learnt_by_every_strategy(cell, bptt):
    settings = {"cell": "gru", "variant": "notes"} if cell == "gru of the notes" else {"cell": cell}
    case = Case.of(RNNLMConfig(**settings, hidden=6, dropout=0.1, bptt=bptt))
    learning = [contract for contract in MODEL_CONTRACTS if "loss" in str(contract) or "learnt" in str(contract)]
    assert len(check(learning, case)) == 5  # the others meet no gradient
