"""External streams: lists computed elsewhere, stored and distributed here.

A stream with `"engine": "external"` has no engine. Batches come from outside: deltas, or all current
lists, from which the deltas are computed here. Each is a write like any other, so listeners, resuming,
the log and webhooks are the same. A batch has a number (and a part, if it is divided into several writes);
both increase. A repeated batch gets its first answer and changes nothing, even after a restart: its
number is written in the transaction of the write. All batches of a stream come from one source, a name that
the sender chooses: numbers of another source would mean other batches.

    own_list      by subscription, its entries in order: [[item, score], ...], as JSON
    own_batch     by number and part, the answer
    own_source    the source of the batches

A delta must fit the list that it changes: an item may enter only if it is not there, and change or leave only
if it is. So a missing batch is noticed. Cost: the size of the lists that a batch concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import orjson
import pyarrow as pa

from rankcast.core.engine import Command, Engine, Refused
from rankcast.core.spec import Input, Reading, Spec
from rankcast.errors import InputError, SettingError, shown
from rankcast.service.problems import Problem
from rankcast.service.streams.records import Id, Records
from rankcast.state import Shard
from rankcast.structures.ids import Slots
from rankcast.tables import deltas
from rankcast.tables.read import as_table, read
from rankcast.tables.schema import Column, Form, Kind

NAME = "external"
CALL = "tell"
OPS = ("enter", "update", "leave")
MOST = 2**63 - 1  # the highest number of a batch
REMEMBERED = 10_000  # batches whose answers are kept

Entries: TypeAlias = dict[Id, float | None]  # the score of each item, in the order of the list

_RESULTS = (
    Column("subscription", Kind.ID),
    Column("item", Kind.ID),
    Column("score", required=False, nullable=True),
    Column("rank", Kind.COUNT, required=False, nullable=True),
)
_DELTAS = (*_RESULTS, Column("op", Kind.WORD, words=OPS))
FORMS = {"deltas": Form(_DELTAS), "results": Form(_RESULTS)}
_TABLES = (
    "CREATE TABLE IF NOT EXISTS own_list (id PRIMARY KEY, entries BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS own_batch (number INTEGER NOT NULL, part INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, deltas INTEGER NOT NULL, PRIMARY KEY (number, part)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS own_source (name TEXT NOT NULL)",
)


class External(Engine):
    """The engine in the shard of such a stream: it holds nothing, and answers deltas with themselves.

    Args:
        ranked: whether lists have ranks and scores; otherwise they are sets of items.
    """

    spec = Spec((Input("deltas", (CALL,), divided=True, column="subscription"),), title="lists from outside")
    calls: ClassVar[tuple[str, ...]] = (CALL,)

    def __init__(self, *, ranked: bool = True) -> None:
        if not isinstance(ranked, bool):
            raise SettingError(f"ranked is {shown(ranked)}", expected="true or false")
        super().__init__({"ranked": ranked}, extra="forbid", tuning=None)
        self._none = Slots({})

    @classmethod
    def _configured(cls, configuration: dict[str, Any], **given: Any) -> Self:
        return cls(ranked=configuration["ranked"])

    @property
    def _subscriptions(self) -> Slots:
        return self._none

    def reads(self, call: str) -> Reading:
        """The columns of deltas."""
        return Reading(FORMS["deltas"], "deltas")

    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Return the given deltas."""

        def same(_: str, rows: Any) -> pa.Table:
            return deltas.encoded(rows) if isinstance(rows, pa.Table) else table_of(rows)

        return pa.concat_tables(self._accepted(commands, refused, same))


class Batch(NamedTuple):
    """A pushed batch: its source, its number and part, and rows, `deltas` or `results`."""

    source: str
    number: int
    part: int
    content: str
    rows: Any


class Change(NamedTuple):
    """The effect of a batch: the deltas to publish, the lists that it changes, how many more there are."""

    deltas: pa.Table
    lists: Mapping[Id, Entries]
    more: int


