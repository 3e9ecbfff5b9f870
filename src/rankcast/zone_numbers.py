"""Messages numbered by zone, for receivers that hear only those of their own zone; standard library only.

In a content-driven network a broker receives only the messages that touch its zone of subscription space. One
sequence over all messages would show it gaps where nothing is missing. Where messages enter the
network, `ZoneNumbers` numbers them for each zone separately, as parts for a
`rankcast.Gateway`. So a broker notices what is lost, duplicated or out of order in its zone, and asks for
its lists again. Heartbeats carry the last number of every zone: they also tell a broker that the last
part was lost, or that it missed parts while it was down.

Parts have a digest, if it is known what ranks: one that was damaged on the way counts as lost. What a list
holds is not seen here. Whoever knows the ranges that a broker serves, and can find their lists, gives signs
of life the digest of them (`lists_digest`): by it a broker notices that a list of its own is wrong.

Invariant: of one zone, every part follows on the one before it. Cost: every zone is compared with a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from rankcast.errors import InputError
from rankcast.gateway import Part, Row
from rankcast.subscriber_list import ENDS, digest_of_lists, digest_of_messages

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
        by: the attribute that ranks; None: parts have no digest.

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

    def __init__(
        self, zones: Iterable[Zone], *, over: str | Sequence[str] = "x", by: str | None = None
    ) -> None:
        self._by = by
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
            parts.append(ZonePart(zone, self._part(found[zone], after + 1, after, None)))
        return parts

    def signs_of_life(self, lists: Mapping[int, str] | None = None) -> list[ZonePart]:
        """A part without messages for every zone: the last number of it.

        `lists` has, by zone, the digest of all lists there, as they are after the last part (`lists_digest`).
        """
        told = lists or {}
        return [
            ZonePart(zone, self._part([], last, last, told.get(zone))) for zone, last in enumerate(self._last)
        ]

    def _part(self, rows: list[Row], sequence: int, after: int, lists: str | None) -> Part:
        given = {"sequence": sequence, "after": after}
        digest = None if self._by is None else digest_of_messages(rows, self._over, self._by, **given)
        return Part("tiles", rows, sequence, after, digest, lists)

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


def lists_digest(ranges: Iterable[Row], rows: Iterable[Row], *, over: str | Sequence[str] = "x") -> str:
    """The digest of the lists of ranges, as `Gateway.digest` has it.

    Args:
        ranges: rows with `id` and the ends of ranges, as `RangeTopK.preview` takes them.
        rows: their lists, as it gives them.
        over: the attribute that ranges are over, or a list of them.
    """
    names = [over] if isinstance(over, str) else list(over)
    lists: dict[Any, list[tuple[Any, float]]] = {}
    for row in rows:
        lists.setdefault(row["subscription"], []).append((row["item"], row["score"]))
    return digest_of_lists(
        (
            [_end(row, f"{name}_{end}", none) for name in names for end, none in (("lo", -inf), ("hi", inf))],
            lists.get(row["id"], []),
        )
        for row in ranges
    )


def _end(row: Row, column: str, none: float) -> float:
    value = row.get(column)
    return none if value is None else float(value)


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
