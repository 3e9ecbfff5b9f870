"""An engine describes itself: inputs, answers, how it is divided, how it is made from settings.

Each engine class has a `Spec` as its attribute `spec`. Whatever runs engines (Spark, shards, pipelines, the
laws) reads it and knows no engine by name. What depends on the settings is a method of the engine:
`Engine.reads` (the columns of a call) and `Engine.late` (rows that come too late).

Each shard of an engine gets all rows of some inputs and a part of the others (`Input.divided`). The output is
the union of their answers: no two shards answer for the same subscription (of matches: for the same event).

Engines have names: those of the package that of their class, all others `module:Class`, which `load` imports
where it is needed; nothing else is imported. `register` adds your own class
to the names that this process knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from rankcast.errors import InputError, SettingError, shown


def load(name: str) -> Any:
    """The object that "module:Name" names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def lazily(name: str) -> Callable[..., Any]:
    """What calls the object that "module:Name" names, which is imported when it is first called."""

    def call(*given: Any) -> Any:
        return load(name)(*given)

    return call


if TYPE_CHECKING:
    import pyarrow as pa

    from rankcast.core.engine import Engine
    from rankcast.tables.schema import Form

COMMANDS = ("subscribe", "amend", "unsubscribe")
UNSET: Any = object()

Settings: TypeAlias = Mapping[str, Any]
Axes: TypeAlias = tuple[tuple[str, float], ...]  # columns, and what a null in each means


@dataclass(frozen=True)
class Input:
    """One input of an engine.

    Attributes:
        name: `subscriptions`, `objects` or `events`.
        calls: the calls its rows stand for; the first is the meaning of a row without a command.
        divided: whether each row goes to one shard; otherwise every shard gets all rows.
        column: the output column that names its rows when they are refused.
        early: whether its rows of a batch are applied before those of other inputs. For objects of moving
            queries that changes no result, and lets all shards cut them into the same calls, whatever else
            they get; so all shards agree on which objects have changed.
        lasting: whether answers to later rows reflect its rows; matched events leave nothing behind.
        ids_of: the input whose ids its rows have, if they do not have their own.
    """

    name: str
    calls: tuple[str, ...]
    divided: bool
    column: str
    early: bool = False
    lasting: bool = True
    ids_of: str | None = None


def no_numbers(settings: Settings) -> tuple[str, ...]:
    """Answers have the same columns whatever the settings are."""
    return ()


@dataclass(frozen=True)
class Answer:
    """The answer to a batch.

    Attributes:
        kind: `deltas` of results that are kept; `matches` of events, each answered by itself and not kept;
            `actions` of a router; `tiles`, messages for gateways, one sequence over all batches.
        item: the column of the ids that are not those of subscriptions.
        source: the input that has these ids.
        numbers: by settings, further columns of numbers: those of tiles.
    """

    kind: Literal["deltas", "matches", "actions", "tiles"] = "deltas"
    item: str = "item"
    source: str = "events"
    numbers: Callable[[Settings], tuple[str, ...]] = no_numbers

    subscription = "subscription"


@dataclass(frozen=True)
class Undivided:
    """Why an engine cannot be divided over shards, and what to do instead."""

    detail: str
    hint: str


@dataclass(frozen=True)
class Setting:
    """How a setting is written in a file, if that differs from Python.

    Attributes:
        default: its default in a file, if that differs from Python's.
        duration: whether a text is a time span.
        changeable: whether an engine that holds rows may continue with another value, given the current and
            the new one, as its state has them; None: never.
        function: whether a text is a user's function, `module:name`.
        choices: by name, what makes the setting from a table `{ name = ..., ... }` ...
        arguments: ... whose first argument, if there is one, is positional, and the others are keywords.
        documents: makes the setting from a Parquet file, `{ path = ... }`, and all settings of the file ...
        column: ... which has this column, by those settings.
        tables: names of Parquet files, `{ edges = ..., nodes = ... }`, beside `arguments`, ...
        joined: ... from which, tables and then keyword arguments, this makes the setting.
    """

    default: Any = UNSET
    duration: bool = False
    changeable: Callable[[Any, Any], bool] | None = None
    function: bool = False
    choices: Callable[[], Mapping[str, Callable[..., Any]]] | None = None
    arguments: tuple[str, ...] = ()
    documents: Callable[[Any, Mapping[str, Any]], Any] | None = None
    column: Callable[[Mapping[str, Any]], str] | None = None
    tables: tuple[str, ...] = ()
    joined: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Function:
    """A user's function that an engine calls, and that no state can hold.

    Attributes:
        setting: the setting for it, also of `restore`.
        held: the function of an engine as it was set, None if it needs none.
        described: what a state says about one, to compare two; never called with None.
        bound: its form for shards, which must agree on what is refused.
        plain: the Python function inside, which has a name.
        otherwise: what an engine without one has, in words.
    """

    setting: str
    held: Callable[[Any], Any]
    described: Callable[[Any], Any]
    bound: Callable[[Any], Any]
    plain: Callable[[Any], Any]
    otherwise: str


