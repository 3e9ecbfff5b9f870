"""Scores for `MovingTopK`; the code is in `moving.scoring`."""

from rankcast.moving.scoring import (
    Function,
    Score,
    Weighted,
    function,
    waspas,
    weighted_distance,
    weighted_product,
    weighted_sum,
)

__all__ = [
    "Function",
    "Score",
    "Weighted",
    "function",
    "waspas",
    "weighted_distance",
    "weighted_product",
    "weighted_sum",
]
