"""What searches cost, how often they come, and how buffers follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast.errors import SnapshotError
from rankcast.geotext.costs import CACHED, MOST, SearchCosts
from rankcast.geotext.kernels import costs as kernel
from rankcast.geotext.kernels.results import COST, Buffers, capacity_of, cut_of

ROWS, K = 10, 20


def buffers(keep: int, room: int = 1_000) -> Buffers:
    """Buffers of `ROWS` subscriptions that all have a threshold."""
    none = np.zeros(0, np.int32)
    return Buffers(
        np.zeros(ROWS, np.int64), np.zeros(ROWS, np.int32), np.full(ROWS, room, np.int32),
        np.full(ROWS, keep, np.int32), np.zeros(ROWS), none, np.zeros(0), np.zeros(0, np.uint16),
    )  # fmt: skip


def known(work: int = 5_000) -> SearchCosts:
    """The costs of subscriptions each of which took so much work."""
    made = SearchCosts(1.0)
    made.make_rows(ROWS)
    made.work[:] = work
    return made


def followed(made: SearchCosts, held: Buffers, gone: int, window: int = 100) -> None:
    made.gone += gone
    made.follow(window, held, np.full(ROWS, K), ROWS)


def test_every_buffer_follows_once_in_a_turnover() -> None:
    made, held = known(), buffers(keep=90)
    wanted = kernel.sizes_to_keep(np.full(ROWS, K), COST, 3, made.of(np.arange(ROWS, dtype=np.int32)))
    for part in range(1, 11):
        followed(made, held, 10)
        assert np.count_nonzero(held.keep != 90) == part
    assert (np.abs(held.keep - wanted) <= 2).all()


def test_a_few_messages_are_remembered_until_a_buffer_is_due() -> None:
    made, held = known(), buffers(keep=90)
    for _ in range(9):
        followed(made, held, 1)
        assert (held.keep == 90).all()
    followed(made, held, 1)
    assert np.count_nonzero(held.keep != 90) == 1


def test_who_has_no_room_no_threshold_or_too_little_room_stays() -> None:
    made, held = known(work=100_000), buffers(keep=K)
    held.room[0], held.threshold[1], held.room[2] = 0, -np.inf, K + 1
    followed(made, held, 100)
    assert (held.keep[:3] == K).all()
    assert (held.keep[3:] > K).all()


def test_searches_that_come_more_often_cost_more_and_have_an_end() -> None:
    seldom, often, rows = known(), known(), np.arange(ROWS, dtype=np.int32)
    before = seldom.of(rows)[0]
    for _ in range(5):
        often.filled(10_000)
        for each in (seldom, often):
            followed(each, buffers(keep=K + 1), 100)
    assert seldom.of(rows)[0] < before < often.of(rows)[0] <= MOST * before


def test_longer_lists_of_messages_make_a_search_dearer() -> None:
    made, prices, rows = known(), [], np.arange(ROWS, dtype=np.int32)
    for entries in (0, CACHED, 64 * CACHED):
        made.entries = entries
        prices.append(made.of(rows)[0])
    assert prices == sorted(set(prices))


@pytest.mark.parametrize("k", [1, 2, 20, 1_000, 1 << 28])
def test_a_buffer_is_cut_to_k_at_least_and_below_what_it_may_have(k: int) -> None:
    for keep in (k, k + 1, k + k // 3 + 2, 2 * k, 3 * k):
        assert k <= cut_of(keep, k, COST) <= keep
        assert cut_of(keep, k, COST) < capacity_of(keep, k, COST)


def test_costs_go_on_from_a_snapshot_as_before() -> None:
    made, held = known(), buffers(keep=90)
    made.filled(7)
    made.entries = 12_345
    followed(made, held, 33)
    twin = SearchCosts(1.0)
    twin.restore(made.header(), made.work.copy())
    other = held._replace(keep=held.keep.copy())
    for gone in (5, 50, 200):
        followed(made, held, gone)
        followed(twin, other, gone)
        assert made.header() == twin.header()
        assert (held.keep == other.keep).all()


@pytest.mark.parametrize(
    "turnover", [[], "six", [0.0] * 5, [0.0, -1.0, 0, 0, 0, 0], [float("nan")] * 6, [1e300] * 6]
)
def test_a_damaged_turnover_is_refused(turnover: Any) -> None:
    with pytest.raises(SnapshotError, match="turnover"):
        known().restore({**known().header(), "turnover": turnover}, np.zeros(0, np.int32))
