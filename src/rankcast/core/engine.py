"""What all engines share: settings, live subscriptions, counters, state on disk.

A call takes its turn (`rankcast.core.locking`) and has three steps: read and check everything (if that
raises, nothing has changed); change the state, from `_begin` on; answer. An engine implements a few small
methods; the base class does the rest. `rankcast.core.list_engine` adds what engines with a ranked result per
subscription share. The engine calls a user's function through `own_numbers`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import locking, snapshot, written
from rankcast.core.locking import Turn
from rankcast.core.spec import Clock, Late, Reading, Spec
from rankcast.errors import FunctionError, InputError, RankcastError, SnapshotError
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables import read, schema
from rankcast.tables.schema import Batch, Column, Floats, Form, Kind


def own_numbers(name: str, call: Callable[[], Any], size: int) -> Floats:
    """The values of a user's function for some objects, if it returns a number for each.

    Raises:
        FunctionError: it returns something else, or raises.
    """
    try:
        found = np.asarray(call())
        if found.shape == (size,) and found.dtype.kind in "fiu":
            return found.astype(np.float64)
    except Exception as error:
        raise FunctionError(f"raised {type(error).__name__}: {error}", where=name) from error
    what = f"returned {found.dtype} of shape {found.shape} for {size} objects"
    raise FunctionError(what, where=name, expected=f"numbers of shape ({size},)")


def no_nan(name: str, scores: Floats) -> Floats:
    """The same scores, of objects that were checked before, if none is NaN."""
    if np.isnan(scores).any():
        raise FunctionError(f"is NaN for {int(np.isnan(scores).sum())} of {scores.size} objects", where=name)
    return scores


ID = Column("id", Kind.ID)
IDS = Reading(Form([ID]), "ids")  # of calls that take ids alone


# The end of a hint about a column that is not known.
EXTRA = 'If you do not need it, leave it out, or make the engine with extra="ignore".'


class Part(Protocol):
    """A piece of an engine's state: some small values and some arrays."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Its small values and its arrays, not copied."""

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Take over what `state` returned."""


class Command(NamedTuple):
    """One call of an engine by name, as part of a batch."""

    call: str
    rows: Any


Refused: TypeAlias = Callable[[Command, InputError], None]
T = TypeVar("T")


class Engine(ABC):
    """The base class of all engines.

    A subclass describes itself in `spec` and `reads`, sets `calls` (the calls that a batch of commands may
    contain), `counters` and `known_tuning`, passes its settings as JSON values to `__init__`, and lists the
    parts of its state in `_parts`. Its public methods take turns automatically; each calls `_begin` after all
    checks and before any change.
    """

    spec: ClassVar[Spec]
    calls: ClassVar[tuple[str, ...]] = ("subscribe", "amend", "unsubscribe", "publish")
    counters: ClassVar[tuple[str, ...]] = ()
    known_tuning: ClassVar[dict[str, Any]] = {}
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)  # every method or index, the default first
    added_parts: ClassVar[frozenset[str]] = frozenset()  # that states of former versions have not: empty then
    added_counters: ClassVar[frozenset[str]] = frozenset()  # likewise: they begin at 0
    constant: ClassVar[tuple[str, ...]] = ()  # how names of arrays begin whose elements never change
    scores_move: ClassVar[bool] = False  # whether scores change without a delta

    def __init__(
        self, configuration: dict[str, Any], *, extra: str, tuning: Mapping[str, Any] | None
    ) -> None:
        self._turn = Turn()
        self._extra = schema.one_of("extra", extra, ["forbid", "ignore"])
        given = schema.tuning(tuning, self.known_tuning)
        self._tuning = {**self.known_tuning, **given}
        self._configuration = {**configuration, "extra": self._extra, "tuning": given}
        self._count = dict.fromkeys(("events", "candidates", "deltas", *self.counters), 0)

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        locking.wrap(cls)

    # What a subclass provides

    @property
    @abstractmethod
    def _subscriptions(self) -> Slots:
        """The live subscriptions."""

    def _parts(self) -> dict[str, Part]:
        """The parts of the state by name; names become prefixes of array names."""
        return {"subscription": self._subscriptions}

    def _check_restored(self) -> None:  # noqa: B027
        """Refuse parts that are valid each but do not fit together; see `integrity`."""

    def _complete(self) -> None:  # noqa: B027
        """Derive what a state of an older version lacks from its checked contents."""

    @classmethod
    def _configured(cls, configuration: dict[str, Any], **given: Any) -> Self:
        """An empty engine from the settings in a snapshot; `given` is what a snapshot cannot hold."""
        return cls(**configuration, **given)

    @abstractmethod
    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Apply several calls, in order, as one batch; returns the net answer.

        If a command is refused, this raises, and the earlier commands stay applied: only a batch of one
        command is atomic by itself. `rankcast.state.Shard` makes every batch atomic.

        With `refused`, the batch continues without the refused command; `refused` is called with its number
        and the error. Commands are taken one at a time, each after the previous one was applied or refused,
        so a generator can offer the good rows of a refused command next.

        >>> from rankcast import RangeTopK
        >>> engine = RangeTopK(k=1)
        >>> commands = [("subscribe", {"id": ["ada"]}), ("publish", {"id": [7, 8], "x": [1, 2], "y": [5, 3]})]
        >>> engine.apply(commands).select(["subscription", "op", "item"]).to_pylist()
        [{'subscription': 'ada', 'op': 'enter', 'item': 8}]
        """

    @locking.inside
    @abstractmethod
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and how errors name its rows."""

    @locking.inside
    def late(self, call: str, rows: pa.Table) -> Late | None:
        """Which rows of a call would come too late to count; None if none ever can.

        It may be called between two commands of a batch. Rows that the call would refuse are not judged.
        """
        return None

    @locking.call
    def clock(self) -> Clock | None:
        """The current time of its clock, which `advance` moves, and the next time at which something changes.

        None if it has no clock, if no time has come yet, or if nothing is due to change.
        """
        return None

    @locking.inside  # noqa: B027  most have nothing to refuse
    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse values in rows that would be lost in a conversion to an Arrow table."""

    # What every engine has

    @locking.inside
    def check_columns(self, call: str, columns: pa.Schema) -> tuple[Column, ...]:
        """The columns that a call takes, after checking those of a table without rows; calls no kernel.

        Raises:
            InputError: a column is missing, unknown or of a wrong type.
        """
        form, where = self.reads(call)
        try:
            read.check_columns(columns, form, where=where, extra=self._extra)
        except InputError as error:
            raise self._advised(error) from error.__cause__
        return tuple(form)

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __bool__(self) -> bool:
        return True  # also an engine without subscriptions is one

    def __repr__(self) -> str:
        return f"{written.call(self, self._configuration)}  # {self._counts()}"

    @property
    def in_doubt(self) -> bool:
        """Whether a change is half done: by another call at this moment, or for good.

        For good means: something interrupted a call in the middle of its change, and every call raises
        `InterruptedEngineError`.
        """
        return self._turn.changing

    @locking.call
    def stats(self) -> dict[str, Any]:
        """Counters since the start.

        >>> from rankcast import RangeTopK
        >>> engine = RangeTopK(k=1)
        >>> _ = engine.publish({"id": [7], "x": [1.0], "y": [5.0]})
        >>> engine.stats()["events"]
        1
        """
        return {name: int(count) for name, count in self._count.items()}  # kernels without JIT give NumPy's

    @locking.call
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The whole state: a small JSON header and named arrays (not copied)."""
        counters = {name: int(count) for name, count in self._count.items()}
        header: dict[str, Any] = {"settings": self._configuration, "counters": counters, "parts": {}}
        arrays: dict[str, NDArray[Any]] = {}
        for name, part in self._parts().items():
            header["parts"][name], mine = part.state()
            arrays |= {f"{name}.{array}": values for array, values in mine.items()}
        return header, arrays

    @classmethod
    def configured(cls, configuration: Mapping[str, Any], **given: Any) -> Self:
        """An empty engine with the settings of a state; `given` is what a state cannot hold."""
        return cls._configured(dict(configuration), **given)

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **given: Any) -> Self:
        """An engine that continues from a state; it takes over the arrays."""
        name = "settings"
        try:
            engine = cls.configured(_plain(header["settings"]), **given)
            name = "counters"
            counts = _plain(header["counters"])
            known = [each for each in engine._count if each not in cls.added_counters or each in counts]
            engine._count.update({each: integrity.whole(counts, each) for each in known})
            parts, name = engine._parts(), "arrays"
            integrity.need(_parts_of(arrays) <= parts.keys(), "arrays", "are of parts that are not known")
            for name, part in parts.items():
                if name in cls.added_parts and name not in _plain(header["parts"]):
                    continue
                prefix = f"{name}."
                mine = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
                part.restore(_plain(header["parts"])[name], mine)
            name = "all parts"
            if integrity.wanted():
                engine._check_restored()
            engine._complete()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SnapshotError) as error:
            told, more = f"{type(error).__name__}: {error}", {}
            if isinstance(error, RankcastError):
                told, more = error.what, {"detail": error.detail, "hint": error.hint}
            raise SnapshotError(f"the state does not fit {cls.__name__}: {name}: {told}", **more) from error
        return engine

    @locking.call
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to `path`, atomically: a kill leaves the old snapshot or the new one.

        >>> import tempfile
        >>> from rankcast import RangeTopK
        >>> engine, folder = RangeTopK(over="risk", by="pe", k=1), tempfile.mkdtemp()
        >>> _ = engine.publish({"id": ["ACME"], "risk": [3], "pe": [12.0]})
        >>> engine.save(folder)
        >>> RangeTopK.load(folder)
        RangeTopK(over='risk', by='pe', k=1)  # 0 subscriptions, 1 item
        """
        header, arrays = self._own("state")
        snapshot.write(path, kind=type(self).__name__, header=header, arrays=arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **given: Any) -> Self:
        """Read a saved engine; it continues exactly as the saved one would.

        The arrays are memory-mapped, copy on write: the snapshot itself never changes. Checksums are
        compared, and then every part checks its contents. Whoever wrote the snapshot, either this raises a
        `SnapshotError`, or no later call can crash on it or run for ever. Whether the contents are true
        cannot be checked.
        """
        saved = snapshot.read(path, kind=cls.__name__)
        return cls.restore(saved.header, saved.arrays, **given)

    # Helpers for subclasses

    def _counts(self) -> str:
        """How much the engine holds, as text for people."""
        return written.counts(subscriptions=len(self))

    def _accepted(
        self,
        commands: Iterable[Command | tuple[str, Any]],
        refused: Refused | None,
        run: Callable[[str, Any], T],
    ) -> list[T]:
        """What `run` returns for each command; refused commands are reported to `refused`, if given.

        A refused command leaves what was applied before it. Any other exception, once something was
        applied, leaves the engine in doubt, because the caller cannot know how much that was.
        A failing user's function does not refuse rows: it may not fail again in a replay.
        """
        turn, given = self._turn, iter(commands)
        found: list[T] = []
        while True:
            begun = turn.begun
            try:
                command = next(given, None)
                if command is None:
                    return found
                call, rows = command
                name = schema.one_of("call", call, self.calls)
                try:
                    found.append(run(name, rows))
                    begun, turn.changing = turn.begun, True
                except InputError as error:
                    if refused is None or isinstance(error, FunctionError) or turn.begun != begun:
                        raise
                    refused(Command(name, rows), error)
            except MemoryError:
                raise
            except Exception:
                if turn.begun == begun:
                    turn.changing = False
                raise

    def _begin(self) -> None:
        """All checks have passed and nothing has changed: from here on the call changes the engine."""
        self._turn.begin()

    def _own(self, call: str, *given: Any) -> Any:
        """Make a public call from inside another one."""
        turn = self._turn
        if not turn.owner:
            return getattr(self, call)(*given)
        turn.sealed, turn.own = False, True
        try:
            return getattr(self, call)(*given)
        finally:
            turn.sealed, turn.own = True, False

    def _read(self, rows: Any, columns: Iterable[Column], where: str) -> Batch:
        try:
            return read.read(rows, columns, where=where, extra=self._extra)
        except InputError as error:
            raise self._advised(error) from error.__cause__

    def _advised(self, error: InputError) -> InputError:
        """The same error; for an unknown column, with what to do: another call, or `extra`."""
        if error.column is None or not error.predicate.startswith("unknown column"):
            return error
        readings = [(call, self.reads(call)) for call in self.calls]
        takers = [
            call for call, (form, where) in readings if where != error.where and error.column in form.known
        ]
        hints = [error.hint] if error.hint else []
        if takers:
            hints.append(f'Rows with "{error.column}" are for {takers[0]}.')
        hints.append(EXTRA)
        advised = InputError(
            error.predicate, where=error.where, expected=error.expected, hint=" ".join(hints)
        )
        advised.column = error.column
        return advised

    def _find_one(self, slots: Slots, value: Any, where: str) -> int:
        """The row of one id, which must be live."""
        return int(slots.require(read.read_ids([value], where=where), where=where)[0])


def _plain(value: Any) -> Mapping[str, Any]:
    """An object of a header, which must be one."""
    integrity.need(isinstance(value, Mapping), "header", f"holds {value!r:.40}, expected an object")
    mapping: Mapping[str, Any] = value
    return mapping


def _parts_of(arrays: Iterable[str]) -> set[str]:
    """The names of the parts that arrays belong to."""
    return {name.partition(".")[0] for name in arrays}
