"""Painting the net change of a batch: everybody hears exactly what a direct computation says, once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.range_topk.dissemination.batch import NetChanges, NetPainter
from rankcast.range_topk.kernels.paint import Tiles
from rankcast.range_topk.painter import Painter

from .world import INF, Listing, World, histories, knowledge, net_of, reached, receive, worlds

METHODS = ["dense", "sparse"]
Said = list[tuple[int, float, float]]


def after(world: World, events: list[tuple[int, float, float]]) -> World:
    later = World(world.k, world.ranges, dict(world.objects))
    for event in events:
        later.apply(*event)
    return later


def must_hear(before: Listing, now: Listing, old: World, new: World) -> Said:
    """What a subscriber must hear, as (item, x, value).

    Of what is new or changed in its list, and of what left it although its old value would keep it; of a
    move both parts, each if it is so.
    """
    said: Said = [(row, x, y) for y, row, x in now if (y, row, x) not in before]
    kept = {row: x for _, row, x in now}
    for y, row, x in before:
        if kept.get(row) == x:
            continue
        stale = (y, old.label(row))
        if len(now) < new.k or stale <= (now[-1][0], new.label(now[-1][1])):
            stays = row in new.objects and new.objects[row][0] == x
            said.append((row, x, new.objects[row][1] if stays else INF))
    return sorted(said)


def deliver(world: World, lists: list[Listing], tiles: Tiles) -> tuple[list[Listing], list[Said]]:
    heard: list[Said] = [[] for _ in lists]
    lists = list(lists)
    for at in range(len(tiles.item)):
        item, x, value = int(tiles.item[at]), float(tiles.x[at]), float(tiles.value[at])
        for s, span in enumerate(world.ranges):
            if reached(tiles, at, span):
                lists[s] = receive(lists[s], item, x, value, world)
                heard[s].append((item, x, value))
    return lists, heard


def play(world: World, events: list[tuple[int, float, float]], method: str) -> Tiles:
    later = after(world, events)
    painter = Painter(world.object_index())
    tiles = NetPainter(painter).paint(net_of(world, later), world.k, points=knowledge(world, method))
    before, now = world.listings(), later.listings()
    lists, heard = deliver(world, before, tiles)
    assert lists == now
    expected = [must_hear(a, b, world, later) for a, b in zip(before, now, strict=True)]
    assert [sorted(said) for said in heard] == expected
    painter.objects.check()
    present = np.flatnonzero(painter.objects.tree.leaf_of >= 0).tolist()
    assert {
        row: (painter.objects.tree.x[row], painter.objects.tree.y[row]) for row in present
    } == later.objects
    return tiles


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_batch_tells_what_must_be_told_and_nothing_else(method: str, data: st.DataObject) -> None:
    world = data.draw(worlds(dense=method != "sparse"))
    tiles = play(world, data.draw(histories(world, size=12)), method)
    if method == "sparse":
        assert all(any(reached(tiles, at, span) for span in world.ranges) for at in range(len(tiles.item)))


def test_a_loss_is_told_though_its_region_was_never_exposed() -> None:
    """The example on which the published algorithm leaves a stale entry."""
    world = World(2, [(0.0, 9.0)], {0: (1.0, 10.0), 1: (2.0, 5.0), 2: (3.0, 4.0), 3: (4.0, 8.0)})
    nan = float("nan")
    tiles = play(world, [(0, nan, 3.0), (1, nan, 20.0), (2, nan, 30.0)], "dense")
    assert tiles.item.tolist() == [2, 1, 3, 0]


def test_a_batch_that_changes_nothing_tells_nothing() -> None:
    world = World(2, [(0.0, 9.0)], {0: (1.0, 1.0), 1: (2.0, 2.0)})
    assert play(world, [(0, 5.0, 5.0), (0, 1.0, 1.0), (4, 3.0, 3.0), (4, 3.0, INF)], "dense").item.size == 0


def test_large_batches_grow_tree_and_buffers() -> None:
    """Random batches of thousands of inserts, moves and deletions leave the tree as it must be."""
    random = np.random.default_rng(3)
    painter = Painter(World(3, []).object_index(rows=4000))
    rows = np.arange(4000, dtype=np.int32)
    x = y = np.full(4000, INF)
    for _ in range(4):
        old_x, old_y = x, y
        x, y = random.uniform(0, 100, 4000), random.uniform(0, 100, 4000)
        y[random.random(4000) < 0.3] = INF
        NetPainter(painter).paint(NetChanges(rows, np.where(old_y < INF, old_x, x), old_y, x, y), 3)
        painter.objects.check()
        assert np.array_equal(painter.objects.tree.y, y)
