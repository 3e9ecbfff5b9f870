"""The workloads of boxes: covering (subscribes and unsubscribes) and ranked matching (Zipfian)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.bench.workloads import covering, matching


def rng(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("kind", ["uniform", "heavy-tailed"])
@given(count=st.integers(0, 40), width=st.integers(1, 5), bits=st.integers(2, 20), seed=st.integers(0, 99))
def test_boxes_have_whole_ordered_ends(kind: Any, count: int, width: int, bits: int, seed: int) -> None:
    made = covering.boxes(count, covering.attributes(width), rng(seed), kind, bits=bits)
    assert set(made) == {"id"} | {f"a{n}_{end}" for n in range(width) for end in ("lo", "hi")}
    for number in range(width):
        lo, hi = made[f"a{number}_lo"], made[f"a{number}_hi"]
        assert np.all((lo >= 0) & (lo <= hi) & (hi <= 2**bits - 1))
        assert np.all((lo == np.floor(lo)) & (hi == np.floor(hi)))


def test_uniform_edges_are_random_segments() -> None:
    made = covering.boxes(50_000, ["a0"], rng())
    length = (made["a0_hi"] - made["a0_lo"]) / 2**covering.BITS
    assert length.mean() == pytest.approx(1 / 3, abs=0.01)


def covered_share(kind: Any, width: int) -> float:
    over = covering.attributes(width)
    made = covering.boxes(5_200, over, rng(), kind)
    lo = np.stack([made[f"{name}_lo"] for name in over], axis=1)
    hi = np.stack([made[f"{name}_hi"] for name in over], axis=1)
    inside = np.all((lo[:5_000] <= lo[5_000:, None]) & (hi[:5_000] >= hi[5_000:, None]), axis=2)
    return float(inside.any(axis=1).mean())


def test_heavy_tailed_boxes_are_covered_in_many_attributes_where_uniform_ones_are_not() -> None:
    assert covered_share("heavy-tailed", 8) > 0.6
    assert covered_share("uniform", 8) < 0.1


@given(count=st.integers(0, 80), first=st.integers(0, 10), p=st.floats(0.0, 0.49), seed=st.integers(0, 99))
def test_commands_are_a_history(count: int, first: int, p: float, seed: int) -> None:
    made = covering.commands(count, ["a0"], rng(seed), p=p, first=first)
    live: set[int] = set()
    assert len(made.target) == first + count
    assert not made.leaves[:first].any()
    for leave, row in zip(made.leaves.tolist(), made.target.tolist(), strict=True):
        assert (row in live) == leave
        live ^= {row}
    assert len(made.boxes["id"]) == np.count_nonzero(~made.leaves)


@given(count=st.integers(0, 80), p=st.floats(0.0, 0.49), seed=st.integers(0, 99))
def test_steps_play_the_same_history(count: int, p: float, seed: int) -> None:
    made = covering.commands(count, ["a0"], rng(seed), p=p)
    played: list[tuple[bool, int]] = []
    for call, rows in covering.steps(made):
        keys = rows if call == "unsubscribe" else rows["id"].tolist()
        assert call == "subscribe" or len(keys) == 1
        played += [(call == "unsubscribe", key) for key in keys]
    assert played == list(zip(made.leaves.tolist(), made.target.tolist(), strict=True))


def test_the_share_of_unsubscribes_is_p_and_the_victim_is_any_live_one() -> None:
    made = covering.commands(40_000, ["a0"], rng(), p=0.4)
    assert made.leaves.mean() == pytest.approx(0.4, abs=0.01)
    live: list[int] = []
    shares: list[float] = []
    for leave, row in zip(made.leaves[:8_000].tolist(), made.target.tolist(), strict=False):
        if leave:
            shares.append((live.index(row) + 0.5) / len(live))
            live.remove(row)
        else:
            live.append(row)
    assert np.allclose(np.histogram(shares, 4, (0.0, 1.0))[0] / len(shares), 0.25, atol=0.03)


def test_p_of_a_half_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1/2"):
        covering.commands(3, ["a0"], rng(), p=0.5)


def enumerate_shares(sides: list[int], within: float) -> dict[tuple[int, ...], float]:
    """Give the probability of every cell of a region by the formula itself."""
    cells = list(np.ndindex(*sides))
    norms = [sum(abs(c - (side - 1) // 2) for c, side in zip(cell, sides, strict=True)) for cell in cells]
    weights = np.array([(1.0 + norm) ** -within for norm in norms])
    return dict(zip(cells, weights / weights.sum(), strict=True))


@pytest.mark.parametrize(("sides", "within"), [([5], 1.0), ([4], 2.0), ([3, 4], 1.0), ([2, 3, 1], 0.0)])
def test_cells_have_the_shares_of_the_formula(sides: list[int], within: float) -> None:
    source = matching.Zipfian(
        np.zeros((1, len(sides)), np.int64), np.array([sides]), np.ones(1), within=within, cells=10
    )
    drawn = np.floor(matching.points(source, 60_000, rng()) * 10).astype(int)
    counts: dict[tuple[int, ...], int] = {}
    for cell in map(tuple, drawn.tolist()):
        counts[cell] = counts.get(cell, 0) + 1
    expected = enumerate_shares(sides, within)
    assert set(counts) == set(expected)
    assert all(counts[cell] / 60_000 == pytest.approx(share, abs=0.01) for cell, share in expected.items())


@given(
    dimensions=st.integers(1, 6), count=st.integers(0, 50), seed=st.integers(0, 99), cells=st.integers(1, 100)
)
def test_points_lie_in_the_regions(dimensions: int, count: int, seed: int, cells: int) -> None:
    source = matching.zipfian(dimensions, rng(seed), cells=cells)
    assert np.all((source.first >= 0) & (source.first + source.sides <= cells))
    cell = np.floor(matching.points(source, count, rng(seed)) * cells)
    inside = (cell[:, None] >= source.first) & (cell[:, None] < source.first + source.sides)
    assert np.all(np.any(np.all(inside, axis=2), axis=1))


def test_regions_have_about_the_volume_asked_for() -> None:
    source = matching.zipfian(2, rng(), regions=200)
    assert np.median(source.sides.prod(axis=1)) == pytest.approx(100**2 / 20, rel=0.1)


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_scores_are_one_minus_length(mode: Any) -> None:
    over = ["a0", "a1"]
    source = matching.zipfian(2, rng())
    made = matching.subscriptions(source, 2_000, over, rng(), mode=mode)
    halves = [(made[f"{name}_hi"] - made[f"{name}_lo"]) / 2 for name in over]
    if mode == "exact":
        assert np.allclose(made["score"], 2 - halves[0] - halves[1])
        assert "a0_weight" not in made
    else:
        assert np.allclose(made["a1_weight"], 1 - halves[1])
        assert np.all(made["a1_weight"] >= 0)
        assert "score" not in made


def test_a_smaller_skew_makes_longer_intervals() -> None:
    source = matching.zipfian(1, rng())

    def length(skew: float) -> float:
        made = matching.subscriptions(source, 20_000, ["a0"], rng(), skew_length=skew)
        return float((made["a0_hi"] - made["a0_lo"]).mean() / 2)

    assert length(0.0) == pytest.approx(0.5, abs=0.01)
    assert length(2.0) < 0.1 < length(0.75) < length(0.0)


def test_the_seed_decides() -> None:
    def make(seed: int) -> list[np.ndarray]:
        g = rng(seed)
        source = matching.zipfian(3, g)
        made = matching.subscriptions(source, 30, ["a0", "a1", "a2"], g)
        return [
            *made.values(),
            *covering.boxes(30, ["a0"], g).values(),
            covering.commands(30, ["a0"], g, p=0.3).target,
        ]

    assert all(np.array_equal(one, other) for one, other in zip(make(1), make(1), strict=True))
    assert not all(np.array_equal(one, other) for one, other in zip(make(1), make(2), strict=True))
