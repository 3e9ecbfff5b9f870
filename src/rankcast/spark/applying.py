"""One batch of rows on an engine, in which any row may be refused without ending the batch.

An engine refuses a whole call; a stream must not stop for one bad row. So the rows, ordered by their sequence
number over all inputs (early inputs first), are cut into runs that are each one call: same input, same
command, and no id twice, but in a run of events. The answer is that of `Engine.apply` over the runs that are
left when refused rows are taken out. Which rows are refused is known only as the calls are made, in order,
each on what those before it did; so the calls are offered one at a time, and what is left of a refused one is
offered next, without the row that the error names. Cost: as many further tries as bad rows, each of them only
checks; runs with many are halved first, so b bad rows of n cost O(n log b) in checks, not O(n b).

What comes out of a shard is the table of deltas or matches, with the rows that were refused among them:

| deltas          | matches         | meaning                                                               |
| --------------- | --------------- | --------------------------------------------------------------------- |
| `subscription`  | `subscription`  | whose result; the id of a refused row of subscriptions (or positions) |
| `item`          | `event`         | what is listed; the id of a refused row of events (or objects)        |
| `op`            | `op`            | `enter`, `leave`, `update`; `match`; `refused`                        |
| `score`, `rank` | `score`, `rank` | null on `leave` and `refused`                                         |
| `seq`           | `seq`           | a sequence number, see below                                          |
| `reason`        | `reason`        | why a row was refused                                                 |

Messages for gateways (`output="tiles"`) have `op` `tile`, `sequence`, their own number, and the columns of
`RangeTopK.disseminate`, with `k`; `subscription` is null but of refused rows.

`seq` is the highest sequence number of the rows that an answer reflects. Of deltas and tiles it is the
highest that came in up to and in their micro-batch, over all inputs. A match reflects its event and the
subscriptions before it: `seq` is the event's, or, if that came behind, the highest of the commands that had
come before. A refused row has its own.

The bytes of a batch hold everything that stays of it, so that it can be replayed: the rows of each input and,
as `clock`, the highest sequence number that all answers reflect. Of events that are matched nothing stays:
the bytes have a checksum in place of them, which tells batches apart, and the log stays short. Nothing in
this module knows Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.core.engine import Command, Engine
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import Input, Late, Settings, Spec
from rankcast.errors import InputError, brief
from rankcast.spark.packing import NO_SEQ
from rankcast.spark.plan import OP, OWN, REASON, SEQ, Plan
from rankcast.state import batches
from rankcast.state.depot import Depot
from rankcast.tables.schema import Bools, Kind

_TRIES = 8  # bad rows taken out one by one before a run is halved
_SMALL = 32  # runs up to this size are not halved


def unpack(
    packed: Iterable[tuple[str, int, bytes | None]], order: Callable[[pa.Table], pa.Table]
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """The rows of each input that one shard was sent, ordered, and the highest sequence number of each."""
    parts: dict[str, list[pa.Table]] = {}
    highest: dict[str, int] = {}
    for name, top, data in sorted(packed, key=itemgetter(1)):  # rows read in order stay so
        highest[name] = max(highest.get(name, NO_SEQ), int(top))
        if data is not None:
            parts.setdefault(name, []).append(batches.from_bytes(data))
    return {name: order(pa.concat_tables(tables)) for name, tables in parts.items()}, highest


def by_seq(rows: pa.Table) -> pa.Table:
    """Rows by sequence number, those without one last. Cost: none if they are in order already."""
    seq = rows[SEQ]
    numbers = seq.fill_null(np.iinfo(np.int64).max).to_numpy()
    return rows if bool((np.diff(numbers) >= 0).all()) else rows.sort_by([(SEQ, "ascending")])


class Refusal(NamedTuple):
    """A row that was set aside."""

    input: Input
    id: Any
    seq: int | None
    reason: str


class Run(NamedTuple):
    """Rows of one input, one behind the other there, that are one call."""

    input: Input
    call: str
    rows: pa.Table


class Refusals:
    """Collects rows that are set aside; with `strict`, the first of them raises.

    Args:
        strict: whether to raise.
        told: whether to tell rows that every shard gets; another shard does otherwise.
    """

    def __init__(self, *, strict: bool, told: bool = True) -> None:
        self._strict = strict
        self._told = told
        self.rows: list[Refusal] = []

    def put(self, run: Run, row: int, error: InputError) -> None:
        """Set one row of a run aside."""
        if self._strict:
            raise error
        if not (run.input.divided or self._told):
            return
        rows = run.rows
        seq = rows[SEQ][row].as_py() if SEQ in rows.column_names else None
        name = rows["id"][row].as_py() if "id" in rows.column_names else None
        self.rows.append(Refusal(run.input, name, seq, error.what))


def mended(run: Run, tries: int, error: InputError, refusals: Refusals) -> list[tuple[Run, int]]:
    """What is left to try of a run that was refused, and how often each part of it was tried already.

    The row that the error names is set aside; after some tries, or if it names none, the rest is halved.
    """
    rows = run.rows
    place = 0 if rows.num_rows == 1 else error.row
    if place is not None:
        refusals.put(run, place, error)
        rows = rows.take(pa.array(np.delete(np.arange(rows.num_rows), place)))
        tries += 1
        if tries < _TRIES or rows.num_rows <= _SMALL:
            return [(run._replace(rows=rows), tries)] if rows.num_rows else []
    half = (rows.num_rows + 1) // 2
    parts = [rows.slice(0, half), rows.slice(half)]
    return [(run._replace(rows=part), 0) for part in parts if part.num_rows]


def columns_for(engine: Engine, run: Run) -> pa.Table:
    """The columns of a run that its call takes.

    Rows of commands have the columns of the first command of their input, which sees all of them. Any other
    command is passed those that it knows: an `unsubscribe` only the id.
    """
    names = [name for name in run.rows.column_names if name not in OWN]
    if run.call != run.input.calls[0]:
        known = engine.reads(run.call).form.known
        names = [name for name in names if name in known]
    return run.rows.select(names)


def runs(tables: Mapping[str, pa.Table], inputs: Sequence[Input], refusals: Refusals) -> Iterator[Run]:
    """Cut the rows of all tables, in order, into runs."""
    parts = [(each, tables[each.name]) for each in inputs if each.name in tables]
    commands = [_commands(each, rows, refusals) for each, rows in parts]
    places = [np.flatnonzero(command >= 0) for command in commands]
    if not sum(place.size for place in places):
        return
    seq = np.concatenate([_seq(rows)[place] for (_, rows), place in zip(parts, places, strict=True)])
    source = np.repeat(np.arange(len(parts)), [place.size for place in places])
    row = np.concatenate(places)
    late = np.array([not each.early for each, _ in parts])[source]
    order = np.lexsort((row, source, seq, late))
    source, row = source[order], row[order]
    command = np.concatenate([each[place] for each, place in zip(commands, places, strict=True)])[order]
    new = (np.diff(source) != 0) | (np.diff(command) != 0) | (np.diff(row) != 1)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    for start, stop in zip(starts, [*starts[1:], row.size], strict=True):
        each, rows = parts[source[start]]
        call = each.calls[command[start]]
        yield from _once(Run(each, call, rows.slice(row[start], stop - start)))


def _seq(rows: pa.Table) -> NDArray[np.int64]:
    """Sequence numbers; rows without them come before all that have one."""
    if SEQ not in rows.column_names:
        return np.full(rows.num_rows, np.iinfo(np.int64).min)
    numbers: NDArray[np.int64] = rows[SEQ].fill_null(0).to_numpy()
    return numbers


def _commands(of: Input, rows: pa.Table, refusals: Refusals) -> NDArray[np.int64]:
    """Which of the calls of an input each row is; -1 for rows that are set aside here."""
    command = np.zeros(rows.num_rows, np.int64)
    if OP in rows.column_names:
        found = pc.index_in(rows[OP], value_set=pa.array(of.calls))
        command = found.fill_null(-1).to_numpy().astype(np.int64)
    told_why = np.zeros(rows.num_rows, np.bool_)
    if REASON in rows.column_names and rows[REASON].null_count < rows.num_rows:
        told_why = rows[REASON].is_valid().to_numpy()
        for row in np.flatnonzero(told_why):
            refusals.put(Run(of, "", rows), int(row), InputError(rows[REASON][int(row)].as_py()))
    if OP in rows.column_names:
        for row in np.flatnonzero((command < 0) & ~told_why):
            told = rows[OP][int(row)].as_py()
            what = "is null" if told is None else f'is "{brief(told)}"'
            expected = f"one of: {', '.join(of.calls)}"
            refusals.put(Run(of, "", rows), int(row), _wrong(of, "op", what, expected))
    command[told_why] = -1
    if SEQ in rows.column_names and rows[SEQ].null_count:
        lacking: Bools = rows[SEQ].is_null().to_numpy() & (command >= 0)
        for row in np.flatnonzero(lacking):
            refusals.put(Run(of, "", rows), int(row), _wrong(of, "seq", "is null", "a whole number"))
        command[lacking] = -1
    return command


def _wrong(of: Input, column: str, what: str, expected: str) -> InputError:
    return InputError(what, where=of.name, column=column, expected=expected)


def _once(run: Run) -> Iterator[Run]:
    """Cut a run where an id comes again, unless it is one of events."""
    ids = run.rows["id"].combine_chunks() if "id" in run.rows.column_names else pa.array([])
    if run.call == "publish" or len(ids) < 2 or pc.count_distinct(ids, mode="all").as_py() == len(ids):
        yield run
        return
    seen: set[Any] = set()
    start = 0
    for row, name in enumerate(ids.to_pylist()):
        if name in seen:
            yield run._replace(rows=run.rows.slice(start, row - start))
            start, seen = row, set()
        seen.add(name)
    yield run._replace(rows=run.rows.slice(start))


class Applied(NamedTuple):
    """What a batch came to: the engine's answer and the rows set aside."""

    answer: pa.Table
    refused: list[Refusal]


