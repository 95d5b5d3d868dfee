"""Every variant keeps the contracts of models."""

import pytest
import torch

from bench_authors.testing import Case, check_model
from bench_core import Rng, Training
from bench_ssm.plugin import DeepSSMConfig

SMALL = {
    "state": 3,
    "reader": 4,
    "posterior": 5,
    "trajectories": 500,
    "steps": 8,
    "information_draws": 3,
    "logged": 2,
}
VARIANTS = [
    pytest.param({"generative": "id"}, marks=pytest.mark.slow),
    {"generative": "diag", "information_draws": 3},
    {"generative": "tril"},
    {"generative": "2xtril", "samples": 3},
    {"generative": "tril", "inverse": False, "inference": "tril", "bidirectional": True},
    {"generative": "2xdiag", "inference": "id", "q_sees_state": True, "samples": 2},
    {"generative": "real-nvp", "masks": (1, 2)},
    pytest.param(
        {"generative": "2xreal-nvp", "masks": (2, 1), "fixed_side": True, "inverse": True, "samples": 2},
        marks=pytest.mark.slow,
    ),
    {"generative": "2xtril", "shared": True, "state": 4, "embedding": 2},
]


@pytest.mark.quick(1, 1)
@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_the_deep_state_space_model_keeps_the_contracts(settings):
    check_model(Case.of(DeepSSMConfig(**SMALL | settings)))


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_an_update_can_be_taken_in_half_precision(settings):
    case, training = Case.of(DeepSSMConfig(**SMALL | settings)), Training(0, 1, 0, 1, Rng(0))
    model = case.model.float()
    exact = model.loss(case.batch, training).value
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(case.batch, training).value
    loss.backward()
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=0.05, atol=0.05)
    assert all(weights.grad is None or weights.grad.isfinite().all() for weights in model.parameters())
