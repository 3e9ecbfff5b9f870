"""Messages numbered by zone, for receivers that hear those of their own zone alone; standard library only.

In a content-driven network a broker hears the messages that touch its zone of subscription space, and no
others: the numbers of all messages would show it gaps where nothing is missing. Where messages enter the
network, `ZoneNumbers` numbers them for every zone by itself, and hands them on as the parts that a
`rankcast.Gateway` takes: so a broker notices what is lost, doubled or out of order in its zone, and asks for
its lists anew. Signs of life tell the last number of every zone: by them a broker also notices that the last
part was lost, or that it was down meanwhile.

Invariant: of one zone, every part follows on the one before it. Cost: every zone is compared with a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from rankcast.errors import InputError
from rankcast.gateway import Part, Row

Zone = Sequence[
    tuple[float, float, float, float]
]  # by attribute: lowest and highest lo, lowest and highest hi


class ZonePart(NamedTuple):
    """A part for one zone."""

    zone: int
    part: Part


class ZoneNumbers:
    """Numbers the messages of an engine for zones of subscription space.

    Args:
        zones: a closed box for each: for every attribute the lowest and the highest lower end of a range
            there, then the lowest and the highest upper end. They may overlap.
        over: the attribute that ranges are over, or a list of them.

    >>> numbers = ZoneNumbers([[(0, 4, 0, 9)], [(5, 9, 0, 9)]], over="risk")
    >>> ends = {"risk_lo_outer": None, "risk_lo_inner": 3.0, "risk_hi_inner": 3.0, "risk_hi_outer": None}
    >>> message = {**ends, "item": "ACME", "pe": 12.0}
    >>> [(zone, part.sequence, part.after) for zone, part in numbers.number([message])]
    [(0, 1, 0)]
    >>> [(zone, part.sequence) for zone, part in numbers.signs_of_life()]
    [(0, 1), (1, 0)]
    """

    def __init__(self, zones: Iterable[Zone], *, over: str | Sequence[str] = "x") -> None:
        self._over = [over] if isinstance(over, str) else list(over)
        self._zones = [list(zone) for zone in zones]
        for place, zone in enumerate(self._zones):
            if len(zone) != len(self._over):
                raise InputError(
                    f"zone {place} has {len(zone)} attributes", expected=f"{len(self._over)}, as `over`"
                )
        self._last = [0] * len(self._zones)

    def __len__(self) -> int:
        return len(self._zones)

    def last(self, zone: int) -> int:
        """The number of the last part of a zone; 0: there was none."""
        return self._last[zone]

    def number(self, rows: Iterable[Row]) -> list[ZonePart]:
        """Messages that belong together, as those of one batch, in one part for every zone they touch."""
        found: dict[int, list[Row]] = {}
        for row in rows:
            for zone in self._touched(row):
                found.setdefault(zone, []).append(row)
        parts = []
        for zone in sorted(found):
            after = self._last[zone]
            self._last[zone] = after + 1
            parts.append(ZonePart(zone, Part("tiles", found[zone], after + 1, after)))
        return parts

    def signs_of_life(self) -> list[ZonePart]:
        """A part without messages for every zone: the last number of it."""
        return [ZonePart(zone, Part("tiles", [], last, last)) for zone, last in enumerate(self._last)]

    def _touched(self, row: Row) -> Iterator[int]:
        """The zones in which somebody may be whom a message goes to."""
        ends = []
        for name in self._over:
            outer_lo, lo, hi, outer_hi = (row[f"{name}_{end}"] for end in ENDS)
            # JSON has no infinity: there an inner end of those without a bound is null
            ends.append((outer_lo, -inf if lo is None else lo, inf if hi is None else hi, outer_hi))
        for number, zone in enumerate(self._zones):
            if all(map(_meets, zone, ends)):
                yield number


ENDS = ("lo_outer", "lo_inner", "hi_inner", "hi_outer")


def _meets(
    zone: tuple[float, float, float, float], ends: tuple[float | None, float, float, float | None]
) -> bool:
    """Whether a message goes to anybody in a zone, in one attribute."""
    lo_from, lo_to, hi_from, hi_to = zone
    outer_lo, lo, hi, outer_hi = ends
    return (
        lo_from <= lo
        and hi <= hi_to
        and (outer_lo is None or outer_lo < lo_to)
        and (outer_hi is None or hi_from < outer_hi)
    )
