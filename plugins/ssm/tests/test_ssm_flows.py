"""Transition functions: inverses, Jacobians, and what makes each kind what it is."""

from dataclasses import replace

import pytest
import torch
from torch.autograd.functional import jacobian

from bench_ssm import flows
from bench_ssm.maps import Inverted, Triangle, compose
from bench_ssm.plugin import DeepSSMConfig

KINDS = [
    {"generative": "id"},
    {"generative": "diag"},
    {"generative": "tril"},
    {"generative": "2xtril"},
    {"generative": "3xdiag"},
    {"generative": "2xid"},
    {"generative": "real-nvp"},
    {"generative": "2xreal-nvp", "masks": (1, 3), "fixed_side": True},
]


@pytest.fixture(autouse=True)
def _double():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def flow(scale=3.0, **settings):
    """Return F_g with weights far from those at first."""
    found = flows.generative(DeepSSMConfig(**{"state": 4} | settings))
    with torch.no_grad():
        for weights in found.parameters():
            weights.add_(torch.randn_like(weights) * 0.1 * scale)
    return found


def both(kinds):
    return [kind | {"inverse": inverse} for kind in kinds for inverse in {False, "id" not in kind["generative"]}]


def label(settings):
    return "-".join(map(str, settings.values()))


@pytest.mark.parametrize("settings", both(KINDS), ids=label)
def test_a_flow_and_its_inverse_undo_each_other(settings):
    at, points = flow(**settings).at(torch.randn(5, 4)), torch.randn(5, 6, 4)
    moved, there = at.forward(points)
    back, again = at.inverse(moved)
    torch.testing.assert_close(back, points, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(there, again, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", both(KINDS), ids=label)
def test_log_determinants_are_those_of_the_jacobian(settings):
    transition, states, points = flow(**settings), torch.randn(3, 4), torch.randn(3, 2, 4)
    found = transition.at(states).forward(points)[1].expand(3, 2)
    for row, state in enumerate(states):
        for place, point in enumerate(points[row]):
            matrix = jacobian(lambda x, at=state[None]: transition.at(at).forward(x[None, None])[0][0, 0], point)
            torch.testing.assert_close(found[row, place], torch.linalg.slogdet(matrix).logabsdet)


@pytest.mark.parametrize("settings", KINDS[1:5] + KINDS[6:], ids=label)
def test_what_a_flow_does_depends_on_the_state(settings):
    transition, point = flow(**settings), torch.randn(1, 1, 4)
    first, second = (transition.at(state).forward(point)[0] for state in torch.randn(2, 1, 4))
    assert (first - second).abs().max() > 1e-3


def test_triangular_flows_that_are_told_together_are_those_told_one_by_one():
    learnt, states = flow(generative="3xtril", inverse=False), torch.randn(5, 4)
    together, apart = learnt.at(states), compose([each.at(states) for each in learnt.flows])
    for name in ("shift", "matrix", "log_det"):
        torch.testing.assert_close(getattr(together, name), getattr(apart, name))


def test_diagonals_keep_away_from_zero_and_learn_as_if_they_did_not():
    diagonal = torch.tensor([0.02, -0.02, 0.0, 0.7, -0.3, 0.1], requires_grad=True)
    kept = flows.clip_away(diagonal, 0.1)
    assert kept.tolist() == [0.1, -0.1, 0.1, 0.7, -0.3, 0.1]
    kept.sum().backward()
    assert diagonal.grad.tolist() == [1.0] * 6
    wild = (
        flow(scale=30, generative="tril", delta=0.3, inverse=False)
        .at(torch.randn(200, 4))
        .matrix.diagonal(dim1=1, dim2=2)
    )
    assert (wild.abs() >= 0.3).all()
    assert (wild.abs() == 0.3).any()


def test_a_triangular_matrix_has_nothing_above_its_diagonal_and_all_below():
    matrix = flow(generative="tril", inverse=False).at(torch.randn(3, 4)).matrix
    assert (matrix.triu(1) == 0).all()
    assert (matrix.tril() != 0).sum() == 3 * 10


def test_flows_start_near_the_identity_and_a_random_walk_adds_to_the_state():
    states, points = torch.randn(3, 4), torch.randn(3, 5, 4)
    for name in ("diag", "tril"):
        moved, _ = flow(scale=0, generative=name).at(states).forward(points)
        torch.testing.assert_close(moved, points, rtol=0, atol=0.3)
    moved, log_det = flow(generative="id").at(states).forward(points)
    assert torch.equal(moved, states[:, None] + points)
    assert (log_det == 0).all()


def test_two_triangular_flows_are_one():
    both, state, points = flow(generative="2xtril", inverse=False), torch.randn(3, 4), torch.randn(3, 5, 4)
    first, second = (part.at(state) for part in both.flows)
    whole = both.at(state)
    assert isinstance(whole, Triangle)
    torch.testing.assert_close(whole.forward(points)[0], second.forward(first.forward(points)[0])[0])
    torch.testing.assert_close(whole.matrix, second.matrix @ first.matrix)
    torch.testing.assert_close(whole.shift, second.shift + (second.matrix @ first.shift[..., None])[..., 0])
    torch.testing.assert_close(whole.log_det, first.log_det + second.log_det)
    assert sum(weights.numel() for weights in both.parameters()) == 2 * sum(
        w.numel() for w in both.flows[0].parameters()
    )


def test_an_inverse_parametrised_flow_is_the_forward_one_of_the_inverse_matrix():
    inverse, state, points = flow(generative="tril"), torch.randn(3, 4), torch.randn(3, 5, 4)
    at = inverse.at(state)
    assert isinstance(at, Inverted)
    matrix = torch.linalg.inv(at.map.matrix)
    shift = -(matrix @ at.map.shift[..., None])[..., 0]
    other = Triangle(shift, matrix, -at.map.log_det)
    for found, wanted in zip(at.forward(points), other.forward(points), strict=True):
        torch.testing.assert_close(found, wanted)


def test_affine_flows_learn_their_inverse_by_default():
    kinds = {name: isinstance(flow(generative=name), flows.Inverse) for name in ("id", "diag", "tril", "real-nvp")}
    assert kinds == {"id": False, "diag": True, "tril": True, "real-nvp": False}


def test_layers_of_real_nvp_take_turns_with_the_side_that_they_keep():
    states, points = torch.randn(3, 8), torch.randn(3, 5, 8)
    fixed = flow(generative="real-nvp", state=8, fixed_side=True).at(states).forward(points)[0]
    turning = flow(generative="real-nvp", state=8).at(states).forward(points)[0]
    assert torch.equal(fixed[..., :2], points[..., :2])
    assert (fixed[..., 2:] != points[..., 2:]).all()
    assert (turning != points).all()
    layers = flow(generative="real-nvp", state=8).flows
    assert [(layer.kept, layer.first) for layer in layers] == [
        (2, True), (3, False), (4, True), (5, False), (6, True), (7, False),
    ]  # fmt: skip


def test_scales_of_real_nvp_are_bounded():
    transition = flow(scale=300, generative="real-nvp", masks=(1,))
    _, log_det = transition.at(torch.randn(50, 4)).forward(torch.randn(50, 3, 4))
    assert log_det.abs().max() <= 6
    assert log_det.abs().max() > 5
    assert transition.kept == 1


def test_points_of_one_state_do_not_mix():
    transition, states, points = flow(generative="real-nvp"), torch.randn(3, 4), torch.randn(3, 5, 4)
    at = transition.at(states)
    alone = replace(at, maps=at.maps).forward(points[:, 2:3])[0]
    torch.testing.assert_close(at.forward(points)[0][:, 2:3], alone)
