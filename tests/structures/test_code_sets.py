"""Sets of codes against Python's own."""

from __future__ import annotations

import numpy as np
import pytest

from rankcast.structures.code_sets import NOBODY, CodeSets, alike, contain, extents, parts_of

Lists = tuple[list[int] | None, list[int] | None]
CODES = [-1, *range(8)]


def entries(lists: Lists) -> list[tuple[int, int, int, int]]:
    """The entries of what must be in, and must not be in, some codes."""
    found = []
    for number, members in enumerate(lists):
        runs: list[list[int]] = []
        for code in sorted(set(members or [])):
            if runs and runs[-1][1] + 1 == code:
                runs[-1][1] = code
            else:
                runs.append([code, code])
        if members == []:
            runs = [[NOBODY, NOBODY]]
        found += [(number, len(runs) - place, low, high) for place, (low, high) in enumerate(runs)]
    return found


def accepted(lists: Lists) -> set[int | None]:
    some, but = lists
    known = {code for code in CODES if (some is None or code in some) and code not in (but or [])}
    return known | ({None} if some is None and but is None else set())


def sets_of(*rows: Lists) -> CodeSets:
    lines = [entries(row) for row in rows]
    size = np.array([len(each) for each in lines], np.int32)
    flat = np.array([entry for each in lines for entry in each], np.int32).reshape(-1, 4)
    return CodeSets(np.cumsum(size, dtype=np.int64) - size, size, flat)


def drawn(rng: np.random.Generator) -> Lists:
    lists = [None if rng.random() < 0.35 else rng.integers(0, 7, rng.integers(0, 6)).tolist() for _ in "ab"]
    return lists[0], lists[1]


def test_containment_is_that_of_sets_and_follows_from_ends_and_numbers() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3000):
        one, other = drawn(rng), drawn(rng)
        sets, rows = sets_of(one, other), np.arange(2, dtype=np.int32)
        inside = accepted(other) <= accepted(one)
        assert contain(sets, 0, sets, 1) == inside == parts_of(sets, 0, sets, 1, 1)[0], (one, other)
        low, high, count = extents(sets, rows, 0)
        if inside:
            assert low[0] <= low[1]
            assert high[0] >= high[1]
            assert count[0] >= count[1]
            equal = (low[0], high[0], count[0]) == (low[1], high[1], count[1])
            assert equal == (accepted(one) == accepted(other)) == alike(sets, rows[:1], sets_of(other))[0]


@pytest.mark.parametrize(
    ("lists", "low", "high", "count"),
    [
        ((None, None), -np.inf, np.inf, np.inf),
        (([3, 1], None), 1, 3, 2),
        (([1, 2, 3], [1]), 2, 3, 2),
        (([1], [1]), 2**31, -(2**31), 0),
        (([], None), 2**31, -(2**31), 0),
        ((None, [1, 5]), -np.inf, 2**31, 2**32 - 2),
        ((None, []), -np.inf, 2**31, 2**32),
    ],
)
def test_extents(lists: Lists, low: float, high: float, count: float) -> None:
    assert [each[0] for each in extents(sets_of(lists), np.zeros(1, np.int32), 0)] == [low, high, count]
