"""Objects shared by several servers along x, which make the tiles of Paint-Dense together.

Every server holds the objects of one stretch of x, in an index of its own, and knows its two neighbours. An
event goes to the server of its object. That one finds the nearest better objects by asking its own index, and
the neighbours' one after the other as long as fewer than k are found on that side (Alg. 1); the next exposed
object by asking those whose stretch the influence interval reaches into (Alg. 2). From there on it paints as
a single server does, with the same kernels: the messages are the same, row for row. [Range App. C]

Objects may come, go, and change their value; one that moves goes from one place, perhaps to another server,
and comes to the other: a deletion and an insertion. Stretches stay as they were cut from the first objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.errors import SettingError
from rankcast.papers.network.topology import Columns
from rankcast.range_topk.dissemination import protocol
from rankcast.range_topk.dissemination.batch import climb_at
from rankcast.range_topk.kernels.paint import (
    LEFT,
    RIGHT,
    SAME,
    Stairs,
    TileMessage,
    Tiles,
    empty_stairs,
    expose,
    paint_gain,
    paint_region,
    reach,
    room_of,
    space,
    stamp,
)
from rankcast.range_topk.painter import empty_tiles, filled, widened
from rankcast.range_topk.state import ObjectIndex
from rankcast.tables import schema


class ObjectServers:
    """Servers with their objects; ids are 0, 1, ..., and equal values go to the smaller one.

    `asked` counts how often a server asked a neighbour, `questions` all questions to servers.

    >>> x, y = np.array([0.1, 0.2, 0.3, 0.4]), np.array([4.0, 1.0, 2.0, 3.0])
    >>> objects = {"id": np.arange(4), "x": x, "y": y}
    >>> servers = ObjectServers(objects, 2, k=1)
    >>> servers.disseminate({"id": [1], "y": [5.0]})["item"].to_pylist(), servers.asked
    ([1, 2, 0], 2)
    """

    def __init__(self, objects: Columns, servers: int, k: int, *, over: str = "x") -> None:
        count = schema.whole("servers", servers)
        if count > len(objects["id"]):
            raise SettingError(f"servers is {count}", expected=f"at most the {len(objects['id'])} objects")
        self.over, self.k, self.asked, self.questions = over, schema.whole("k", k), 0, 0
        x = np.sort(objects[over])
        first = np.linspace(0, len(x), count + 1).astype(np.int64)[1:-1]
        self.border = x[first]  # server s has the x from border[s - 1] on, before border[s]
        self._indexes = [ObjectIndex() for _ in range(count)]
        self._home: dict[int, int] = {}  # by object: its server
        for row, at, y in zip(*(objects[name].tolist() for name in ("id", over, "y")), strict=True):
            self._put(row, at, y)

    def __len__(self) -> int:
        return len(self._indexes)

    def sizes(self) -> list[int]:
        """How many objects each server has."""
        return [len(index) for index in self._indexes]

    def disseminate(self, rows: Any, **_: Any) -> pa.Table:
        """Apply events one by one; the messages, as `RangeTopK.disseminate` with "dense" gives them."""
        tiles, count = empty_tiles(64), len(rows["id"])
        for place in range(count):
            row = int(rows["id"][place])
            y = float(rows["y"][place]) if rows["y"][place] is not None else np.inf
            at = float(rows[self.over][place]) if self.over in rows else None
            tiles = self._follow(row, at, y, tiles)
        return self._table(filled(tiles))

    # One event

    def _follow(self, row: int, at: float | None, y: float, tiles: Tiles) -> Tiles:
        """Apply one event at the server of its object; its tiles behind the others."""
        home = self._home.get(row)
        if home is not None:
            tree = self._indexes[home].tree
            x, old = float(tree.x[row]), float(tree.y[row])
            if y == np.inf or (at is not None and at != x):
                tiles = self._lower(row, home, np.inf, tiles)
                self._indexes[home].delete(row)
                del self._home[row]
                home = None
            elif y > old:
                tiles = self._lower(row, home, y, tiles)
                self._indexes[home].set_value(row, y)
            elif y < old:
                self._indexes[home].set_value(row, y)
                tiles = self._lift(row, home, tiles)
            at = x if at is None else at
        if home is None and y < np.inf and at is not None:
            self._put(row, at, y)
            tiles = self._lift(row, self._home[row], tiles)
        return tiles

    def _lift(self, row: int, home: int, tiles: Tiles) -> Tiles:
        """Paint a value that improved, after it was applied."""
        tree = self._indexes[home].tree
        x, y = float(tree.x[row]), float(tree.y[row])
        return self._region(self._climb(home, x, y, row), row, x, y, tiles)

    def _lower(self, row: int, home: int, value: float, tiles: Tiles) -> Tiles:
        """Paint a value that worsens, before it is applied: the old region, then what the sweep exposes."""
        tree = self._indexes[home].tree
        x, y, label = float(tree.x[row]), float(tree.y[row]), row
        stairs = self._climb(home, x, y, row)
        tiles = self._region(stairs, row, x, value, tiles)
        while room_of(stairs, self.k) > 0:
            found = self._next_above(home, reach(stairs, x, self.k), y, label)
            if found is None or found[:2] >= (value, row):
                break
            y, label, place = found
            tiles, first = self._roomy(tiles), int(tiles.size[0])
            paint_gain(stairs, x, place, self.k, tiles)
            stamp(tiles, first, TileMessage(label, place, y, 0, 0))
            expose(stairs, x, place)
        return tiles

    def _region(self, stairs: Stairs, row: int, x: float, value: float, tiles: Tiles) -> Tiles:
        tiles = self._roomy(tiles)
        first = int(tiles.size[0])
        paint_region(stairs, x, self.k, tiles)
        stamp(tiles, first, TileMessage(row, x, value, 0, 0))
        return tiles

    def _roomy(self, tiles: Tiles) -> Tiles:
        """The same tiles, with room for those of one more object."""
        enough = space(tiles) > self.k + 1
        return tiles if enough else widened(tiles, 2 * len(tiles.item) + 2 * self.k + 2)

    # What servers ask

    def _climb(self, home: int, x: float, y: float, label: int) -> Stairs:
        """The nearest better objects on both sides [Range Alg. 1]: own ones, then the neighbours' in turn."""
        stairs, k = self._climb_alone(home, x, y, label), self.k
        for step, side in ((-1, LEFT), (1, RIGHT)):
            near, server = (stairs.left, stairs.right)[side], home + step
            while stairs.size[side] < k and 0 <= server < len(self):
                self.asked += 1
                other = self._climb_alone(server, x, y, label)
                size, more = int(stairs.size[side]), int(other.size[side])
                taken = min(k - size, more)
                near[size : size + taken] = (other.left, other.right)[side][:taken]
                stairs.size[side] = size + taken
                server += step
        return stairs

    def _climb_alone(self, server: int, x: float, y: float, label: int) -> Stairs:
        """What one server knows of it."""
        self.questions += 1
        stairs = empty_stairs(self.k)
        stairs.size[SAME] = 0
        climb_at(self._indexes[server].tree, x, y, label, stairs)
        return stairs

    def _next_above(
        self, home: int, interval: tuple[float, float], y: float, label: int
    ) -> tuple[float, int, float] | None:
        """The best object in an open interval that is worse than (y, label); Alg. 2.

        As (y, label, x).
        """
        after, before = interval
        first = last = home
        while first > 0 and after < self.border[first - 1]:
            first -= 1
        while last < len(self) - 1 and before > self.border[last]:
            last += 1
        self.asked += last - first
        found: list[tuple[float, int, float]] = []
        for server in range(first, last + 1):
            self.questions += 1
            tree = self._indexes[server].tree
            row = self._indexes[server].miny(after, before, y, label)
            if row >= 0:
                found.append((float(tree.y[row]), row, float(tree.x[row])))
        return min(found, default=None)

    def _put(self, row: int, x: float, y: float) -> None:
        """Give an object to the server of its place."""
        home = int(np.searchsorted(self.border, x, side="right"))
        index = self._indexes[home]
        index.set_labels(np.array([row], np.int32), np.array([row]))
        index.insert(row, x, y)
        self._home[row] = home

    def _table(self, tiles: Tiles) -> pa.Table:
        """Tiles as messages."""
        lo, hi = protocol.outer(tiles.box[:, 0], tiles.box[:, 3])
        y = np.where(np.isposinf(tiles.value), np.nan, tiles.value)
        ends = {"lo_outer": lo, "lo_inner": tiles.box[:, 1], "hi_inner": tiles.box[:, 2], "hi_outer": hi}
        columns = {f"{self.over}_{end}": pa.array(values, from_pandas=True) for end, values in ends.items()}
        columns |= {"item": pa.array(tiles.item.astype(np.int64)), self.over: pa.array(tiles.x.copy())}
        return pa.table({**columns, "y": pa.array(y, from_pandas=True)})
