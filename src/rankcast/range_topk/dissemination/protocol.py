"""The protocol between a server and its subscribers, and its plain forms: the brute force and CN-Relax.

A subscriber keeps one list by the protocol of [Range §II-A] (`rankcast.gateway`). Going from list A to list B
it must hear of every item that is new or changed in B, and of every item of A that is not in B but whose old
score would keep it there. What got worse or left is sent first: otherwise a stale entry could push out one
that stays (`messages`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.range_topk.brute_force import top_k
from rankcast.range_topk.state import Events, Objects, RangeState, TileRows
from rankcast.structures.ids import Slots
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Floats, Ints, Rows


class Message(NamedTuple):
    """One message to one range; `key` is NaN if the object is gone from it."""

    phase: int
    box: int
    row: int
    x: tuple[float, ...]
    key: float


Entry = tuple[float, int, int, tuple[float, ...]]  # key, label, row, place: sorts by rank


def messages(boxes: Boxes, k: Ints, before: Objects, after: Objects) -> list[Message]:
    """What the subscribers of each box, who want k objects, must hear, in sending order."""
    found: list[Message] = []
    now = {entry[2]: entry for entry in _entries(after, range(after.row.size))}
    for box, (old, new) in enumerate(zip(_lists(boxes, k, before), _lists(boxes, k, after), strict=True)):
        held = {entry[2]: entry for entry in old}
        for entry in new:
            was = held.get(entry[2])
            if was != entry:
                worse = was is not None and entry[0] > was[0]
                found.append(Message(0 if worse else 1, box, entry[2], entry[3], entry[0]))
        kept = {entry[2] for entry in new}
        for entry in old:
            if entry[2] not in kept and (len(new) < k[box] or entry < new[-1]):
                final = now.get(entry[2])
                stays = final is not None and final[3] == entry[3]
                found.append(Message(0, box, entry[2], entry[3], final[0] if stays and final else np.nan))
    return sorted(
        found, key=lambda message: (message.phase, np.nan_to_num(message.key), message.row, message.box)
    )


def _lists(boxes: Boxes, k: Ints, objects: Objects) -> list[list[Entry]]:
    """The ranked list of each box."""
    found = top_k(boxes, k, objects)
    return [_entries(objects, places) for places in found]


def _entries(objects: Objects, places: Rows | range) -> list[Entry]:
    return [
        (float(objects.key[i]), int(objects.label[i]), int(objects.row[i]), tuple(objects.x[i].tolist()))
        for i in places
    ]


def send_plainly(state: RangeState, events: Events, method: str, *, batch: bool) -> TileRows:
    """Apply a batch to the state; the messages by "relax", or else one tile a distinct affected range."""
    if method == "relax":
        tiles = relax(state, events, batch=batch)
        state.place(events)
        return tiles
    live = state.subscriptions.live()
    held = np.column_stack([*state.boxes(live), state.k_of(live)])
    distinct = np.unique(held, axis=0)
    ranges, k = Boxes(*np.hsplit(distinct[:, :-1], 2)), distinct[:, -1].astype(np.int64)
    found: list[Message] = []
    before = state.live_objects()
    for after in _moments(state, events, batch=batch):
        told = messages(ranges, k, before, after)
        before = after
        reached = distinct[sorted({message.box for message in told})]
        state.count["affected"] += int((held[:, None] == reached[None]).all(axis=2).any(axis=1).sum())
        found += told
    state.count["candidates"] += live.size
    return _tiles(state, ranges, k, found)


def _moments(state: RangeState, events: Events, *, batch: bool) -> Iterator[Objects]:
    """All objects after each event, or after the batch."""
    if batch:
        state.place(events)
        yield state.live_objects()
        return
    for place in range(events.row.size):
        state.place(events.one(place))
        yield state.live_objects()


def _tiles(state: RangeState, ranges: Boxes, k: Ints, found: list[Message]) -> TileRows:
    """Messages as tiles that hold exactly one range."""
    box = [message.box for message in found]
    lo, hi = ranges.lo[box], ranges.hi[box]
    lo_outer, hi_outer = outer(lo, hi)
    return TileRows(
        lo_outer,
        lo,
        hi,
        hi_outer,
        np.array([message.row for message in found], np.int32),
        np.array([message.x for message in found], np.float64).reshape(-1, state.width),
        state.key(np.array([message.key for message in found], np.float64)),
        k[box],
    )


def relax(state: RangeState, events: Events, *, batch: bool) -> TileRows:
    """CN-Relax: every event goes to everybody whose range holds the object, whatever its rank [Range §V].

    The baseline that needs no server: a receiver must keep every object that it hears of, and finds its list
    among them. One message an event, or a changed object of a `batch`; a move is one to the old place, that
    the object is gone, and one to the new. `state` is that of before the batch. O(n log n).
    """
    events = events.coalesced() if batch else events
    old_x, old_y = _values_before(state, events)
    was, stays = ~np.isnan(old_y), ~np.isnan(events.y)
    moved = was & stays & (old_x != events.x).any(axis=1)
    sent = was | stays
    if batch:
        sent &= moved | (was != stays) | (old_y != events.y)
    x = np.where(stays[:, None], events.x, old_x)
    chosen = np.column_stack([moved, sent]).ravel()
    return _to_everybody(
        np.repeat(events.row, 2)[chosen],
        np.stack([old_x, x], axis=1).reshape(-1, state.width)[chosen],
        np.column_stack([np.full(sent.size, np.nan), events.y]).ravel()[chosen],
    )


def _values_before(state: RangeState, events: Events) -> tuple[Floats, Floats]:
    """Place and value of each event's object just before it; NaN if it is not there."""
    order = np.argsort(events.row, kind="stable")
    row = events.row[order]
    again = np.flatnonzero(np.diff(row, prepend=-1) == 0)
    x, y = state.objects["x"][events.row], state.objects["y"][events.row]
    x[order[again]], y[order[again]] = events.x[order[again - 1]], events.y[order[again - 1]]
    return x, y


