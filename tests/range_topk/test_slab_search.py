"""Objects along the first of two attributes: in step with their tree, and who bounds a polygon."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.corners import BoxObjects
from rankcast.range_topk.dissemination.slab_painters import SlabPainter
from rankcast.range_topk.dissemination.slabs import by_first, surround
from rankcast.range_topk.kernels import object_tree
from rankcast.range_topk.kernels.object_versions import BoxEvents

K = 3
OBJECTS = st.lists(st.tuples(*[st.integers(0, 6).map(float)] * 3), min_size=1, max_size=40)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 30), *[st.integers(0, 6).map(float)] * 2, st.sampled_from([0.0, 1, 2, 3, np.inf])
    ),
    max_size=60,
)


def _of(objects: list[tuple[float, float, float]]) -> BoxObjects:
    """Objects whose labels fall with their rows."""
    index, rows = BoxObjects(2), np.arange(len(objects), dtype=np.int32)
    index.set_labels(rows, 100 - rows.astype(np.int64))
    index.settle(rows, np.array([o[:2] for o in objects]), np.array([o[2] for o in objects]))
    return index


@settings(max_examples=80)
@given(
    OBJECTS,
    st.integers(0, 39),
    st.integers(-1, 7).map(float),
    st.integers(1, 4),
    st.sampled_from([1.0, -1.0]),
)
def test_whoever_has_room_for_an_object_holds_as_many_of_those_that_bound_its_polygon(
    objects: list[tuple[float, float, float]], row: int, value: float, k: int, sign: float
) -> None:
    row %= len(objects)
    x, z, _ = objects[row]
    found, same = surround(by_first(_of(objects)), row, value, k, sign)
    better = [
        (o[0], sign * o[1])
        for other, o in enumerate(objects)
        if other != row and (o[2], -other) < (value, -row)
    ]
    ends = np.arange(-1.0, 8.0)
    for lo in ends[ends <= x]:
        for hi in ends[ends >= x]:
            for top in np.arange(sign * z, 8.0):
                held = sum(lo <= at <= hi and height <= top for at, height in better)
                listed = same + np.sum((lo <= found[:, 0]) & (found[:, 0] <= hi) & (found[:, 1] <= top))
                assert listed == held if held < k else listed >= k


@settings(max_examples=40)
@given(OBJECTS, STEPS, st.sampled_from([1, 7]))
def test_painting_keeps_the_objects_along_an_attribute_in_step(
    objects: list[tuple[float, float, float]], steps: list[tuple[int, float, float, float]], size: int
) -> None:
    index = _of(objects)
    painters = [SlabPainter(index), SlabPainter(index)]
    index.set_labels(np.arange(31, dtype=np.int32), np.arange(100, 69, -1))
    for number, start in enumerate(range(0, len(steps), size)):
        part = steps[start : start + size]
        rows = np.array([step[0] for step in part], np.int32)
        events = BoxEvents(rows, np.array([step[1:3] for step in part]), np.array([step[3] for step in part]))
        painters[number % 2].paint(events, K, 1, None, None)
    tree, second = by_first(index)
    here = np.flatnonzero(index.value < np.inf)
    places = index.index.tree.point[index.slots.slot_of[here]]
    assert sorted(object_tree.rows_in_order(tree)) == here.tolist()
    assert np.array_equal(tree.y[here], index.value[here])
    assert np.array_equal(np.column_stack([tree.x[here], second[here]]), places)
