"""Range top-k by looking at every object for every subscription.

Who must hear what after a change of objects, range by range: the brute-force form of dissemination.

A subscriber follows the protocol of `rankcast.SubscriberList`. Going from list A to list B it must hear of
every item that is new or changed in B, and of every item of A that is not in B but whose old score would keep
it there. What got worse or left is told first: otherwise a stale entry could push out one that stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Floats, Ints, Rows


class Objects(NamedTuple):
    """All objects at one moment: rows, places (n, d), ranking keys and labels."""

    row: Rows
    x: Floats
    key: Floats
    label: Ints


def top_k(boxes: Boxes, k: Ints, objects: Objects) -> list[Rows]:
    """For each box the places among `objects` of the k inside it with the smallest (key, label).

    Cost: O(n log n + m n d) for n objects and m boxes.
    """
    ranked = np.lexsort((objects.label, objects.key))
    placed = objects.x[ranked]
    found = []
    for low, high, size in zip(boxes.lo, boxes.hi, k, strict=True):
        inside = ((placed >= low) & (placed <= high)).all(axis=1)
        found.append(ranked[np.flatnonzero(inside)[:size]].astype(np.int32))
    return found


class Message(NamedTuple):
    """One message to one range; `key` is NaN if the object is gone from it."""

    phase: int
    box: int
    row: int
    x: tuple[float, ...]
    key: float


Entry = tuple[float, int, int, tuple[float, ...]]  # key, label, row, place: sorts by rank


def messages(boxes: Boxes, k: int, before: Objects, after: Objects) -> list[Message]:
    """What the subscribers of each box must hear, in sending order."""
    told: list[Message] = []
    now = {entry[2]: entry for entry in _entries(after, range(after.row.size))}
    for box, (old, new) in enumerate(zip(_lists(boxes, k, before), _lists(boxes, k, after), strict=True)):
        held = {entry[2]: entry for entry in old}
        for entry in new:
            was = held.get(entry[2])
            if was != entry:
                worse = was is not None and entry[0] > was[0]
                told.append(Message(0 if worse else 1, box, entry[2], entry[3], entry[0]))
        kept = {entry[2] for entry in new}
        for entry in old:
            if entry[2] not in kept and (len(new) < k or entry < new[-1]):
                final = now.get(entry[2])
                stays = final is not None and final[3] == entry[3]
                told.append(Message(0, box, entry[2], entry[3], final[0] if stays and final else np.nan))
    return sorted(
        told, key=lambda message: (message.phase, np.nan_to_num(message.key), message.row, message.box)
    )


def _lists(boxes: Boxes, k: int, objects: Objects) -> list[list[Entry]]:
    """The ranked list of each box."""
    found = top_k(boxes, np.full(boxes.lo.shape[0], k), objects)
    return [_entries(objects, places) for places in found]


def _entries(objects: Objects, places: Rows | range) -> list[Entry]:
    return [
        (float(objects.key[i]), int(objects.label[i]), int(objects.row[i]), tuple(objects.x[i].tolist()))
        for i in places
    ]
