"""Scores for `MovingTopK`, under the name by which users import them; `rankcast.moving.scoring` has the code."""

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
