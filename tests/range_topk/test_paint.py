"""Painting one event after another: everybody affected is told, nobody else, and lists come out right."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.kernels.paint import MINY, Tiles, coarsen
from rankcast.range_topk.painter import Painter, empty_tiles

from .world import INF, Listing, World, event_arrays, histories, knowledge, reached, receive, worlds

METHODS = ["dense", "sparse"]
Told = frozenset[tuple[float, float]]


def play(world: World, data: st.DataObject, method: str, epsilon: float | None) -> None:
    painter = Painter(world.object_index())
    points = knowledge(world, method)
    for event in data.draw(histories(world)):
        before = world.listings()
        ranks = best_ranks(world, event)
        tiles = painter.paint(event_arrays([event]), np.array([world.k]), points=points, epsilon=epsilon)
        world.apply(*event)
        lists, heard = deliver(world, before, tiles)
        assert lists == world.listings()
        if epsilon is None:
            affected = [old != new for old, new in zip(before, world.listings(), strict=True)]
            assert [bool(items) for items in heard] == affected
            assert all(len(items) == len(set(items)) or event[0] in items for items in heard)
        else:
            check_epsilon(world, tiles, heard, ranks, epsilon)
        if method == "sparse":
            assert all(
                any(reached(tiles, at, span) for span in world.ranges) for at in range(len(tiles.item))
            )
        painter.objects.check()


def best_ranks(world: World, event: tuple[int, float, float]) -> dict[tuple[int, int], float]:
    """Ranks before an event; for a move, a deletion and an insertion, the better of before and between."""
    between = World(world.k, world.ranges, dict(world.objects))
    if not math.isnan(event[1]):
        between.objects.pop(event[0], None)
    pairs = [(s, row) for s in range(len(world.ranges)) for row in range(12)]
    return {(s, row): min(w.rank(w.ranges[s], row) for w in (world, between)) for s, row in pairs}


def deliver(world: World, lists: list[Listing], tiles: Tiles) -> tuple[list[Listing], list[list[int]]]:
    heard: list[list[int]] = [[] for _ in lists]
    lists = list(lists)
    for at in range(len(tiles.item)):
        item, x, value = int(tiles.item[at]), float(tiles.x[at]), float(tiles.value[at])
        for s, span in enumerate(world.ranges):
            if reached(tiles, at, span):
                lists[s] = receive(lists[s], item, x, value, world)
                heard[s].append(item)
    return lists, heard


def check_epsilon(
    world: World, tiles: Tiles, heard: list[list[int]], before: dict[tuple[int, int], float], epsilon: float
) -> None:
    limit = (1 + epsilon) * world.k
    for s, span in enumerate(world.ranges):
        for item in heard[s]:
            assert min(before[s, item], world.rank(span, item)) <= limit + 1e-9
    runs = zip(tiles.item, np.isinf(tiles.value), strict=True)
    for run in set(runs):
        same = (tiles.item == run[0]) & (np.isinf(tiles.value) == run[1])
        assert same.sum() <= math.ceil(1 / epsilon)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_exact_methods_reach_the_affected_and_nobody_else(method: str, data: st.DataObject) -> None:
    play(data.draw(worlds(dense=method != "sparse")), data, method, None)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), epsilon=st.sampled_from([0.2, 0.3, 0.5, 0.7, 1.0]))
def test_epsilon_sends_few_messages_and_none_far_beyond_k(
    method: str, data: st.DataObject, epsilon: float
) -> None:
    play(data.draw(worlds(dense=method == "dense")), data, method, epsilon)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_one_sweep_serves_every_k(data: st.DataObject) -> None:
    world = data.draw(worlds(dense=True))
    events = data.draw(histories(world))
    ks = [4, 2, 1]
    together = Painter(world.object_index()).paint(event_arrays(events), np.array(ks))
    for number, k in enumerate(ks):
        alone = Painter(world.object_index()).paint(event_arrays(events), np.array([k]))
        mine = together.size_class == number
        assert np.array_equal(together.box[mine], alone.box)
        assert np.array_equal(together.item[mine], alone.item)
        assert np.array_equal(together.value[mine], alone.value)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_dense_tiles_are_the_fewest_possible(data: st.DataObject) -> None:
    world = data.draw(worlds(dense=True))
    world.ranges = between_objects(7)
    painter = Painter(world.object_index())
    event = data.draw(histories(world, size=1))[0]
    tiles = painter.paint(event_arrays([event]), np.array([world.k]))
    for mine, told in groups(world, tiles):
        assert not can_cover(world, told, told, mine - 1)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sparse_tiles_are_at_most_twice_the_fewest(data: st.DataObject) -> None:
    world = data.draw(worlds(dense=False))
    painter, points = Painter(world.object_index()), world.subscription_index().tree
    event = data.draw(histories(world, size=1))[0]
    tiles = painter.paint(event_arrays([event]), np.array([world.k]), points=points)
    for mine, told in groups(world, tiles):
        assert not can_cover(world, told, told, (mine - 1) // 2)


def between_objects(values: int) -> list[tuple[float, float]]:
    """One range for every set of neighbouring whole numbers: the fewest that make an instance dense."""
    return [(lo - 0.5, hi + 0.5) for lo in range(values) for hi in range(lo, values)]


def groups(world: World, tiles: Tiles) -> Iterator[tuple[int, Told]]:
    """For every item told of: how many tiles, and the ranges they reach."""
    for item, value in sorted(set(zip(tiles.item.tolist(), tiles.value.tolist(), strict=True))):
        mine = np.flatnonzero((tiles.item == item) & (tiles.value == value))
        yield len(mine), frozenset(s for s in world.ranges if any(reached(tiles, int(at), s) for at in mine))


def can_cover(world: World, told: Told, still: Told, boxes: int) -> bool:
    """Whether so many boxes hold the ranges still open and none that is not told."""
    if not still:
        return True
    if boxes == 0:
        return False
    return any(
        can_cover(world, told, still - box, boxes - 1) for box in maximal_boxes(world, told, min(still))
    )


def maximal_boxes(world: World, told: Told, first: tuple[float, float]) -> list[Told]:
    """The boxes of ranges told of that hold a given one and cannot grow."""
    lows, highs = sorted({s[0] for s in told}), sorted({s[1] for s in told})
    boxes = []
    for west in (low for low in lows if low <= first[0]):
        for east in (low for low in lows if low >= first[0]):
            for bottom in (high for high in highs if high <= first[1]):
                for top in (high for high in highs if high >= first[1]):
                    box = frozenset(s for s in world.ranges if west <= s[0] <= east and bottom <= s[1] <= top)
                    if box <= told:
                        boxes.append(box)
    return [box for box in set(boxes) if not any(box < other for other in boxes)]


def test_tiles_are_not_merged_over_somebody_who_must_not_hear() -> None:
    one, two, both = (-0.5, 2.0), (-2.0, 0.5), (-2.0, 2.0)
    world = World(2, [one, two, both], {0: (0.0, 5.0), 1: (-1.0, 1.0), 2: (1.0, 1.0)})
    painter, event = Painter(world.object_index()), event_arrays([(0, float("nan"), 3.0)])
    tiles = painter.paint(event, np.array([2]), points=knowledge(world, "sparse"))
    told = [[span for span in world.ranges if reached(tiles, at, span)] for at in range(len(tiles.item))]
    assert told == [[one], [two]]


def test_objects_at_one_place_leave_no_empty_tile() -> None:
    world = World(2, [], {0: (0.0, 0.0), 1: (-1.0, -1.0), 2: (-1.0, -2.0), 3: (2.0, 5.0)})
    painter, event = Painter(world.object_index()), event_arrays([(0, float("nan"), 10.0)])
    box = painter.paint(event, np.array([2])).box
    assert len(box) > 0
    assert (box[:, 0] <= box[:, 1]).all()
    assert (box[:, 2] <= box[:, 3]).all()


def test_sparse_asks_no_further_than_those_who_wait() -> None:
    objects = {0: (0.0, 0.0), 1: (-1.0, 1.0), 2: (-2.0, 2.0), 3: (0.5, 3.0)}
    world = World(1, [(-3.0, 0.0), (0.0, 1.0)], objects)  # the first has its replacement before the second
    painter, event = Painter(world.object_index()), event_arrays([(0, float("nan"), 10.0)])
    tiles = painter.paint(event, np.array([1]), points=knowledge(world, "sparse"))
    assert tiles.item.tolist()[-2:] == [1, 3]
    assert painter.tally[MINY] == 2


def test_the_worst_case_needs_many_messages() -> None:
    """The construction of figure 18: all objects are exposed, nearly each to k separate corners."""
    n, k = 60, 5
    world = World(k, [])
    middle = n // 2
    world.objects[0] = (float(middle), 0.0)
    for j in range(1, n):
        side = 1 if j % 2 else -1
        distance = (n - j) // 2 + 1
        world.objects[j] = (middle + side * float(distance), float(j))
    painter = Painter(world.object_index(rows=n))
    tiles = painter.paint(event_arrays([(0, float("nan"), float(n + 2))]), np.array([k]))
    assert len(tiles.item) >= (n - 2 * k) * (k - 1)
    assert len(set(tiles.item.tolist())) == n - k + 1


def test_dense_reads_no_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    from rankcast.range_topk import painter

    poisoned = painter.NOBODY._replace(
        child=np.full((1, 2), 10**9, np.int32), size=np.full(1, 1, np.int32), box=np.full((1, 4), np.nan)
    )
    world = World(2, [])
    world.objects = {row: (float(row), float(row % 5)) for row in range(10)}
    events = event_arrays([(3, float("nan"), 9.0), (4, float("nan"), 0.5), (5, 0.5, INF)])
    clean = Painter(world.object_index()).paint(events, np.array([2]))
    monkeypatch.setattr(painter, "NOBODY", poisoned)
    blind = Painter(world.object_index())
    assert np.array_equal(blind.paint(events, np.array([2])).box, clean.box)
    assert blind.tally[2] == 0


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 5))
def test_boxes_in_place_of_tiles_span_equal_blocks_of_steps(gaps: list[int], lists: int) -> None:
    """Equal x skip steps: a box of tiles far apart in steps would reach somebody far beyond k."""
    steps, tiles = np.cumsum(gaps), empty_tiles(len(gaps))
    tiles.step[:] = steps
    tiles.box[:] = np.arange(len(gaps))[:, None]
    tiles.size[0] = len(gaps)
    coarsen(tiles, 0, lists)
    boxes = tiles.box[: tiles.size[0]].astype(int)
    assert len(boxes) <= lists
    assert [at for first, last, *_ in boxes for at in range(first, last + 1)] == list(range(len(gaps)))
    for first, last, *_ in boxes:
        assert (steps[last] - steps[first]) * lists < steps[-1] - steps[0] + 1
