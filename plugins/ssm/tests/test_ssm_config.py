"""What suites may say of the model, and what is refused."""

import pytest
import torch
from pydantic import ValidationError

from bench_authors.testing import tiny_batch
from bench_core import Batch, Rng, Scoring, SuiteError, TaskInfo, Training
from bench_ssm.plugin import CharGRUConfig, DeepSSMConfig, parse_flow

INFO = TaskInfo(["</s>", *"abcd"])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"delta": 0}, r"above 0 and below 0.5; it is 0"),
        ({"delta": 0.5}, r"above 0 and below 0.5; it is 0.5"),
        ({"delta": "much"}, r"delta"),
        ({"samples": 0}, r"samples"),
        ({"state": 0}, r"state"),
        ({"generative": "triangle"}, r"no flow is called 'triangle'. Use id, diag, tril or real-nvp"),
        ({"generative": "0xtril"}, r"no flow is called '0xtril'"),
        ({"inference": "-1xtril"}, r"no flow is called '-1xtril'"),
        ({"generative": "real-nvp", "masks": (2, 8)}, r"at least 1 and at most 7 of 8 coordinates, but `masks` are \[2, 8\]"),
        ({"generative": "real-nvp", "masks": (0,)}, r"`masks` are \[0\]"),
        ({"generative": "real-nvp", "masks": ()}, r"`masks` are \[\]"),
        ({"generative": "real-nvp", "state": 2}, r"`masks` are \[\]"),
        ({"masks": (2, 3)}, r"apply only to real-nvp"),
        ({"fixed_side": True}, r"apply only to real-nvp"),
        ({"shared": True, "generative": "tril", "inference": "diag"}, r"cannot be both tril and diag"),
        ({"generative": "2xid", "inverse": True}, r"a flow of kind id has no parameters"),
        ({"annealing": 0.1}, r"annealing"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        DeepSSMConfig(**wrong)


def test_names_of_flows_are_read_as_the_paper_writes_them():
    assert parse_flow("2xTRIL") == (2, "tril")
    assert parse_flow("REAL-NVP") == (1, "real-nvp")
    assert DeepSSMConfig(generative="3 x Diag").generative == "3xdiag"
    assert DeepSSMConfig(generative="1xtril") == DeepSSMConfig(generative="TRIL")
    assert DeepSSMConfig(generative="real-nvp").layers == (2, 3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("brief", "explicit"),
    [
        ({"generative": "tril"}, {"inference": "diag"}),
        ({"generative": "2xDIAG"}, {"inference": "diag", "inverse": True}),
        ({"generative": "id"}, {"inverse": False}),
        ({"generative": "tril", "state": 5}, {"embedding": 5}),
        ({"generative": "real-nvp", "state": 4}, {"masks": [2, 3], "inverse": False, "inference": "diag"}),
        ({"inference": "2xreal-nvp", "state": 4}, {"masks": [2, 3]}),
        ({"generative": "2xtril", "shared": True}, {"inference": "2xtril", "inverse": True}),
    ],
)
def test_a_default_and_the_setting_that_says_the_same_are_one_model(brief, explicit):
    model, other = DeepSSMConfig(**brief), DeepSSMConfig(**brief, **explicit)
    assert model.model_dump(mode="json") == other.model_dump(mode="json")
    assert DeepSSMConfig(**model.model_dump()) == model


def test_every_setting_that_another_one_decides_by_default_is_spelled_out():
    for config in (DeepSSMConfig(generative="real-nvp"), DeepSSMConfig(shared=True), CharGRUConfig()):
        unset = {name for name, value in config if value is None}
        assert unset <= {"masks"}, "masks, where no flow is real-nvp"
    assert CharGRUConfig(state=3) == CharGRUConfig(state=3, embedding=3)
    assert DeepSSMConfig(inference="tril") != DeepSSMConfig(inference="diag")


def test_a_target_that_is_too_long_is_refused_by_loss_and_by_every_score():
    config = DeepSSMConfig(state=2, steps=4, trajectories=4)
    model, batch = config.load()(config, INFO), tiny_batch()
    asked = [lambda by=by: model.score(batch, Scoring(by, Rng(1))) for by in config.likelihoods]
    for ask in [*asked, lambda: model.loss(batch, Training(0, 1, 0, 1, Rng(1)))]:
        with pytest.raises(SuiteError, match=r"a target has 5 tokens including EOS.*at most 4 steps.*`steps: 5`"):
            ask()


def test_windows_of_a_stream_are_refused():
    config = DeepSSMConfig(state=2)
    with pytest.raises(SuiteError, match="windows of a stream"):
        config.load()(config, TaskInfo(["</s>", "a"], consecutive=True))


def test_a_batch_may_hold_one_empty_target():
    config = DeepSSMConfig(state=2, trajectories=50)
    model = config.load()(config, INFO)
    zeros = torch.zeros(1, 1, dtype=torch.long)
    batch = Batch(torch.tensor([3]), zeros, zeros, torch.tensor([1]))
    for by in config.likelihoods:
        assert model.score(batch, Scoring(by, Rng(1))).log_probs.isfinite().all()
