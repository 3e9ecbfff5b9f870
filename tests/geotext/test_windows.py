"""Which messages leave a window, when and in what order, against a plain queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rankcast import SettingError, SnapshotError
from rankcast.geotext.messages import insert
from rankcast.geotext.window import EARLIEST, LATEST, CountWindow, TimeWindow, Window, window_of

NEAR = st.integers(0, 12)
TIMES = st.lists(NEAR | st.sampled_from([EARLIEST, EARLIEST + 1, LATEST - 1, LATEST]), max_size=9)


class Plain:
    """Messages as (time, arrival, row), one by one."""

    def __init__(self, count: int | None, span: int | None) -> None:
        self.count, self.span = count, span
        self.held: list[tuple[int, int, int]] = []
        self.arrivals = 0

    def arrive(self, time: int, row: int) -> tuple[list[int], bool]:
        """The rows that leave, in order, and whether the message came too late."""
        newest = max(self.held)[0] if self.held else time
        if self.span is not None and time <= newest - self.span:
            return [], True
        self.held.append((time, self.arrivals, row))
        self.arrivals += 1
        self.held.sort()
        newest = max(self.held)[0]
        if self.span is not None:
            gone = [held for held in self.held if held[0] <= newest - self.span]
        else:
            assert self.count is not None
            gone = self.held[: max(0, len(self.held) - self.count)]
        self.held = self.held[len(gone) :]
        return [row for _, _, row in gone], False


def advance(window: Window, leaving: int, rows: NDArray[np.int32], times: NDArray[np.int64]) -> None:
    window.clock = max(window.clock, int(times.max(initial=EARLIEST)))
    (row, time), (first, end) = window.advance(leaving, rows.size)
    insert(row, time, first, end, rows, times)


def check(window: Window, plain: Plain, batches: list[list[int]]) -> None:
    row = 0
    for times in batches:
        held = window.rows().tolist()
        gone_held, gone = window.departures(np.array(times, np.int64))
        assert window.rows().tolist() == held, "a plan changed the window"
        rows = np.arange(row, row + len(times), dtype=np.int32)
        row += len(times)
        left: dict[int, int] = {}
        late = []
        for place, time in enumerate(times):
            leaving, too_late = plain.arrive(time, int(rows[place]))
            left |= dict.fromkeys(leaving, place)
            late.append(too_late)
        assert held[: gone_held.size] == [row for row in held if row in left]
        assert gone_held.tolist() == [left[row] for row in held[: gone_held.size]]
        assert (gone <= np.arange(len(times))).tolist() == late
        stays = np.array([not late[i] and int(rows[i]) not in left for i in range(len(times))], np.bool_)
        assert (gone >= len(times)).tolist() == stays.tolist()
        came_and_went = [i for i in range(len(times)) if int(rows[i]) in left]
        assert gone[came_and_went].tolist() == [left[int(rows[i])] for i in came_and_went]
        advance(window, gone_held.size, rows[stays], np.array(times, np.int64)[stays])
        assert window.rows().tolist() == [row for _, _, row in plain.held]
        assert window.times().tolist() == [time for time, _, _ in plain.held]
        assert len(window) == len(plain.held)


@given(st.integers(1, 5), st.lists(st.integers(0, 9), max_size=8))
def test_a_count_window_holds_the_last_ones(count: int, sizes: list[int]) -> None:
    check(CountWindow(count), Plain(count, None), [[0] * size for size in sizes])


@given(st.sampled_from([1, 2, 5, LATEST - 3, LATEST]), st.lists(TIMES, max_size=6))
def test_a_time_window_holds_what_is_younger_than_its_span(span: int, batches: list[list[int]]) -> None:
    check(TimeWindow(span), Plain(None, span), batches)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60))
def test_its_memory_follows_what_it_holds(sizes: list[int]) -> None:
    window = CountWindow(7)
    for size in sizes:
        times = np.zeros(size, np.int64)
        plan = window.departures(times)
        stay = plan.arriving >= size
        advance(window, plan.held.size, np.zeros(size, np.int32)[stay], times[stay])
        assert window.state()[1]["row"].size <= 2 * (7 + 7)


def test_a_restored_window_goes_on_and_a_wrong_state_is_refused() -> None:
    window = CountWindow(3)
    advance(window, 0, np.array([4, 5], np.int32), np.zeros(2, np.int64))
    header, arrays = window.state()
    assert CountWindow(3).restore(header, arrays).rows().tolist() == [4, 5]
    for bad in ({"first": 1, "end": 0}, {"first": 0, "end": 99}, {"first": -1, "end": 1}):
        with pytest.raises(SnapshotError):
            CountWindow(3).restore(bad, arrays)
    with pytest.raises(SnapshotError):
        CountWindow(3).restore(header, {**arrays, "time": arrays["time"][:1]})


@pytest.mark.parametrize(
    "setting", [0, -1, 2.0, True, None, "3", timedelta(0), timedelta(days=-1), timedelta(days=999_999_999)]
)
def test_a_window_is_a_count_or_a_span_above_0(setting: Any) -> None:
    with pytest.raises(SettingError, match="window"):
        window_of(setting)


def test_settings_make_windows() -> None:
    count, span = window_of(5), window_of(timedelta(seconds=2))
    assert isinstance(count, CountWindow)
    assert count.count == 5
    assert isinstance(span, TimeWindow)
    assert span.span == 2_000_000_000
