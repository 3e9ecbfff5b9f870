"""Growth: how the cost of an engine follows the size of one thing, fitted from the records of `growth.*`.

Such a record names in its parameter `along` what was varied. The exponent is the slope of a straight line
through the logarithms, by least squares: 0 says that size costs nothing, 1 that twice the size costs twice
the time.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable
from typing import NamedTuple

from rankcast.bench.records import Record

CASE, ALONG = "growth.", "along"


class Growth(NamedTuple):
    """One engine along one parameter: seconds a unit of work by its value, and bytes a subscription."""

    family: str
    along: str
    unit: str
    seconds: dict[float, float]
    bytes: float | None

    @property
    def exponent(self) -> float:
        """The fitted exponent; of one value alone it is not a number."""
        x, y = [math.log(each) for each in self.seconds], [math.log(each) for each in self.seconds.values()]
        return statistics.linear_regression(x, y).slope if len(x) > 1 else math.nan


def growths(records: Iterable[Record]) -> list[Growth]:
    """What the records of one size say, by family, in the order of their cases."""
    chosen = [record for record in records if record.case.startswith(CASE) and ALONG in record.parameters]

    def kind(record: Record) -> tuple[str, str]:
        return record.case, record.parameters[ALONG]

    found = []
    for (case, along), group in itertools.groupby(sorted(chosen, key=kind), key=kind):
        by_value = sorted(group, key=lambda record: float(record.parameters[along]))
        last = by_value[-1]
        many, held = last.parameters.get("subscriptions"), last.contenders[0].bytes
        seconds = {
            float(r.parameters[along]): r.contenders[0].median / r.contenders[0].work for r in by_value
        }
        each = held / many if held is not None and many else None
        found.append(Growth(case.removeprefix(CASE), along, last.unit, seconds, each))
    return found