def stretches(state: RangeState, events: Events) -> Iterator[tuple[Events, bool]]:
    """The events in order: those between two moves together, and every move alone, which is told.

    A move event by event is the net change of a batch of one: as a deletion and an insertion it would tell of
    objects that it exposes and that do not stay. [Range §II-A, footnote 4]
    """
    old_x, old_y = _values_before(state, events)
    moves = np.flatnonzero(~np.isnan(old_y) & ~np.isnan(events.y) & (old_x != events.x).any(axis=1))
    start = 0
    for end in [*moves.tolist(), events.row.size]:
        if start < end:
            yield events.part(start, end), False
        if end < events.row.size:
            yield events.part(end, end + 1), True
        start = end + 1


def _to_everybody(row: Rows, x: Floats, y: Floats) -> TileRows:
    """Tiles for every range that holds x."""
    nothing = np.full(x.shape, np.nan)
    return TileRows(nothing, x, x, nothing, row, x, y, np.zeros(len(row), np.int64))


def painted_ks(state: RangeState, method: str) -> list[int]:
    """For which k messages are made: those of live subscriptions, or the engine's if nobody has another.

    "dense" is also for subscribers whom the server does not know: they have the engine's.
    """
    if not state.owned:
        return [state.k]
    return sorted({*state.ks, state.k}) if method == "dense" else state.ks


def for_each_k(ks: Sequence[int], send: Callable[[int], TileRows], undo: Callable[[], None]) -> TileRows:
    """The messages for each k, one k after the other, each in sending order.

    `send` applies a batch and makes the messages for those who want k; `undo` takes it back in between.
    """
    parts: list[TileRows] = []
    for k in ks:
        if parts:
            undo()
        parts.append(send(k))
    return parts[0] if len(parts) == 1 else TileRows._make(map(np.concatenate, zip(*parts, strict=True)))


def outer(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The next floats outside of lower and upper ends; NaN where these are infinite: no bound."""
    with np.errstate(over="ignore"):  # behind the last float comes infinity
        below, above = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return np.where(np.isneginf(low), np.nan, below), np.where(np.isposinf(high), np.nan, above)


def to_table(tiles: TileRows, over: Sequence[str], by: str, items: Slots, *, owned: bool) -> pa.Table:
    """Messages as the contract has them, one a row; what is no number becomes null.

    There is a column `k` where subscriptions have their own: null is for everybody.
    """
    columns: dict[str, Any] = {}
    for place, name in enumerate(over):
        for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer"):
            columns[f"{name}_{end}"] = pa.array(getattr(tiles, end)[:, place], from_pandas=True)
    columns["item"] = items.take(tiles.row)
    columns |= {name: pa.array(tiles.x[:, place]) for place, name in enumerate(over)}
    columns[by] = pa.array(tiles.y, from_pandas=True)
    if owned:
        columns["k"] = pa.array(tiles.k, mask=tiles.k == 0)
    return pa.table(columns)
