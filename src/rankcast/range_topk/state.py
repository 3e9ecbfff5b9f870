"""The state of `RangeTopK` whatever its method: subscriptions, objects, and the events of a batch on them.

Objects over one attribute are kept by (x, y) in a tree, which finds the nearest better ones, the next above
and the best of a range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.core.list_engine import together
from rankcast.errors import SettingError
from rankcast.range_topk.kernels import checks, object_tree, range_table
from rankcast.range_topk.kernels.object_tree import FILL, ORDER, SIZE, SPARE_NODES, ObjectTree
from rankcast.range_topk.kernels.range_table import Blocks
from rankcast.structures import hashing, integrity
from rankcast.structures.arrays import Names, grown
from rankcast.structures.ids import Slots, select
from rankcast.tables import schema
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, Lists
from rankcast.tables.schema import Ids, Ints

APPROXIMATE = ("sparse", "dense")  # methods that take an epsilon; `needless` is for "sparse" alone
MOST_NEEDLESS = 0.99  # of all receipts
FEW = 256  # ids up to which a shortcut is not worth a look
NOBODY: Rows = np.empty(0, np.int32)


class Subscriptions(Slots):
    """Slots whose registration numbers cost nothing to read unless a subscription went in this batch.

    Integer ids are mostly given out in order, as rows are, and then lie as far apart: so many of them are
    first looked for at that distance, which needs no hash table.
    """

    _shift = 0  # from the first id that was looked for last to its row

    def find(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The row of each id, -1 where it is not live."""
        rows, _ = self._in_line(ids)
        return rows if rows.size else super().find(ids, where=where, column=column)

    def require(self, ids: Ids, *, where: str, column: str = "id") -> Rows:
        """The rows of ids that must be live and distinct."""
        rows, ascends = self._in_line(ids)
        return rows if ascends else super().require(ids, where=where, column=column)

    def _in_line(self, ids: Ids) -> tuple[Rows, bool]:
        """The rows of many integer ids if they lie as far apart as the ids, else none; whether ids ascend."""
        if ids.size <= FEW or not ids.kind == self.kind == "int":
            return NOBODY, False
        first = int(ids.values[0]) + self._shift
        if not 0 <= first < self.used or self["code"][first] != ids.values[0]:
            first = int(super().find(select(ids, slice(1)), where="ids")[0])
            if first < 0:
                return NOBODY, False
            self._shift = first - int(ids.values[0])
        found: tuple[Rows, bool] = hashing.find_in_line(self["code"], self["sequence"], ids.values, first)
        return found

    @property
    def place(self) -> Ints:
        """Registration numbers by row, also of rows released in this batch."""
        sequence: Ints = self["sequence"]
        return super().place if self._pending else sequence


class Events(NamedTuple):
    """Events in order, by object row: within a batch an object has one row, whatever happens to it.

    `gone` is how many objects they leave without a value.
    """

    row: Rows
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object
    gone: int

    def one(self, place: int) -> Events:
        """One of the events, alone."""
        return self.part(place, place + 1)

    def part(self, start: int, end: int) -> Events:
        """The events from `start` on, before `end`."""
        here = slice(start, end)
        return Events(self.row[here], self.x[here], self.y[here], int(np.isnan(self.y[here]).sum()))

    def coalesced(self) -> Events:
        """The last event of each object, in order: what they come to together."""
        _, back = np.unique(self.row[::-1], return_index=True)
        last = np.sort(self.row.size - 1 - back)
        return Events(self.row[last], self.x[last], self.y[last], self.gone)


class Objects(NamedTuple):
    """All objects at one moment: rows, places (n, d), ranking keys and labels."""

    row: Rows
    x: Floats
    key: Floats
    label: Ints


