"""Seeded objects, subscriptions and updates for experiments, as in the evaluation of [Range §V].

Objects and subscriptions are uniform in [0, 1]; or clustered: objects around ten centres, subscriptions
around one of them each. An update goes up or down with equal chance, to a value uniform between here and
that end. An attribute that is bounded on one side has upper ends alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.tables import schema

Columns: TypeAlias = dict[str, NDArray[Any]]

KINDS = ("uniform", "clustered")
CLUSTERS = 10
SPREAD = 1 / (8 * (CLUSTERS + 1))


class Workload(NamedTuple):
    """Objects `id, <over>, y`, subscriptions `<over>_lo, <over>_hi` and updates `id, y`; ids are 0, 1, ...

    An infinite end of a range is none.
    """

    objects: Columns
    ranges: Columns
    events: Columns


def draw(
    *,
    objects: int,
    subscriptions: int,
    events: int,
    kind: str,
    over: list[str],
    one_sided: Collection[str] = (),
    rng: np.random.Generator,
) -> Workload:
    """Draw a workload; objects and updates are the same for any number of subscriptions.

    Subscriptions have no lower end in the attributes of `one_sided`; two attributes, the second of which is
    one of them, are the 1.5-d case.
    """
    clustered = schema.one_of("kind", kind, KINDS) == "clustered"
    y = rng.random(objects)
    things: Columns = {"id": np.arange(objects), "y": y}
    things |= {name: _values((objects,), clustered, rng) for name in over}
    which, up, share = rng.integers(0, objects, events), rng.random(events) < 0.5, rng.random(events)
    now, told = y.copy(), np.empty(events)
    for place, (row, end, part) in enumerate(zip(which, up, share, strict=True)):
        told[place] = now[row] = now[row] + part * (float(end) - now[row])
    ranges: Columns = {}
    for name in over:
        ends = _values((subscriptions, 2), clustered, rng)
        ends[:, 0] = -np.inf if name in one_sided else ends[:, 0]
        ends.sort(axis=1)
        ranges |= {f"{name}_lo": ends[:, 0].copy(), f"{name}_hi": ends[:, 1].copy()}
    return Workload(things, ranges, {"id": which, "y": told})


def with_nulls(columns: Columns) -> dict[str, Any]:
    """Columns as engines take them: a null instead of an infinite end."""
    return {name: pa.array(ends, mask=np.isinf(ends)) for name, ends in columns.items()}


def _values(shape: tuple[int, ...], clustered: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    if not clustered:
        return rng.random(shape)
    centre = (1 + rng.integers(0, CLUSTERS, shape[0])) / (CLUSTERS + 1)
    return np.clip(centre.reshape(-1, *[1] * (len(shape) - 1)) + rng.normal(0, SPREAD, shape), 0, 1)
