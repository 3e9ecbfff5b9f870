"""Dense painting in 1.5 dimensions: tiles from the objects alone, for whoever may subscribe."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.box_objects import BoxObjects
from rankcast.range_topk.dissemination import slab_batch
from rankcast.range_topk.dissemination.batch import Net
from rankcast.range_topk.dissemination.corner_merge import Post, empty_post
from rankcast.range_topk.dissemination.slab_batch import EXPOSED, GAIN, LOSS, Told
from rankcast.range_topk.dissemination.slab_painting import FEW, SlabPainter, least
from rankcast.range_topk.kernels.corner_steps import Events
from rankcast.range_topk.kernels.object_tree import ObjectTree
from rankcast.range_topk.kernels.slab_search import Along
from rankcast.range_topk.kernels.tiles import empty_tiles
from rankcast.range_topk.objects import Floats, Rows

SWEEPS = 64  # losses whose tiles are held at once, before only their items are kept


class DensePainter:
    """Applies events to objects and tells whose lists change, as tiles in sending order.

    It is given the objects, k, and on which `side` the second attribute is bounded (1 above, -1 below): no
    subscription can be reached from here.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self._painter = SlabPainter(objects)

    @property
    def asked(self) -> NDArray[np.int64]:
        """Counts of questions to the objects, as `slabs` names them."""
        return self._painter.asked

    def paint(self, events: Events, k: int, side: int, epsilon: float | None) -> Post:
        """Paint and apply events one by one."""
        return self._painter.paint(events, k, side, None, epsilon)

    def paint_net(self, events: Events, k: int, side: int) -> Post:
        """Paint and apply events of distinct objects as one batch, exactly: see `kernels.slab_batch`.

        Memory: a copy of the objects, and the tiles.
        """
        self.objects.reserve(int(events.row.max(initial=-1)) + 1)
        k, net = least(self.objects, k, events), self._net(events)
        moved = (net.x != net.old_x).any(axis=1)
        gone, come = self._losses(net, moved), (net.y < np.inf) & (moved | (net.y < net.old_y))
        before = _copied(self.objects.along())
        here = come & ~moved
        self.objects.settle(net.row[here], net.x[here], net.y[here])
        exposed = np.setdiff1d(self._sweep(net, gone, k, side), net.row).astype(np.int32)
        stays = (net.y < np.inf) & ~moved
        told = _joined(
            _told(LOSS, net.row[gone], net.old_y[gone], np.where(stays, net.y, np.inf)[gone]),
            _told(EXPOSED, exposed, self.objects.value[exposed], self.objects.value[exposed]),
            _told(GAIN, net.row[come], net.old_y[come], net.y[come]),
        )
        away = np.flatnonzero(~stays[gone])
        return self._tell(before, told, away, net.old_x[gone[away]], (k, side))

    def _net(self, events: Events) -> Net:
        """What the events come to, for the objects they change at all."""
        row, x, y = events
        tree, old_y = self.objects.index.tree, self.objects.value[row]
        old_x = np.where((old_y < np.inf)[:, None], tree.point[tree.slot_of[row]], x)
        x = np.where((y < np.inf)[:, None], x, old_x)
        changed = (x != old_x).any(axis=1) | (y != old_y)
        return Net(row[changed], old_x[changed], old_y[changed], x[changed], y[changed])

    def _losses(self, net: Net, moved: NDArray[np.bool_]) -> NDArray[np.intp]:
        """What worsens, goes or moves away, by descending new value; moved ones come first with the gone."""
        lost = np.flatnonzero((net.old_y < np.inf) & (moved | (net.y > net.old_y)))
        value = np.where(moved, np.inf, net.y)[lost]
        return lost[np.lexsort((self.objects.label[net.row[lost]], value))[::-1]]

    def _sweep(self, net: Net, gone: NDArray[np.intp], k: int, side: int) -> Rows:
        """Apply losses one by one; the distinct objects that are told meanwhile."""
        met: list[Rows] = [net.row[:0]]
        for start in range(0, len(gone), SWEEPS):
            some = gone[start : start + SWEEPS]
            events = Events(net.row[some], net.x[some], net.y[some])
            post = self._painter.paint(events, k, side, None, None)
            met.append(np.unique(post.item[: int(post.size[0])]))
        return np.unique(np.concatenate(met))

    def _tell(
        self, before: Along, told: Told, away: NDArray[np.intp], places: Floats, how: tuple[int, int]
    ) -> Post:
        """The tiles of all that is told, for a k and a side; the objects `away` have left these places."""
        objects, (k, side) = self.objects, how
        stand = self._labelled_like(told.row[away])
        told.stand[away] = stand
        both = slab_batch.Objects(before, objects.along_with(stand, places))
        tiles, sign = empty_tiles(4 * (k + 1) + 2), float(side)
        post: Post = slab_batch.tell(both, told, k, sign, tiles, self.asked, empty_post(FEW, 2))
        return post

    def _labelled_like(self, rows: Rows) -> Rows:
        """Rows that nobody has, with the labels of others."""
        objects = self.objects
        first = int(np.flatnonzero(objects.slots.slot_of >= 0).max(initial=-1)) + 1
        first = max(first, int(rows.max(initial=-1)) + 1)
        stand = np.arange(first, first + len(rows), dtype=np.int32)
        objects.set_labels(stand, objects.label[rows])
        return stand


def _copied(along: Along) -> Along:
    return Along(ObjectTree._make(array.copy() for array in along.tree), along.second.copy())


def _told(kind: int, row: Rows, old: Floats, new: Floats) -> Told:
    return Told(row, row, np.full(len(row), kind, np.int32), old, new)


def _joined(*parts: Told) -> Told:
    return Told._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