def apply(
    engine: Engine,
    tables: Mapping[str, pa.Table],
    refusals: Refusals,
    *,
    clock: int | None = None,
    first: bool = False,
    before: pa.Table | None = None,
) -> Applied:
    """Apply the rows of all inputs in the order of their sequence numbers, as one batch.

    Args:
        engine: changed in place.
        tables: by input, each ordered by its column of sequence numbers, if it has one.
        refusals: takes the rows that are refused or late.
        clock: the highest sequence number that answers of this batch reflect in any case.
        first: answer with all results as they are at the end, not with what changed ...
        before: ... or with what has changed since these results.
    """
    spec = type(engine).spec
    offer = _Offer(engine, runs(tables, spec.inputs, refusals), refusals)
    answer = engine.apply(offer.commands(), refused=offer.refuse)
    if spec.answer.kind == "matches":
        return Applied(offer.matches(answer, clock), refusals.rows)
    if spec.answer.kind == "tiles":
        told = {"op": TILE, "subscription": None}
        for name, value in told.items():
            answer = answer.append_column(name, pa.repeat(pa.scalar(value, pa.string()), answer.num_rows))
    elif first:
        answer = _entered(cast(ListEngine, engine).results())
    elif before is not None:
        answer = changed(before, cast(ListEngine, engine).results(), updates=not engine.scores_move)
    seq = pa.repeat(pa.scalar(clock, pa.int64()), answer.num_rows)
    return Applied(answer.append_column("seq", seq), refusals.rows)


