"""A pretended GPU: tensors lie in main memory, but on a device of their own, and operations on two devices fail.

    with Pretended():
        torch.ones(2, device="cuda") + torch.ones(2)  # fails as CUDA makes it fail

A storage is on the GPU if it is marked so; views, parameters and `module.to` follow from that. `torch.Tensor` and
all functions of torch are watched by a function mode: it says where the inputs are, refuses those on two devices
where CUDA does, and marks what comes out. Of CUDA's own generator there is a double, and `torch.cuda` answers as if
there was a GPU.

What makes the CPU wait for the GPU is recorded, with the line of the code::

    with Pretended(), synchronisations() as found:
        loss = model.loss(batch, training)
    assert not undeclared(found), "\\n".join(map(str, found))

As with cuDNN, recurrent layers have their weights in one storage, and gradients in training mode alone.

Code that waits on purpose says so by `bench_core.waits_for_device`. A copy to the CPU with `non_blocking=True` that
is read before anything waited fails.

What it does not know: the kernels and their numbers, streams, memory, lower precision, and operations that autograd
or a library calls by itself, which see tensors on the CPU only; of these, what waits is recorded, if it also reads
numbers on a CPU.
"""

from bench_authors.testing.pretended.mode import Pretended
from bench_authors.testing.pretended.placement import CPU, GPU, on_gpu
from bench_authors.testing.pretended.synchronisations import Synchronisation, synchronisations, undeclared

__all__ = ["CPU", "GPU", "Pretended", "Synchronisation", "on_gpu", "synchronisations", "undeclared"]
