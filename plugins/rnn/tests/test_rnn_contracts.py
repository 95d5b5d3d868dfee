"""The contracts of all models."""

from typing import get_args

import pytest

from bench_core.testing import Case, check_model
from bench_rnn.plugin import Cell, RNNLMConfig


@pytest.mark.parametrize("cell", get_args(Cell))
def test_the_recurrent_model_keeps_the_contracts(cell):
    check_model(Case.of(RNNLMConfig(cell=cell, hidden=6, dropout=0.1)))


def test_a_tied_model_keeps_the_contracts():
    check_model(Case.of(RNNLMConfig(hidden=6, tied=True)))
