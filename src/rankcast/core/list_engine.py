"""The base class of engines that keep a ranked result per subscription."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import locking, written
from rankcast.core.engine import ID, IDS, Command, Engine, Refused
from rankcast.core.spec import LISTS, Axes, Reading, load
from rankcast.errors import InputError
from rankcast.structures.ids import Slots
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE
from rankcast.tables import deltas, read, schema
from rankcast.tables.deltas import Changes, External, Lists
from rankcast.tables.schema import Batch, Column, Floats, Form, Ids, Ints, Kind, Rows

K = Column("k", Kind.COUNT, required=False, nullable=True)


class ListEngine(Engine):
    """An engine that keeps a ranked result per subscription.

    A subclass provides `_columns` (of subscriptions), `_event_form` (of events), `_slot_values` (those of
    subscriptions by slot column), `_publish`, `_lists` (current results of rows) and `_items` (the slots of
    items). It may implement `_entered`, `_amending`/`_amended` and `_leaving`; if it can compare results
    without listing them, also `_held` and `_since`. Invariant after every call: applying the deltas to the
    previous results gives the current ones.
    """

    spec = LISTS
    takes_k: ClassVar[bool] = True  # whether subscriptions have a k: the engine's or their own
    _k: int
    _max_k: int | None = None  # what no k may exceed
    _event_form: Form  # the columns of events

    # What a subclass provides

    @abstractmethod
    def _columns(self) -> list[Column]:
        """The columns of subscriptions besides `id` and `k`."""

    @abstractmethod
    def _slot_values(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        """Checked values by slot column; `rows` of live subscriptions if they are amended, else None."""

    @abstractmethod
    def _lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions, in that order."""

    @property
    @abstractmethod
    def _items(self) -> Slots:
        """The slots that items live in."""

    @abstractmethod
    def _publish(self, rows: Any) -> Changes:
        """Apply a batch of events."""

    def _entered(self, rows: Rows) -> None:
        """New subscriptions are in the slots."""

    def _amending(self, rows: Rows) -> None:
        """Subscriptions are about to change."""

    def _amended(self, rows: Rows) -> None:
        """Subscriptions have changed in the slots."""

    def _leaving(self, rows: Rows) -> None:
        """Subscriptions are about to leave."""

    def _held(self, rows: Rows) -> Any:
        """What `_since` needs to know about results before their subscriptions change."""
        return self._lists(rows)

    def _since(self, held: Any, rows: Rows) -> Changes:
        """The changes of held results; the rows are in the order of registration."""
        place = self._subscriptions.place
        return deltas.difference(held, self._lists(rows), place, updates=self._updates)

    # The calls

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and how errors name its rows."""
        forms = {
            "subscribe": lambda: Reading(self._form, "subscriptions"),
            "amend": lambda: Reading(self._amended_form, "subscriptions"),
            "publish": lambda: Reading(self._event_form, "events"),
        }
        return forms[call]() if call in forms else IDS

    def subscribe(self, rows: Any) -> pa.Table:
        """Register subscriptions; returns their first results as `enter` rows."""
        return self._subscribe_alone(rows)

    def amend(self, rows: Any) -> pa.Table:
        """Change live subscriptions in place: an absent column keeps its value, a null sets the default.

        >>> from rankcast import RangeTopK
        >>> engine = RangeTopK(k=1)
        >>> _ = engine.publish({"id": [7, 8], "x": [1, 2], "y": [5.0, 3.0]})
        >>> _ = engine.subscribe({"id": ["ada"], "x_hi": [2]})
        >>> engine.amend({"id": ["ada"], "x_hi": [1]}).select(["op", "item"]).to_pylist()
        [{'op': 'leave', 'item': 8}, {'op': 'enter', 'item': 7}]
        """
        return self._amend_alone(rows)

    def unsubscribe(self, ids: Any) -> pa.Table:
        """Remove subscriptions; their items come as `leave` rows.

        >>> from rankcast import RangeTopK
        >>> engine = RangeTopK(k=1)
        >>> _ = engine.publish({"id": [7], "x": [1], "y": [5.0]})
        >>> _ = engine.subscribe({"id": ["ada"]})
        >>> engine.unsubscribe(["ada"]).select(["op", "item"]).to_pylist()
        [{'op': 'leave', 'item': 7}]
        """
        gone = self._in_order(self._subscriptions.require(self._ids(ids), where="ids"))
        table = deltas.whole(self._external(gone, scored=False), LEAVE)
        self._dismiss(gone)
        return self._told(table)

    def publish(self, rows: Any) -> pa.Table:
        """Apply a batch of events; returns the net change of every result over the batch."""
        return self._publish_alone(rows)

    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Apply several calls, in order, as one batch; returns the net deltas. See `Engine.apply`."""
        if refused is None and isinstance(commands, list) and len(commands) == 1:
            [(call, rows)] = commands
            alone = getattr(self, f"_{schema.one_of('call', call, self.calls)}_alone", None)
            if alone is not None:
                answer: pa.Table = alone(rows)
                return answer
        try:
            steps = self._accepted(commands, refused, lambda call, rows: getattr(self, f"_{call}")(rows))
        except BaseException:
            if not self._turn.changing:  # what was applied is whole
                self._begin()
                self._settle()
                self._turn.undo()
            raise
        self._begin()
        return self._answer(self._net(steps))

    def results(self, ids: Any = None) -> pa.Table:
        """The current results: `subscription, rank, item, score`, by order of registration, then rank.

        >>> from rankcast import RangeTopK
        >>> engine = RangeTopK(k=1)
        >>> _ = engine.publish({"id": [7], "x": [1], "y": [5.0]})
        >>> _ = engine.subscribe({"id": ["ada"]})
        >>> engine.results().to_pylist()
        [{'subscription': 'ada', 'rank': 1, 'item': 7, 'score': 5.0}]
        """
        slots = self._subscriptions
        rows = slots.live() if ids is None else self._in_order(slots.require(self._ids(ids), where="ids"))
        subscription, item, score, rank = self._external(rows, scored=True)
        columns = {
            "subscription": subscription,
            "rank": pa.array(rank),
            "item": item,
            "score": pa.array(score),
        }
        return pa.table(columns)

    # Dividing and joining engines

    def absorb(self, other: Self, ids: Any = None) -> None:
        """Take over subscriptions of an engine that has the same items: all, or those of `ids`.

        They keep their values and their order, after those that are already here. Their results are computed
        again, and no deltas are returned. Cost: that of subscribing.

        Raises:
            InputError: the engines differ, or a subscription already exists here.
        """
        if type(other) is not type(self) or len(other._items) != len(self._items):
            raise InputError(f"holds other items than this {type(self).__name__}", where="other")
        theirs = other._subscriptions
        rows = theirs.live() if ids is None else other._in_order(theirs.require(self._ids(ids), where="ids"))
        taken = read.read_ids(theirs.take(rows), where="ids")
        self._subscriptions.require_new(taken, where="subscriptions")
        self._begin()
        fresh = self._subscriptions.add(taken)
        copying = type(self).spec.copying
        if copying is not None:
            load(copying)(self, other, fresh, rows)
        else:
            self._write(fresh, {name: theirs[name][rows] for name in theirs.columns})
        self._entered(fresh)
        self._settle()

    def places(self, axes: Axes) -> tuple[pa.Array, Floats | None]:
        """The ids of live subscriptions, as registered, and their places (n, d); None if unknown."""
        slots, rows = self._subscriptions, self._subscriptions.live()
        found = []
        for name, _ in axes:
            attribute, _, end = name.rpartition("_")
            over = list(getattr(self, "_over", ()))
            if name in slots.columns:
                found.append(slots[name][rows])
            elif end in slots.columns and attribute in over:
                found.append(slots[end][rows, over.index(attribute)])
        whole = len(found) == len(axes) > 0
        return slots.take(rows), np.column_stack(found) if whole else None

    # Their parts

    def _external(self, rows: Rows, *, scored: bool) -> External:
        """The same results with external ids; scores and ranks may be left out unless `scored`."""
        lists = self._lists(rows)
        subscription, item = self._subscriptions.take(lists.subscription), self._items.take(lists.item)
        return External(subscription, item, lists.score, lists.rank)

    def _subscribe_alone(self, rows: Any) -> pa.Table:
        """Subscribe as a batch of its own."""
        fresh = self._register(rows)
        return self._told(deltas.whole(self._external(fresh, scored=True), ENTER))

    def _subscribe(self, rows: Any) -> Changes:
        return deltas.entered(self._lists(self._register(rows)))

    def _register(self, rows: Any) -> Rows:
        """Assign rows to new subscriptions and enter them."""
        batch = self._read(rows, self._form, "subscriptions")
        self._subscriptions.require_new(batch.ids, where="subscriptions")
        default = {"k": np.zeros((), np.int64)} if self.takes_k else {}
        fields = {**default, **self._own_k(batch), **self._slot_values(batch, None)}
        self._begin()
        fresh = self._subscriptions.add(batch.ids)
        self._write(fresh, fields)
        self._entered(fresh)
        return fresh

    def _amend_alone(self, rows: Any) -> pa.Table:
        """Amend as a batch of its own."""
        return self._answer(self._amend(rows))

    def _publish_alone(self, rows: Any) -> pa.Table:
        """Publish as a batch of its own."""
        return self._answer(self._publish(rows))

    def _amend(self, rows: Any) -> Changes:
        return self._change(*self._amendment(rows))

    def _amendment(self, rows: Any) -> tuple[Rows, dict[str, NDArray[Any]]]:
        """The rows of subscriptions to be changed, and their values by slot column."""
        batch = self._read(rows, self._amended_form, "subscriptions")
        changed = np.ascontiguousarray(self._subscriptions.require(batch.ids, where="subscriptions"))
        return changed, {**self._own_k(batch), **self._slot_values(batch, changed)}

    def _change(self, changed: Rows, fields: Mapping[str, NDArray[Any]]) -> Changes:
        """Give subscriptions new values; returns the changes of their results."""
        registered = self._in_order(changed)
        held = self._held(registered)
        self._begin()
        self._amending(changed)
        self._write(changed, fields)
        self._amended(changed)
        return self._since(held, registered)

    def _unsubscribe(self, ids: Any) -> Changes:
        gone = self._subscriptions.require(self._ids(ids), where="ids")
        changes = deltas.left(self._lists(gone), self._subscriptions.place)
        self._dismiss(gone)
        return changes

    def _dismiss(self, rows: Rows) -> None:
        """Remove subscriptions."""
        self._begin()
        self._leaving(rows)
        self._subscriptions.release(rows)

    @property
    def _updates(self) -> bool:
        """Whether a new score of an item is reported when a subscription is amended."""
        return True

    def _known_columns(self) -> list[Column]:
        """All columns of subscriptions, `id` first."""
        return [ID, *([K] if self.takes_k else []), *self._columns()]

    @cached_property
    def _form(self) -> Form:
        """The columns of new subscriptions."""
        return Form(self._known_columns())

    @cached_property
    def _amended_form(self) -> Form:
        """The columns of amended subscriptions: only `id` is required."""
        _, *others = self._known_columns()
        return Form([ID, *(replace(column, required=False) for column in others)])

    def _own_k(self, batch: Batch) -> dict[str, Ints]:
        """The k of each subscription by slot column, 0 for the engine's, if the rows have one."""
        if "k" not in batch:
            return {}
        k = np.asarray(batch["k"], np.int64)
        if self._max_k is not None and (k > self._max_k).any():
            row = int(np.argmax(k > self._max_k))
            raise InputError(
                f"is {k[row]}",
                where="subscriptions",
                column="k",
                row=row,
                expected=f"at most max_k, which is {self._max_k}",
            )
        return {"k": k}

    def _k_of(self, rows: Rows) -> Ints:
        """How many items each subscription wants."""
        own: Ints = self._subscriptions["k"][rows]
        return np.where(own > 0, own, self._k)

    def _write(self, rows: Rows, fields: Mapping[str, NDArray[Any]]) -> None:
        where = together(rows)
        for name, values in fields.items():
            self._subscriptions[name][where] = values

    def _counts(self) -> str:
        return written.counts(subscriptions=len(self), items=len(self._items))

    def _ids(self, ids: Any) -> Ids:
        return read.read_ids(ids, where="ids")

    def _in_order(self, rows: Rows) -> Rows:
        sequence = self._subscriptions["sequence"][together(rows)]
        return rows if (sequence[1:] > sequence[:-1]).all() else rows[np.argsort(sequence, kind="stable")]

    def _net(self, steps: list[Changes]) -> Changes:
        """The net change of several steps of one batch."""
        if len(steps) < 2:
            return steps[0] if steps else deltas.no_changes()
        steps = [self._renew(step) for step in steps]
        touched = np.unique(np.concatenate([step.subscription for step in steps]))
        now = self._lists(touched[self._subscriptions["sequence"][touched] >= 0])
        return deltas.net(steps, now, self._subscriptions.place, updates=self._updates)

    def _renew(self, step: Changes) -> Changes:
        """The same changes with current rows; an item that left and returned counts as changed."""
        item = _renewed(self._items, step.item)
        back = (item != step.item) & (step.op == LEAVE)
        return step._replace(
            subscription=_renewed(self._subscriptions, step.subscription),
            op=np.where(back, UPDATE, step.op).astype(np.int8),
            item=item,
        )

    def _answer(self, changes: Changes) -> pa.Table:
        """The table of deltas; ends the batch."""
        if not changes.op.size:
            return self._told(deltas.no_deltas(self._subscriptions.type, self._items.type))
        subscription = self._subscriptions.take(changes.subscription)
        return self._told(deltas.to_table(changes, subscription, self._items.take(changes.item)))

    def _told(self, table: pa.Table) -> pa.Table:
        """Count deltas that are about to be returned; ends the batch."""
        self._count["deltas"] += table.num_rows
        self._settle()
        return table

    def _settle(self) -> None:
        """End a batch: released rows may be reused."""
        self._subscriptions.settle()
        self._items.settle()


def together(rows: Rows | Ints) -> Any:
    """An index for rows; consecutive ones become a slice, which is cheap to read and write."""
    if rows.size and int(rows[-1]) - int(rows[0]) + 1 == rows.size and (rows[1:] > rows[:-1]).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def _renewed(slots: Slots, rows: Rows) -> Rows:
    """The same rows, with the live row for an id that left and returned within the batch."""
    gone = slots["sequence"][rows] < 0
    if not gone.any():
        return rows
    found = slots.find(read.read_ids(slots.take(rows[gone]), where="ids"), where="ids")
    renewed = rows.copy()
    renewed[gone] = np.where(found >= 0, found, rows[gone])
    return renewed
