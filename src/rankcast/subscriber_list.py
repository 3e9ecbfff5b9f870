"""One subscriber's list, which follows messages [Range §II-A], digests, and what a source of lists answers.

Standard library only, as all of the receiving side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isinf
from typing import Any, NamedTuple

from rankcast.errors import SettingError, shown

Id = int | str
Row = Mapping[str, Any]


class SubscriberList:
    """A ranked list of at most k items that follows messages.

    A message about an item in the list replaces its score; one about another item is a bid for a place. A
    score of None removes the item. Ties go to the smaller id. Cost: O(k) a message.

    >>> mine = SubscriberList(k=2)
    >>> [mine.receive(*each) for each in [("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 9.0), ("b", None)]]
    [True, True, True, False, True]
    >>> mine.items()
    [('c', 2.0)]
    """

    __slots__ = ("_k", "_scores", "_sign")

    def __init__(self, k: int, order: str = "asc") -> None:
        self._k = whole("k", k)
        self._sign = sign_of(order)
        self._scores: dict[Any, float] = {}

    def __len__(self) -> int:
        return len(self._scores)

    def receive(self, item: Any, score: float | None) -> bool:
        """Take one message; returns whether the list is another one. One without an item empties it."""
        scores = self._scores
        if item is None:
            held = bool(scores)
            scores.clear()
            return held
        if score is None:
            return scores.pop(item, None) is not None
        if item in scores:
            changed = scores[item] != score
            scores[item] = score
            return changed
        scores[item] = score
        if len(scores) <= self._k:
            return True
        last = max(scores, key=self._place)
        del scores[last]
        return bool(last != item)

    def items(self) -> list[tuple[Any, float]]:
        """The list as (item, score), best first."""
        return [(item, self._scores[item]) for item in sorted(self._scores, key=self._place)]

    def digest(self) -> str:
        """A short name of what the list holds: other lists have another one; see `digest_of`."""
        return digest_of(self.items())

    def _place(self, item: Any) -> tuple[float, Any]:
        return self._sign * self._scores[item], item


def digest_of(items: Iterable[tuple[Any, float]]) -> str:
    """The digest of a list of (item, score), best first: 16 hexadecimal digits.

    >>> digest_of([("a", 3.0)]) == digest_of([("a", 3)]) != digest_of([("b", 3.0)])
    True
    """
    return _hash([[item, float(score)] for item, score in items])


def digest_of_messages(
    rows: Iterable[Row], over: Sequence[str], by: str, *, sequence: int, after: int
) -> str:
    """The digest of a part: of all that a receiver makes use of, whatever way the part has travelled.

    >>> from math import inf
    >>> row = {"x_lo_outer": None, "x_lo_inner": -inf, "x_hi_inner": 3, "x_hi_outer": None, "item": 7, "y": 1}
    >>> again = {**row, "x_lo_inner": None, "x_hi_inner": 3.0, "y": 1.0, "x": 3.0}
    >>> given = {"over": ["x"], "by": "y", "sequence": 2, "after": 1}
    >>> digest_of_messages([row], **given) == digest_of_messages([again], **given)
    True
    >>> digest_of_messages([row], **given) == digest_of_messages([{**row, "y": 2}], **given)
    False
    """
    names = [f"{name}_{end}" for name in over for end in ENDS] + [by, "k"]
    told = [[row["item"], *(_number(row.get(name)) for name in names)] for row in rows]
    return _hash([sequence, after, told])


def digest_of_lists(lists: Iterable[tuple[Sequence[float], Iterable[tuple[Any, float]]]]) -> str:
    """The digest of many lists, in any order: of their boxes, each once, and what they hold.

    A box has the lower and the upper end of each attribute, one after the other.

    >>> from math import inf
    >>> one, other = ((1, inf), [("a", 3.0)]), ((0, 2), [])
    >>> digest_of_lists([one, other]) == digest_of_lists([other, one]) != digest_of_lists([one])
    True
    """
    found = {tuple(map(float, box)): digest_of(items) for box, items in lists}
    total = sum(int(_hash([[repr(end) for end in box], told]), 16) for box, told in found.items())
    return f"{total % 2**64:016x}"


ENDS = ("lo_outer", "lo_inner", "hi_inner", "hi_outer")


def _number(value: float | None) -> float | None:
    """A number as JSON has it, which has no infinity."""
    return None if value is None or isinf(value) else float(value)


def _hash(told: Any) -> str:
    text = json.dumps(told, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Lists(NamedTuple):
    """Current lists, as of a sequence: rows with `subscription`, `item` and `score`.

    `same` names those whose digest was sent and is right; they have no rows.
    """

    sequence: int
    rows: Iterable[Row]
    same: Iterable[Id] = ()


def answer(
    ranges: list[dict[str, Any]], preview: Callable[[list[dict[str, Any]]], Iterable[Row]], sequence: int
) -> Lists:
    """What a source answers, as of a sequence: `preview` gives the rows of ranges without their digests."""
    sent: list[tuple[Any, Any]] = [(row.get("id"), row.pop("digest", None)) for row in ranges]
    rows = list(preview(ranges))  # refuses what is no id
    lists: dict[Id, list[tuple[Any, float]]] = {name: [] for name, digest in sent if digest is not None}
    for row in rows if lists else ():
        if row["subscription"] in lists:
            lists[row["subscription"]].append((row["item"], row["score"]))
    same = {name: None for name, digest in sent if name in lists and digest_of(lists[name]) == digest}
    return Lists(sequence, [row for row in rows if row["subscription"] not in same], list(same))


def whole(name: str, value: Any) -> int:
    """A setting that is a whole number from 1 on."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 1 <= value.__index__() < 2**31:
        raise SettingError(f"{name} is {shown(value)}", expected="a whole number from 1 to 2147483647")
    return int(value.__index__())


def sign_of(order: Any) -> float:
    """What scores are multiplied by, so that the smallest is the best."""
    if order not in ("asc", "desc"):
        raise SettingError.unknown(order, ["asc", "desc"], where="order", word="value")
    return 1.0 if order == "asc" else -1.0
