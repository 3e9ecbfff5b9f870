"""Counting messages, receivers and calls of range top-k servers, against counting by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.bench.cases.range_subscribing import weight
from rankcast.bench.workloads import Columns, range_topk
from rankcast.bench.workloads.range_topk import Workload
from rankcast.papers.figures.range_boxes import SlabServer
from rankcast.papers.figures.range_counts import (
    TILE_BYTES,
    UNICAST_BYTES,
    Audience,
    Census,
    Server,
    Unicast,
    affected_by_scan,
    agree,
    boxes_around,
    count_points,
    own_tiles,
    point_index,
)
from rankcast.papers.figures.range_traffic import boxes_of, coalesced

SMALL = st.integers(0, 5).map(float)


def columns(**given_columns: list[float]) -> Columns:
    made = {name: np.array(values, np.float64) for name, values in given_columns.items()}
    return {"id": np.arange(len(next(iter(made.values())))), **made}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A few objects, ranges and updates with many ties."""
    places = draw(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=8))
    ranges = draw(st.lists(st.tuples(SMALL, SMALL).map(sorted), min_size=1, max_size=8))
    events = draw(st.lists(st.tuples(st.integers(0, len(places) - 1), SMALL), min_size=1, max_size=8))
    return Workload(
        columns(x=[x for x, _ in places], y=[y for _, y in places]),
        columns(x_lo=[lo for lo, _ in ranges], x_hi=[hi for _, hi in ranges]),
        {"id": np.array([row for row, _ in events]), "y": np.array([y for _, y in events])},
    )


@given(work=workloads(), k=st.integers(1, 3))
def test_every_way_of_counting_finds_those_affected(work: Workload, k: int) -> None:
    unicast = Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))
    audience = Audience(work.objects, k, points=point_index(work.subscriptions))
    unicast.send(work.events)
    audience.send(work.events)
    affected = affected_by_scan(work, k).sum()
    assert unicast.total["affected"] == unicast.total["messages"] == affected
    assert unicast.total["bytes_out"] == UNICAST_BYTES * affected
    assert unicast.total["miny"] >= affected
    assert audience.total["received"] == affected
    assert audience.total["bytes_out"] == TILE_BYTES * audience.total["messages"]
    assert agree(work, k)


@given(work=workloads(), k=st.integers(1, 3))
def test_those_in_range_of_an_update_are_whom_a_server_without_ranking_reaches(
    work: Workload, k: int
) -> None:
    unicast = Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))
    unicast.send(work.events)
    place, ends = work.objects["x"][work.events["id"]], work.subscriptions
    inside = (ends["x_lo"][:, None] <= place) & (place <= ends["x_hi"][:, None])
    assert unicast.total["relaxed"] == inside.sum()


@given(work=workloads(), k=st.integers(1, 3))
def test_the_census_counts_the_ranges_in_every_tile(work: Workload, k: int) -> None:
    server = Server(work.objects, k)
    tiles = server.paint(work.events)
    ends, box = work.subscriptions, tiles.box
    lo, hi = ends["x_lo"][:, None], ends["x_hi"][:, None]
    inside = (box[:, 0] <= lo) & (lo <= box[:, 1]) & (box[:, 2] <= hi) & (hi <= box[:, 3])
    assert Census(work.objects["x"], ends).count(box).tolist() == inside.sum(axis=0).tolist()
    assert count_points(point_index(ends).tree, box).tolist() == inside.sum(axis=0).tolist()
    own, event = own_tiles(tiles, work.events)
    for around, number in zip(boxes_around(own, event), np.unique(event), strict=True):
        mine = own[event == number]
        assert around.tolist() == [*_ends(mine[:, :2]), *_ends(mine[:, 2:])]


def _ends(pairs: np.ndarray) -> tuple[float, float]:
    return float(pairs[:, 0].min()), float(pairs[:, 1].max())


def test_a_batch_counts_the_same_whole_or_in_parts() -> None:
    rng = np.random.default_rng(8)
    objects = range_topk.objects(50, rng)
    events = range_topk.uniform_events(objects, 60, rng)
    whole, parts = Server(objects, 3), Server(objects, 3)
    whole.send(events)
    for start in range(0, 60, 20):
        parts.send({name: column[start : start + 20] for name, column in events.items()})
    assert whole.counts() == parts.counts()
    assert whole.counts()["messages"] > 1
    assert whole.counts()["firstk"] == 2


