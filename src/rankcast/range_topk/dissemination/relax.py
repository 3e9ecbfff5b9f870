"""CN-Relax: every event goes to everybody whose range holds the object, whatever its rank.

The baseline that needs no server: a receiver must keep every object that it hears of, and finds its list
among them. One message an event; a move is one to the old place, that the object is gone, and one to the new.
[Range §V]
"""

from __future__ import annotations

import numpy as np

from rankcast.range_topk.world import Events, TileRows, World
from rankcast.tables.schema import Floats, Rows


def relax(world: World, events: Events, *, batch: bool) -> TileRows:
    """The messages of a batch, or of its net change, on the world as it is before it. O(n log n)."""
    events = events.coalesced() if batch else events
    old_x, old_y = _before(world, events)
    was, stays = ~np.isnan(old_y), ~np.isnan(events.y)
    moved = was & stays & (old_x != events.x).any(axis=1)
    told = was | stays
    if batch:
        told &= moved | (was != stays) | (old_y != events.y)
    x = np.where(stays[:, None], events.x, old_x)
    chosen = np.column_stack([moved, told]).ravel()
    return _to_everybody(
        np.repeat(events.row, 2)[chosen],
        np.stack([old_x, x], axis=1).reshape(-1, world.width)[chosen],
        np.column_stack([np.full(told.size, np.nan), events.y]).ravel()[chosen],
    )


def _before(world: World, events: Events) -> tuple[Floats, Floats]:
    """Place and value of each event's object just before it; NaN if it is not there."""
    order = np.argsort(events.row, kind="stable")
    row = events.row[order]
    again = np.flatnonzero(np.diff(row, prepend=-1) == 0)
    x, y = world.objects["x"][events.row], world.objects["y"][events.row]
    x[order[again]], y[order[again]] = events.x[order[again - 1]], events.y[order[again - 1]]
    return x, y


def _to_everybody(row: Rows, x: Floats, y: Floats) -> TileRows:
    """Tiles for every range that holds x."""
    nothing = np.full(x.shape, np.nan)
    return TileRows(nothing, x, x, nothing, row, x, y)