class Lists:
    """The lists of one external stream. For its thread only, inside `together` if something is written."""

    def __init__(self, shard: Shard[Any], records: Records, *, ranked: bool) -> None:
        self._shard = shard
        self._records = records
        self._ranked = ranked
        self._count: int | None = None  # None: not known
        for table in _TABLES:
            shard.beside(table)

    def __len__(self) -> int:
        if self._count is None:
            self._count = int(self._shard.beside("SELECT count(*) FROM own_list")[0][0])
        return self._count

    def forget(self) -> None:
        """Drop what is in memory: a group was undone."""
        self._count = None

    def find(self, key: Id) -> Entries:
        """One list; empty if there is none."""
        found = self._shard.beside("SELECT entries FROM own_list WHERE id = ?", (key,))
        return dict(orjson.loads(found[0][0])) if found else {}

    def results(self, ids: Iterable[Id] | None = None) -> pa.Table:
        """The current lists, all or some, as a table of results; unranked lists have no ranks and scores."""
        if ids is None:
            found = self._shard.beside("SELECT id, entries FROM own_list ORDER BY id")
            lists = [(key, orjson.loads(entries)) for key, entries in found]
        else:
            lists = [(key, list(self.find(key).items())) for key in ids]
        rows = [(key, place, *entry) for key, entries in lists for place, entry in enumerate(entries, 1)]
        subscription, rank, item, score = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [])
        ranks = pa.array(rank, pa.int64()) if self._ranked else pa.nulls(len(rank), pa.int64())
        return pa.table(
            {
                "subscription": pa.array(subscription, self._type("subscription")),
                "rank": ranks,
                "item": pa.array(item, self._type("item")),
                "score": pa.array(score, pa.float64()),
            }
        )

    # Batches

    def answered(self, batch: Batch) -> tuple[int, int] | None:
        """The first answer to a repeated batch: its sequence, and how many deltas it had.

        Raises:
            Problem: 409, it has another source, or an old number that is not known.
        """
        source = self._shard.beside("SELECT name FROM own_source")
        if source and source[0][0] != batch.source:
            raise Problem(
                409,
                f"Batches of this stream come from {shown(source[0][0])}, not from {shown(batch.source)}.",
                hint="Batches of two sources cannot be told apart by number: make a stream of its own.",
            )
        found = self._shard.beside(
            "SELECT sequence, deltas FROM own_batch WHERE number = ? AND part = ?", (batch.number, batch.part)
        )
        if found:
            return int(found[0][0]), int(found[0][1])
        last = self._shard.beside(
            "SELECT number, part FROM own_batch ORDER BY number DESC, part DESC LIMIT 1"
        )
        if last and last[0] > (batch.number, batch.part):
            raise Problem(
                409,
                f"Batch {batch.number}, part {batch.part}, is not known, and lies behind batch {last[0][0]},"
                f" part {last[0][1]}.",
                hint="Numbers grow from batch to batch.",
            )
        return None

    def write(self, batch: Batch, change: Change, sequence: int) -> None:
        """Store what a batch changed, and its answer."""
        run, many = self._shard.beside, self._shard.beside_many
        full = [
            (key, orjson.dumps(list(entries.items()))) for key, entries in change.lists.items() if entries
        ]
        many("INSERT OR REPLACE INTO own_list VALUES (?, ?)", full)
        many("DELETE FROM own_list WHERE id = ?", ((key,) for key, now in change.lists.items() if not now))
        if not run("SELECT name FROM own_source"):
            run("INSERT INTO own_source VALUES (?)", (batch.source,))
        values = (batch.number, batch.part, sequence, change.deltas.num_rows)
        run("INSERT INTO own_batch VALUES (?, ?, ?, ?)", values)
        run("DELETE FROM own_batch WHERE sequence <= ?", (sequence - REMEMBERED,))
        if self._count is not None:
            self._count += change.more
        if change.deltas.num_rows:
            for role in ("subscription", "item"):
                self._records.learn(role, _kind(change.deltas.column(role).type))

    # What a batch changes

    def change(self, table: pa.Table, content: str) -> Change:
        """The effect of rows that `checked` has accepted.

        Raises:
            InputError: they do not fit the lists; nothing has changed.
        """
        for role in ("subscription", "item"):
            known = self._records.kind(role)
            if known is not None and table.num_rows and _kind(table.column(role).type) != known:
                expected = "integers" if known == "int" else "strings"
                raise InputError(
                    "is of another type", column=role, expected=f"{expected}, as ids were before"
                )
        return self._told(table) if content == "deltas" else self._replaced(table)

    def _told(self, table: pa.Table) -> Change:
        """Apply deltas."""
        columns = {name: _values(table, name) for name in ("subscription", "op", "item", "score", "rank")}
        groups: dict[Id, list[_Row]] = {}
        for place, (key, *rest) in enumerate(zip(*columns.values(), strict=True)):
            groups.setdefault(key, []).append(_Row(place, *rest))
        lists: dict[Id, Entries] = {}
        more = 0
        for key, rows in groups.items():
            before = self.find(key)
            lists[key] = self._applied(before, rows)
            more += bool(lists[key]) - bool(before)
        return Change(table_of(columns, table), lists, more)

    def _applied(self, before: Entries, rows: list[_Row]) -> Entries:
        """One list after its deltas: what they name goes or takes its rank, all others fill the rest."""
        seen: set[Id] = set()
        for row in rows:
            if row.item in seen:
                raise InputError("comes twice in one list", column="item", row=row.place)
            if (row.item in before) != (row.op != "enter"):
                there = "is" if row.item in before else "is not"
                raise InputError(
                    f"{there} in the list of its subscription, and its op is {row.op}",
                    column="item",
                    row=row.place,
                    hint="Was a batch left out? Push all lists, with content=results.",
                )
            seen.add(row.item)
        kept = [entry for entry in before.items() if entry[0] not in seen]
        fresh = [row for row in rows if row.op != "leave"]
        if not self._ranked:
            both = [*(item for item, _ in kept), *(row.item for row in fresh)]
            return dict.fromkeys(sorted(both))
        last = 0
        for row in sorted(fresh, key=lambda each: each.rank or 0):
            if row.rank is None or not last < row.rank <= len(kept) + 1:
                twice = " twice in one list" if row.rank == last else ""
                raise InputError(
                    f"is {'null' if row.rank is None else row.rank}{twice}",
                    column="rank",
                    row=row.place,
                    expected=f"a place of its own in a list of {len(kept) + 1}",
                )
            last = row.rank
            kept.insert(row.rank - 1, (row.item, row.score))
        return dict(kept)

    def _replaced(self, table: pa.Table) -> Change:
        """Make all lists what rows say, and find out what that changes."""
        columns = {name: _values(table, name) for name in ("subscription", "item", "score", "rank")}
        ranked = self._ranked and "rank" in table.column_names
        now: dict[Id, list[tuple[int, Id, float | None, int]]] = {}
        for place, (key, item, score, rank) in enumerate(zip(*columns.values(), strict=True)):
            mine = now.setdefault(key, [])
            order = rank if ranked else len(mine) + 1
            if order is None:
                raise InputError("is null", column="rank", row=place, expected="the place in the list")
            mine.append((order, item, score, place))
        known = [row[0] for row in self._shard.beside("SELECT id FROM own_list ORDER BY id")]
        lists: dict[Id, Entries] = {}
        told: list[tuple[Any, ...]] = []
        more = 0
        for key in [*(key for key in known if key not in now), *now]:
            before, after = self.find(key), self._ordered(now.get(key, []))
            if list(before.items()) != list(after.items()):
                lists[key] = after
                more += bool(after) - bool(before)
                told += _difference(key, before, after, ranked=self._ranked)
        names = ("subscription", "op", "item", "score", "rank")
        cut = map(list, zip(*told, strict=True)) if told else ([] for _ in names)
        return Change(table_of(dict(zip(names, cut, strict=True)), table), lists, more)

    def _ordered(self, rows: list[tuple[int, Id, float | None, int]]) -> Entries:
        """One list from its rows, whose ranks are 1, 2, ..."""
        found: Entries = {}
        rows.sort(key=lambda row: row[0])
        for order, (rank, item, score, place) in enumerate(rows, 1):
            if item in found:
                raise InputError("comes twice in one list", column="item", row=place)
            if rank != order:
                raise InputError(f"is {rank}", column="rank", row=place, expected="1, 2, ... in each list")
            found[item] = score
        return found if self._ranked else dict.fromkeys(sorted(found))

    def _type(self, role: str) -> pa.DataType:
        return pa.int64() if self._records.kind(role) == "int" else pa.string()


