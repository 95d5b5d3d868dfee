"""The key-value cache of generations in progress, shared without copying.

All that has been read about a source is kept once, in the columns of a pool, which is only ever added to. A
generation is a list of columns: choosing, repeating and reordering generations moves these lists alone, and those
about one source attend to its columns together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from bench_core import State
from bench_indigo.blocks import Layer, Pair, Room, Shape, Sight, Sources, shut

ROOM = 16  # columns that a pool begins with

#: What is kept of new items besides keys and values [B, *, Q, *] each, given their top states [B, Q, d].
Note: TypeAlias = Callable[[Tensor, Sources], tuple[Tensor, ...]]


def nothing(states: Tensor, sources: Sources) -> tuple[Tensor, ...]:
    """Keep no more."""
    return ()


@dataclass
class Pool:
    """The columns of B sources, and how many of them are taken."""

    pairs: tuple[Pair, ...]  # [B, m, K, e] of each layer
    notes: tuple[Tensor, ...]  # [B, *, K, *] what else is kept
    sources: Sources
    used: int

    @property
    def room(self) -> int:
        """Return the number of columns, K."""
        return self.pairs[0][0].shape[2]

    def rooms(self, columns: slice) -> tuple[Room, ...]:
        """Return what each layer may fill."""
        return tuple(Room(pair, columns) for pair in self.pairs)


@dataclass(frozen=True)
class Seats:
    """Where N generations sit in a table [B, W], with a line for each source."""

    seat: Tensor  # [N] their places in the flat table
    sources: int  # B
    busy: int  # of them, those with a generation
    width: int  # W
    whole: bool  # whether all sit in the order of the table, and there are no other seats

    @classmethod
    def of(cls, owner: Tensor, sources: int) -> Seats:
        """Return seats for generations about the sources `owner` [N]."""
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
        """Return [B, W, *] with `rows` [N, *] in their seats, and zeros in others."""
        if not self.whole:
            empty = rows.new_zeros(self.sources * self.width, *rows.shape[1:])
            rows = empty.index_copy(0, self.seat, rows)
        return rows.view(self.sources, self.width, *rows.shape[1:])

    def rows(self, table: Tensor) -> Tensor:
        """Return [N, *] out of a table [B, W, *]."""
        flat = table.flatten(0, 1)
        return flat if self.whole else flat.index_select(0, self.seat)


@dataclass(frozen=True)
class Trail(State):
    """N generations, each a list of columns."""

    pool: Pool
    owner: Tensor  # [N] the source of each
    columns: Tensor  # [N, I] its items, in reading order

    def seats(self) -> Seats:
        """Return where they sit."""
        return Seats.of(self.owner, len(self.pool.sources.shut))

    def compacted(self, more: int) -> Self:
        """Return the same in a pool of its own with room for `more`, without what no generation needs any longer."""
        pool = self.pool
        sources, owner = torch.unique(self.owner, return_inverse=True)
        needed = torch.zeros(len(sources), pool.used, dtype=torch.bool, device=owner.device)
        needed[owner[:, None], self.columns] = True
        most = int(needed.sum(1).max())
        kept = needed.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        room = max(ROOM, most + more + most // 2)

        def moved(buffer: Tensor) -> Tensor:
            found = buffer.new_zeros(len(sources), buffer.shape[1], room, buffer.shape[3])
            found[:, :, :most] = buffer[sources[:, None], :, kept].transpose(1, 2)
            return found

        whole = len(sources) == len(pool.sources.shut)
        rest = pool.sources if whole else pool.sources.change(lambda tensor: tensor.index_select(0, sources))
        pairs = tuple((moved(keys), moved(values)) for keys, values in pool.pairs)
        smaller = Pool(pairs, tuple(moved(note) for note in pool.notes), rest, most)
        columns = (needed.cumsum(1) - 1)[owner[:, None], self.columns]
        return replace(self, pool=smaller, owner=owner, columns=columns)


class Stack(nn.Module):
    """The layers of a decoder, each with a view of the encoder's last layer, or, `ahead`, of the one beside it."""

    def __init__(self, shape: Shape, layers: int, ahead: bool = False) -> None:
        super().__init__()
        self.shape, self.ahead = shape, ahead
        self.layers = nn.ModuleList(Layer(shape, crossing=True) for _ in range(layers))

    def read(self, states: list[Tensor], shut: Tensor) -> Sources:
        """Return what there is to see of sources, given the states after each layer of their encoder."""
        chosen = states if self.ahead else [states[-1]] * len(self.layers)
        crossing = [layer.cross for layer in self.layers]
        return Sources(tuple(cross.read(one) for cross, one in zip(crossing, chosen, strict=True)), shut)  # type: ignore[union-attr, operator]

    def forward(self, states: Tensor, sight: Sight, sources: Sources, rooms: tuple[Room, ...] = ()) -> Tensor:
        """Return the top states of items [B, Q, d]."""
        for number, layer in enumerate(self.layers):
            room = rooms[number] if rooms else None
            states = layer(states, sight, room, (sources.pairs[number], sources.shut))
        return states

    def begin(self, states: Tensor, sources: Sources, note: Note = nothing) -> tuple[Tensor, Trail]:
        """Read the first items of each source [B, Q, d], from left to right; return their top states, and trails."""
        rows, number, width = states.shape
        room, heads = max(ROOM, 2 * number), self.shape.heads

        def empty(first: int, last: int) -> Tensor:
            return states.new_zeros(rows, first, room, last)

        size = width // heads
        pairs = tuple((empty(heads, size), empty(heads, size)) for _ in self.layers)
        pool = Pool(pairs, (), sources, number)
        order = torch.arange(number, device=states.device)
        left = pad(order[:, None] > order, (0, room - number))[None, None]  # [1, 1, Q, K]
        own = order[None, None, :, None]
        what = Sight(shut(left.scatter(3, own, True), states), left.to(states.dtype), own)
        found = self(states, what, sources, pool.rooms(slice(0, number)))
        notes = note(found, sources)
        pool.notes = tuple(empty(one.shape[1], one.shape[3]) for one in notes)
        _fill(pool, slice(0, number), notes)
        owner = torch.arange(rows, device=states.device)
        return found, Trail(pool, owner, order.expand(rows, -1))

    def extend(self, trail: Trail, states: Tensor, left: Tensor, note: Note = nothing) -> tuple[Tensor, Trail]:
        """Read one more item of each generation [N, d], which has `left` [N] of the others on its left.

        Return the top states [N, d], and trails that go on to these items.
        """
        seats = trail.seats()
        if trail.pool.used + seats.width > trail.pool.room or 8 * (seats.sources - seats.busy) > seats.sources:
            trail = trail.compacted(seats.width)
            seats = trail.seats()
        pool, columns = trail.pool, trail.columns
        new = slice(pool.used, pool.used + seats.width)
        pool.used = new.stop
        what = _sight(trail, seats, left, new, states, self.shape.relative)
        found = self(seats.table(states), what, pool.sources, pool.rooms(new))
        _fill(pool, new, note(found, pool.sources))
        own = new.start + seats.seat % seats.width
        return seats.rows(found), replace(trail, columns=inserted(columns, left, own))


def inserted(columns: Tensor, left: Tensor, own: Tensor) -> Tensor:
    """Return `columns` [N, I + 1] with `own` [N] behind the first `left` [N]."""
    places = torch.arange(columns.shape[1] + 1, device=columns.device)
    moved = pad(columns, (0, 1)).gather(1, places - (places > left[:, None]).long())
    return torch.where(places == left[:, None], own[:, None], moved)


def _sight(trail: Trail, seats: Seats, left: Tensor, new: slice, like: Tensor, relative: bool) -> Sight:
    """Return what new items see: those of their generations, and in an empty seat nothing but itself."""
    room, columns = trail.pool.room, trail.columns
    own = torch.arange(new.start, new.stop, device=columns.device)  # [W]
    flat = seats.seat[:, None] * room + columns  # [N, I]
    hidden = like.new_full((seats.sources, seats.width, room), -torch.inf)
    hidden[:, own - new.start, own] = 0
    hidden.view(-1)[flat] = 0
    if not relative:
        return Sight(hidden[:, None])
    right = like.new_zeros(seats.sources, seats.width, room)
    places = torch.arange(columns.shape[1], device=columns.device)
    right.view(-1)[flat] = (places < left[:, None]).to(like.dtype)
    return Sight(hidden[:, None], right[:, None], own[None, None, :, None])


def _fill(pool: Pool, columns: slice, notes: tuple[Tensor, ...]) -> None:
    for buffer, new in zip(pool.notes, notes, strict=True):
        buffer[:, :, columns] = new
