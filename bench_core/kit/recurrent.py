"""torch's recurrent layers with states whose first dimension is the row."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BatchFirstRNN(nn.Module):
    """Wraps `nn.LSTM`, `nn.GRU` or `nn.RNN`, built with `batch_first=True`, so that states are [N, layers, H] too.

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
        """Read `inputs` [N, K, E] from state `past`; return the outputs of the top layer [N, K, H], and a new state.

        States are tuples of tensors [N, layers, H]: hidden units, and cells of an LSTM. With `mask` [N, K], true up
        to each row's length, padding is not read, in either direction, and outputs there are 0.
        """
        turned = [unit.transpose(0, 1).contiguous() for unit in past or ()]  # copied only where rows were selected
        state = None if past is None else turned[0] if len(turned) == 1 else tuple(turned)
        if mask is None:
            outputs, last = self.layers(inputs, state)
        else:
            packed = pack_padded_sequence(inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            packed, last = self.layers(packed, state)
            outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=inputs.shape[1])
        units = last if isinstance(last, tuple) else (last,)
        return outputs, tuple(unit.transpose(0, 1) for unit in units)
