"""The table `[engine]`: an engine by name with its settings, and which columns it takes.

`name` is that of an engine of the package, or `"module:Class"` for the user's own. Settings are those
of the class, as TOML writes them, except those that its spec writes differently (`core.spec.Setting`):

| setting      | in the file                                                                      |
| ------------ | -------------------------------------------------------------------------------- |
| a duration   | a text, `window = "2 hours"`                                                     |
| a choice     | a table, `score = { name = "weighted_sum", weights = [1, 2] }`                   |
| a function   | a text, `score = "module:name"`                                                  |
| documents    | a Parquet file, `vocabulary = { path = "documents.parquet" }`                    |
| tables       | Parquet files, `graph = { edges = "edges.parquet", nodes = "nodes.parquet" }`     |

Importing `module:name` runs its code, so reading a file does not import it unless the file is trusted;
running an engine always does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rankcast.core.engine import Engine
from rankcast.core.spec import (
    UNSET,
    Input,
    Setting,
    Spec,
    answering,
    engine_type,
    known_names,
    name_of,
    reference_parts,
    resolve,
)
from rankcast.errors import InputError
from rankcast.pipeline.toml_reader import Table, duration_of, place_of
from rankcast.tables.schema import Column

_PLAIN = Setting()


@dataclass(frozen=True)
class Made:
    """An engine's class and settings, checked as far as they were imported.

    Attributes:
        kind: the name of the class.
        settings: its settings, without a function that was not imported.
        score: where executors find its function, if it has a user's function.
        table: where it is in the file.
        cls: the class; None if it is the user's own and was not imported.
    """

    kind: str
    settings: Mapping[str, Any]
    score: str | None
    table: Table
    cls: type[Engine] | None

    @property
    def spec(self) -> Spec:
        """What the class says of itself; it is imported, if need be."""
        found: Spec = self._class().spec
        return found

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Its inputs; it is imported, if need be."""
        return self.spec.inputs

    @property
    def scores_move(self) -> bool:
        """Whether scores change without a delta."""
        return bool(self._class().scores_move)

    @property
    def is_imported(self) -> bool:
        """Whether the class is known."""
        return self.cls is not None

    @property
    def is_whole(self) -> bool:
        """Whether everything was checked: no class or function of the user is left to import."""
        return self.is_imported and (self.score is None or self._function() in self.settings)

    @property
    def left_out(self) -> tuple[str, str]:
        """What was not imported, if anything: the setting and the reference."""
        return ("engine", self.kind) if not self.is_imported else (self._function(), str(self.score))

    def answering(self, output: str) -> Made:
        """The engine of the same settings that answers with an output of that name, checked.

        Raises:
            InputError: there is none, or not with these settings.
        """
        cls = answering(self._class(), output)
        found = replace(self, cls=cls, kind=name_of(cls))
        found.sample()
        return found

    def engine(self) -> Engine:
        """A new empty engine; imports the user's own code, which runs its module."""
        if not self.is_imported:
            return read(self.table, trust=True).engine()
        own = {} if self.is_whole else {self._function(): resolve(str(self.score), self._function())}
        made: Engine = self._class()(**self.settings, **own)
        return made

    def sample(self) -> Engine:
        """An engine that takes the same columns; runs no code that was not imported already."""
        made: Engine = self._class()(**self.settings)
        return made

    def known(self, of: Input, form: pa.Schema) -> tuple[Column, ...]:
        """The columns of an input that the engine takes.

        Raises:
            InputError: a column is missing, unknown or of a wrong type.
        """
        engine = self.sample() if self.is_imported else self.engine()
        return engine.check_columns(of.calls[0], form)

    def are_named(self, of: Input) -> bool:
        """Whether every call of an input takes rows with ids."""
        engine = self.sample() if self.is_imported else self.engine()
        return all("id" in engine.reads(call).form.known for call in of.calls)

    def _class(self) -> Any:
        return engine_type(self.kind) if self.cls is None else self.cls

    def _function(self) -> str:
        function = self.spec.function
        return "" if function is None else function.setting