class _Row(NamedTuple):
    """One delta, and where it stands."""

    place: int
    op: str
    item: Id
    score: float | None
    rank: int | None


def checked(batch: Batch, limit: Callable[[pa.ChunkedArray, str, Kind], None]) -> pa.Table:
    """The rows of a batch as a table with valid values; `limit` checks each column."""
    form = FORMS[batch.content]
    table = as_table(batch.rows, where=batch.content)
    read(table, form, where=batch.content)
    for column in form:
        if column.name in table.column_names:
            limit(table.column(column.name), column.name, column.kind)
    return table


def table_of(columns: Mapping[str, list[Any]], like: pa.Table | None = None) -> pa.Table:
    """Deltas as every engine gives them; without rows, ids have the types of `like`."""
    types = {"score": pa.float64(), "rank": pa.int64()}
    for role in ("subscription", "item"):
        whole = isinstance(columns[role][0], int) if columns[role] else False
        if not columns[role] and like is not None and role in like.column_names:
            whole = _kind(like.column(role).type) == "int"
        types[role] = pa.int64() if whole else pa.string()
    arrays = {name: pa.array(columns[name], kind) for name, kind in types.items()}
    arrays["op"] = deltas.op_column_of(columns["op"])
    return pa.table({name: arrays[name] for name in deltas.COLUMNS})


def _values(table: pa.Table, name: str) -> list[Any]:
    """The values of a column, nulls if it is not there."""
    return table.column(name).to_pylist() if name in table.column_names else [None] * table.num_rows


def _kind(type_: pa.DataType) -> str:
    return "int" if pa.types.is_integer(type_) else "str"


def _difference(key: Id, before: Entries, after: Entries, *, ranked: bool) -> list[tuple[Any, ...]]:
    """The deltas that lead from a list to another one.

    What stays, with its score, is not told if it keeps its order: then it fills the ranks between the others.
    """
    gone = [(key, "leave", item, None, None) for item in before if item not in after]
    same = [item for item, score in after.items() if item in before and before[item] == score]
    stays = set(same)
    if same != [item for item in before if item in stays]:
        stays.clear()
    fresh = [
        (key, "update" if item in before else "enter", item, score, rank if ranked else None)
        for rank, (item, score) in enumerate(after.items(), 1)
        if item not in stays
    ]
    return gone + fresh
