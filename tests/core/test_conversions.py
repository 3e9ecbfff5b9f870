"""Floats that become whole numbers: infinities, what is no number and what is too large are clamped before.

What becomes of them otherwise depends on the processor. The kernels run as they are compiled and as plain
Python, where such a conversion raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.geotext.kernels import score
from rankcast.geotext.kernels.message_search import Frontier, SearchTerm, push_nodes
from rankcast.geotext.kernels.postings import BLOCK, MESSAGE_BOX, MESSAGE_NODE
from rankcast.matching.kernels.box_tree import CELLS, encode
from rankcast.range_topk.painter import MOST_BOXES, boxes_for

STRANGE = [math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, -5e-324, 0.0, -0.0, 1.0, 2.0**63, -(2.0**63)]
UNIT = int(score.UNIT)
anything = st.one_of(st.sampled_from(STRANGE), st.floats(), st.floats(-0.1, 1.1))


def both(kernel: Any) -> list[Callable[..., Any]]:
    """A kernel compiled, and as plain Python."""
    return [kernel, kernel.py_func]


@given(anything)
def test_shares_in_16_bits(value: float) -> None:
    for whole, floor, nearest in zip(
        *map(both, (score.round_up, score.round_down, score.round_nearest)), strict=True
    ):
        share = 0.0 if math.isnan(value) else min(max(value, 0.0), 1.0) * UNIT
        assert whole(value) == math.ceil(share)
        assert floor(value) == math.floor(share)
        assert nearest(value) == math.floor(share + 0.5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("corner", [math.inf, -math.inf, 3e38, 0.25])
def test_any_box_has_an_upper_bound(alpha: float, corner: float) -> None:
    """A node around nothing is infinitely far away; whoever looks for anything looks at it last."""
    node = np.zeros((4, MESSAGE_NODE), np.float32)
    node[:, MESSAGE_BOX : MESSAGE_BOX + 3], node[:, MESSAGE_BOX + 3 :] = corner, -corner
    wish = SearchTerm(*map(np.float32, (0.5, 0.5, 0.5, 0.5, 0.5, alpha, 1.0, -math.inf)))
    for push in both(push_nodes):
        rows, ends = np.zeros(4, np.int32), np.zeros(4, np.int64)
        parts = Frontier(rows, ends, ends.copy(), np.zeros(4, np.float32), rows.copy())
        with np.errstate(all="ignore"):
            size, used = push(node, 0, 1, BLOCK, 0, wish, parts, 0, 0, -math.inf)
        assert size == used <= 1
        assert -parts.key[0] <= 2


@given(st.lists(anything.filter(lambda x: not math.isnan(x)), min_size=2, max_size=9), anything)
def test_codes_of_boxes(ends: list[float], value: float) -> None:
    """Whatever the cuts, a code is in its range and never falls when the value grows."""
    cuts = np.sort(np.resize(ends, CELLS + 1))[None, :]
    most = (1 << 15) - 2
    for code_of in both(encode):
        with np.errstate(all="ignore"):
            found = [code_of(cuts, 0, each, most) for each in (value, math.nextafter(value, math.inf))]
        assert all(-most <= code <= most for code in found)
        assert found == sorted(found) or math.isnan(value)


@pytest.mark.parametrize("epsilon", [1.0, 0.3, 1e-9, 1e-300, 5e-324])
def test_an_epsilon_next_to_nothing_is_exact(epsilon: float) -> None:
    assert boxes_for(epsilon) == min(math.ceil(min(1 / epsilon, 1e300)), MOST_BOXES)
    rows = {"id": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0], "y": [4.0, 3.0, 2.0, 1.0]}
    told = []
    for each in (epsilon, None):
        engine = RangeTopK(over="x", by="y", k=2, method="dense", epsilon=each)
        engine.publish(rows)
        told.append(engine.disseminate({"id": [9], "x": [2.5], "y": [0.5]}))
    assert told[0].num_rows > 0
    if epsilon < 1e-6:
        assert told[0].equals(told[1])