def _entered(results: pa.Table) -> pa.Table:
    """Results as if all of them had just come about."""
    entered = pa.repeat("enter", results.num_rows)
    return results.append_column("op", entered).select(["subscription", "op", "item", "score", "rank"])


def changed(before: pa.Table, now: pa.Table, *, updates: bool) -> pa.Table:
    """The deltas from results to others, by subscription, leaves first, then by rank.

    Where scores move by themselves, another one is no change.
    """
    keys = ["subscription", "item"]
    pairs = [*keys, "score", "rank"]
    joined = before.select([*keys, "score"]).join(
        now.select(pairs), keys, join_type="full outer", left_suffix="_before"
    )
    left, entered = joined["rank"].is_null(), joined["score_before"].is_null()
    other = pc.fill_null(pc.not_equal(joined["score"], joined["score_before"]), False)
    op = pc.case_when(pc.make_struct(left, entered), "leave", "enter", "update")
    told = joined.append_column("op", op)
    kept = pc.or_(pc.or_(left, entered), other if updates else pa.scalar(False))
    told = told.filter(kept).append_column(
        "last", pc.fill_null(pc.cast(joined["rank"], pa.int64()), 0).filter(kept)
    )
    order = [("subscription", "ascending"), ("last", "ascending"), ("item", "ascending")]
    return told.sort_by(order).select(["subscription", "op", "item", "score", "rank"])