@dataclass
class RangeState:
    """Subscriptions with a box and a k (0: the engine's), objects with a place and a value.

    Between batches every object has a value; within one, an object whose y is NaN is not there.
    """

    width: int
    k: int
    descending: bool
    count: dict[str, int]
    listless: bool = False  # whether nobody's list is kept: subscribers keep their own
    side: int = 0  # where every subscription bounds the second attribute: 1 above, -1 below, 0 not said
    receipts: bool = False  # whether they are counted for approximate messages
    alone: bool = False  # whether the call at hand is the whole batch: former scores are not needed

    def __post_init__(self) -> None:
        box = (np.float64, self.width)
        self.subscriptions = Subscriptions({"lo": box, "hi": box, "k": np.int64})
        self.objects = Slots({"x": box, "y": np.float64}, ordered=True)
        self._own: Counter[int] | None = None  # see `own`

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"subscription": self.subscriptions, "object": self.objects}

    def boxes(self, rows: Rows) -> Boxes:
        """The boxes of subscriptions."""
        where = together(rows)
        return Boxes(self.subscriptions["lo"][where], self.subscriptions["hi"][where])

    def k_of(self, rows: Rows) -> Ints:
        """How many objects each subscription wants."""
        own: Ints = self.subscriptions["k"][together(rows)]
        return np.where(own > 0, own, self.k) if own.any() else np.broadcast_to(np.int64(self.k), rows.size)

    def count_k(self, own: Ints, sign: int) -> None:
        """Note that subscriptions with these k of their own (0: the engine's) came, or with -1 went."""
        if self._own is None:
            return
        for k, count in zip(*np.unique(own, return_counts=True), strict=True):
            self._own[int(k)] += sign * int(count)

    @property
    def own(self) -> dict[int, int]:
        """How many live subscriptions have each k of their own, 0: the engine's. Counted once, then kept."""
        if self._own is None:
            self._own = Counter()
            self.count_k(self.subscriptions["k"][self.subscriptions.live()], 1)
        return {k: count for k, count in self._own.items() if count}

    @property
    def owned(self) -> bool:
        """Whether a live subscription has a k of its own."""
        return not self.own.keys() <= {0}

    @property
    def ks(self) -> list[int]:
        """The k that live subscriptions want, ascending."""
        return sorted({k or self.k for k in self.own})

    def key(self, y: Floats) -> Floats:
        """What is ranked, ascending."""
        return -y if self.descending else y

    def names(self) -> Names | None:
        """Ids and values by row; None unless all ids are integers."""
        objects, subscriptions = self.objects, self.subscriptions
        if objects.kind != "int" or subscriptions.kind != "int":
            return None
        return Names(subscriptions["code"], objects["code"], objects["y"])

    def live_objects(self) -> Objects:
        """All objects that are there at this moment."""
        held = self.objects
        rows = np.flatnonzero((held["sequence"][: held.used] >= 0) & ~np.isnan(held["y"][: held.used]))
        live = rows.astype(np.int32)
        return Objects(live, held["x"][live], self.key(held["y"][live]), held.label[live])

    def admit(self, fresh: Ids, events: Events) -> None:
        """Give rows to new objects, also in the events, which number them from -1 down; not there yet."""
        rows = self.objects.add(fresh)
        self.objects["y"][rows] = np.nan
        new = np.flatnonzero(events.row < 0)
        events.row[new] = rows[-1 - events.row[new]]

    def place(self, events: Events) -> None:
        """Bring objects to what events make of them; of several on one object the last counts."""
        self.objects["x"][events.row] = events.x
        self.objects["y"][events.row] = events.y

    def end(self, events: Events) -> None:
        """Forget the objects that a batch left without a value."""
        touched = np.unique(events.row)
        self.objects.release(touched[np.isnan(self.objects["y"][touched])])


class TileRows(NamedTuple):
    """Messages in sending order: a box in subscription space each, and its content.

    A message goes to lo_outer < lo <= lo_inner and hi_inner <= hi < hi_outer in every attribute; an outer
    end of NaN is no bound. A `y` of NaN tells that the object is gone. It is for subscriptions that want `k`
    objects alone; 0: for all of them.
    """

    lo_outer: Floats  # (n, d), like the other ends
    lo_inner: Floats
    hi_inner: Floats
    hi_outer: Floats
    row: Rows
    x: Floats  # (n, d)
    y: Floats
    k: Ints


