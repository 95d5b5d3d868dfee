"""torch's recurrent layers with batch-first states."""

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from bench_core.host_copies import by_host, on_host, to_device


class BatchFirstRNN(nn.Module):
    """A wrapper of `nn.LSTM`, `nn.GRU` or `nn.RNN`, built with `batch_first=True`, with states [N, layers, H].

    >>> import torch
    >>> layers = BatchFirstRNN(nn.LSTM(8, 16, batch_first=True))
    >>> outputs, (hidden, cells) = layers(torch.zeros(2, 5, 8))
    >>> outputs.shape, hidden.shape
    (torch.Size([2, 5, 16]), torch.Size([2, 1, 16]))
    """

    def __init__(self, layers: nn.RNNBase) -> None:
        super().__init__()
        self.layers = layers

    def forward(
        self, inputs: Tensor, past: tuple[Tensor, ...] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Read `inputs` [N, K, E] from state `past`; return the outputs of the top layer [N, K, H] and the new state.

        States are tuples of tensors [N, layers, H]: hidden states, and cell states of an LSTM. With `mask` [N, K],
        true up to each row's length, padding is skipped in both directions, and outputs at padding are 0.
        """
        turned = [unit.transpose(0, 1).contiguous() for unit in past or ()]  # copied only after rows were selected
        state = None if past is None else turned[0] if len(turned) == 1 else tuple(turned)
        if mask is None:
            outputs, last = self.layers(inputs, state)
        else:
            packed, last = self.layers(pack(inputs, by_host(lambda mask: mask.sum(1), mask)), state)
            outputs = unpack(packed, inputs.shape[1])
        units = last if isinstance(last, tuple) else (last,)
        return outputs, tuple(unit.transpose(0, 1) for unit in units)


def pack(inputs: Tensor, length: Tensor) -> PackedSequence:
    """Pack `inputs` [N, K, E] with lengths `length` [N] for torch's recurrent layers.

    Equals `torch.nn.utils.rnn.pack_padded_sequence`, but does not synchronize an accelerator.
    """
    lengths, order = on_host(length).sort(descending=True)
    order = to_device(order, inputs.device)
    packed = pack_padded_sequence(inputs.index_select(0, order), lengths, batch_first=True)
    return PackedSequence(packed.data, packed.batch_sizes, order)


def unpack(packed: PackedSequence, steps: int) -> Tensor:
    """Return the padded tensor [N, steps, E] of a packed sequence, 0 at padding."""
    rows = packed.unsorted_indices
    outputs, _ = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes), True, total_length=steps)
    return outputs if rows is None else outputs.index_select(0, rows)
