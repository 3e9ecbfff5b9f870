"""What comes next in boxes, asked of objects by value and of their tree, against looking at everything."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rankcast.range_topk import corners
from rankcast.range_topk.boxes import corners_of
from rankcast.range_topk.corners import BoxObjects
from rankcast.range_topk.kernels.object_versions import FAR_VALUES, NextQueries, search_in_order
from rankcast.range_topk.state import Floats, Rows


def _objects(rng: np.random.Generator, count: int, spots: int, values: int) -> tuple[BoxObjects, Floats]:
    """Objects on a grid with many equal values, some of them already gone."""
    objects, rows = BoxObjects(2), np.arange(count, dtype=np.int32)
    places = rng.integers(0, spots, (count, 2)).astype(np.float64)
    objects.set_labels(rows, rng.permutation(count))
    worth = rng.integers(0, values, count).astype(np.float64)
    objects.settle(rows, places, np.where(rng.random(count) < 0.1, np.inf, worth))
    return objects, places


def _next(
    objects: BoxObjects, places: Floats, hidden: Rows, lo: Floats, hi: Floats, after: float, label: int
) -> int:
    """The best object in a box behind a pair, by looking at all of them, or -1."""
    inside = (objects.value[: len(places)] < np.inf) & ((lo <= places) & (places <= hi)).all(axis=1)
    inside[hidden] = False
    pairs = [(objects.value[row], objects.label[row], row) for row in np.flatnonzero(inside)]
    return int(min((pair for pair in pairs if pair[:2] > (after, label)), default=(0, 0, -1))[2])


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 7, 60, 2 * FAR_VALUES]),
    st.sampled_from([3, 200]),
    st.sampled_from([4, 5_000]),
    st.sampled_from([0, 1024]),
)
def test_boxes_find_what_comes_next(seed: int, count: int, spots: int, values: int, worth: int) -> None:
    rng = np.random.default_rng(seed)
    objects, places = _objects(rng, count, spots, values)
    hidden = np.flatnonzero((rng.random(count) < 0.1) & (objects.value[:count] < np.inf)).astype(np.int32)
    objects.hide(hidden)
    with mock.patch.object(corners, "WORTH", worth):
        order = objects.in_order(hidden)
    boxes, width = int(rng.integers(1, 7)), int(rng.integers(1, 1 + spots))
    lo = rng.integers(0, spots, (boxes, 2)).astype(np.float64)
    hi = lo + rng.integers(0, width, (boxes, 2))
    after, label = rng.integers(-1, values, boxes).astype(np.float64), rng.integers(-1, count, boxes)
    found, waits = np.empty(boxes, np.int32), np.empty(boxes, np.int32)
    asked = NextQueries(corners_of(lo, hi), after, label, found, waits)
    search_in_order(order, objects.index.tree, objects.label, asked, boxes, rng.random() * values / 8)
    pairs = zip(lo, hi, after, label, strict=True)
    assert found.tolist() == [_next(objects, places, hidden, *pair) for pair in pairs]