class Tiler(Protocol):
    """Makes messages for receivers that keep their own lists, beside an engine and independent of it.

    It is made from an engine, and from then on gets the same batches as the engine. It turns them into
    messages for `rankcast.Gateway`.
    """

    def apply(self, commands: Iterable[tuple[str, Any]]) -> pa.Table:
        """The messages of a batch, in sending order."""

    def lists(self, rows: list[dict[str, Any]]) -> pa.Table:
        """The current lists of unregistered subscriptions.

        Raises:
            InputError: rows are wrong, or there are no tiles with these settings.
        """


def no_axes(settings: Settings) -> Axes:
    """Subscriptions have no place."""
    return ()


@dataclass(frozen=True)
class Spec:
    """The description of an engine class.

    Attributes:
        inputs: in the order in which they are applied at the same position of a sequence.
        answer: the output.
        undivided: why it cannot be divided over shards; None: it can.
        axes: by settings, the columns with the place of a subscription, if a table of them may be divided by
            place; otherwise they are divided by a hash of their ids.
        settings: those that files write differently.
        function: a user's function.
        title: what it is for, in a few words.
        copying: as `module:name`, what gives new rows of an engine the values of subscriptions of another;
            None: they are columns of its slots, and copied one by one.
        tiler: makes messages for gateways, from an engine; None: there are no such messages. With a
            second argument, `"sparse"`, those that the engine's own subscriptions need.
        tiles: as `module:Class`, the engine that answers batches with such messages itself; it is made with
            the same settings.
    """

    inputs: tuple[Input, ...]
    answer: Answer = Answer()
    undivided: Undivided | None = None
    axes: Callable[[Settings], Axes] = no_axes
    settings: Mapping[str, Setting] = field(default_factory=dict)
    function: Function | None = None
    title: str = ""
    copying: str | None = None
    tiler: Callable[..., Tiler] | None = None
    tiles: str | None = None

    def input(self, name: str) -> Input:
        """One of its inputs."""
        return next(each for each in self.inputs if each.name == name)

    @property
    def is_alone(self) -> bool:
        """Whether one shard has all of it: no input is divided."""
        return not any(each.divided for each in self.inputs)


class Reading(NamedTuple):
    """The columns that a call takes, and how errors name its rows."""

    form: Form
    where: str


class Clock(NamedTuple):
    """The time of an engine, and when the next item leaves by itself: nanoseconds since 1970."""

    now: int
    due: int


class Late(NamedTuple):
    """Rows of a call that come too late to count, and the message about them."""

    rows: list[int]
    reason: InputError


SUBSCRIPTIONS = Input("subscriptions", COMMANDS, True, "subscription")
LISTS = Spec((SUBSCRIPTIONS, Input("events", ("publish",), False, "item")))


# Names

ENGINES = {
    "range_topk": "rankcast.range_topk.engine:RangeTopK",
    "covering": "rankcast.covering.engine:CoveringTable",
    "matching": "rankcast.matching.engine:RankedMatcher",
    "geotext": "rankcast.geotext.engine:GeoTextTopK",
    "moving_topk": "rankcast.moving.topk:MovingTopK",
    "moving_skyline": "rankcast.moving.skyline:MovingSkyline",
}
_HOMES = {home.partition(":")[2]: home for home in ENGINES.values()}
_REGISTERED: dict[str, type[Engine]] = {}


def register(cls: type[Engine]) -> type[Engine]:
    """Make an engine class known in this process by its plain name; may be used as a decorator.

    Other processes still find it as `module:Class`.
    """
    known = _HOMES.get(cls.__name__)
    if known is not None and known != _home_of(cls):
        raise SettingError(f"an engine of the package is called {cls.__name__}", expected="another name")
    _REGISTERED[cls.__name__] = cls
    return cls


def known_names() -> tuple[str, ...]:
    """The names of all engines of the package, and of registered ones."""
    return (*_HOMES, *(name for name in _REGISTERED if name not in _HOMES))


def known_types() -> Iterator[type[Engine]]:
    """All engines of the package, and registered ones."""
    return map(engine_type, known_names())


