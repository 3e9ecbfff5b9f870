"""Trying a score of one's own on samples, before an engine relies on what it must keep.

Samples cannot prove that a function is monotonic, but they find the usual mistake: an attribute of which more
is better, not declared. Attributes are drawn above 0, half of them below 1, distances from 0 to 10^7; where
the function is not finite, nothing is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rankcast.errors import SettingError
from rankcast.tables.schema import Bools, Floats

SAMPLES = 64
GROWTH = (1.001, 2.0, 100.0)
ROUNDING = 1e-9

Scoring = Callable[[Floats, Floats], Floats]


def check(score: Scoring, over: Sequence[str], falls: Bools) -> None:
    """Refuse a score that falls or rises where it must not, or that does not score each object by itself."""
    values = _samples(len(over))
    scores = _scores(score, values)
    if not np.isfinite(scores).any():
        raise SettingError("is finite for no sample", where="score", expected="finite numbers")
    for part in (slice(0, None, 3), slice(1, None, 3), slice(2, None, 3)):
        if not np.allclose(_scores(score, values[part]), scores[part], rtol=ROUNDING, atol=0, equal_nan=True):
            raise SettingError(
                "an object's score depends on the other objects",
                where="score",
                expected="each scored by itself",
            )
    for place, name in enumerate([*over, "distance"]):
        for factor in GROWTH:
            grown = values.copy()
            grown[:, place] = factor * grown[:, place] + (factor - 1) * 1e-3
            _compare(scores, _scores(score, grown), name, falls=place < len(over) and bool(falls[place]))


def _samples(attributes: int) -> Floats:
    """Attributes and, in the last column, distance."""
    rng = np.random.default_rng(0)
    values: Floats = 10 ** rng.uniform(-3, 3, (SAMPLES, attributes + 1))
    values[::2, :-1] = rng.random((SAMPLES // 2, attributes))
    values[:, -1] *= 10 ** rng.uniform(0, 4, SAMPLES)
    values[:8, -1] = 0
    return values


def _scores(score: Scoring, values: Floats) -> Floats:
    try:
        with np.errstate(all="ignore"):
            return score(np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1]))
    except Exception as error:
        why = error.__cause__ or error
        raise SettingError(f"fails on a sample: {type(why).__name__}: {why}", where="score") from error


def _compare(before: Floats, after: Floats, name: str, *, falls: bool) -> None:
    """Scores before and after a value grew: a step beyond rounding must go the right way."""
    with np.errstate(all="ignore"):
        step = before - after if falls else after - before
        wrong = np.isfinite(step) & (step < -ROUNDING * np.maximum(np.abs(before), np.abs(after)))
    if wrong.any():
        row = int(np.argmax(wrong))
        way, mend = ("rises", "Leave it out of falling.") if falls else ("falls", _hint(name))
        raise SettingError(
            f"{way} when {name} grows",
            where="score",
            expected="the other way or no change",
            detail=f"From {before[row]:.6g} to {after[row]:.6g} on a sample.",
            hint=mend,
        )


def _hint(name: str) -> str:
    if name == "distance":
        return "Nearer objects must not score higher: the smallest score is best."
    return f'If more of it is better, say so: scoring.function(f, falling=["{name}"]).'
