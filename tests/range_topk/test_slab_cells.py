"""Tiles of a region made from its members: everybody in just one, and nobody else who subscribes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.corners import BoxObjects
from rankcast.range_topk.dissemination.slab_tiles import new_cells, part_members
from rankcast.range_topk.dissemination.slabs import by_first, surround

PLACES = 8


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 40), st.integers(2, PLACES))
def test_members_are_parted_into_boxes_without_others(seed: int, k: int, count: int, places: int) -> None:
    rng = np.random.default_rng(seed)
    place, value = rng.integers(0, places, (count, 2)).astype(float), rng.random(count)
    objects, rows = BoxObjects(2), np.arange(count, dtype=np.int32)
    objects.set_labels(rows, rows.astype(np.int64))
    objects.settle(rows, place, value)
    (x, apex), worth = place[0], rng.random()
    better, same = surround(by_first(objects), 0, worth, k, 1.0)
    ends = np.sort(rng.integers(0, places, (200, 2)), axis=1).astype(float)
    span = np.column_stack([ends, rng.integers(0, places, 200).astype(float)])
    span = span[(span[:, 0] <= x) & (x <= span[:, 1]) & (apex <= span[:, 2])]
    lo, hi, top = (span[:, [axis]] for axis in range(3))
    held = (lo <= place[1:, 0]) & (place[1:, 0] <= hi) & (place[1:, 1] <= top) & (value[1:] < worth)
    member = held.sum(axis=1) < k
    total, box, _ = part_members(
        np.ascontiguousarray(better.T), len(better), span[member], (x, x, apex), k - same, new_cells()
    )
    inside = (box[:total, None, :3] <= span) & (span <= box[:total, None, 3:])
    assert inside.all(axis=2).sum(axis=0).tolist() == member.astype(int).tolist()
