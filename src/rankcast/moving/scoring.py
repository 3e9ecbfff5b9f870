"""Scores of moving queries: the value of an object from where the query is; the smallest is best.

A score is called with the attributes of n objects, shape (n, d), and their distances, shape (n,), and returns
n numbers. It never falls when distance grows, and never falls when an attribute grows, or never rises for
the attributes in `falling`: so an engine can bound it over a box. Weights are not negative: one
per attribute in the order of `over`, then one for distance. Equal weights are the default, and add up to 1.

| made by                | score, computed in this order                                       |
| ---------------------- | ------------------------------------------------------------------- |
| `weighted_sum(w)`      | ((w0 a0 + w1 a1) + ...) + wd distance                               |
| `weighted_product(w)`  | ((a0^w0 a1^w1) ...) distance^wd                                     |
| `weighted_distance(w)` | distance / ((w0 a0 + w1 a1) + ...), w without a weight for distance |
| `waspas(w, lam)`       | lam (weighted sum) + (1 - lam) (weighted product)                   |
| `function(f, falling)` | f(attributes, distance), a custom function                          |

An `offset` is added to each attribute: a product or a quotient is then defined where an attribute is 0
[Moving §5.2]. The first three are those of [Moving §4.1], the fourth is named in [Moving §1]. Every operation
is rounded once, in the order shown, and a power is the C library's. So a score depends only on its object and
its distance, equal ones are equal to the bit, and compiled code can give the same bits. NumPy's power takes
shortcuts by exponent and by processor, and would differ in the last place.

A custom function is tried on samples before an engine relies on it. Samples cannot prove that a function is
monotonic, but they find the usual mistake: an undeclared attribute of which more is better. Attributes
are drawn above 0, half of them below 1, distances from 0 to 10^7; where the function is not finite, nothing
is compared.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import own_numbers
from rankcast.errors import SettingError, SnapshotError, shown
from rankcast.tables import schema
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


Weights = Sequence[float] | NDArray[Any] | None
Falling = tuple[str, ...] | Literal["all"]
SUM, PRODUCT, DISTANCE, WASPAS = "weighted_sum", "weighted_product", "weighted_distance", "waspas"


@dataclass(frozen=True)
class Weighted:
    """A score with weights; `w` is None for equal ones."""

    name: str
    w: tuple[float, ...] | None = None
    lam: float | None = None
    offset: float = 0.0

    def __repr__(self) -> str:
        given = (
            [] if self.w is None and self.lam is None else [repr(None if self.w is None else list(self.w))]
        )
        given += [] if self.lam is None else [repr(self.lam)]
        given += [f"offset={self.offset}"] if self.offset else []
        return f"scoring.{self.name}({', '.join(given)})"

    def __call__(self, attributes: Floats, distance: Floats) -> Floats:
        """The scores of objects."""
        attributes = attributes + self.offset if self.offset else attributes
        weights = self._weights(attributes.shape[1])
        if self.name == DISTANCE:
            return distance / _sum(list(attributes.T), weights)
        values = [*attributes.T, distance]
        if self.name == SUM:
            return _sum(values, weights)
        if self.lam is None:
            return _product(values, weights)
        return self.lam * _sum(values, weights) + (1 - self.lam) * _product(values, weights)

    def statics(self, attributes: Floats) -> Floats:
        """The parts of scores that do not depend on distance (n, 2): sum and product, where they count."""
        attributes = attributes + self.offset if self.offset else attributes
        values, weights = list(attributes.T), self._weights(attributes.shape[1])[: attributes.shape[1]]
        found = np.zeros((attributes.shape[0], 2))
        if self.name != PRODUCT and values:
            found[:, 0] = _sum(values, weights)
        if self.name in (PRODUCT, WASPAS):
            found[:, 1] = _product(values, weights) if values else 1.0
        return found

    @property
    def distance_weight(self) -> float:
        """The weight of distance, once the score is fitted."""
        return 1.0 if self.name == DISTANCE or self.w is None else self.w[-1]

    @property
    def falling(self) -> Falling:
        """The attributes in which the score falls."""
        return "all" if self.name == DISTANCE else ()

    def fitted(self, over: Sequence[str]) -> Weighted:
        """The same score with a weight for each of these attributes."""
        names = [*over, *([] if self.name == DISTANCE else ["distance"])]
        if not names:
            raise SettingError(f"{self.name} needs an attribute", where="score", expected="over not empty")
        weights = self._weights(len(over))
        if len(weights) != len(names):
            expected = f"{len(names)}: for {', '.join(names)}"
            raise SettingError(f"{self.name} has {len(weights)} weights", where="score", expected=expected)
        return replace(self, w=weights)

    def undefined(self, attributes: Floats) -> tuple[Bools, str]:
        """Where (n, d) an attribute has a value without a score, and what it should be."""
        weighs = np.array(self._weights(attributes.shape[1])[: attributes.shape[1]]) > 0
        attributes = attributes + self.offset if self.offset else attributes
        if self.name == SUM:
            return np.zeros(attributes.shape, np.bool_), "a number"
        if self.name == DISTANCE:
            total = _sum(list(attributes.T), self._weights(attributes.shape[1]))
            return (total <= 0)[:, None] & weighs, "attributes with a weighted sum above 0"
        return (attributes <= 0) & weighs, f"a number above {0.0 - self.offset:g}"

    def as_json(self) -> dict[str, Any]:
        """Its form in a snapshot."""
        form: dict[str, Any] = {"name": self.name, "w": None if self.w is None else list(self.w)}
        further = {"lam": self.lam, "offset": self.offset or None}
        return form | {name: value for name, value in further.items() if value is not None}

    def _weights(self, attributes: int) -> tuple[float, ...]:
        size = attributes + (self.name != DISTANCE)
        return (1 / size,) * size if self.w is None else self.w


@dataclass(frozen=True)
class Function:
    """A custom score; see `function`."""

    f: Callable[[Floats, Floats], Any]
    falling: Falling = ()

    def __repr__(self) -> str:
        name = getattr(self.f, "__name__", "")
        f = name if name.isidentifier() else "f"
        falling = self.falling if self.falling == "all" else list(self.falling)
        return f"scoring.function({f}, falling={falling!r})" if falling else f

    def __call__(self, attributes: Floats, distance: Floats) -> Floats:
        """The scores of objects. `f` may write into its arguments."""
        if not distance.size:
            return np.empty(0)
        return own_numbers("score", lambda: self.f(attributes.copy(), distance.copy()), distance.size)

    def fitted(self, over: Sequence[str]) -> Function:
        """The same score, tried on samples with these attributes."""
        for name in () if self.falling == "all" else self.falling:
            if name not in over:
                raise SettingError.unknown(name, over, where="falling", word="attribute")
        check(self, over, falls(self, over))
        return self

    def undefined(self, attributes: Floats) -> tuple[Bools, str]:
        """Nothing is known to be undefined."""
        return np.zeros(attributes.shape, np.bool_), "a number"

    def as_json(self) -> dict[str, Any]:
        """Its form in a snapshot."""
        return {"name": "function", "falling": "all" if self.falling == "all" else list(self.falling)}


Score = Weighted | Function


def weighted_sum(w: Weights = None) -> Weighted:
    """The weighted sum of the attributes and distance.

    >>> weighted_sum([2, 1])(np.array([[3.0], [5.0]]), np.array([4.0, 0.5])).tolist()
    [10.0, 10.5]
    """
    return Weighted(SUM, _checked(w))


def weighted_product(w: Weights = None, offset: float = 0.0) -> Weighted:
    """The product of the attributes and distance, each to the power of its weight.

    An attribute that weighs something must be above 0 when the offset is added.

    >>> weighted_product([2, 1])(np.array([[3.0], [5.0]]), np.array([4.0, 0.5])).tolist()
    [36.0, 12.5]
    >>> weighted_product([2, 1], offset=1)(np.array([[0.0]]), np.array([4.0])).tolist()
    [4.0]
    """
    return Weighted(PRODUCT, _checked(w), offset=_offset(offset))


def weighted_distance(w: Weights = None, offset: float = 0.0) -> Weighted:
    """Distance divided by the weighted sum of the attributes: more of them is better.

    The sum must be above 0 when the offset is added to each attribute.

    >>> weighted_distance([2])(np.array([[3.0], [5.0]]), np.array([4.5, 0.5])).tolist()
    [0.75, 0.05]
    """
    weights = _checked(w)
    if weights is not None and not any(weights):
        raise SettingError(f"w is {shown(w)}", where="score", expected="a weight above 0")
    return Weighted(DISTANCE, weights, offset=_offset(offset))


def waspas(w: Weights = None, lam: float = 0.5, offset: float = 0.0) -> Weighted:
    """Weighted aggregated sum product assessment: `lam` of the weighted sum, the rest of the product.

    An attribute that weighs something must be above 0 when the offset is added.

    >>> waspas([2, 1], 0.25)(np.array([[3.0], [5.0]]), np.array([4.0, 0.5])).tolist()
    [29.5, 12.0]
    """
    return Weighted(WASPAS, _checked(w), schema.number("lam", lam, low=0, high=1), _offset(offset))


def function(f: Callable[[Floats, Floats], Any], falling: Sequence[str] = ()) -> Function:
    """A custom score, which falls in the named attributes, or in "all" of them.

    A function that falls in none may be passed to an engine directly. It must score each object by itself,
    whatever others are in the arrays. A new engine tries it on samples with positive attributes,
    and refuses it if it falls or rises where it must not.

    >>> score = function(lambda attributes, distance: distance - attributes[:, 0], falling=["stars"])
    >>> score(np.array([[3.0], [5.0]]), np.array([4.0, 4.5])).tolist()
    [1.0, -0.5]
    """
    if not callable(f):
        raise SettingError(
            f"score is {shown(f)}", expected="a score or a function of attributes and distance"
        )
    return Function(f, "all" if falling == "all" else tuple(schema.attributes("falling", falling, least=0)))


def as_score(value: Any) -> Score:
    """The setting `score` of an engine: None, a score, or a plain function."""
    if value is None:
        return weighted_sum()
    return value if isinstance(value, Weighted | Function) else function(value)


def falls(score: Score, over: Sequence[str]) -> Bools:
    """In which of these attributes (d,) the score falls."""
    return np.array([score.falling == "all" or name in score.falling for name in over], np.bool_)


def restored(form: Mapping[str, Any], given: Any = None) -> Score:
    """The score that `as_json` described; a custom one must be given again."""
    if form["name"] == "function" and given is None:
        raise SnapshotError(
            "the engine was saved with a score of one's own, which a snapshot cannot hold",
            hint="Pass it again: load(path, score=f).",
        )
    if given is not None:
        score = as_score(given)
        if score.as_json() != form:
            raise SnapshotError(f"the score given is {score.as_json()}, the engine was saved with {form}")
        return score
    makers = {made.__name__: made for made in (weighted_sum, weighted_product, weighted_distance, waspas)}
    return makers[form["name"]](**{key: value for key, value in form.items() if key != "name"})


def _checked(w: Any) -> tuple[float, ...] | None:
    """Weights as floats."""
    if w is None:
        return None
    values: list[Any] = list(w) if isinstance(w, Sequence | np.ndarray) else [None]
    number = (int, float, np.integer, np.floating)
    if not all(isinstance(each, number) and 0 <= each <= sys.float_info.max for each in values):
        raise SettingError(f"w is {shown(w)}", where="score", expected="finite numbers, none below 0")
    return tuple(float(each) for each in values)


def _offset(value: Any) -> float:
    """What is added to each attribute."""
    return schema.number("offset", value, low=0, high=sys.float_info.max)


def _sum(values: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """The weighted sum, from left to right."""
    terms = [weight * value for value, weight in zip(values, weights, strict=True)]
    return reduce(operator.add, terms)


def _product(values: Sequence[Floats], weights: Sequence[float]) -> Floats:
    """The weighted product, from left to right."""
    return reduce(operator.mul, map(_powers, values, weights))


def _powers(base: Floats, exponent: float) -> Floats:
    return np.array([_power(value, exponent) for value in base.tolist()], np.float64)


def _power(base: float, exponent: float) -> float:
    """The C library's power: too large is infinite, a root of a negative number is NaN."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan
