"""A simulated GPU: tensors are in main memory, but marked as on a GPU; operations on two devices fail.

    with Pretended():
        torch.ones(2, device="cuda") + torch.ones(2)  # fails as with CUDA

A tensor is on the GPU if its storage is marked; views, parameters and `module.to` follow from this. A function mode
intercepts `torch.Tensor` and all functions of torch: it locates the inputs, rejects inputs on two devices where CUDA
does, and marks the results. A mock replaces the CUDA generator, and `torch.cuda` behaves as if a GPU were available.

Waits of the CPU for the GPU are recorded with the line of code::

    with Pretended(), synchronisations() as recorded:
        loss = model.loss(batch, training)
    assert not undeclared(recorded), "\\n".join(map(str, recorded))

As with cuDNN, recurrent layers have their weights in one storage, and gradients in training mode only.

Code that waits on purpose declares it by `bench_core.waits_for_device`. Reading a copy to the CPU with
`non_blocking=True` before a synchronization fails.

Not simulated: kernels and their numerics, streams, memory, lower precision, and operations called internally by
autograd or libraries, which see only CPU tensors; their waits are recorded if they also read values on a CPU.
"""

from bench_authors.testing.pretended.mode import Pretended
from bench_authors.testing.pretended.placement import CPU, GPU, on_gpu
from bench_authors.testing.pretended.synchronisations import Synchronisation, synchronisations, undeclared

__all__ = ["CPU", "GPU", "Pretended", "Synchronisation", "on_gpu", "synchronisations", "undeclared"]
