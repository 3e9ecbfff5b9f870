"""`RangeTopK.disseminate` by painting: a batch of events becomes the messages of one method.

| method | event by event | net change of a batch | reads subscriptions |
| --- | --- | --- | --- |
| `dense` | Paint-Dense, with epsilon Paint-Dense(e) | Paint-Batch over it | never |
| `sparse` | Paint-Sparse, with epsilon Paint-Sparse(e) | Paint-Batch over it | to thin tiles; or a sketch |
| `unicast` | dense tiles, a message for each range in them | the same | to find these ranges |
| `relax` | one message an event | one message a changed object | never |
| `scan` | brute force | brute force | all |

Sources: [Range §III, §IV, §V]. Counters: `affected` counts subscriptions reached, each once an event (or once
a batch), where a method is exact and looks at them: not for `dense` and `relax`, nor with epsilon or a
sketch, which cannot know it. `candidates` counts for `unicast`, event by event, the subscriptions in the
bounding box of the region that an event gives or takes: those that the published Unicast tries one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError, shown
from rankcast.range_topk.dissemination import reach
from rankcast.range_topk.dissemination.batch import Net
from rankcast.range_topk.dissemination.relax import relax
from rankcast.range_topk.kernels import paint, regions
from rankcast.range_topk.kernels.points import PointTree
from rankcast.range_topk.painting import NOBODY, Painter
from rankcast.range_topk.scan import Scan
from rankcast.range_topk.world import Events, TileRows, World
from rankcast.structures.ids import Slots

BLIND = ("dense", "relax")  # the methods that are never shown a subscription


class Sender(NamedTuple):
    """Turns batches into messages; world and object index are in step before and after."""

    world: World
    painter: Painter
    points: PointTree = NOBODY

    def send(self, events: Events, method: str, epsilon: float | None, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected, or with `relax` those in range."""
        if method in ("scan", "relax"):
            return self._apart(events, method, batch=batch)
        known = self._known(method)
        if batch:
            painted = self.painter.paint_net(self._net(events), self.world.k, points=known)
        else:
            ks = np.array([self.world.k])
            painted = self.painter.paint(keyed(self.world, events), ks, points=known, epsilon=epsilon)
        self.world.place(events)
        if method == "unicast" or (method == "sparse" and epsilon is None and not self.world.sketch):
            self._count_affected(painted, events, batch=batch)
        if method == "unicast":
            return self._one_by_one(painted, events, batch=batch)
        return self._handed_out(painted.box, painted)

    def _known(self, method: str) -> PointTree | None:
        """The subscriptions that painting may ask: all, a sketch of them, or none."""
        if method != "sparse":
            return None
        if self.world.sketch and self.points.size[0]:
            return reach.cover(self.points, self.world.sketch)
        return self.points

    def _apart(self, events: Events, method: str, *, batch: bool) -> TileRows:
        """The methods that do not paint; the object index follows."""
        net = self._net(events)
        if method == "scan":
            told = Scan(self.world).disseminate(events, method, None, batch=batch)
        else:
            told = relax(self.world, events, batch=batch)
            self.world.place(events)
        self.painter.follow(net)
        return told

    def _net(self, events: Events) -> Net:
        """What the events come to, for the objects they change at all."""
        row, x, y = keyed(self.world, events.coalesced())
        tree = self.painter.objects.tree
        old_y = tree.y[row]
        old_x = np.where(old_y < np.inf, tree.x[row], x)
        x = np.where(y < np.inf, x, old_x)
        changed = (x != old_x) | (y != old_y)
        return Net(row[changed], old_x[changed], old_y[changed], x[changed], y[changed])

    def _count_affected(self, painted: regions.Tiles, events: Events, *, batch: bool) -> None:
        if batch:
            found = reach.count_reached(self.points, painted.box)
        else:
            found = reach.count_affected(self.points, painted, events.row)
        self.world.count["affected"] += int(found)

    def _one_by_one(self, painted: regions.Tiles, events: Events, *, batch: bool) -> TileRows:
        """A message for each distinct range in a tile, instead of the tile."""
        lo, hi, counts = reach.ranges_in(self.points, painted.box)
        if not batch:
            self.world.count["candidates"] += int(reach.count_bounded(self.points, painted, events.row))
        which = np.repeat(np.arange(counts.size), counts)
        alone = {name: getattr(painted, name)[which] for name in ("item", "x", "value")}
        return self._handed_out(np.column_stack([lo, lo, hi, hi]), painted._replace(**alone))

    def _handed_out(self, box: regions.Floats, painted: regions.Tiles) -> TileRows:
        """Tiles as the contract has them, in arrays of their own."""
        lo_outer, lo_inner, hi_inner, hi_outer = (end[:, None].copy() for end in regions.bounds(box))
        y = np.where(np.isposinf(painted.value), np.nan, self.world.key(painted.value))
        row, x = painted.item.copy(), painted.x[:, None].copy()
        return TileRows(lo_outer, lo_inner, hi_inner, hi_outer, row, x, y)


def keyed(world: World, events: Events) -> paint.Events:
    """The same events as the painter takes them: keys, and +inf for an object that goes."""
    key = world.key(events.y)
    return paint.Events(
        events.row, np.ascontiguousarray(events.x[:, 0]), np.where(np.isnan(key), np.inf, key)
    )


def to_table(tiles: TileRows, over: Sequence[str], by: str, items: Slots) -> pa.Table:
    """Messages as the contract has them, one a row; what is no number becomes null."""
    columns: dict[str, Any] = {}
    for place, name in enumerate(over):
        for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer"):
            columns[f"{name}_{end}"] = pa.array(getattr(tiles, end)[:, place], from_pandas=True)
    columns["item"] = items.take(tiles.row)
    columns |= {name: pa.array(tiles.x[:, place]) for place, name in enumerate(over)}
    columns[by] = pa.array(tiles.y, from_pandas=True)
    return pa.table(columns)


def refuse_own_k(subscriptions: Slots) -> None:
    """Refuse to disseminate while a live subscription has a k of its own."""
    live = subscriptions.live()
    own = live[subscriptions["k"][live] > 0]
    if own.size:
        raise InputError(
            f"subscription {shown(subscriptions.take(own[:1])[0].as_py())} has a k of its own",
            where="disseminate",
            expected="only subscriptions with the engine's k",
            hint="Amend k to null, or use publish.",
        )
