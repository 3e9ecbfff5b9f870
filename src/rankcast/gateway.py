"""The receiving side of dissemination: lists that follow messages. It needs only the standard library.

A `SubscriberList` is one list that follows the protocol of [Range §II-A]. A `Gateway` has many of them behind
one connection: it receives every message of an engine once, and passes it to the subscribers in its tile.

Messages come in parts, each with `sequence`, its number, and `after`, the number of the previous part: what
the service sends for one write, or messages numbered by `RangeTopK.disseminate`. So a receiver of
all parts notices what is lost, duplicated or out of order. It ignores a part it has already seen. Before any
other part that does not continue the last one, it asks for all its lists again. An answer has the sequence
of its lists, and parts up to that sequence do not apply to them. So a late subscriber only needs its own
list, and nobody has to wait.

Where there is nobody to ask, as behind a queue, lists come among the messages, when the server is told of a
subscription (`rankcast.spark.continuous(..., output="tiles")`): a message without an item empties the lists
in its tile, and those after it fill them. Until then a list is `awaited`, and no message is for it.

Invariant: while a gateway is in step, each list is the one of its own sequence, or of the last part, if that
is later. Ranges that are equal share a list. Cost of a message: those whose lower end in the first attribute
lies in its tile are compared, and whom it reaches pays O(k).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf, isnan
from typing import Any, NamedTuple

from rankcast.errors import InputError, RankcastError, shown
from rankcast.subscriber_list import (
    ENDS,
    Id,
    Lists,
    Row,
    SubscriberList,
    answer,
    digest_of,
    digest_of_lists,
    digest_of_messages,
    sign_of,
    whole,
)

Box = tuple[float, ...]  # lower and upper end of each attribute, one after the other
__all__ = ["BehindError", "Gateway", "Lists", "Part", "Row", "SubscriberList", "answer", "digest_of"]
AT_ONCE = 10_000  # ranges that are asked for together


class Part(NamedTuple):
    """Messages, their number and that of the part before; `event` is "tiles" or "gap": some are not told.

    `digest` is that of the part (`digest_of_messages`), `lists` that of all lists after it
    (`digest_of_lists`); None: there is none.
    """

    event: str
    rows: Iterable[Row]
    sequence: int
    after: int | None = None
    digest: str | None = None
    lists: str | None = None


class BehindError(RankcastError):
    """The requested lists are older than the messages already received."""


class _Kept:
    """The list of one box, its sequence, and how many of its items each subscriber wants."""

    __slots__ = ("box", "list", "sequence", "wanted")

    def __init__(self, box: Box) -> None:
        self.box = box
        self.list: SubscriberList | None = None
        self.sequence = -1
        self.wanted: dict[Id, int] = {}


class Gateway:
    """The lists of many subscribers, kept current from the messages of one engine.

    Args:
        ask: gives the current lists of ranges, given rows with `id` and their ends, perhaps with `digest`;
            see `answer`. None: nobody does, and lists come among the messages; before the first message of
            all, number 1, they are empty.
        over: the attribute that ranges are over, or a list of them, as the engine has it.
        by: the attribute that ranks.
        k: the engine's k: the k of the server's tiles, and the most items that a subscriber can want.
        order: the engine's order.

    Any thread may call it; calls take turns.

    >>> gateway = Gateway(lambda ranges: Lists(0, []), over="risk", by="pe", k=2)
    >>> gateway.subscribe([{"id": "ada", "risk_lo": 2, "risk_hi": 6}])
    >>> gateway.resynchronise(0)
    []
    >>> ends = {"risk_lo_outer": None, "risk_lo_inner": 3.0, "risk_hi_inner": 3.0, "risk_hi_outer": None}
    >>> gateway.receive([{**ends, "item": "ACME", "risk": 3.0, "pe": 12.0}], sequence=1, after=0)
    ['ada']
    >>> gateway.items("ada"), gateway.sequence, gateway.stats()["reached"]
    ([('ACME', 12.0)], 1, 1)
    >>> gateway.unsubscribe(["ada"])
    """

    def __init__(
        self,
        ask: Callable[[list[dict[str, Any]]], Lists] | None,
        *,
        over: str | Sequence[str] = "x",
        by: str = "y",
        k: int = 10,
        order: str = "asc",
    ) -> None:
        self._ask = ask
        self._over = [over] if isinstance(over, str) else list(over)
        self._by = by
        self._k = whole("k", k)
        sign_of(order)
        self._order = order
        self._turn = threading.RLock()
        self._kept: dict[Box, _Kept] = {}
        self._box_of: dict[Id, Box] = {}
        self._lows: list[float] | None = None  # lower ends in order; None: to be sorted again
        self._sorted: list[_Kept] = []
        self._sequence: int | None = None
        names = ("messages", "reached", "needless", "doubled", "gaps", "damaged", "asked", "mended")
        self._count = dict.fromkeys(names, 0)

    @classmethod
    def of(cls, client: Any, stream: str) -> Gateway:
        """A gateway for a stream of a `rankcast.Client`; let it `follow(client.tiles(stream))`."""
        settings = client.get_stream(stream).settings
        told = {name: settings[name] for name in ("over", "by", "k", "order") if name in settings}
        return cls(lambda ranges: client.lists(stream, ranges), **told)

    def __len__(self) -> int:
        return len(self._box_of)

    @property
    def sequence(self) -> int | None:
        """The number of the last part; None if the gateway is out of step and will ask with the next part."""
        return self._sequence

    def stats(self) -> dict[str, int]:
        """Counters since the start.

        `messages` heard, how many subscribers they `reached`, how often that was `needless`, parts `doubled`,
        `gaps` noticed, parts `damaged`, lists `asked` for, and subscribers whose lists were found wrong by
        their digest, and `mended`.
        """
        with self._turn:
            return dict(self._count)

    # Subscribers

    def subscribe(self, rows: Iterable[Row]) -> None:
        """Add subscribers: `id`, `<over>_lo`, `<over>_hi` (absent or None: unbounded), `k`.

        They get their lists immediately if the gateway is in step, otherwise as soon as it is.

        Raises:
            InputError: a row is wrong; nothing has changed.
        """
        with self._turn:
            wanted: dict[Id, tuple[Box, int]] = {}
            for place, row in enumerate(rows):
                name, box, k = self._read(row, place)
                if name in wanted or name in self._box_of:
                    raise _wrong(f"is {shown(name)}, which is there already", "id", place, "a new id")
                wanted[name] = box, k
            new = [
                _Kept(box)
                for box in dict.fromkeys(box for box, _ in wanted.values())
                if box not in self._kept
            ]
            if self._sequence is not None:
                self._fill(new, self._sequence)
            if new:
                self._lows = None
            self._kept.update((each.box, each) for each in new)
            for name, (box, k) in wanted.items():
                self._kept[box].wanted[name] = k
                self._box_of[name] = box

    def unsubscribe(self, ids: Iterable[Id]) -> None:
        """Remove subscribers."""
        with self._turn:
            gone = list(dict.fromkeys(ids))
            for place, name in enumerate(gone):
                if name not in self._box_of:
                    raise _wrong(f"is {shown(name)}", "id", place, "a subscriber's id")
            for name in gone:
                kept = self._kept[self._box_of.pop(name)]
                del kept.wanted[name]
                if not kept.wanted:
                    del self._kept[kept.box]
                    self._lows = None

    def awaited(self) -> list[Id]:
        """The subscribers whose lists are not known: the server must be told of them, or told again.

        Without `ask` these are they who came late, and all of them after a gap, until their lists come.
        """
        with self._turn:
            return [name for kept in self._kept.values() if kept.list is None for name in kept.wanted]

    def items(self, subscriber: Id) -> list[tuple[Any, float]]:
        """The list of a subscriber as (item, score), best first; nothing while it is awaited."""
        with self._turn:
            if subscriber not in self._box_of:
                raise InputError(f"is {shown(subscriber)}", column="id", expected="a subscriber's id")
            kept = self._kept[self._box_of[subscriber]]
            return kept.list.items()[: kept.wanted[subscriber]] if kept.list is not None else []

    # Messages

    def follow(self, parts: Iterable[Any]) -> Iterator[list[Id]]:
        """Take parts (`Part`, or from `Client.tiles`) as they arrive; yields whose lists each has changed."""
        for part in parts:
            if part.event == "gap" or part.after is None:
                with self._turn:
                    self._count["gaps"] += self._sequence is not None
                    changed = self.resynchronise(part.sequence)
                yield changed
            else:
                yield self.receive(
                    part.rows,
                    sequence=part.sequence,
                    after=part.after,
                    digest=getattr(part, "digest", None),
                    lists=getattr(part, "lists", None),
                )

    def receive(
        self,
        rows: Iterable[Row],
        *,
        sequence: int | None = None,
        after: int | None = None,
        digest: str | None = None,
        lists: str | None = None,
    ) -> list[Id]:
        """Take one part; returns the subscribers whose lists have changed.

        If it does not continue the previous part, the gateway first asks for all lists. Without `sequence`
        and `after`, messages have their own numbers in a column `sequence`. A part without rows whose `after`
        equals its `sequence` is a heartbeat: a receiver that missed the last part notices it then.

        A part with another `digest` than its own was damaged: it counts as lost. Where the digest of all
        `lists` after the part is another than `digest()`, a list is wrong, whatever the reason: all are
        asked for.

        Raises:
            BehindError: the lists are too old. After any exception the next part asks again.
        """
        with self._turn:
            if sequence is not None and after is not None:
                rows = list(rows)
                if digest is not None and digest != self._digest_of(rows, sequence, after):
                    self._count["damaged"] += 1
                    return []
                changed = self._take(rows, sequence, after)
                return list(changed | self._compare(lists, sequence))
            changed = {}
            for run in _runs(rows):
                had = 0 if self._sequence is None else self._sequence + 1 - run[0]["sequence"]
                if 0 < had < len(run):  # some of them come again, and go on with others
                    self._count["doubled"] += 1
                    del run[:had]
                changed |= self._take(run, run[-1]["sequence"], run[0]["sequence"] - 1)
            return list(changed)

    def _take(self, rows: Iterable[Row], sequence: int, after: int) -> dict[Id, None]:
        """Take messages that continue `after`; returns the subscribers whose lists have changed."""
        if self._sequence is not None and sequence <= self._sequence:
            self._count["doubled"] += sequence > after
            return {}
        changed: dict[Id, None] = {}
        if self._sequence is None or after != self._sequence:
            self._count["gaps"] += self._sequence is not None
            changed = dict.fromkeys(self.resynchronise(after))
        try:
            for row in rows:
                self._count["messages"] += 1
                changed |= dict.fromkeys(self._deliver(row, row.get("sequence", sequence)))
        except BaseException:
            self._sequence = None  # half of it was taken
            raise
        self._sequence = sequence
        return changed

    def resynchronise(self, sequence: int) -> list[Id]:
        """Ask for all lists, which must be of this sequence or later, and continue from there.

        Returns the subscribers whose lists have changed.
        """
        with self._turn:
            self._sequence = None
            changed = self._fill(list(self._kept.values()), sequence)
            self._sequence = sequence
            return changed

    def digest(self) -> str:
        """The digest of all lists, each range once: see `digest_of_lists`."""
        with self._turn:
            every = [(kept.box, kept.list.items()) for kept in self._kept.values() if kept.list is not None]
            return digest_of_lists(every)

    def check(self) -> list[Id]:
        """Compare the digests of all lists with the source, and replace those that differ.

        Returns the subscribers whose lists were wrong: none, unless parts were forged or a source changed its
        history. It does nothing while the gateway is out of step or a part is on its way.
        """
        with self._turn:
            if self._sequence is None or self._ask is None:
                return []
            wrong: list[Id] = []
            every = list(self._kept.values())
            for first in range(0, len(every), AT_ONCE):
                some = every[first : first + AT_ONCE]
                found = self._asked(some, digests=True)
                for kept, items in zip(some, found.lists, strict=True):
                    if items is not None and found.sequence == max(self._sequence, kept.sequence):
                        kept.list, kept.sequence = items, found.sequence
                        wrong += kept.wanted
            self._count["mended"] += len(wrong)
            return wrong

    # Inside

    def _digest_of(self, rows: list[Row], sequence: int, after: int) -> str:
        """The digest of a part as it came; none that is right if rows are not even messages."""
        try:
            return digest_of_messages(rows, self._over, self._by, sequence=sequence, after=after)
        except (KeyError, TypeError, ValueError):
            return ""

    def _compare(self, lists: str | None, sequence: int) -> dict[Id, None]:
        """Ask for all lists if their digest is not this one; the subscribers whose lists have changed.

        Only while all of them are of that sequence: an answer may have come from later.
        """
        later = any(kept.list is None or kept.sequence > sequence for kept in self._kept.values())
        if lists is None or sequence != self._sequence or later or lists == self.digest():
            return {}
        changed = dict.fromkeys(self.resynchronise(sequence))
        self._count["mended"] += len(changed)
        return changed

    def _deliver(self, tile: Row, sequence: int) -> Iterator[Id]:
        """Pass a message to the lists in its tile; returns the subscribers whose lists have changed."""
        for name in (f"{self._over[0]}_lo_outer", f"{self._over[0]}_lo_inner", "item", self._by):
            if name not in tile:
                raise InputError("is missing", where="tiles", column=name, expected="a message of the engine")
        item, score, k = tile["item"], tile[self._by], tile.get("k")
        for kept in self._reached(tile) if k is None or k == self._k else ():
            if kept.list is None and item is None:
                kept.list = SubscriberList(self._k, self._order)
            if kept.sequence >= sequence or kept.list is None:
                continue
            self._count["reached"] += len(kept.wanted)
            if kept.list.receive(item, score):
                yield from kept.wanted
            else:
                self._count["needless"] += len(kept.wanted)

    def _reached(self, tile: Row) -> Iterator[_Kept]:
        """The lists whose boxes lie in a tile: lo_outer < lo <= lo_inner and hi_inner <= hi < hi_outer."""
        if self._lows is None:
            self._sorted = sorted(self._kept.values(), key=lambda kept: kept.box[0])
            self._lows = [kept.box[0] for kept in self._sorted]
        ends: list[tuple[float | None, float, float, float | None]] = []
        for name in self._over:
            outer_lo, lo, hi, outer_hi = (tile[f"{name}_{end}"] for end in ENDS)
            # JSON has no infinity: there an inner end of those without a bound is null
            ends.append((outer_lo, -inf if lo is None else lo, inf if hi is None else hi, outer_hi))
        outer, inner, hi_inner, hi_outer = ends[0]
        first = 0 if outer is None else bisect_right(self._lows, outer)
        for kept in self._sorted[first : bisect_right(self._lows, inner)]:
            high = kept.box[1]
            if hi_inner <= high and (hi_outer is None or high < hi_outer) and _meets(kept.box, ends):
                yield kept

    def _fill(self, some: list[_Kept], least: int) -> list[Id]:
        """Ask for lists and store them; returns the subscribers whose lists have changed."""
        changed: list[Id] = []
        if self._ask is None:
            for kept in some:
                changed += kept.wanted if kept.list is not None and len(kept.list) else []
                kept.list = SubscriberList(self._k, self._order) if least == 0 else None
            return changed
        for first in range(0, len(some), AT_ONCE):
            part = some[first : first + AT_ONCE]
            found = self._asked(part)
            if found.sequence < least:
                told = f"They are of {found.sequence}, and {least} was heard."
                raise BehindError("the lists are too old", detail=told)
            for kept, items in zip(part, found.lists, strict=True):
                if items is None:
                    continue
                if ([] if kept.list is None else kept.list.items()) != items.items():
                    changed += kept.wanted
                kept.list, kept.sequence = items, found.sequence
        return changed

    def _asked(self, some: list[_Kept], *, digests: bool = False) -> _Found:
        """The current lists of the source; None for those whose digest is right."""
        ranges = [self._range(place, kept) for place, kept in enumerate(some)]
        if digests:
            for asked, kept in zip(ranges, some, strict=True):
                asked["digest"] = "" if kept.list is None else kept.list.digest()
        assert self._ask is not None  # noqa: S101
        answer = self._ask(ranges)
        self._count["asked"] += len(some)
        lists: list[SubscriberList | None] = [SubscriberList(self._k, self._order) for _ in some]
        for place in answer.same:
            lists[int(place)] = None
        for row in answer.rows:
            mine = lists[int(row["subscription"])]
            if mine is not None:
                mine.receive(row["item"], row["score"])
        return _Found(answer.sequence, lists)

    def _range(self, place: int, kept: _Kept) -> dict[str, Any]:
        """A box as a row of a request."""
        row: dict[str, Any] = {"id": place}
        for name, lo, hi in zip(self._over, kept.box[::2], kept.box[1::2], strict=True):
            row[f"{name}_lo"] = None if lo == -inf else lo
            row[f"{name}_hi"] = None if hi == inf else hi
        return row

    def _read(self, row: Row, place: int) -> tuple[Id, Box, int]:
        """The id, the box and the k of a subscriber."""
        known = ["id", "k", *(f"{name}_{end}" for name in self._over for end in ("lo", "hi"))]
        for column in row:
            if column not in known:
                raise InputError.unknown(column, known, where="subscribers", word="column")
        name = row.get("id")
        if isinstance(name, bool) or not isinstance(name, int | str):
            raise _wrong(f"is {shown(name)}", "id", place, "an integer or a text")
        k = row.get("k")
        if k is None:
            k = self._k
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= self._k:
            expected = f"a whole number from 1 to {self._k}, the k that the server sends tiles for"
            raise _wrong(f"is {shown(k)}", "k", place, expected)
        box: list[float] = []
        for each in self._over:
            lo = _end(row, f"{each}_lo", -inf, place)
            hi = _end(row, f"{each}_hi", inf, place)
            if lo > hi:
                raise _wrong(f"is {lo}, above {each}_hi, which is {hi}", f"{each}_lo", place, "lo <= hi")
            box += (lo, hi)
        return name, tuple(box), k


class _Found(NamedTuple):
    sequence: int
    lists: list[SubscriberList | None]


def _runs(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Numbered messages in parts of consecutive numbers."""
    run: list[Row] = []
    for row in rows:
        number = row.get("sequence")
        if isinstance(number, bool) or not isinstance(number, int):
            hint = "Use disseminate(..., numbered=True)."
            raise InputError(
                f"is {shown(number)}", where="tiles", column="sequence", expected="a number", hint=hint
            )
        if run and number != run[-1]["sequence"] + 1:
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _meets(box: Box, ends: list[tuple[float | None, float, float, float | None]]) -> bool:
    """Whether a box lies in a tile in all attributes but the first."""
    for place in range(1, len(ends)):
        outer_lo, lo, hi, outer_hi = ends[place]
        low, high = box[2 * place], box[2 * place + 1]
        if not (low <= lo and (outer_lo is None or outer_lo < low)):
            return False
        if not (hi <= high and (outer_hi is None or high < outer_hi)):
            return False
    return True


def _end(row: Row, column: str, missing: float, place: int) -> float:
    """One end of a range."""
    value = row.get(column)
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value):
        raise _wrong(f"is {shown(value)}", column, place, "a number or nothing")
    return float(value)


def _wrong(what: str, column: str, row: int, expected: str) -> InputError:
    return InputError(what, where="subscribers", column=column, row=row, expected=expected)
