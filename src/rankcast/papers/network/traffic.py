"""What a method has cost in a network, and what its listeners must know at the end.

Costs are bytes from the server, between brokers, over links, and at the end. The lists of listeners at the
beginning and at the end of a run come from a witness, an engine of its own that answers first results over
the objects as they are at the beginning and as the events leave them. It shares nothing with the engine whose
messages are sent, and paints no tiles: first results are looked up among the objects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.errors import SettingError
from rankcast.papers.network import delivery
from rankcast.papers.network.topology import Columns, with_nulls
from rankcast.range_topk.engine import RangeTopK
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints, Rows

NOTHING = -1
MOST_KEPT = 500_000  # objects in all lists together, of those who keep every object in their range


class Checked(NamedTuple):
    """What came of the check at the end of a run."""

    exact: bool  # everybody who was checked
    listeners: int  # how many were checked
    lists: int  # how many kept a list; of the others only the updates they heard are known to be right


class Boards(NamedTuple):
    """Lists, a line a listener: items best first, then -1; their scores, then infinity."""

    item: Rows
    score: Floats


def chosen(subscriptions: Ints, most: int | None, rng: np.random.Generator) -> Ints:
    """Who is checked, in rising order: all, or some at random. Leaves the generator where it is."""
    if most is None or schema.whole("listeners", most) >= len(subscriptions):
        return subscriptions
    return np.sort(rng.spawn(1)[0].choice(subscriptions, most, replace=False))


def spread_over(listeners: int, objects: int) -> Ints:
    """Some of the listeners, evenly spread: as many as may keep a list of all objects."""
    most = min(listeners, max(1, MOST_KEPT // max(1, objects)))
    return np.unique(np.linspace(0, listeners - 1, most).astype(np.int64))


def boards(results: pa.Table, lines: int, width: int) -> Boards:
    """The lists of a table of first results; subscriptions are 0, 1, ..."""
    item, score = np.full((lines, width), NOTHING, np.int32), np.full((lines, width), np.inf)
    line, rank = results["subscription"].to_numpy(), results["rank"].to_numpy() - 1
    item[line, rank], score[line, rank] = results["item"].to_numpy(), results["score"].to_numpy()
    return Boards(item, score)


class Witness:
    """What listeners must know; `begin` before the events, `end` after all of them.

    Both are lists of the k best; `everything` are all objects in a range, which CN-Relax makes one keep.
    """

    def __init__(self, over: list[str], k: int, objects: Columns, ranges: Columns) -> None:
        self._lines, self.k = len(next(iter(ranges.values()))), k
        self._ranges = {"id": np.arange(self._lines), **with_nulls(ranges)}
        self._over, self._objects = over, objects
        self.begin = self._asked(objects, k)

    def everything(self) -> Boards:
        """All objects in each range, best first, before the events."""
        return self._asked(self._objects, max(self.k, len(self._objects["id"])))

    def follow(self, events: Columns) -> None:
        """Let the events change the objects, and ask again."""
        y = self._objects["y"].copy()
        for item, value in zip(events["id"], events["y"], strict=True):
            y[item] = value
        self.end = self._asked({**self._objects, "y": y}, self.k)

    def _asked(self, objects: Columns, width: int) -> Boards:
        """The first results of all ranges over some objects, whose ids are their places."""
        engine = RangeTopK(over=self._over, k=width)
        engine.publish(objects)
        return boards(engine.subscribe(self._ranges), self._lines, width)

    def agrees(self, heard: Boards) -> bool:
        """Whether lists that were kept by hearing messages are what they must be."""
        items = heard.item[:, : self.k]
        same = items == self.end.item
        known = items != NOTHING
        return bool(same.all() and (heard.score[:, : self.k][known] == self.end.score[known]).all())


TILE_BYTES, UNICAST_BYTES, EVENT_BYTES = 24, 16, 16
METHODS = ("unicast", "unicast-direct", "relax", "dense", "sparse", "sparse-unmerged")
FORM = re.compile(r"([^()*]+)(?:\(([^()*]+)\))?(?:\*([^()*]+))?")
EXACT = tuple(method for method in METHODS if method != "relax")


class Method(NamedTuple):
    """A method of notification: `name` is as in `sparse(0.5)` or, for the net change of batches, `dense*50`.

    `unicast` sends hop by hop from broker to broker, `unicast-direct` over the shortest path; `relax` is
    CN-Relax; `sparse-unmerged` are dense tiles, each shrunk to those it reaches, none of them merged.
    """

    name: str
    method: str
    epsilon: float | None
    batch: int

    @property
    def exact(self) -> bool:
        """Whether nobody hears what concerns him not, event by event."""
        return self.method in EXACT and self.epsilon is None and self.batch == 1

    @property
    def asks(self) -> str:
        """The method that `RangeTopK.disseminate` is asked for."""
        known = {"unicast-direct": "unicast", "sparse-unmerged": "dense"}
        return known.get(self.method, self.method)

    @property
    def message_bytes(self) -> int:
        """Bytes of a message."""
        return UNICAST_BYTES if self.method.startswith("unicast") else TILE_BYTES


def method(name: str) -> Method:
    """Read the name of a method.

    >>> method("sparse(0.5)")
    Method(name='sparse(0.5)', method='sparse', epsilon=0.5, batch=1)
    >>> method("dense*50").batch
    50
    """
    expected = "a name as sparse, sparse(0.5), sparse*50"
    parts = FORM.fullmatch(name)
    if parts is None:
        raise SettingError(f'method is "{name}"', expected=expected)
    plain, share, times = parts.groups()
    schema.one_of("method", plain, METHODS)
    try:
        epsilon, batch = float(share) if share else None, int(times) if times else 1
    except ValueError:
        raise SettingError(f'method is "{name}"', expected=expected) from None
    if epsilon is not None:
        schema.number("epsilon", epsilon, low=0, high=1, above=True)
        if plain not in ("sparse", "dense"):
            raise SettingError(f'method is "{name}"', expected="epsilon for sparse or dense alone")
    if plain == "relax" and times:
        raise SettingError(f'method is "{name}"', expected="no batches for relax: no server gathers updates")
    return Method(name, plain, epsilon, schema.whole("batch", batch))


@dataclass
class Outcome:
    """What one method did, an event in the mean unless said otherwise.

    Attributes:
        method: which.
        events: how many.
        sums: a line an event (or a batch), columns as in `kernels.network_delivery`.
        event_ways: hops and links of each event on its way to the server, or to where it enters.
        checked: what came of the check of lists at the end.
        needed: receipts an event that an exact method needs, if known.
        walk_bytes: bytes between servers along the diagonal, over hops and over links.
    """

    method: Method
    events: int
    sums: Ints
    event_ways: Ints
    checked: Checked
    needed: float | None = None
    walk_bytes: tuple[int, int] = (0, 0)

    @property
    def exact_lists(self) -> bool:
        """Whether the list of everybody who was checked was exact at the end."""
        return self.checked.exact

    def _total(self, column: int) -> int:
        return int(self.sums[:, column].sum())

    def figures(self) -> dict[str, float]:
        """All figures by name."""
        each, size = max(1, self.events), self.method.message_bytes
        sent = self.sums[:, delivery.MESSAGES] * (0 if self.method.method == "relax" else size)
        coming = self.event_ways.sum(axis=0) * EVENT_BYTES
        totals = {
            "messages": self._total(delivery.MESSAGES) / each,
            "server_bytes": float(sent.sum()) / each,
            "server_bytes_most": float(sent.max(initial=0)),
            "overlay_bytes": (self._total(delivery.HOPS) * size + int(coming[0]) + self.walk_bytes[0]) / each,
            "ip_bytes": (self._total(delivery.LINKS) * size + int(coming[1]) + self.walk_bytes[1]) / each,
            "zones_touched": self._total(delivery.TOUCHED) / each,
            "received": self._total(delivery.OWN) / each,
            "deliveries": self._total(delivery.RECEIVED) / each,
            "last_ip_bytes": self._total(delivery.LAST_LINKS) * size / each,
        }
        if self.needed:
            totals["redundancy"] = totals["received"] / self.needed - 1
        return totals


def with_needed(outcomes: list[Outcome]) -> list[Outcome]:
    """Tell all outcomes what an exact method among them needed; exact ones must agree.

    Raises:
        ArithmeticError: two exact methods reached different numbers of subscribers.
    """
    found = {float(each.figures()["received"]) for each in outcomes if each.method.exact}
    if len(found) > 1:
        raise ArithmeticError(f"exact methods reached different numbers of subscribers: {sorted(found)}")
    for outcome in outcomes:
        outcome.needed = next(iter(found), None)
    return outcomes


def pooled(outcomes: list[Outcome]) -> Outcome:
    """Several outcomes of one method as one."""
    first = outcomes[0]
    return Outcome(
        first.method,
        sum(each.events for each in outcomes),
        np.concatenate([each.sums for each in outcomes]),
        np.concatenate([each.event_ways for each in outcomes]),
        Checked(
            all(each.checked.exact for each in outcomes),
            min(each.checked.listeners for each in outcomes),
            min(each.checked.lists for each in outcomes),
        ),
        walk_bytes=(
            sum(each.walk_bytes[0] for each in outcomes),
            sum(each.walk_bytes[1] for each in outcomes),
        ),
    )
