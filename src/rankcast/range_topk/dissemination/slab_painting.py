"""Painting in 1.5 dimensions: events change objects, and tiles tell those affected. Boards stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.box_objects import BoxObjects
from rankcast.range_topk.corners import CornerIndex
from rankcast.range_topk.dissemination import slab_events
from rankcast.range_topk.dissemination.corner_merge import Post, empty_post
from rankcast.range_topk.dissemination.slab_cut import WIDE, new_cut
from rankcast.range_topk.dissemination.slab_easel import Easel
from rankcast.range_topk.dissemination.slab_members import AFFECTED, FOUND, MOMENT, TWICE, Members
from rankcast.range_topk.dominance import SlotMap
from rankcast.range_topk.kernels.corner_steps import Events
from rankcast.range_topk.kernels.corner_tree import CAPACITY
from rankcast.range_topk.kernels.tiles import empty_tiles
from rankcast.range_topk.objects import grown
from rankcast.range_topk.painting import boxes_for

FEW = 256  # messages that room is made for at first
QUEUE = 1 << 12  # better objects on the way down a tree that room is made for at first


class SlabPainter:
    """Applies events to objects over two attributes, the second bounded on one side by every subscription.

    `asked` counts questions to the objects, as `slabs` names them, `affected` the subscriptions reached, each
    once an event. `asking`: whether it asks whatever the published server asks.
    """

    def __init__(self, objects: BoxObjects) -> None:
        self.objects = objects
        self.asked: NDArray[np.int64] = np.zeros(3, np.int64)
        self.affected = 0
        self.asking = False
        self._room: Members | None = None  # with the last moment, and which one every slot has heard of last

    def paint(
        self, events: Events, k: int, side: int, shelf: CornerIndex | None, epsilon: float | None
    ) -> Post:
        """Apply events one by one; the tiles that tell those affected.

        The second attribute is bounded on a `side`, 1 above or -1 below. Without a shelf no subscription is
        read; an empty one is that of nobody.
        """
        k = least(self.objects, k, events)
        objects, nobody, done = self.objects, CornerIndex(4, 1, 1, SlotMap()), 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        corners, post = nobody if shelf is None else shelf, empty_post(FEW, 2)
        members = self._members(corners)
        while done < len(events.row):
            easel = Easel(
                objects=objects.index.tree,
                along=objects.along(),
                label=objects.label,
                corners=corners.tree,
                members=members,
                tiles=empty_tiles(k + 2),
                k=k,
                sign=float(side),
                bound=3 if side > 0 else 2,
                aware=shelf is not None,
                lists=boxes_for(epsilon),
                asking=self.asking,
                tally=self.asked,
            )
            done, post = slab_events.play(easel, events, objects.value, post, done)
            if done < len(events.row):
                objects.index.reserve()
        objects.tidy()
        if epsilon is None:
            self.affected += int(members.size[AFFECTED])
        return post

    def _members(self, shelf: CornerIndex) -> Members:
        """Room for members of a region among the subscriptions of a shelf, kept while it is enough."""
        tree, room = shelf.tree, self._room
        slots, leaves, bucket = len(tree.row), len(tree.leaf_of), int(tree.meta[CAPACITY])
        if (
            room is None
            or slots > len(room.heard)
            or leaves > len(room.cut.node)
            or bucket + WIDE > len(room.held)
        ):
            former = np.empty(0, np.int64) if room is None else room.heard
            slots = max(slots, len(former))
            heard = grown(former, slots, -1)
            room = self._room = Members(
                span=np.empty((slots, 3)),
                better=np.empty(slots, np.int32),
                whole=np.empty(2 * leaves, np.int32),
                held=np.empty(bucket + WIDE),
                queue=np.empty((2, QUEUE)),
                cut=new_cut(leaves, slots),
                heard=heard,
                size=np.array([0, 0 if room is None else room.size[MOMENT], 0, 0, 0]),
            )
        room.size[FOUND], room.size[AFFECTED], room.size[TWICE] = 0, 0, 0
        return room


def least(objects: BoxObjects, k: int, events: Events) -> int:
    """A k beyond all objects counts as just that."""
    return min(k, len(objects.index) + len(events.row) + 1)