def read(table: Table, *, trust: bool = False) -> Made:
    """Read the table `[engine]` and make the engine once; the user's own only with `trust`."""
    table.need("name", "the name of an engine")
    name = str(table.text("name"))
    own = ":" in name
    if own and not trust:
        _check_reference(table, "name", name)
        return Made(name, table.values, None, table, None)
    cls = _class_of(table, name)
    if cls.spec.undivided is not None:
        what = f"is {name}, which cannot run continuously on Spark"
        raise table.mistake("name", what, detail=cls.spec.undivided.detail, hint=cls.spec.undivided.hint)
    known = inspect.signature(cls).parameters
    Table(table.document, table.key, table.values, ["name", *known])
    special = cls.spec.settings
    functions = [key for key, each in special.items() if each.function]
    score = next((table.values[key] for key in functions if isinstance(table.values.get(key), str)), None)
    left_out = ["name"]
    if score is not None and not trust:
        left_out += functions
        _check_reference(table, functions[0], score)
    given = {
        key: _given(table, key, value, special.get(key, _PLAIN))
        for key, value in table.values.items()
        if key not in left_out
    }
    given |= {
        key: each.default for key, each in special.items() if each.default is not UNSET and key not in given
    }
    made = Made(name_of(cls), given, score, table, cls)
    try:
        made.sample()
    except InputError as error:
        raise fitted(table, given, error) from error
    except (TypeError, ValueError) as error:
        raise table.document.mistake(table.key, f"does not make a {name}: {error}") from error
    return made


def _class_of(table: Table, name: str) -> type[Engine]:
    """The class of a name; `module:Class` is imported."""
    if ":" not in name and name not in known_names():
        able = [each for each in known_names() if engine_type(each).spec.undivided is None]
        raise table.document.foreign((*table.key, "name"), name, able, word="engine")
    try:
        found = engine_type(name)
        name_of(found)
    except InputError as error:
        told = error.what.removeprefix("engine ")
        raise table.mistake("name", told, detail=error.detail, hint=error.hint) from error
    return found


def _check_reference(table: Table, key: str, reference: str) -> None:
    try:
        reference_parts(reference, key)
    except InputError as error:
        raise fitted(table, [key], error) from error


def fitted(table: Table, names: Iterable[str], error: InputError) -> Exception:
    """An engine's error, with the line of the setting that it names first."""
    first = error.where or error.what.split()[0]
    at = [first] if first in names else []
    told = error.what.removeprefix(f'"{first}": ').removeprefix(f"{first} ") if at else error.what
    return table.document.mistake((*table.key, *at), told, detail=error.detail, hint=error.hint)


def _given(table: Table, key: str, value: Any, setting: Setting) -> Any:
    """A setting as the class takes it."""
    if setting.duration and isinstance(value, str):
        return table.duration(key) if duration_of(value) is None else duration_of(value)
    if setting.function and isinstance(value, str):
        try:
            return resolve(value, key)
        except InputError as error:
            raise fitted(table, [key], error) from error
    if setting.choices is not None and isinstance(value, dict):
        return _chosen(table, key, setting)
    if setting.documents is not None:
        return _documents(table, key, setting)
    if setting.joined is not None:
        return _joined(table, key, setting)
    return value


def _chosen(table: Table, key: str, setting: Setting) -> Any:
    """A setting that a table names, with arguments."""
    choices = {} if setting.choices is None else setting.choices()
    inner = table.table(key, ("name", *setting.arguments))
    assert inner is not None  # noqa: S101
    inner.need("name", f"one of: {', '.join(sorted(choices))}")
    name = inner.one_of("name", sorted(choices))
    first, *others = setting.arguments
    given = {each: value for each, value in inner.values.items() if each in others}
    try:
        return choices[str(name)](inner.values.get(first), **given)
    except InputError as error:
        raise fitted(inner, inner.values, error) from error
    except (TypeError, ValueError) as error:
        raise inner.document.mistake(inner.key, f"makes no {key}: {error}") from error


def _documents(table: Table, key: str, setting: Setting) -> Any:
    """A setting that is made from documents in a Parquet file."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    inner = table.table(key, ("path",))
    assert inner is not None  # noqa: S101
    assert setting.documents is not None  # noqa: S101
    assert setting.column is not None  # noqa: S101
    column = setting.column(table.values)
    inner.need("path", f"a Parquet file of documents with a column {column}")
    path = place_of(str(inner.text("path")), table.document.path.parent)
    try:
        return setting.documents(pq.read_table(path, columns=[column]), table.values)
    except (OSError, pa.ArrowException, InputError) as error:
        raise inner.mistake("path", f"has no documents: {error}") from error


def _joined(table: Table, key: str, setting: Setting) -> Any:
    """A setting that is made from several Parquet files."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    inner = table.table(key, (*setting.tables, *setting.arguments))
    assert inner is not None  # noqa: S101
    assert setting.joined is not None  # noqa: S101
    given = {name: inner.values[name] for name in setting.arguments if name in inner.values}
    for name in setting.tables:
        inner.need(name, f"a Parquet file of {name}")
        path = place_of(str(inner.text(name)), table.document.path.parent)
        try:
            given[name] = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise inner.mistake(name, f"cannot be read: {error}") from error
    try:
        return setting.joined(**given)
    except InputError as error:
        raise fitted(inner, inner.values, error) from error
