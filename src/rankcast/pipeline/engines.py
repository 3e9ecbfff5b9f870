"""The table `[engine]`: an engine by name with its settings, and which columns it takes.

Settings are those of the class, as TOML writes them; besides:

| setting      | in the file                                                                      |
| ------------ | -------------------------------------------------------------------------------- |
| `window`     | a count, or a span of time: `"2 hours"`                                          |
| `score`      | `{ name = "weighted_sum", weights = [1, 2] }`, or a function: `"module:name"`    |
| `vocabulary` | `{ path = "documents.parquet" }`: documents with a column `terms`                |
| `nulls`      | of `RangeTopK`, "refuse" by default: a null is no wish to delete                  |

Importing `module:name` runs somebody's code, so a file is read without it unless it is trusted; for an engine
that is to run it is imported in any case.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import rankcast
from rankcast.core.engine import Engine
from rankcast.errors import InputError
from rankcast.pipeline.fields import Table, duration_of, place_of
from rankcast.spark import applying, references
from rankcast.spark.roles import ROLES, Role
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Column, Form, Kind

NAMES = (*ROLES, "CoveringTable")
_PLAIN = {
    Kind.ID: (pa.int64(), pa.int32(), pa.string()),
    Kind.NUMBER: (pa.float64(), pa.int64(), pa.int32()),
    Kind.COUNT: (pa.int64(), pa.int32()),
    Kind.TERMS: (pa.list_(pa.string()),),
    Kind.TIME: (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    Kind.WORD: (pa.string(),),
}
_SCORES = {"weighted_sum", "weighted_product", "weighted_distance", "waspas"}


@dataclass(frozen=True)
class Made:
    """An engine's class and settings, checked.

    Attributes:
        kind: the name of the class.
        settings: what it is made with, but for a score that was not imported.
        score: where executors find its scoring function, if it has one of its own.
    """

    kind: str
    settings: Mapping[str, Any]
    score: str | None

    @property
    def roles(self) -> tuple[Role, ...]:
        """Its inputs."""
        return ROLES[self.kind]

    @property
    def is_whole(self) -> bool:
        """Whether all of it was looked at: a score of one's own is there."""
        return self.score is None or "score" in self.settings

    def engine(self) -> Engine:
        """A new empty engine; a score of one's own is imported, which runs its module."""
        own = {} if self.is_whole else {"score": references.resolve(str(self.score))}
        made: Engine = getattr(rankcast, self.kind)(**self.settings, **own)
        return made

    def sample(self) -> Engine:
        """An engine that takes the same columns; runs no code but our own."""
        made: Engine = getattr(rankcast, self.kind)(**self.settings)
        return made

    def known(self, role: Role, form: pa.Schema) -> tuple[Column, ...]:
        """The columns of an input that the engine takes; no kernel is called.

        Raises:
            InputError: a column is missing, unknown or of a wrong type.
        """
        engine = self.sample()
        probe = _probing(type(engine))
        call = role.calls[0]
        engine.__class__ = probe
        try:
            none = pa.Table.from_arrays([pa.nulls(0, kind) for kind in form.types], schema=form)
            getattr(engine, call)(applying.passed(call, none))
        except _Seen as seen:
            return seen.columns
        raise AssertionError(f"{self.kind}.{call} reads no rows")


class _Seen(Exception):  # noqa: N818
    """The columns that a call reads."""

    def __init__(self, columns: Iterable[Column]) -> None:
        super().__init__()
        self.columns = tuple(columns)


def _probing(kind: type[Engine]) -> type[Engine]:
    """The same engine, but a call ends once it has looked at the columns it was given.

    Only columns of a type that is not plainly right are read: converting even an empty one imports pandas.
    """

    def read(self: Engine, rows: pa.Table, columns: Iterable[Column], where: str) -> Any:
        form = columns if isinstance(columns, Form) else Form(columns)
        layout = form.of_schema(rows.schema, where, self._extra)
        for place, column in (*layout.numbers, *layout.others):
            if rows.schema.types[place] not in _PLAIN[column.kind]:
                read_column(rows.column(place), column, where)
        raise _Seen(form)

    return type(kind.__name__, (kind,), {"_read": read})


