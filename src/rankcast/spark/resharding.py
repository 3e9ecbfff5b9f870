"""Other shards for a stream: what its shards hold is divided anew, without any of its history.

A stream stands between two micro-batches, and every shard is a snapshot and the log since. First each shard
is brought up to date and written down (`Collecting`). Then each new shard begins with the former one that has
most of its subscriptions, lets go of those that are not its own, and takes over those that it lacks from the
others (`Dividing`): all former shards hold the same of what every shard is sent, so nothing else has to move.
Where subscriptions are not divided at all, all shards hold the same, and any of them will do.

The new plan names the former one. In the new checkpoint, a copy of the old one, Spark's state store still has
the logs of former shards; a new shard that finds one under its number takes no notice of it, so any partition
will do in the place of any other (`rankcast.spark.checkpoints`). The query, the numbers of its micro-batches,
the places of its sources and what its sink has seen all stay as they were. Nothing that is there is changed:
the former state and checkpoint can go on as well, instead.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.core.engine import Engine
from rankcast.core.spec import Axes, changed_settings, engine_type, given_of, name_of
from rankcast.errors import InputError, ShardError, SnapshotError
from rankcast.spark import bootstrap, scratch, shard
from rankcast.spark import plan as plan_of
from rankcast.spark.applying import BEFORE_FILE, BatchRunner
from rankcast.spark.checkpoints import Checkpoint
from rankcast.spark.packing import hashed, shard_ids
from rankcast.spark.plan import Plan, Split, zone_of
from rankcast.spark.shard import Store
from rankcast.spark.streams import how_many
from rankcast.state import batches, checkpoint
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.shard_cache import Hosted, Live, Place
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints

SAMPLE = 20_000  # subscriptions of all shards together, from which zones are learnt
_IDS, _SAMPLE = "ids", "sample"


class Entries:
    """What the state store has of one shard, by number; only read."""

    def __init__(self, entries: Mapping[int, bytes]) -> None:
        self._entries = entries

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:  # noqa: N802
        """The bytes under a number."""
        found = self._entries.get(key[0])
        return None if found is None else (found,)

    def iterator(self) -> Iterator[tuple[tuple[int], tuple[bytes]]]:
        """All of them."""
        return (((number,), (data,)) for number, data in self._entries.items())


class Collected(NamedTuple):
    """A former shard that was written down."""

    shard: int
    seq: int


@dataclass(frozen=True)
class Collecting:
    """Writes a shard of a stream down as it stands.

    Attributes:
        plan: the plan of the stream, as text.
        state: the URI of its snapshots.
        target: where the shard goes, and ...
        folder: ... where there.
    """

    plan: str
    state: str
    target: str
    folder: str

    def __call__(self, number: int, entries: Mapping[int, bytes]) -> Collected:
        """Write down a shard of which the state store has these entries."""
        plan, name, kind, given = shard.parsed_plan(self.plan)
        depot = Depot.open(self.state)
        store = Store(Entries(entries))
        memory = store.recall()
        if memory is None or memory.plan in plan.former:
            memory, store = shard.beginning(plan, number, depot), Store(Entries({}))
        if memory.plan != name:
            raise ShardError("the checkpoint belongs to another plan than the state")
        with tempfile.TemporaryDirectory(prefix="reshard-", dir=scratch.root()) as here:
            runner = BatchRunner(plan, kind.spec, number, depot, strict=False)
            hosted: Hosted[Any] = Hosted(Live(Path(here) / "shard"), depot, kind, given, runner.answer_of)
            engine = hosted.current(memory.standing, store.records)
            self._write(plan, number, engine, memory.standing.mark)
            del engine, hosted  # the files that they map are about to go
        return Collected(number, memory.seq)

    def _write(self, plan: Plan, number: int, engine: Engine, mark: Mark) -> None:
        depot, name = Depot.open(self.target), f"{self.folder}/{number}"
        header, arrays = engine.state()
        told = checkpoint.header_of(type(engine).__name__, mark, header)
        depot.write(name, checkpoint.KIND, told, arrays)
        if not engine.spec.input("subscriptions").divided:
            return
        ids, points = _places(engine, plan)
        table = pa.table({"id": ids, **_columns(points)})
        depot.put(f"{name}/{_IDS}", batches.to_bytes(table))
        step = max(1, len(ids) * len(plan.shards) // SAMPLE)
        sample = table.take(pa.array(np.arange(0, len(ids), step)))
        depot.put(f"{name}/{_SAMPLE}", batches.to_bytes(sample))


def _places(engine: Any, plan: Plan) -> tuple[pa.Array, Floats | None]:
    """The ids of subscriptions; and where they are, if the stream divides them by that."""
    if not hasattr(engine, "places"):
        raise ShardError(f"{plan.kind} does not say which subscriptions it has", hint=_OWN)
    axes: Axes = bootstrap.axes_of(plan)
    ids, points = engine.places(axes)
    return ids, points


def _columns(points: Floats | None) -> dict[str, Any]:
    return {} if points is None else {f"p{place}": points[:, place] for place in range(points.shape[1])}


_OWN = "Derive it from rankcast.core.list_engine.ListEngine, or begin anew with other shards."


def points_of(table: pa.Table) -> Floats | None:
    """Where the subscriptions in a table are; None if they are divided by their ids."""
    names = [name for name in table.column_names if name != "id"]
    return np.column_stack([table[name].to_numpy() for name in names]) if names else None


def zones_for(
    depot: Depot, folder: str, plan: Plan, size: int, loads: Mapping[int, float] | None = None
) -> Split:
    """How to divide the subscriptions of all former shards by place, learnt from samples of them.

    None if they are divided by their ids. A shard's load, if known, counts as that of its subscriptions,
    each alike; otherwise all subscriptions count alike.
    """
    found, weights = [], []
    for each in plan.shards if plan.zones is not None and size > 1 else ():
        points = points_of(batches.from_bytes(depot.get(f"{folder}/{each}/{_SAMPLE}")))
        if points is None:
            return None
        count = batches.from_bytes(depot.get(f"{folder}/{each}/{_IDS}")).num_rows
        load = float(count) if loads is None else loads.get(each, 0.0)
        found.append(points)
        weights.append(np.full(len(points), load / max(len(points), 1)))
    return plan_of.learn(np.concatenate(found), size, np.concatenate(weights)) if found else None


@dataclass(frozen=True)
class Dividing:
    """Makes new shards out of former ones that were written down.

    Attributes:
        plan: the former plan, as text.
        target: where shards are, ...
        source: ... the folder of the former ones, ...
        folder: ... and that of the new ones.
        shards: the ids of the new ones.
        split: how subscriptions are divided by place; None: by a hash of their ids.
        settings: those that engines are to have from now on, None for those they have.
    """

    plan: str
    target: str
    source: str
    folder: str
    shards: tuple[int, ...]
    split: Split = None
    settings: Mapping[str, Any] | None = None

    def __call__(self, number: int) -> str:
        """Make one of them; its name."""
        former, _, kind, _ = shard.parsed_plan(self.plan)
        depot, name = Depot.open(self.target), f"{self.folder}/{number}"
        with tempfile.TemporaryDirectory(prefix="reshard-", dir=scratch.root()) as here:
            if kind.spec.input("subscriptions").divided:
                engine = self._joined(former, depot, number, Path(here))
            else:
                engine = self._loaded(depot, former.shards[0], Path(here))
            if self.settings is not None:
                engine = self._remade(depot, name, engine)
            bootstrap.write_engine(depot, name, engine)
            del engine
        return name

    def _remade(self, depot: Depot, name: str, engine: Any) -> Any:
        """The engine under other settings; what its results were is kept, to tell how they have changed."""
        _, _, _, given = shard.parsed_plan(self.plan)
        if hasattr(engine, "results"):
            depot.put(f"{name}/{BEFORE_FILE}", batches.to_bytes(batches.decoded(engine.results())))
        return remade(engine, self.settings or {}, given)

    def _joined(self, former: Plan, depot: Depot, number: int, here: Path) -> Any:
        """An engine with the subscriptions of one new shard."""
        tables = {
            each: batches.from_bytes(depot.get(f"{self.source}/{each}/{_IDS}")) for each in former.shards
        }
        place = self.shards.index(number)
        mine = {each: self._place_of(table) == place for each, table in tables.items()}
        counts = {each: int(chosen.sum()) for each, chosen in mine.items()}
        base = max(counts, key=lambda each: counts[each])
        engine = self._loaded(depot, base, here)
        others = tables[base]["id"].filter(pa.array(~mine[base]))
        if len(others):
            engine.unsubscribe(others.combine_chunks())
        for each, count in counts.items():
            if each != base and count:
                if not hasattr(engine, "absorb"):
                    raise ShardError(f"{former.kind} cannot take over subscriptions", hint=_OWN)
                wanted = tables[each]["id"].filter(pa.array(mine[each])).combine_chunks()
                engine.absorb(self._loaded(depot, each, here), wanted)
        return engine

    def _place_of(self, table: pa.Table) -> Ints:
        """Which of the new shards each subscription goes to."""
        points = points_of(table)
        if self.split is not None and points is not None:
            return zone_of(self.split, points)
        return hashed(table["id"], len(self.shards))

    def _loaded(self, depot: Depot, number: int, here: Path) -> Any:
        """A former shard, over files that nobody else has."""
        _, _, kind, given = shard.parsed_plan(self.plan)
        live = Live(here / str(number))
        with live.held():
            found = depot.fetch(f"{self.source}/{number}", live.here)
            mark = checkpoint.mark_of(found.header)
            live.take(found, Place(mark.number, mark.token, ""))
            return live.open(kind, given)


def remade(engine: Any, settings: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """An engine with the items and subscriptions of another, under other settings.

    What an engine holds of items depends on no setting that may change (`changed_settings`); what it holds of
    subscriptions may, so they go and are taken over anew.

    Raises:
        ShardError: the engine cannot be made so.
    """
    kind = type(engine)
    header, arrays = engine.state()
    try:
        if hasattr(engine, "absorb"):
            copied = {name: array.copy() for name, array in arrays.items()}
            bare = kind.restore(copy.deepcopy(header), copied, **given)
            ids, _ = bare.places(())
            if len(ids):
                bare.unsubscribe(ids)
            header, arrays = bare.state()
        made = kind.restore({**header, "settings": dict(settings)}, arrays, **given)
        if hasattr(engine, "absorb"):
            made.absorb(engine)
    except (InputError, SnapshotError) as error:
        raise ShardError(
            f"{kind.__name__} cannot go on with other settings: {error.what}",
            hint="Begin anew, from history, with a new state and checkpoint.",
        ) from error
    return made


def planned(
    former: Plan,
    shards: tuple[int, ...],
    split: Split,
    names: Iterable[str],
    seqs: Iterable[int],
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """The plan of a stream that goes on with other shards, which begin with the snapshots named."""
    initial = dict(zip(map(str, shards), names, strict=True))
    return Plan(
        former.kind,
        former.settings if settings is None else dict(settings),
        former.score,
        former.ids,
        shards,
        split,
        initial,
        former.cut,
        told=True,
        clock=max(seqs),
        former=(*former.former, former.name),
    )


def check_engine(plan: Plan) -> None:
    """Refuse a stream that has no shards to divide."""
    if plan.stateless:
        raise ShardError(
            f"the stream of {plan.kind} has no shards",
            detail="Subscriptions are a table, and nothing stays of events: it is as parallel as its source.",
            hint="Give the source more partitions, or repartition it.",
        )
    given_of(engine_type(plan.kind), plan.score)


def reshard(
    spark: Any,
    *,
    state: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    to_state: str | os.PathLike[str],
    to_checkpoint: str | os.PathLike[str],
    shards: int,
    partitions: int | None = None,
    loads: Mapping[int, float] | None = None,
) -> Plan:
    """Create a new state and a new checkpoint, with other shards, from those of a stopped stream.

    A stream with the new ones continues where the old one stopped: the same query, the next
    micro-batch, no delta lost or repeated. The old ones are only read. You can go back to them
    until the new ones have run; after that some deltas would be repeated.

    Args:
        spark: a session.
        state: the state of the stream.
        checkpoint: its checkpoint.
        to_state: where to create the new state; must not exist.
        to_checkpoint: where to create the new checkpoint; must not exist.
        shards: the new number of shards.
        partitions: the number of shuffle partitions, by default one per shard.
        loads: the load of each shard, in any unit, as reported for a hot one: new shards get equal loads.
            By default all subscriptions count alike.

    Raises:
        ShardError: the stream was stopped in the middle of a micro-batch, has no shards, or a target
            exists; or there are loads, and subscriptions are not divided by place.
    """
    moving = _Moving(spark, state, checkpoint, to_state, to_checkpoint)
    size = how_many(engine_type(moving.former.kind).spec, shards, spark)
    spread = size if partitions is None else schema.whole("partitions", partitions)
    if loads is not None and moving.former.zones is None:
        raise ShardError(
            "the stream divides subscriptions by their ids: loads cannot be evened out",
            hint=f"Give it more shards instead, {2 * len(moving.former.shards)} for example.",
        )
    return moving.run(size, spread, None, loads)


def migrate(
    spark: Any,
    engine: Engine,
    *,
    state: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    to_state: str | os.PathLike[str],
    to_checkpoint: str | os.PathLike[str],
) -> Plan:
    """Create a new state and a new checkpoint, with other settings, from those of a stopped stream.

    A stream with the new ones and such an engine continues where the old one stopped. Its first
    deltas include the changes that the settings cause. A larger window starts with what the old one still
    held, and grows from there. With unchanged settings the state is rewritten in the
    format of this version.

    Args:
        spark: a session.
        engine: configured and empty.
        state: as for `reshard`, like the others.
        checkpoint: the old checkpoint.
        to_state: the new state.
        to_checkpoint: the new checkpoint.

    Raises:
        SettingError: a setting cannot change in a stream that continues.
        ShardError: as for `reshard`; or the engine is a different one.
    """
    moving = _Moving(spark, state, checkpoint, to_state, to_checkpoint)
    former, settings = moving.former, engine.state()[0]["settings"]
    if name_of(type(engine)) != former.kind:
        raise ShardError(f"{os.fspath(state)} is of a {former.kind}, not of a {type(engine).__name__}")
    if type(engine).spec.answer.kind == "tiles":
        raise ShardError(
            "a stream of tiles goes on with its settings alone: receivers keep their lists by them",
            hint="Begin anew, from history, with a new state, checkpoint and sink.",
        )
    changed_settings(type(engine), former.settings, json.loads(json.dumps(settings)))
    return moving.run(len(former.shards), moving.old.partitions(), settings)


class _Moving:
    """A stopped stream, and where it is to go on."""

    def __init__(
        self,
        spark: Any,
        state: str | os.PathLike[str],
        checkpoint: str | os.PathLike[str],
        to_state: str | os.PathLike[str],
        to_checkpoint: str | os.PathLike[str],
    ) -> None:
        self._spark = spark
        self.old, self._new = Checkpoint(checkpoint), Checkpoint(to_checkpoint)
        self._source, self._target = os.fspath(state), os.fspath(to_state)
        former = plan_of.read(Depot.open(self._source))
        if former is None:
            raise ShardError(f"{self._source} has no stream")
        check_engine(former)
        self.former = former
        self.old.boundary()
        there = self._new.is_there()
        if there or plan_of.read(Depot.open(self._target)) is not None:
            raise ShardError(
                f"{self._new.uri if there else self._target} is there already", hint="Name another one."
            )

    def run(
        self,
        size: int,
        spread: int,
        settings: Mapping[str, Any] | None,
        loads: Mapping[int, float] | None = None,
    ) -> Plan:
        """Let it have so many shards and shuffle partitions, and these settings."""
        spark, former, target = self._spark, self.former, self._target
        depot = Depot.open(target)
        folder = f"{plan_of.INITIAL}/{uuid.uuid4().hex[:12]}"
        apart, text = f"{folder}/former", former.to_json()
        kept = _collected(spark, self.old, former, Collecting(text, self._source, target, apart))
        split = zones_for(depot, apart, former, size, loads)
        ids = shard_ids(size, spread)
        names = _divided(spark, Dividing(text, target, apart, folder, ids, split, settings))
        seqs = [each.seq for each in kept]
        made = planned(former, ids, split, [names[each] for each in ids], seqs, settings)
        below, source = self.old.uri.rstrip("/") + "/", self._source
        self.old.copy(
            self._new, but=source.removeprefix(below).split("/")[0] if source.startswith(below) else None
        )
        self._new.repartition(spread)
        depot.remove(apart)
        plan_of.write(depot, made)  # last: without it, nothing goes on with what is there
        return made


def _collected(spark: Any, old: Checkpoint, former: Plan, collecting: Collecting) -> list[Collected]:
    """All shards, written down by tasks."""
    numbers = spark.createDataFrame([(each,) for each in former.shards], "shard int")

    def collected(rows: pa.Table) -> pa.Table:
        known = rows.filter(rows["number"].is_valid())
        entries = dict(zip(known["number"].to_pylist(), known["data"].to_pylist(), strict=True))
        made = collecting(rows["shard"][0].as_py(), entries)
        return pa.table({"shard": pa.array([made.shard], pa.int32()), "seq": pa.array([made.seq])})

    grouped = numbers.join(old.entries(spark), "shard", "left").groupBy("shard")
    found = grouped.applyInArrow(collected, "shard int, seq long").toArrow()
    return [Collected(row["shard"], row["seq"]) for row in found.to_pylist()]


def _divided(spark: Any, dividing: Dividing) -> dict[int, str]:
    """The names of all new shards, made by tasks."""
    numbers = spark.createDataFrame([(each,) for each in dividing.shards], "shard int")

    def divided(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            made = [dividing(each) for each in part["shard"].to_pylist()]
            yield pa.RecordBatch.from_arrays([part["shard"], pa.array(made)], names=["shard", "name"])

    spread = numbers.repartition(len(dividing.shards))
    found = spread.mapInArrow(divided, "shard int, name string").toArrow()
    return {row["shard"]: row["name"] for row in found.to_pylist()}
