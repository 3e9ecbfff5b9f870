"""Zones: every point has one owner, greedy forwarding arrives, multicast reaches each touched zone once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.errors import SettingError
from rankcast.papers.network import zones as kernels
from rankcast.papers.network.zones import SPLITS, Zones, cut_space

VALUE = st.sampled_from([-np.inf, -1.0, 0.0, 0.1, 0.25, 0.5, 0.5000001, 0.75, 1.0, 3.0, np.inf])


@st.composite
def spaces(draw: Any, most: int = 24) -> tuple[Zones, int]:
    """Zones cut by a few points, with ties, duplicates and infinite ends; and how many axes there are."""
    axes = draw(st.sampled_from([2, 2, 4]))
    points = np.array(draw(st.lists(st.lists(VALUE, min_size=axes, max_size=axes), max_size=20)), np.float64)
    count, split = draw(st.integers(1, most)), draw(st.sampled_from(SPLITS))
    return cut_space(points.reshape(-1, axes), count, split, np.random.default_rng(0)), axes


def places(draw: Any, zones: Zones, axes: int) -> np.ndarray[Any, Any]:
    """Points at cuts, between them, and beyond."""
    known = [st.sampled_from([*cuts, *(cuts + 1e-3)]) if cuts.size else VALUE for cuts in zones.cuts]
    return np.array([draw(st.one_of(VALUE, known[axis])) for axis in range(axes)])


@settings(max_examples=50)
@given(spaces(), st.data())
def test_every_point_has_one_owner_which_the_tree_finds(space: tuple[Zones, int], data: Any) -> None:
    zones, axes = space
    point = places(data.draw, zones, axes)
    inside = ((zones.low <= point) & (point < np.where(zones.high == np.inf, np.nan, zones.high))) | (
        (zones.low <= point) & (zones.high == np.inf)
    )
    assert np.flatnonzero(inside.all(axis=1)).tolist() == zones.owners(point[None]).tolist()


@settings(max_examples=50)
@given(spaces())
def test_neighbours_share_a_face(space: tuple[Zones, int]) -> None:
    zones, axes = space
    for one in range(len(zones)):
        row = zones.space.neighbour[zones.space.start[one] : zones.space.start[one + 1]].tolist()
        expected = []
        for two in range(len(zones)):
            touch = (zones.high[one] == zones.low[two]) | (zones.high[two] == zones.low[one])
            overlap = np.minimum(zones.high[one], zones.high[two]) > np.maximum(
                zones.low[one], zones.low[two]
            )
            if touch.sum() == 1 and (overlap | touch).all() and overlap.sum() == axes - 1:
                expected.append(two)
        assert row == expected


@settings(max_examples=60)
@given(spaces(), st.data())
def test_greedy_forwarding_always_arrives(space: tuple[Zones, int], data: Any) -> None:
    zones, axes = space
    point = places(data.draw, zones, axes)[None]
    cell, aim, goal = zones.cells(point)[0], zones.scaled(point)[0], zones.owners(point)[0]
    path = np.full(len(zones), -1, np.int32)
    for source in range(len(zones)):
        steps = kernels.forward(zones.space, np.int32(source), aim, cell, cell, cell, path)
        way = path[: steps + 1].tolist()
        assert way[0] == source
        assert way[-1] == goal
        assert len(set(way)) == len(way)
        for one, two in itertools.pairwise(way):
            assert two in zones.space.neighbour[zones.space.start[one] : zones.space.start[one + 1]]


@settings(max_examples=60)
@given(spaces(), st.data())
def test_multicast_by_the_local_rule_reaches_each_touched_zone_once(
    space: tuple[Zones, int], data: Any
) -> None:
    zones, axes = space
    one, two = places(data.draw, zones, axes), places(data.draw, zones, axes)
    ends = np.sort([one, two], axis=0)
    bottom, top = zones.cells(ends)
    low, high = zones.low, np.where(zones.high == np.inf, np.inf, np.nextafter(zones.high, -np.inf))
    touched = np.flatnonzero(((low <= ends[1]) & (high >= ends[0])).all(axis=1)).tolist()
    listed = np.empty(len(zones), np.int32)
    count = kernels.list_touched(zones.space, bottom, top, listed)
    assert sorted(listed[:count].tolist()) == touched
    root = data.draw(st.sampled_from(touched))
    cell, near = np.empty(axes, np.int32), np.empty(axes, np.int32)
    kernels.root_cell(zones.space, np.int32(root), zones.cells(one[None])[0], bottom, top, cell)
    heard, speaking = [root], [root]
    while speaking:
        here = speaking.pop()
        for there in zones.space.neighbour[zones.space.start[here] : zones.space.start[here + 1]].tolist():
            if (
                there in touched
                and kernels.teller(zones.space, np.int32(there), cell, bottom, top, near) == here
            ):
                heard.append(there)
                speaking.append(there)
    assert sorted(heard) == touched
    assert kernels.teller(zones.space, np.int32(root), cell, bottom, top, near) == -1


def test_balanced_zones_hold_about_as_many_each() -> None:
    points = np.sort(np.random.default_rng(1).random((4_000, 2)) ** 3, axis=1)
    counts = {}
    for split in SPLITS:
        zones = cut_space(points, 40, split, np.random.default_rng(2))
        counts[split] = np.bincount(zones.owners(points), minlength=40)
        assert counts[split].sum() == 4_000
    assert counts["balanced"].max() <= 2 * counts["balanced"].min() + 2
    assert counts["balanced"].std() < counts["midpoint"].std()


def test_an_axis_without_ends_is_not_cut() -> None:
    points = np.random.default_rng(1).random((500, 4))
    points[:, 2] = -np.inf
    for split in SPLITS:
        zones = cut_space(points, 40, split, np.random.default_rng(2))
        assert zones.cuts[2].size == 0
        assert np.bincount(zones.owners(points), minlength=40).min() > 0


def test_an_unknown_way_to_cut_is_refused() -> None:
    with pytest.raises(SettingError, match='unknown value "middle"'):
        cut_space(np.zeros((1, 2)), 4, "middle", np.random.default_rng(0))