def read(table: Table, *, trust: bool = False) -> Made:
    """Read the table `[engine]` and make the engine once; a function is imported only with `trust`."""
    table.need("name", "the name of an engine")
    name = table.text("name")
    if name == "CoveringTable":
        raise table.mistake(
            "name",
            "is CoveringTable, which cannot run continuously on Spark",
            detail="A router's table is one sequence of commands, which does not divide over shards.",
            hint="Use rankcast.spark.uncovered for boxes in bulk, or the engine itself in one process.",
        )
    if name not in ROLES:
        raise table.document.foreign((*table.key, "name"), str(name), ROLES, word="engine")
    kind = getattr(rankcast, name)
    settings = [each for each in inspect.signature(kind.__init__).parameters if each != "self"]
    Table(table.document, table.key, table.values, ["name", *settings])
    score = table.values.get("score")
    own = score if name == "MovingTopK" and isinstance(score, str) else None
    if own is not None and not trust:
        _check_reference(table, own)
    left_out = ("name",) if trust or own is None else ("name", "score")
    given = {key: _given(table, key, value) for key, value in table.values.items() if key not in left_out}
    if name == "RangeTopK":
        given.setdefault("nulls", "refuse")
    made = Made(name, given, own)
    try:
        made.sample()
    except InputError as error:
        raise fitted(table, given, error) from error
    except (TypeError, ValueError) as error:
        raise table.document.mistake(table.key, f"does not make a {name}: {error}") from error
    return made


def _check_reference(table: Table, reference: str) -> None:
    try:
        references.parts(reference)
    except InputError as error:
        raise fitted(table, ["score"], error) from error


def fitted(table: Table, names: Iterable[str], error: InputError) -> Exception:
    """An engine's error, at the place of the setting that it begins with."""
    first = error.where or error.what.split()[0]
    at = [first] if first in names else []
    told = error.what.removeprefix(f'"{first}": ').removeprefix(f"{first} ") if at else error.what
    return table.document.mistake((*table.key, *at), told, detail=error.detail, hint=error.hint)


def _given(table: Table, key: str, value: Any) -> Any:
    """A setting as the class takes it."""
    if key in ("window", "half_life") and isinstance(value, str):
        return table.duration(key) if duration_of(value) is None else duration_of(value)
    if key == "score" and isinstance(value, str) and table.values["name"] == "MovingTopK":
        try:
            return references.resolve(value)
        except InputError as error:
            raise fitted(table, [key], error) from error
    if key == "score" and isinstance(value, dict):
        return _score(table)
    if key == "vocabulary":
        return _vocabulary(table)
    return value


def _score(table: Table) -> Any:
    inner = table.table("score", ("name", "weights", "lam", "offset"))
    assert inner is not None  # noqa: S101
    inner.need("name", f"one of: {', '.join(sorted(_SCORES))}")
    name = inner.one_of("name", sorted(_SCORES))
    given = {key: value for key, value in inner.values.items() if key in ("lam", "offset")}
    try:
        return getattr(rankcast.moving.scoring, str(name))(inner.values.get("weights"), **given)
    except InputError as error:
        raise fitted(inner, inner.values, error) from error
    except (TypeError, ValueError) as error:
        raise inner.document.mistake(inner.key, f"makes no score: {error}") from error


def _vocabulary(table: Table) -> Any:
    import pyarrow.parquet as pq  # noqa: PLC0415

    inner = table.table("vocabulary", ("path",))
    assert inner is not None  # noqa: S101
    inner.need("path", "a Parquet file of documents with a column terms")
    path = place_of(str(inner.text("path")), table.document.path.parent)
    try:
        return rankcast.Vocabulary.fit(pq.read_table(path, columns=["terms"]))
    except (OSError, pa.ArrowException, InputError) as error:
        raise inner.mistake("path", f"has no documents: {error}") from error