class _Offer:
    """The calls of a batch, offered to `Engine.apply` until each is accepted or has no rows left.

    An engine that answers event by event is passed events under their number among those accepted, so that
    the row of each is known even if ids come several times.
    """

    def __init__(self, engine: Engine, cut: Iterable[Run], refusals: Refusals) -> None:
        self._engine = engine
        self._cut = cut
        self._refusals = refusals
        self._answer = type(engine).spec.answer
        self._numbered = self._answer.kind == "matches"
        self._events: list[pa.Table] = []
        self._taken = 0
        self._error: InputError | None = None

    def commands(self) -> Iterator[Command]:
        """The calls, in order."""
        for whole in self._cut:
            waiting = deque([(whole, 0)])
            while waiting:
                run, tries = waiting.popleft()
                rows = columns_for(self._engine, run)
                late = self._engine.late(run.call, rows)
                self._error = _without_id(run) if self._numbered else None
                if self._error is None:
                    yield Command(run.call, self._numbers(run, rows))
                if self._error is not None:
                    waiting.extendleft(reversed(mended(run, tries, self._error, self._refusals)))
                else:
                    self._accepted(run, late)

    def refuse(self, command: Command, error: InputError) -> None:
        """Take note that the engine has refused the last call."""
        self._error = error

    def matches(self, answer: pa.Table, clock: int | None) -> pa.Table:
        """The matches of all events under their own ids, with the sequence numbers that they reflect."""
        if not answer.num_rows:
            return answer.append_column("seq", pa.nulls(0, pa.int64()))
        name = self._answer.item
        events, at = pa.concat_tables(self._events), answer[name]
        seq = events[SEQ].take(at) if SEQ in events.column_names else pa.nulls(len(at), pa.int64())
        seq = seq if clock is None else pc.max_element_wise(seq, clock)
        place = answer.column_names.index(name)
        return answer.set_column(place, name, events["id"].take(at)).append_column("seq", seq)

    def _numbers(self, run: Run, rows: pa.Table) -> pa.Table:
        """Events under their numbers, if the engine answers event by event."""
        if not self._numbered or run.call != "publish":
            return rows
        numbers = pa.array(np.arange(self._taken, self._taken + rows.num_rows))
        return rows.set_column(rows.column_names.index("id"), "id", numbers)

    def _accepted(self, run: Run, late: Late | None) -> None:
        """Remember the events of a call; set those aside that came too late."""
        if self._numbered and run.call == "publish":
            self._events.append(
                run.rows.select([name for name in (SEQ, "id") if name in run.rows.column_names])
            )
            self._taken += run.rows.num_rows
        if late is not None:
            for row in late.rows:
                self._refusals.put(run, row, late.reason)


def _without_id(run: Run) -> InputError | None:
    """What is wrong with events of which one has no id: the engine sees numbers instead."""
    if run.call != "publish" or not run.rows["id"].null_count:
        return None
    row = int(np.argmax(run.rows["id"].is_null().to_numpy()))
    return InputError("is null", where="events", column="id", row=row, expected=Kind.ID.value)


REFUSED, MATCH, TILE = "refused", "match", "tile"
_ARROW = {"long": pa.int64(), "string": pa.string()}


