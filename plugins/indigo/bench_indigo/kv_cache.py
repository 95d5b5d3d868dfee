"""The key-value cache of generations in progress, shared without copying.

All items read for a source are stored once, in the columns of an append-only pool. A generation is a list of columns:
selecting, repeating and reordering generations only moves these lists, and generations for the same source attend to
its columns together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import State
from bench_indigo.blocks import (
    AttentionMask,
    EncodedSources,
    KeyValueBuffer,
    Pair,
    Shape,
    TransformerLayer,
    additive_mask,
)

INITIAL_COLUMNS = 16


Note: TypeAlias = Callable[[Tensor, EncodedSources], tuple[Tensor, ...]]


def nothing(states: Tensor, sources: EncodedSources) -> tuple[Tensor, ...]:
    """Cache no additional data."""
    return ()


@dataclass
class ColumnPool:
    """The columns of B sources, and the number of columns used."""

    pairs: tuple[Pair, ...]  # [B, m, K, e] per layer
    notes: tuple[Tensor, ...]  # [B, *, K, *] additional data
    sources: EncodedSources
    used: int

    @property
    def capacity(self) -> int:
        """Return K, the number of columns."""
        return self.pairs[0][0].shape[2]

    def buffers(self, columns: slice) -> tuple[KeyValueBuffer, ...]:
        """Return the buffer of each layer."""
        return tuple(KeyValueBuffer(pair, columns) for pair in self.pairs)


@dataclass(frozen=True)
class Seats:
    """Positions of N generations in a table [B, W] with one row per source."""

    seat: Tensor  # [N] index in the flat table
    sources: int  # B
    busy: int  # number of sources with a generation
    width: int  # W
    whole: bool  # whether no seats are empty and generations are in table order

    @classmethod
    def of(cls, owner: Tensor, sources: int) -> Seats:
        """Assign seats to generations for the sources `owner` [N]."""
        if len(owner) == sources and torch.equal(owner, torch.arange(sources, device=owner.device)):
            return cls(owner, sources, sources, 1, True)
        sharing = owner.bincount(minlength=sources)
        order = owner.argsort(stable=True)
        place = torch.empty_like(owner)
        start = sharing.cumsum(0) - sharing
        place[order] = torch.arange(len(owner), device=owner.device) - start[owner[order]]
        busy, width = int((sharing > 0).sum()), int(sharing.max())
        whole = len(owner) == sources * width and bool((owner[1:] >= owner[:-1]).all())
        return cls(owner * width + place, sources, busy, width, whole)

    def table(self, rows: Tensor) -> Tensor:
        """Return a table [B, W, *] with `rows` [N, *] in their seats, and zeros elsewhere."""
        if not self.whole:
            empty = rows.new_zeros(self.sources * self.width, *rows.shape[1:])
            rows = empty.index_copy(0, self.seat, rows)
        return rows.view(self.sources, self.width, *rows.shape[1:])

    def rows(self, table: Tensor) -> Tensor:
        """Return the rows [N, *] of a table [B, W, *]."""
        flat = table.flatten(0, 1)
        return flat if self.whole else flat.index_select(0, self.seat)


@dataclass(frozen=True)
class Trail(State):
    """N generations, each a list of columns."""

    pool: ColumnPool
    owner: Tensor  # [N] source of each generation
    columns: Tensor  # [N, I] items in reading order

    def seats(self) -> Seats:
        """Return the seats of the generations."""
        return Seats.of(self.owner, len(self.pool.sources.mask))

    def compact(self, more: int) -> Self:
        """Copy to a new pool with space for `more` columns, without columns that no generation uses."""
        pool = self.pool
        sources, owner = torch.unique(self.owner, return_inverse=True)
        needed = torch.zeros(len(sources), pool.used, dtype=torch.bool, device=owner.device)
        needed[owner[:, None], self.columns] = True
        used = int(needed.sum(1).max())
        order = needed.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :used]
        capacity = max(INITIAL_COLUMNS, used + more + used // 2)

        def move(buffer: Tensor) -> Tensor:
            new = buffer.new_zeros(len(sources), buffer.shape[1], capacity, buffer.shape[3])
            new[:, :, :used] = buffer[sources[:, None], :, order].transpose(1, 2)
            return new

        whole = len(sources) == len(pool.sources.mask)
        rest = pool.sources if whole else pool.sources.change(lambda tensor: tensor.index_select(0, sources))
        pairs = tuple((move(keys), move(values)) for keys, values in pool.pairs)
        smaller = ColumnPool(pairs, tuple(move(note) for note in pool.notes), rest, used)
        columns = (needed.cumsum(1) - 1)[owner[:, None], self.columns]
        return replace(self, pool=smaller, owner=owner, columns=columns)


class DecoderStack(nn.Module):
    """Decoder layers that attend to the last encoder layer or, if `ahead`, each to its own encoder layer."""

    def __init__(self, shape: Shape, layers: int, ahead: bool = False) -> None:
        super().__init__()
        self.shape, self.ahead = shape, ahead
        self.layers = nn.ModuleList(TransformerLayer(shape, crossing=True) for _ in range(layers))

    def read(self, states: list[Tensor], mask: Tensor) -> EncodedSources:
        """Return keys and values of sources, given the states after each encoder layer."""
        chosen = states if self.ahead else [states[-1]] * len(self.layers)
        crossing = [layer.cross for layer in self.layers]
        return EncodedSources(tuple(cross.read(each) for cross, each in zip(crossing, chosen, strict=True)), mask)  # type: ignore[union-attr, operator]

    def forward(
        self,
        states: Tensor,
        attention: AttentionMask,
        sources: EncodedSources,
        buffers: tuple[KeyValueBuffer, ...] = (),
    ) -> Tensor:
        """Return the top states of items [B, Q, d]."""
        for number, layer in enumerate(self.layers):
            buffer = buffers[number] if buffers else None
            states = layer(states, attention, buffer, (sources.pairs[number], sources.mask))
        return states

    def begin(self, states: Tensor, sources: EncodedSources, note: Note = nothing) -> tuple[Tensor, Trail]:
        """Read the first items [B, Q, d] for each source, from left to right; return top states and trails."""
        rows, number, width = states.shape
        capacity, heads = max(INITIAL_COLUMNS, 2 * number), self.shape.heads

        def empty(first: int, last: int) -> Tensor:
            return states.new_zeros(rows, first, capacity, last)

        size = width // heads
        pairs = tuple((empty(heads, size), empty(heads, size)) for _ in self.layers)
        pool = ColumnPool(pairs, (), sources, number)
        order = torch.arange(number, device=states.device)
        left = pad(order[:, None] > order, (0, capacity - number))[None, None]  # [1, 1, Q, K]
        self_key = order[None, None, :, None]
        attention = AttentionMask(
            additive_mask(left.scatter(3, self_key, True), states), left.to(states.dtype), self_key
        )
        top = self(states, attention, sources, pool.buffers(slice(0, number)))
        notes = note(top, sources)
        pool.notes = tuple(empty(item.shape[1], item.shape[3]) for item in notes)
        _fill(pool, slice(0, number), notes)
        owner = torch.arange(rows, device=states.device)
        return top, Trail(pool, owner, order.expand(rows, -1))

    def extend(self, trail: Trail, states: Tensor, left: Tensor, note: Note = nothing) -> tuple[Tensor, Trail]:
        """Read one more item per generation [N, d], with `left` [N] items on its left.

        Return top states [N, d], and the extended trails.
        """
        seats = trail.seats()
        if trail.pool.used + seats.width > trail.pool.capacity or 8 * (seats.sources - seats.busy) > seats.sources:
            trail = trail.compact(seats.width)
            seats = trail.seats()
        pool, columns = trail.pool, trail.columns
        new = slice(pool.used, pool.used + seats.width)
        pool.used = new.stop
        attention = _generation_mask(trail, seats, left, new, states, self.shape.relative)
        top = self(seats.table(states), attention, pool.sources, pool.buffers(new))
        _fill(pool, new, note(top, pool.sources))
        column = new.start + seats.seat % seats.width
        return seats.rows(top), replace(trail, columns=insert_columns(columns, left, column))


def insert_columns(columns: Tensor, left: Tensor, new: Tensor) -> Tensor:
    """Return `columns` [N, I + 1] with `new` [N] inserted after the first `left` [N]."""
    places = torch.arange(columns.shape[1] + 1, device=columns.device)
    moved = pad(columns, (0, 1)).gather(1, places - (places > left[:, None]).long())
    return torch.where(places == left[:, None], new[:, None], moved)


def _generation_mask(
    trail: Trail, seats: Seats, left: Tensor, new: slice, like: Tensor, relative: bool
) -> AttentionMask:
    """Return the mask of new items: each attends to its generation; an empty seat attends only to itself."""
    capacity, columns = trail.pool.capacity, trail.columns
    new_columns = torch.arange(new.start, new.stop, device=columns.device)  # [W]
    flat = seats.seat[:, None] * capacity + columns  # [N, I]
    hidden = like.new_full((seats.sources, seats.width, capacity), -torch.inf)
    hidden[:, new_columns - new.start, new_columns] = 0
    hidden.view(-1)[flat] = 0
    if not relative:
        return AttentionMask(hidden[:, None])
    right = like.new_zeros(seats.sources, seats.width, capacity)
    places = torch.arange(columns.shape[1], device=columns.device)
    right.view(-1)[flat] = (places < left[:, None]).to(like.dtype)
    return AttentionMask(hidden[:, None], right[:, None], new_columns[None, None, :, None])


def _fill(pool: ColumnPool, columns: slice, notes: tuple[Tensor, ...]) -> None:
    for buffer, new in zip(pool.notes, notes, strict=True):
        buffer[:, :, columns] = new