def engine_type(name: str) -> type[Engine]:
    """The class of an engine by its name; `module:Class` is imported.

    Raises:
        InputError: it does not exist, or is not an engine.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in _HOMES and ":" not in name:
        raise InputError.unknown(name, known_names(), where="engine", word="engine")
    found = resolve(_HOMES.get(name, name), "engine")
    if not isinstance(found, type) or not isinstance(getattr(found, "spec", None), Spec):
        expected = "a class derived from rankcast.core.engine.Engine that has a spec"
        raise InputError(f"engine is {shown(name)}", expected=expected)
    return found


def name_of(cls: type[Engine]) -> str:
    """The name by which any process finds an engine class.

    Raises:
        InputError: it is not an engine, or no other process can import it.
    """
    if not isinstance(getattr(cls, "spec", None), Spec):
        raise InputError(f"engine is {cls.__name__}", expected=f"one of: {', '.join(known_names())}")
    home = _home_of(cls)
    if _HOMES.get(cls.__name__) == home:
        return cls.__name__
    if cls.__module__ == "__main__" or "<" in home or resolve(home, "engine") is not cls:
        raise InputError(
            f"engine is {cls.__name__}, a class that other processes cannot import",
            hint="Put it at the top of a module that is on the Python path of all of them.",
        )
    return home


def divided_spec(cls: type[Engine]) -> Spec:
    """The spec of an engine that is to be divided over shards.

    Raises:
        InputError: it cannot be.
    """
    name_of(cls)
    undivided = cls.spec.undivided
    if undivided is not None:
        raise InputError(
            f"{cls.__name__} cannot run continuously on Spark", detail=undivided.detail, hint=undivided.hint
        )
    return cls.spec


OUTPUTS = ("tiles",)


def answering(cls: type[Engine], output: str | None) -> type[Engine]:
    """The class that answers like `cls`, or instead, with the same settings, with an output of that name.

    Raises:
        SettingError: there is no such output.
    """
    if output is None:
        return cls
    if output not in OUTPUTS:
        raise SettingError(f"output is {shown(output)}", expected=" or ".join((*OUTPUTS, "nothing")))
    if cls.spec.answer.kind == output:
        return cls
    if cls.spec.tiles is None:
        raise SettingError(f'output is "{output}", but {cls.__name__} has none', expected="nothing")
    found: type[Engine] = load(cls.spec.tiles)
    return found


def _home_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def any_other(before: Any, after: Any) -> bool:
    """A setting that may have any other value."""
    return True


def larger(before: Any, after: Any) -> bool:
    """A setting that may grow: a number, or a time span as a state has it."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(before[name] < after[name] for name in before)
    return isinstance(before, int | float) and isinstance(after, int | float) and before < after


ALWAYS_CHANGEABLE = ("k", "max_k", "extra", "tuning")


def changed_settings(cls: type[Engine], before: Settings, after: Settings) -> tuple[str, ...]:
    """The settings in which two engines of a class differ, as their states have them.

    Raises:
        SettingError: an engine that holds rows cannot continue with such a change.
    """
    changed = tuple(
        name for name in sorted({*before, *after}) if before.get(name, UNSET) != after.get(name, UNSET)
    )
    may = {name: each.changeable for name, each in cls.spec.settings.items() if each.changeable is not None}
    for name in changed:
        test = any_other if name in ALWAYS_CHANGEABLE else may.get(name)
        if test is None or not test(before.get(name), after.get(name)):
            raise SettingError(
                f"{name} of {cls.__name__} cannot change from {shown(before.get(name))} to "
                f"{shown(after.get(name))} in a stream that goes on",
                expected=f"at most other values of: {', '.join(sorted({*ALWAYS_CHANGEABLE, *may}))}",
                hint="Begin anew, from history, with a new state and checkpoint.",
            )
    return changed


# References: `module:name`, imported wherever it is needed, never shipped as code


def reference_parts(reference: str, what: str) -> tuple[str, list[str]]:
    """The module and the names of `module:name`; nothing is imported.

    Raises:
        InputError: it is no such text; `what` it is comes first.
    """
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise InputError(f"{what} is {shown(reference)}", expected='"module:name"')
    return module, name.split(".")


def resolve(reference: str, what: str) -> Any:
    """What `module:name` refers to; a name may have dots.

    Raises:
        InputError: there is no such module or name here; `what` it is comes first.
    """
    module, names = reference_parts(reference, what)
    try:
        found: Any = import_module(module)
        for part in names:
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{what} {shown(reference)} cannot be imported",
            detail=f"{error}.",
            hint="The module must be installed, or on the Python path, of the driver and of every executor.",
        ) from error
    return found


def given_of(cls: type[Engine], reference: str | None) -> dict[str, Any]:
    """What an engine needs besides its state: a user's function, found by name."""
    function = cls.spec.function
    if reference is None or function is None:
        return {}
    return {function.setting: function.bound(resolve(reference, function.setting))}


def reference_of(engine: Engine, given: str | None) -> str | None:
    """The name under which other processes find the function of an engine; None if they need none.

    Args:
        engine: the engine.
        given: the name, if the user gave one.
    """
    function = type(engine).spec.function
    held = None if function is None else function.held(engine)
    if function is None or held is None:
        if given is not None:
            has = f"{type(engine).__name__} takes none" if function is None else function.otherwise
            word = "score" if function is None else function.setting
            raise SettingError(f"{word} names a function, but {has}")
        return None
    name = given or _own_name(function.plain(held), function.setting)
    if name is None:
        raise SettingError(
            f"the engine's {function.setting} is a function that executors cannot import",
            hint=f'Put it into a module and pass {function.setting}="module:name".',
        )
    found, mine = function.described(resolve(name, function.setting)), function.described(held)
    if found != mine:
        raise SettingError(f"{function.setting} {name!r} is {found}, the engine has {mine}")
    return name


def _own_name(f: Any, what: str) -> str | None:
    """The name of a function at the top of an importable module."""
    module, name = getattr(f, "__module__", None), getattr(f, "__qualname__", "<")
    if module in (None, "__main__", "builtins") or "<" in name:
        return None
    try:
        return f"{module}:{name}" if resolve(f"{module}:{name}", what) is f else None
    except InputError:
        return None