@pytest.mark.parametrize(
    ("others", "questions", "snaps"),
    [
        # the first question of a slab knows no subscription, the second finds nobody reaching that far
        ([(8.0, 0.0, 2.0), (7.0, 0.0, 3.0)], 3, 2),
        # a better object parts the polygon at height 5: one that is passed above it leaves the slab below
        # as it is, so what that slab has found is told, however far it is from everybody
        ([(9.0, 5.0, 0.0), (7.0, 6.0, 2.0), (20.0, 0.0, 3.0)], 7, 4),
        # one that is passed below it changes both slabs, and what the upper one has found is asked for again
        ([(9.0, 5.0, 0.0), (1.0, 0.0, 2.0), (7.0, 6.0, 3.0)], 6, 4),
    ],
)
def test_a_slab_is_shrunk_when_an_exposed_object_changes_it(
    others: list[tuple[float, float, float]], questions: int, snaps: int
) -> None:
    places = [(5.0, 1.0, 1.0), *others]
    work = Workload(
        columns(x=[x for x, _, _ in places], z=[z for _, z, _ in places], y=[y for _, _, y in places]),
        columns(x_lo=[4.0], x_hi=[5.5], z_hi=[4.0]),
        {"id": np.array([0]), "y": np.array([10.0])},
    )
    server = SlabServer(work, 1, aware=True, asking=True)
    server.send(work.events)
    counts = server.counts()
    assert (counts["min"], counts["snap"]) == (questions, snaps)
    assert counts["messages"] == 1


def test_coalescing_keeps_the_last_update_of_each_object() -> None:
    events = {"id": np.array([4, 2, 4, 7, 2]), "y": np.array([0.1, 0.2, 0.3, 0.4, 0.5])}
    kept = coalesced(events)
    assert kept["id"].tolist() == [4, 7, 2]
    assert kept["y"].tolist() == [0.3, 0.4, 0.5]


def test_tiles_of_a_table_are_closed_boxes() -> None:
    table = pa.table(
        {
            "x_lo_outer": pa.array([None, 1.0]),
            "x_lo_inner": [2.0, 2.0],
            "x_hi_inner": [3.0, 3.0],
            "x_hi_outer": pa.array([4.0, None], pa.float64()),
        }
    )
    above, below = np.nextafter(1.0, 2.0), np.nextafter(4.0, 3.0)
    assert boxes_of(table).tolist() == [[-np.inf, 2.0, 3.0, below], [above, 2.0, 3.0, np.inf]]


def test_an_engine_weighs_at_least_the_ranges_and_lists_it_keeps() -> None:
    rng = np.random.default_rng(8)
    engine = RangeTopK(k=10)
    engine.publish(range_topk.objects(100, rng))
    empty = weight(engine)
    engine.subscribe(range_topk.subscriptions(5_000, rng))
    ends, lists = 2 * 8, 4 * 10
    assert weight(engine) - empty >= 5_000 * (ends + lists)


def test_a_trace_is_first_values_and_every_later_change(tmp_path: Path) -> None:
    day = [1, 1, 1, 2, 2, 2, 3, 3, 3]
    table = pa.table(
        {
            "snapshot_ts": day,
            "symbol": ["B", "A", "C"] * 3,
            "pe": pa.array([5.0, None, 1.0, 5.0, 7.0, 2.0, 6.0, 8.0, 3.0]),
            "market_cap": pa.array([100.0, 10.0, None, 100.0, 1000.0, None, 1.0, 1.0, None]),
        }
    )
    path = tmp_path / "trace.parquet"
    pq.write_table(table, path)
    objects, events = range_topk.stocks(path)
    assert objects["id"].tolist() == [0, 1]  # A and B; C has no market value
    assert objects["x"].tolist() == [3.0, 2.0]  # A is first known on day 2
    assert objects["y"].tolist() == [7.0, 5.0]
    assert list(zip(events["id"].tolist(), events["y"].tolist(), strict=True)) == [(0, 8.0), (1, 6.0)]


@pytest.mark.skipif(
    not range_topk.STOCKS.exists(), reason=f"the real trace is not there: {range_topk.STOCKS}"
)
def test_the_real_trace_has_changes_of_known_companies() -> None:
    objects, events = range_topk.stocks()
    assert len(objects["id"]) > 450
    assert len(events["id"]) > 20_000
    assert np.isin(events["id"], objects["id"]).all()
    assert np.isfinite(objects["x"]).all()
