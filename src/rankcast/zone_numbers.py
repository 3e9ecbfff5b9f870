"""Messages numbered by zone, for receivers that hear only those of their own zone; standard library only.

In a content-driven network a broker receives only the messages that touch its zone of subscription space. One
sequence over all messages would show it gaps where nothing is missing. Where messages enter the
network, `ZoneNumbers` numbers them for each zone separately, as parts for a
`rankcast.Gateway`. So a broker notices what is lost, duplicated or out of order in its zone, and asks for
its lists again. Heartbeats carry the last number of every zone: they also tell a broker that the last
part was lost, or that it missed parts while it was down.

Invariant: within a zone, every part continues the previous one. Cost: one comparison per message and zone.
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
        zones: a closed box for each zone: for every attribute the lowest and the highest lower end of its
            ranges, then the lowest and the highest upper end. Zones may overlap.
        over: the attribute of the ranges, or a list of them.

    >>> numbers = ZoneNumbers([[(0, 4, 0, 9)], [(5, 9, 0, 9)]], over="risk")
    >>> ends = {"risk_lo_outer": None, "risk_lo_inner": 3.0, "risk_hi_inner": 3.0, "risk_hi_outer": None}
    >>> message = {**ends, "item": "ACME", "pe": 12.0}
    >>> [(zone, part.sequence, part.after) for zone, part in numbers.number([message])]
    [(0, 1, 0)]
    >>> [(zone, part.sequence) for zone, part in numbers.signs_of_life()]
    [(0, 1), (1, 0)]
    >>> numbers.last(0)
    1
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
        """The number of the last part of a zone; 0 if there was none."""
        return self._last[zone]

    def number(self, rows: Iterable[Row]) -> list[ZonePart]:
        """Put messages of one batch into one part for every zone they touch."""
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
        """Heartbeats: for every zone a part without messages that has its last number."""
        return [ZonePart(zone, Part("tiles", [], last, last)) for zone, last in enumerate(self._last)]

    def _touched(self, row: Row) -> Iterator[int]:
        """The zones that may contain a receiver of a message."""
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
    """Whether a message may concern a subscription in a zone, in one attribute."""
    lo_from, lo_to, hi_from, hi_to = zone
    outer_lo, lo, hi, outer_hi = ends
    return (
        lo_from <= lo
        and hi <= hi_to
        and (outer_lo is None or outer_lo < lo_to)
        and (outer_hi is None or hi_from < outer_hi)
    )