def columns(spec: Spec, ids: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The output columns of an engine and their Spark types; `ids` has those of each input's ids."""
    answer = spec.answer
    mine, theirs = (answer.subscription, ids["subscriptions"]), (answer.item, ids[answer.source])
    rest = [("seq", "long"), ("reason", "string")]
    if answer.kind == "tiles":
        numbers = [(name, "double") for name in answer.numbers(settings)]
        first = [("op", "string"), ("sequence", "long"), theirs]  # the first is what a queue's key is made of
        return dict([*first, *numbers, ("k", "long"), mine, *rest])
    if answer.kind == "matches":
        return dict([theirs, ("rank", "long"), mine, ("score", "double"), ("op", "string"), *rest])
    return dict([mine, ("op", "string"), theirs, ("score", "double"), ("rank", "long"), *rest])


def schema(spec: Spec, ids: Mapping[str, str], settings: Settings) -> pa.Schema:
    """The same as an Arrow schema."""
    forms = {**_ARROW, "double": pa.float64()}
    return pa.schema([(name, forms[form]) for name, form in columns(spec, ids, settings).items()])


def answer_table(kept: Applied, form: pa.Schema) -> pa.Table:
    """The output of one batch: its answer, then the rows set aside."""
    answer = kept.answer
    if "op" not in answer.column_names:
        answer = answer.append_column("op", pa.repeat(MATCH, answer.num_rows))
    answer = answer.append_column("reason", pa.nulls(answer.num_rows, pa.string()))
    rows = [
        {"op": REFUSED, refusal.input.column: refusal.id, "seq": refusal.seq, "reason": refusal.reason}
        for refusal in kept.refused
    ]
    refused = [pa.Table.from_pylist(rows, schema=form)] if rows else []
    return pa.concat_tables([answer.select(form.names).cast(form), *refused])


CLOCK = "clock"
PASSING = "passing"  # instead of rows of which nothing stays
REFUSED_FILE = "refused"
BEFORE_FILE = "before"  # beside a snapshot: the results that were told, if those in it are others


class BatchRunner:
    """How a shard of a plan applies a batch.

    Attributes:
        candidates: how many candidates the last batch had tried.
    """

    def __init__(self, plan: Plan, spec: Spec, shard: int, depot: Depot, *, strict: bool) -> None:
        self._plan = plan
        self._depot = depot
        self._shard = shard
        self._strict = strict
        self._inputs = spec.inputs
        self._form = schema(spec, plan.ids, plan.settings)
        self._passing: dict[str, tuple[str, pa.Table]] = {}  # by checksum: input and rows
        self.candidates = 0

    @property
    def whole(self) -> bool:
        """Whether the bytes of the batch hold all its rows."""
        return not self._passing

    def clock(self, before: int, tops: Mapping[str, int]) -> tuple[int, int]:
        """The sequence number that all answers of a batch reflect, and that the next batch begins with.

        Args:
            before: what this batch begins with.
            tops: by input, the highest of this batch.
        """
        lasting = [each.name for each in self._inputs if each.lasting]
        after = max([before, *(top for name, top in tops.items() if name in lasting)])
        return (after if len(lasting) == len(self._inputs) else before), after

    def encode(self, tables: Mapping[str, pa.Table], seq: int) -> bytes:
        """The canonical bytes of a batch: rows in order by input, and the clock."""
        clock = pa.table({"seq": pa.array([None if seq == NO_SEQ else seq], pa.int64())})
        names = [each.name for each in self._inputs if each.name in tables]
        rows = batches.commands_of([(name, tables[name]) for name in names], names)
        fleeting = [each.name for each in self._inputs if not each.lasting]
        for place, (name, table) in enumerate(rows):
            if name in fleeting:
                checksum = snapshot.digest(batches.to_bytes(table))
                self._passing[checksum] = (name, table)
                rows[place] = (PASSING, pa.table({"checksum": [checksum]}))
        return batches.encode([(CLOCK, clock), *rows])

    def answer_of(self, engine: Engine, data: bytes, number: int) -> bytes:
        """Apply the bytes of a batch; the bytes of its answer."""
        (_, clock), *rows = [self._passed(*command) for command in batches.decode(data)]
        before = engine.stats()["candidates"]
        first = number == 1 and not self._plan.told
        refusals = refusals_of(self._plan, self._shard, strict=self._strict)
        seq = clock["seq"][0].as_py()
        former = self._before() if number == 1 and self._plan.told else None
        kept = apply(engine, dict(rows), refusals, clock=seq, first=first, before=former)
        self.candidates = engine.stats()["candidates"] - before
        table = answer_table(kept, self._form)
        if first:
            table = pa.concat_tables([table, self._refused_before()])
        return batches.to_bytes(table.combine_chunks())

    def _passed(self, name: str, rows: pa.Table) -> tuple[str, pa.Table]:
        """The rows that a checksum stands for; none if they passed in an earlier batch."""
        return (
            self._passing.get(rows["checksum"][0].as_py(), (name, rows)) if name == PASSING else (name, rows)
        )

    def _before(self) -> pa.Table | None:
        """The results that were told before the shard was made, if it was made with others."""
        name = f"{self._plan.initial[str(self._shard)]}/{BEFORE_FILE}"
        return batches.from_bytes(self._depot.get(name)) if self._depot.exists(name) else None

    def _refused_before(self) -> pa.Table:
        """Rows that were refused when the shard was made."""
        name = f"{self._plan.initial[str(self._shard)]}/{REFUSED_FILE}"
        return (
            batches.from_bytes(self._depot.get(name))
            if self._depot.exists(name)
            else self._form.empty_table()
        )


def refusals_of(plan: Plan, shard: int, *, strict: bool) -> Refusals:
    """What takes the rows that a shard refuses; of rows that every shard gets, the first shard tells.

    All shards refuse the same of those: engines check them against themselves and against what every shard
    has; what each shard has of its own has no say.
    """
    return Refusals(strict=strict, told=shard == plan.shards[0])
