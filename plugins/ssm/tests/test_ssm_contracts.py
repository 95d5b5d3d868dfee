"""Every variant keeps the contracts of models."""

import pytest

from bench_core.testing import Case, check_model
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
    {"generative": "id"},
    {"generative": "diag", "information_draws": 3},
    {"generative": "tril"},
    {"generative": "2xtril", "samples": 3},
    {"generative": "tril", "inverse": False, "inference": "tril", "bidirectional": True},
    {"generative": "2xdiag", "inference": "id", "q_sees_state": True, "samples": 2},
    {"generative": "real-nvp", "masks": (1, 2)},
    {"generative": "2xreal-nvp", "masks": (2, 1), "fixed_side": True, "inverse": True, "samples": 2},
    {"generative": "2xtril", "shared": True, "state": 4, "embedding": 2},
]


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_the_deep_state_space_model_keeps_the_contracts(settings):
    check_model(Case.of(DeepSSMConfig(**SMALL | settings)))
