"""The pretended GPU of the tests behaves as CUDA does, and our code computes on it."""

from __future__ import annotations

import copy
import gc
import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from bench_small.suites import on_device
from torch import nn
from torch.nn.functional import cross_entropy, dropout, embedding
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

import bench_core
from bench_authors.testing.pretended import CPU, GPU, Pretended
from bench_core.errors import DataError
from bench_core.execution.performing import WATCH
from bench_core.execution.progress import ProgressDisplay
from bench_core.suites import yaml_source as located

ROOT = Path(__file__).parent.parent
SUITES = sorted(
    path.relative_to(ROOT / "suites").as_posix()
    for path in (ROOT / "suites").glob("**/*.yaml")
    if path.parent.name != "references"
)


def profiles_of(suite):
    """Return the profiles of a suite by name."""
    return located.read(ROOT / "suites" / suite).data.get("profiles", {})


TWO = "at least two devices"


@pytest.fixture
def gpu():
    with Pretended():
        yield


def there(*shape):
    return torch.ones(*shape, device="cuda")


REFUSED = {
    "a sum": (lambda: there(2) + torch.ones(2), TWO),
    "a sum in place": (lambda: torch.ones(2).add_(there(2)), TWO),
    "a comparison": (lambda: torch.ones(2) < there(2), TWO),
    "a number on the GPU with many on the CPU": (lambda: torch.ones(2) * there(2).sum(), TWO),
    "a product": (lambda: there(2, 2) @ torch.ones(2, 2), TWO),
    "a concatenation": (lambda: torch.cat([there(2), torch.ones(2)]), TWO),
    "a stack of numbers": (lambda: torch.stack([there(2).sum(), torch.ones(2).sum()]), TWO),
    "a condition": (lambda: torch.where(torch.ones(2).bool(), there(2), 0.0), TWO),
    "a mask": (lambda: there(2).masked_fill(torch.ones(2).bool(), 0), TWO),
    "ids of an embedding": (lambda: embedding(torch.tensor([1]), there(2, 2)), TWO),
    "one id of an embedding": (lambda: nn.Embedding(2, 2).cuda()(torch.tensor(1)), TWO),
    "rows to select": (lambda: there(2).index_select(0, torch.tensor([1])), TWO),
    "places to gather": (lambda: there(2).gather(0, torch.tensor([1])), TWO),
    "places to scatter": (lambda: there(2).scatter(0, torch.tensor([1]), 2.0), TWO),
    "gold of a loss": (lambda: cross_entropy(there(1, 2), torch.tensor([1])), TWO),
    "a list of operands": (lambda: torch._foreach_add([there(2)], [torch.ones(2)]), TWO),
    "a module that stayed": (lambda: nn.Linear(2, 2)(there(1, 2)), TWO),
    "a module that moved": (lambda: nn.Linear(2, 2).to(GPU)(torch.ones(1, 2)), TWO),
    "a buffer that was forgotten": (lambda: torch.arange(2) + there(1, 2), TWO),
    "an index on the GPU": (lambda: torch.ones(2)[there(1).long()], "indices should be"),
    "a mask on the GPU": (lambda: torch.ones(2)[there(2).bool()], "indices should be"),
    "values for places": (lambda: there(2).__setitem__(torch.tensor([0, 1]), torch.ones(2)), TWO),
    "lengths on the GPU": (lambda: pack_padded_sequence(there(1, 2, 3), there(1).long(), True), "CPU int64"),
    "a number on the CPU that is added to": (lambda: torch.zeros(()).add_(there(2).sum()), TWO),
    "a number on the CPU by an operator": (lambda: _added_to(torch.zeros(())), TWO),
    "a result that goes into main memory": (lambda: torch.add(there(2), 1, out=torch.zeros(2)), TWO),
    "a mask of a number": (lambda: there(2).masked_fill(torch.tensor(True), 0.0), TWO),
    "a product of whole numbers": (lambda: there(2, 2).long() @ there(2, 2).long(), "not implemented for 'int64'"),
    "a sum of products of whole numbers": (
        lambda: torch.einsum("ij,jk->ik", there(2, 2).int(), there(2, 2).int()),
        "not implemented",
    ),
    "random bits of a generator of the CPU": (
        lambda: nn.functional.dropout(there(2)).bernoulli_(0.5, generator=torch.Generator()),
        "'cuda' device type",
    ),
    "a permutation of a generator of the CPU": (
        lambda: torch.randperm(3, device="cuda", generator=torch.Generator()),
        "'cuda' device type",
    ),
    "what cannot be pinned": (lambda: there(2).pin_memory(), "cannot pin"),
    "a list of two devices": (lambda: torch._foreach_norm([there(2), torch.ones(2)]), TWO),
    "a generator of the CPU": (
        lambda: torch.rand(2, device="cuda", generator=torch.Generator()),
        "'cuda' device type",
    ),
    "a generator of the GPU": (lambda: torch.rand(2, generator=torch.Generator("cuda")), "'cpu' device type"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.usefixtures("gpu")
def test_what_is_on_two_devices_is_refused(what):
    work, message = REFUSED[what]
    with pytest.raises(RuntimeError, match=message):
        work()


@pytest.mark.usefixtures("gpu")
def test_sizes_and_limits_that_come_from_the_gpu_do_not_move_what_is_made_of_them():
    size = there(2).sum().long()
    assert torch.arange(size).device == torch.full((2,), size).device == torch.zeros(2).new_zeros(size).device == CPU
    assert there(2).new_zeros(size).device == torch.arange(size, device="cuda").device == GPU


@pytest.mark.usefixtures("gpu")
def test_memory_is_pinned_once():
    here = torch.ones(2)
    assert not here.is_pinned()
    pinned = here.pin_memory()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.data_ptr() != here.data_ptr()


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("read", [lambda tensor: tensor.numpy(), np.asarray, lambda tensor: tensor.detach().numpy()])
def test_numpy_reads_nothing_from_a_gpu(read):
    with pytest.raises(TypeError, match="to host memory"):
        read(there(2))
    assert read(there(2).cpu()).tolist() == [1, 1]


def _added_to(total):
    total += there(2).sum()
    return total


ALLOWED = {
    "a number of Python": lambda: there(2) * 2.0,
    "a number on the CPU": lambda: there(2) * torch.tensor(2.0),
    "a condition's number": lambda: torch.where(there(2).bool(), there(2), torch.tensor(0.0)),
    "an index on the CPU": lambda: there(3)[torch.tensor([0, 2])],
    "a mask on the CPU": lambda: there(3)[torch.ones(3).bool()],
    "places of a pair": lambda: there(3, 3)[torch.tensor([0]), torch.tensor([1])],
    "a slice filled from the CPU": lambda: _filled(slice(0, 2), torch.ones(2)),
    "places filled with a number": lambda: _filled(torch.tensor([0, 2]), torch.tensor(1.0)),
    "a copy from the CPU": lambda: there(2).copy_(torch.zeros(2)),
    "what is like it": lambda: torch.zeros_like(there(2)),
    "new tensors of it": lambda: (
        there(2).new_zeros(3) + there(2).new_tensor([1.0, 2, 3]) + there(1).new_full((3,), 1)
    ),
    "a view, a part, a transpose": lambda: there(2, 3).view(3, 2).t()[0:1].flatten(),
    "another type": lambda: there(2).long().to(torch.float64).double(),
    "to the device of another": lambda: torch.ones(2).to(there(1)),
    "a tensor of a tensor": lambda: torch.as_tensor(torch.ones(2), device="cuda"),
    "a mask that is filled with a number on the CPU": lambda: there(2).masked_fill(there(2) > 0, torch.tensor(1.0)),
    "a total that a number on the CPU begins": lambda: torch.zeros(()) + there(2).sum(),
    "a product of numbers": lambda: there(2, 2).double() @ there(2, 2).double(),
    "the type of another": lambda: torch.ones(2).type_as(there(1)),
    "what was pinned": lambda: torch.ones(2).pin_memory().to("cuda", non_blocking=True),
    "what another stream copied": lambda: _by_another_stream(),
    "a list of numbers": lambda: torch.tensor([1, 2], device=GPU),
    "a device for a while": lambda: _within_device(),
    "rows of unequal length": lambda: pad_sequence([there(1), there(2)]),
    "a shape": lambda: torch.ones(1).to("cuda").expand_as(torch.ones(3)),
}


def _filled(places, values):
    tensor = there(3)
    tensor[places] = values
    return tensor


def _by_another_stream():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        copied = torch.ones(2).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    return copied


def _within_device():
    with torch.device("cuda"):
        return torch.arange(2)


@pytest.mark.parametrize("what", ALLOWED)
@pytest.mark.usefixtures("gpu")
def test_what_cuda_allows_is_on_the_gpu_thereafter(what):
    found = ALLOWED[what]()
    assert found.device == GPU
    assert found.is_cuda
    assert not found.is_cpu
    assert found.get_device() == 0


@pytest.mark.usefixtures("gpu")
def test_moving_copies_and_staying_does_not():
    here = torch.ones(2)
    moved = here.to("cuda")
    moved.zero_()
    assert here.tolist() == [1, 1]
    assert moved.to("cuda:0") is moved
    assert moved.cuda() is moved
    assert here.cpu() is here
    assert moved.to("cuda", copy=True) is not moved
    back = moved.cpu()
    back += 1
    assert moved.tolist() == [0, 0]
    assert [each.device for each in (here, back, moved)] == [CPU, CPU, GPU]
    assert torch.as_tensor(here, device="cuda").data_ptr() != here.data_ptr()
    assert here.device == CPU


@pytest.mark.usefixtures("gpu")
def test_parts_of_a_tensor_and_what_it_is_read_into_are_where_they_belong():
    assert {each.device for each in there(2, 3)} == {GPU}
    assert {each.device for each in there(2, 3).unbind(1)} == {GPU}
    assert there(2).detach().data.device == GPU
    assert torch.tensor([there(1).sum(), 2.0]).device == CPU
    assert torch.tensor(there(1).tolist()).device == CPU
    assert torch.ones(2).copy_(there(2)).device == CPU
    assert torch.ones(1).expand_as(there(2)).device == CPU
    assert torch.ones(2, device="meta").device.type == "meta"
    assert not torch.ones(2, device="meta").is_cpu
    assert copy.deepcopy(there(2)).device == GPU


@pytest.mark.usefixtures("gpu")
def test_builds_of_torch_for_cuda_ask_no_driver():
    """Optimizers do before each step, in the builds that Linux installs by default."""
    assert torch.accelerator.current_device_index() == 0
    assert not torch.accelerator.current_stream().is_capturing()
    assert not torch.cuda.is_current_stream_capturing()


@pytest.mark.usefixtures("gpu")
def test_a_module_moves_in_place_with_its_buffers_and_gradients_and_trains():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    weight = module[0].weight
    assert module.to("cuda") is module
    optimizer = torch.optim.Adam(module.parameters(), 0.1)
    before = weight.tolist()
    module(torch.randn(4, 2).cuda()).square().sum().backward()
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()
    assert weight.tolist() != before
    assert module[0].weight is weight
    assert {each.device for each in (weight, weight.grad, module[1].running_mean)} == {GPU}
    assert {each.device for each in copy.deepcopy(module).parameters()} == {GPU}
    module.cpu()
    assert {each.device for each in (weight, weight.grad, module[1].running_mean)} == {CPU}
    assert module(torch.ones(4, 2)).device == CPU


@pytest.mark.slow
@pytest.mark.usefixtures("gpu")
def test_a_place_outlives_the_names_that_a_tensor_had():
    module = nn.Linear(2, 2).cuda()
    views = [module.weight.view(-1)]
    gc.collect()
    assert views[0].device == GPU
    for _ in range(100):  # the memory of what is gone may be used anew
        assert torch.empty(2, 2).device == CPU
        there(2, 2)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_lengths_and_sizes_of_packed_sequences_stay_on_the_cpu(kind):
    network = kind(3, 4, batch_first=True).to("cuda")
    assert network(there(2, 5, 3))[0].device == GPU
    packed = pack_padded_sequence(there(2, 5, 3), torch.tensor([2, 5]), batch_first=True, enforce_sorted=False)
    assert [each.device for each in (packed.data, packed.batch_sizes, packed.sorted_indices)] == [GPU, CPU, GPU]
    out, units = network(packed)
    units = units[0] if kind is nn.LSTM else units
    padded, lengths = pad_packed_sequence(out, batch_first=True)
    assert [each.device for each in (units, padded, lengths)] == [GPU, GPU, CPU]
    with pytest.raises(RuntimeError, match=TWO):
        kind(3, 4, batch_first=True)(packed)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_weights_of_a_recurrent_layer_are_one_piece_of_memory_with_the_same_numbers(kind):
    layer = kind(3, 4, 2)
    before, x = copy.deepcopy(layer), torch.randn(5, 2, 3)
    layer.to("cuda")
    assert len({one.untyped_storage().data_ptr() for one in layer.parameters()}) == 1
    assert torch.allclose(layer(x.to("cuda"))[0].cpu(), before(x)[0], atol=1e-6)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("packed", [False, True])
def test_a_recurrent_layer_has_gradients_in_training_mode_alone(packed):
    layer, x = nn.GRU(3, 4).to("cuda"), torch.randn(5, 2, 3, device="cuda")
    x = pack_padded_sequence(x, torch.tensor([5, 4])) if packed else x

    def loss():
        found = layer(x)[0]
        return (found.data if packed else found).sum()

    torch.autograd.backward(loss())
    layer.eval()
    with pytest.raises(RuntimeError, match="only be called in training mode"):
        torch.autograd.backward(loss())
    with torch.backends.cudnn.flags(enabled=False):
        torch.autograd.backward(loss())


@pytest.mark.usefixtures("gpu")
def test_torch_has_generators_of_the_gpu_from_its_first_use_on():
    assert torch.cuda.default_generators == ()
    torch.ones(2, device="cuda")
    assert len(torch.cuda.default_generators) == 1


@pytest.mark.usefixtures("gpu")
def test_the_gpu_has_a_generator_of_its_own_and_one_seed_sets_both():
    def drawn(device):
        return [torch.rand(1, device=device).item(), dropout(torch.ones(64, device=device)).tolist()]

    torch.manual_seed(1)
    first, second = drawn("cuda"), drawn("cuda")
    torch.manual_seed(1)
    torch.rand(5)
    assert drawn("cuda") == first
    state = torch.cuda.get_rng_state()
    assert drawn("cuda") == second
    torch.cuda.set_rng_state(state)
    assert drawn("cuda") == second
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    nn.Dropout()(there(3))
    there(3).normal_()
    assert torch.rand(1) == expected
    with torch.random.fork_rng(devices=[GPU]):
        drawn("cuda")
    torch.cuda.set_rng_state(state)
    assert drawn("cuda") == second
    own = torch.Generator(device="cuda").manual_seed(3)
    assert own.device == GPU
    torch.randn(2, device="cuda", generator=own)


@pytest.mark.usefixtures("gpu")
def test_functions_of_ones_own_and_several_copies_at_once_compute_on_the_gpu():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            ctx.save_for_backward(given)
            return given * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2 + 0 * ctx.saved_tensors[0]

    given = there(3).requires_grad_()
    torch.autograd.backward(Twice.apply(given).sum())
    assert given.grad.tolist() == [2, 2, 2]
    assert given.grad.device == GPU
    (again,) = torch.autograd.grad(Twice.apply(given).sum(), given)
    assert again.device == GPU
    assert torch.func.vmap(lambda row: row * 2 + there(3))(there(2, 3)).device == GPU
    with pytest.raises(RuntimeError, match=TWO):
        torch.func.vmap(lambda row: row * 2 + torch.ones(3))(there(2, 3))


def test_there_is_no_gpu_before_and_after():
    assert not torch.cuda.is_available()
    with Pretended():
        assert torch.cuda.is_available()
    assert not torch.cuda.is_available()
    assert torch.Generator is torch._C.Generator
    assert (torch.ones(2) + 1).device == CPU


class Failures(ProgressDisplay):
    """Keeps why stages failed."""

    def __init__(self):
        self.found = {}

    def end(self, stage, seconds, failure):
        if failure:
            self.found[f"{stage.kind} {stage.label}"] = failure


#: Enough to go through all code once.
SHORT = ["training.updates=3", "limits.examples=4", "limits.scored=8", "limits.max_tokens=12"]


def run_on(device, suite, folder, *settings, profile="smoke"):
    """Return the cells of a suite's profile, cut short and computed in this process, and why stages failed."""
    failures, path = Failures(), ROOT / "suites" / suite
    with Pretended() if device == "cuda" else nullcontext(), patch.object(WATCH, "idle", False):
        run = bench_core.run(
            path, profile=profile, settings=[*on_device(path, device), *SHORT, *settings], seeds=1,
            store=folder / "store", out=folder / "runs", progress=failures,
        )  # fmt: skip
    return run.cells, failures.found


@pytest.mark.slow
def test_the_diagnostics_compute_on_a_gpu(tmp_path):
    cells, failures = run_on("cuda", "diagnostics.yaml", tmp_path)
    assert not failures
    assert {cell.status for cell in cells} == {"done"}


@pytest.mark.slow
def test_the_quickstart_computes_on_a_gpu_what_it_computes_on_a_cpu(tmp_path):
    settings = [f"models.{model}.dropout=0" for model in ("tanh-rnn", "lstm")]  # its generator is another
    settings += ["training.select.examples=8", "tasks.sentences.corpus={name: english, sentences: 300}"]
    found = {device: run_on(device, "quickstart.yaml", tmp_path / device, *settings) for device in ("cuda", "cpu")}
    for cells, failures in found.values():
        assert not failures
        assert {cell.status for cell in cells} == {"done"}
    values = [[one.value for cell in cells for one in cell.numbers.values()] for cells, _ in found.values()]
    assert values[0] == pytest.approx(values[1], rel=0, abs=0, nan_ok=True)


@pytest.mark.nightly
@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_computes_on_a_gpu(suite, tmp_path):
    """What fails there, such as a training that diverges on purpose, fails on the CPU for the same reason."""
    if "smoke" not in profiles_of(suite):
        pytest.skip("it has no profile `smoke`")
    try:
        cells, failures = run_on("cuda", suite, tmp_path / "cuda")
    except DataError as error:
        pytest.skip(str(error))
    if not cells:
        pytest.skip("its profile `smoke` has no cells")
    if failures:
        here, wanted = run_on("cpu", suite, tmp_path / "cpu")
        assert failures == wanted
        assert [cell.status for cell in cells] == [cell.status for cell in here]
    else:
        assert {cell.status for cell in cells} == {"done"}


@pytest.mark.nightly
@pytest.mark.parametrize("suite", [one for one in SUITES if "gpu" in profiles_of(one)])
def test_every_profile_for_gpus_computes_on_one(suite, tmp_path):
    """With the data and the models of `smoke`, and all else as that profile has it."""
    small = [
        f"{kind}.{name}.{key}={json.dumps(value)}"
        for kind in ("tasks", "models")
        for name, settings in profiles_of(suite)["smoke"].get(kind, {}).items()
        for key, value in (settings or {}).items()
    ]
    cells, failures = run_on("cuda", suite, tmp_path, *small, profile="gpu")
    assert not failures
    assert {cell.status for cell in cells} == {"done"}