class Slack(NamedTuple):
    """How far messages may be from exact: by rank, or by the share of receipts that nobody needs."""

    epsilon: float | None = None
    needless: float | None = None


class Method(Protocol):
    """How results are kept current."""

    def parts(self) -> dict[str, Part]:
        """Parts of the state beyond subscriptions and objects."""

    def check(self) -> None:
        """Refuse what comes from a snapshot and does not fit the state; see `integrity`."""

    def lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions."""

    def preview(self, boxes: Boxes, k: Ints) -> Lists:
        """The results that subscriptions would have which are not there; they are named by their places."""

    def entered(self, rows: Rows) -> None:
        """New subscriptions are in the state."""

    def leaving(self, rows: Rows) -> None:
        """Subscriptions are about to go."""

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Subscriptions have changed in the state; they wanted so many objects before."""

    def held(self, rows: Rows) -> Any:
        """The results of some subscriptions, before these change, as `since` takes them."""

    def since(self, held: Any, rows: Rows) -> Changes:
        """The changes from held results to those of now; the rows are in the order of registration."""

    def publish(self, events: Events) -> Changes:
        """Apply a batch; the net change of every result."""

    def disseminate(self, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected."""


Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

FEW_OBJECTS = 64  # ranges up to which a search each is better than a table
SMALLEST, MOST = 16, 4096  # objects a block, blocks


class ObjectIndex:
    """Objects in dense rows, ordered by x, with the best (y, label) of every stretch at hand.

    - Changing: `insert`, `set_value`, `move`, `delete`, and `load` for many at once.
    - Asking: `firstk`, `miny`, `best`.
    - Keeping: `arrays`, `restore`, `check`.

    Kernels work on `tree`, whose arrays are replaced when they grow: fetch it anew after `reserve`.
    An absent row has y = +inf. Equal y are ordered by the smaller label.
    """

    def __init__(self) -> None:
        self.tree = _empty_tree(rows=0, nodes=SPARE_NODES)
        self._then: tuple[Floats, Floats, Labels] = (self.tree.x, self.tree.y, self.tree.label)
        self._tables: dict[int, Blocks] = {}
        object_tree.clear(self.tree)

    def __len__(self) -> int:
        return int(self.tree.meta[SIZE])

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`, and for some inserts by kernels. Amortised O(1) a row."""
        tree = self.tree
        if rows > tree.x.shape[0]:
            length = max(rows, 2 * tree.x.shape[0], 16)
            tree = tree._replace(
                x=grown(tree.x, length, 0.0),
                y=grown(tree.y, length, np.inf),
                label=grown(tree.label, length, 0),
                leaf_of=grown(tree.leaf_of, length, -1),
            )
        if object_tree.room(tree) < SPARE_NODES:
            length = 2 * tree.filled.shape[0] + SPARE_NODES
            names = ("key", "low", "child", "best", "filled", "parent")
            tree = tree._replace(**{name: grown(getattr(tree, name), length, 0) for name in names})
        self.tree = tree

    def set_labels(self, rows: Rows, labels: Labels) -> None:
        """Set the tie labels of new rows, or relabel rows without changing the order of present ones."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.tree.label[rows] = labels

    def load(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Insert many absent objects at once by rebuilding the tree. O((n + m) log m)."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.tree.x[rows], self.tree.y[rows] = x, y
        everything = np.concatenate([object_tree.rows_in_order(self.tree), rows])
        self._rebuild(everything[np.argsort(self.tree.x[everything], kind="stable")])

    def insert(self, row: int, x: float, y: float) -> None:
        """Add an absent object. O(log n)."""
        self.reserve(row + 1)
        object_tree.insert(self.tree, np.int32(row), x, y)

    def delete(self, row: int) -> None:
        """Take a present object out. O(log n)."""
        object_tree.remove(self.tree, np.int32(row))

    def move(self, row: int, x: float) -> None:
        """Give a present object another x. O(log n)."""
        y = float(self.tree.y[row])
        object_tree.remove(self.tree, np.int32(row))
        self.insert(row, x, y)

    def set_value(self, row: int, y: float) -> None:
        """Give a present object another y. O(log n)."""
        object_tree.set_value(self.tree, np.int32(row), y)

    def tidy(self) -> None:
        """Rebuild the tree if it holds many more nodes than its objects need. Amortised O(1) a deletion."""
        if object_tree.too_empty(self.tree):
            self._rebuild(object_tree.rows_in_order(self.tree))

    def firstk(self, x: float, y: float, label: int, direction: Literal["left", "right"], k: int) -> Floats:
        """The x of the k objects nearest to x on one side, not at x, that are better than (y, label)."""
        found = np.empty(k)
        leaf, slot = object_tree.locate(self.tree, x, direction == "right")
        step, slot = (1, slot) if direction == "right" else (-1, slot - 1)
        size, _ = object_tree.firstk(self.tree, leaf, slot, step, x, y, label, found)
        return found[:size]

    def miny(self, after: float, before: float, y: float, label: int) -> int:
        """The row of the best object with after < x < before that is worse than (y, label), or -1."""
        found = np.empty(1, np.int32)
        size = object_tree.next_above(self.tree, after, before, y, label, np.inf, 0, found)
        return int(found[0]) if size else -1

    def best(self, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Write the rows of the best objects with lo <= x <= hi to the boards, best first, then -1."""
        if len(lo) <= FEW_OBJECTS or FEW_OBJECTS * len(lo) <= len(self):
            object_tree.search_lists(self.tree, lo, hi, boards)
        elif len(self) == 0:
            boards[:] = -1
        else:
            range_table.find_lists(self._blocks(boards.shape[1]), lo, hi, boards)

    def by_value(self) -> Rows:
        """The rows of all objects, best first. O(n log n); several times faster if no two have the same y."""
        rows, order = self._ranked()
        return np.asarray(rows[order], np.int32)

    def _ranked(self) -> tuple[Rows, NDArray[np.intp]]:
        """The rows by ascending x, and their places, best first."""
        rows = object_tree.rows_in_order(self.tree)
        y = self.tree.y[rows]
        order = np.argsort(y)
        if (y[order[1:]] == y[order[:-1]]).any():
            order = np.lexsort((self.tree.label[rows], y))
        return rows, order

    def _blocks(self, k: int) -> Blocks:
        """The best k of blocks, kept until an object changes."""
        now = (self.tree.x, self.tree.y, self.tree.label)
        if not all(map(np.array_equal, now, self._then)):
            self._then, self._tables = (now[0].copy(), now[1].copy(), now[2].copy()), {}
        if k not in self._tables:
            self._tables[k] = self._tabulated(k)
        return self._tables[k]

    def _tabulated(self, k: int) -> Blocks:
        """The best k of blocks. O(n log n), mostly to rank the objects."""
        rows, order = self._ranked()
        rank, size = np.empty(len(rows), np.int32), len(rows)
        rank[order] = np.arange(size, dtype=np.int32)
        shift = (max(SMALLEST, k, size // MOST) - 1).bit_length()
        count = ((size - 1) >> shift) + 1
        table = np.empty((count.bit_length() * count + 1) * k, np.int32)
        range_table.tabulate(rank, shift, k, table)
        return Blocks(self.tree.x[rows], rank, np.append(rows[order], np.int32(-1)), table, shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays (the index's own, not copies)."""
        return dict(self.tree._asdict())

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        nodes = len(arrays["filled"]) if "filled" in arrays and arrays["filled"].ndim else 0
        lengths = dict.fromkeys(("key", "low", "child", "best", "filled", "parent"), nodes)
        lengths["meta"] = self.tree.meta.size
        own = self.tree._asdict().items()
        integrity.forms(
            arrays, {name: integrity.like(array, length=lengths.get(name)) for name, array in own}
        )
        integrity.need(arrays["child"].shape[1] == ORDER, "child", "has nodes of another order")
        self.tree = ObjectTree(**{name: arrays[name] for name in ObjectTree._fields})
        if integrity.wanted():
            checks.check_objects(self.tree)

    def check(self) -> None:
        """Assert the invariants of the tree."""
        tree = self.tree
        rows = object_tree.rows_in_order(tree)
        present = np.flatnonzero(tree.leaf_of >= 0)
        assert np.array_equal(np.sort(rows), present)
        assert np.all(np.diff(tree.x[rows]) >= 0)
        assert np.all(np.isinf(tree.y[tree.leaf_of < 0]))
        self._check_node(int(tree.meta[object_tree.ROOT]), int(tree.meta[object_tree.HEIGHT]), -1)

    def _check_node(self, node: int, height: int, parent: int) -> tuple[float, int]:
        tree, slots = self.tree, range(self.tree.filled[node])
        assert tree.parent[node] == parent
        assert parent < 0 or len(slots) > 0
        for j in slots:
            child, low, best = int(tree.child[node, j]), float(tree.low[node, j]), int(tree.best[node, j])
            if height == 1:
                assert (tree.leaf_of[child], tree.x[child], tree.y[child], best) == (
                    node,
                    tree.key[node, j],
                    low,
                    child,
                )
            else:
                assert self._check_node(child, height - 1, node) == (low, best)
        pairs = [
            (float(tree.low[node, j]), int(tree.label[tree.best[node, j]]), int(tree.best[node, j]))
            for j in slots
        ]
        low, _, best = min(pairs, default=(np.inf, 0, -1))
        return low, best

    def _rebuild(self, rows: Rows) -> None:
        nodes = SPARE_NODES + 2 * (len(rows) // FILL + 1)
        self.tree = _empty_tree(rows=0, nodes=nodes)._replace(
            x=self.tree.x, y=self.tree.y, label=self.tree.label, leaf_of=self.tree.leaf_of
        )
        object_tree.build(self.tree, rows.astype(np.int32))


def _empty_tree(*, rows: int, nodes: int) -> ObjectTree:
    return ObjectTree(
        key=np.zeros((nodes, ORDER)),
        low=np.zeros((nodes, ORDER)),
        child=np.zeros((nodes, ORDER), np.int32),
        best=np.zeros((nodes, ORDER), np.int32),
        filled=np.zeros(nodes, np.int32),
        parent=np.zeros(nodes, np.int32),
        meta=np.zeros(6, np.int64),
        x=np.zeros(rows),
        y=np.full(rows, np.inf),
        label=np.zeros(rows, np.int64),
        leaf_of=np.full(rows, -1, np.int32),
    )


def checked_sides(sides: str | None, over: list[str]) -> str | None:
    """The bounded side of the second of two attributes, checked."""
    if sides is None:
        return None
    if len(over) != 2:
        raise SettingError(f"sides is not for {len(over)} range attributes", expected="two names in over")
    return schema.one_of("sides", sides, ["lower", "upper"])


def range_columns(settings: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    """The columns of a range, and what a null in each means."""
    ends = (("lo", -np.inf), ("hi", np.inf))
    return tuple((f"{name}_{end}", missing) for name in settings["over"] for end, missing in ends)


def checked_slack(epsilon: float | None, needless: float | None, method: str) -> Slack:
    """An epsilon or a share of needless receipts, checked; only some methods take one."""
    if epsilon is not None and needless is not None:
        raise SettingError("epsilon and needless are both given", expected="one of them")
    if needless is not None:
        needless = schema.number("needless", needless, low=0, high=MOST_NEEDLESS)
        if method != "sparse":
            raise SettingError(
                f'needless is not for method="{method}"', expected="sparse, which counts who hears in vain"
            )
    if epsilon is not None:
        epsilon = schema.number("epsilon", epsilon, low=0, high=1, above=True)
        if method not in APPROXIMATE:
            raise SettingError(f'epsilon is not for method="{method}"', expected="sparse or dense")
    return Slack(epsilon, needless)
