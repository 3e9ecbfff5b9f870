"""A network experiment in one TOML file, read and checked before anything is drawn.

    network = "content"                     # or "acyclic", "lossy"
    seed = 7
    out = "out/network"                     # a directory, from where the command is run

    [topology]
    kind = "power-law"                      # internet, power-law, tree, ring
    nodes = 2000
    brokers = 100

    [workload]
    objects = 1000
    subscriptions = [10000, 50000]          # one number, or several to compare
    events = 200
    k = [1, 5, 10]
    kind = "uniform"                        # or clustered
    over = ["x"]
    one_sided = []                          # attributes of `over` without lower ends

    [content]
    methods = ["unicast", "relax", "dense", "sparse", "sparse(1)"]
    split = "midpoint"                      # or balanced
    servers = 1                             # more share the objects along the diagonal

    [acyclic]
    gone = 0.25                             # share of subscriptions that go again

    [lossy]
    loss = [0, 0.01, 0.1]                   # shares of messages that are lost
    doubled = 0.01                          # that come twice
    late = 0.01                             # that come after those of the next batch
    fail = 0.005                            # of brokers that fail in a batch
    down = 5                                # batches until they come back
    signs = 10                              # batches from one sign of life to the next
    batch = 10                              # events in a batch
    come = 0.1                              # of events: new objects, objects that go, that move
    go = 0.1
    move = 0.3

    [check]
    listeners = 1000                        # at most so many subscribers are checked at the end

Every key may be left out; these are its defaults, but for `subscriptions` (50000), `k` (10), `out` and
`listeners` (all). Boxes have no dense tiles: with several attributes the default has no `dense`.

A check takes the name and the value of a key and returns the value in its plain form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rankcast.errors import InputError, SettingError, shown
from rankcast.papers.network import topology, zones
from rankcast.papers.network.traffic import Method, method
from rankcast.tables import schema

MOST = 2**31 - 1

Check: TypeAlias = Callable[[str, Any], Any]


def word(known: tuple[str, ...]) -> Check:
    """A word from a list."""
    return lambda name, value: schema.one_of(name, value, known)


def count(least: int = 1) -> Check:
    """A whole number from `least`."""
    return lambda name, value: whole(name, value, least)


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at most 31 bits; one that is too large is told so."""
    if isinstance(value, int) and value > MOST:
        raise SettingError(f"{name} is {value}", expected=f"a whole number from {least} to {MOST}")
    return schema.whole(name, value, least=least)


def seed(name: str, value: Any) -> int:
    """Any whole number from 0, as generators take it."""
    if isinstance(value, int) and value > MOST:
        return value
    return schema.whole(name, value, least=0)


def limit(name: str, value: Any) -> int | None:
    """A whole number, or none."""
    return None if value is None else whole(name, value)


def share(name: str, value: Any) -> float:
    """A share below 1."""
    share = schema.number(name, value, low=0, high=1)
    if share == 1:
        raise SettingError(
            f"{name} is {value}", expected="a share below 1, so that somebody is there to tell"
        )
    return share


def names(name: str, value: Any) -> list[str]:
    """Names of attributes, perhaps none."""
    return [] if value == [] else schema.attributes(name, value, reserved=("id", "y"))


def counts(name: str, value: Any) -> list[int]:
    """One whole number or several, in rising order, each once."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise SettingError(f"{name} is empty", expected="a whole number, or several")
    return sorted({whole(name, each) for each in given})


def methods(name: str, value: Any) -> list[Method]:
    """One method or several, each once."""
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(each, str) for each in given):
        raise SettingError(f"{name} is {shown(value)}", expected="names of methods")
    return [method(each) for each in dict.fromkeys(given)]


def path(name: str, value: Any) -> Path:
    """A directory."""
    if not isinstance(value, str) or not value:
        raise SettingError(f"{name} is {shown(value)}", expected="a directory")
    return Path(value)


def shares(name: str, value: Any) -> list[float]:
    """One share below 1 or several, in rising order, each once."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise SettingError(f"{name} is empty", expected="a share below 1, or several")
    return sorted({share(name, each) for each in given})


class Weather(NamedTuple):
    """What becomes of messages and brokers, and of objects: shares, and numbers of batches and events."""

    loss: float
    doubled: float
    late: float
    fail: float
    down: int
    signs: int
    batch: int
    come: float
    go: float
    move: float


NETWORKS = ("content", "acyclic", "lossy")
METHODS = ["unicast", "relax", "dense", "sparse", "sparse(1)"]


@dataclass(frozen=True)
class Experiment:
    """What a file asks for."""

    network: str
    seed: int
    out: Path
    kind: str
    nodes: int
    brokers: int
    objects: int
    subscriptions: list[int]
    events: int
    k: list[int]
    workload: str
    over: list[str]
    one_sided: list[str]
    methods: list[Method]
    split: str
    servers: int
    gone: float
    loss: list[float]
    doubled: float
    late: float
    fail: float
    down: int
    signs: int
    batch: int
    come: float
    go: float
    move: float
    listeners: int | None

    def weather(self, loss: float) -> Weather:
        """What happens at one share of loss."""
        return Weather(loss, *(getattr(self, name) for name in Weather._fields[1:]))

    @property
    def has_dense(self) -> bool:
        """Whether dense tiles are possible: one attribute, or a second one that is bounded on one side."""
        return len(self.over) == 1 or (len(self.over) == 2 and self.over[1] in self.one_sided)


# Keys by section: the field of `Experiment`, the default, the check.
KEYS: dict[str, dict[str, tuple[str, Any, Check]]] = {
    "": {
        "network": ("network", "content", word(NETWORKS)),
        "seed": ("seed", 7, seed),
        "out": ("out", "", path),
    },
    "topology": {
        "kind": ("kind", "power-law", word(topology.KINDS)),
        "nodes": ("nodes", 2_000, count()),
        "brokers": ("brokers", 100, count()),
    },
    "workload": {
        "objects": ("objects", 1_000, count()),
        "subscriptions": ("subscriptions", 50_000, counts),
        "events": ("events", 200, count()),
        "k": ("k", 10, counts),
        "kind": ("workload", "uniform", word(topology.WORKLOAD_KINDS)),
        "over": (
            "over",
            ["x"],
            lambda name, value: schema.attributes(name, value, most=3, reserved=("id", "y")),
        ),
        "one_sided": ("one_sided", [], names),
    },
    "content": {
        "methods": ("methods", METHODS, methods),
        "split": ("split", "midpoint", word(zones.SPLITS)),
        "servers": ("servers", 1, count()),
    },
    "acyclic": {
        "gone": ("gone", 0.25, share),
    },
    "lossy": {
        "loss": ("loss", [0.0, 0.01, 0.1], shares),
        "doubled": ("doubled", 0.01, share),
        "late": ("late", 0.01, share),
        "fail": ("fail", 0.005, share),
        "down": ("down", 5, count()),
        "signs": ("signs", 10, count()),
        "batch": ("batch", 10, count()),
        "come": ("come", 0.1, share),
        "go": ("go", 0.1, share),
        "move": ("move", 0.3, share),
    },
    "check": {"listeners": ("listeners", None, limit)},
}


def read(path: Path) -> Experiment:
    """Read a file.

    Raises:
        SettingError: no TOML, an unknown key or section (the nearest known one is named), a bad value.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is no TOML file: {error}") from None
    return experiment(given, default_out=f"out/{path.stem}", where=str(path))


def experiment(given: Mapping[str, Any], *, default_out: str, where: str = "experiment") -> Experiment:
    """Check what a file has said: every value by itself, then whether they fit together."""
    for name, value in given.items():
        _require_known(name, value, where)
    fields: dict[str, Any] = {}
    for section, keys in KEYS.items():
        values = given.get(section, {}) if section else {"out": default_out, **given}
        place = f"{where} [{section}]" if section else where
        for name in values:
            if name not in keys and (section or name not in KEYS):
                raise SettingError.unknown(name, keys, where=place)
        for name, (field, default, check) in keys.items():
            fields[field] = _checked(check, name, values.get(name, default), place)
    made = Experiment(**fields)
    if "methods" not in given.get("content", {}) and not made.has_dense:
        made = replace(made, methods=[each for each in made.methods if each.asks != "dense"])
    _require_fitting(made, where)
    return made


def _require_known(name: str, value: Any, where: str) -> None:
    """Refuse an unknown key or section, a section that is given as a value, and the other way round."""
    if name in KEYS[""]:
        if isinstance(value, Mapping):
            raise SettingError(f"{name} is a section", where=where, expected=f"a value: {name} = ...")
    elif not name or name not in KEYS:
        raise SettingError.unknown(name, [*KEYS[""], *filter(None, KEYS)], where=where)
    elif not isinstance(value, Mapping):
        raise SettingError(f"{name} is no section", where=where, expected=f"one section [{name}]")


def _require_fitting(experiment: Experiment, where: str) -> None:
    """Refuse values that do not fit together, before anything is drawn."""

    def refuse(section: str, what: str, expected: str) -> None:
        raise SettingError(what, where=f"{where} [{section}]", expected=expected)

    _checked(
        lambda _, nodes: topology.enough_nodes(experiment.kind, nodes),
        "nodes",
        experiment.nodes,
        f"{where} [topology]",
    )
    if experiment.brokers > experiment.nodes:
        refuse("topology", f"brokers is {experiment.brokers}", "at most nodes")
    for name in experiment.one_sided:
        if name not in experiment.over:
            refuse(
                "workload", f'one_sided names "{name}"', f"attributes of over: {', '.join(experiment.over)}"
            )
    if experiment.come + experiment.go + experiment.move > 1:
        refuse("lossy", "come, go and move are more than 1 together", "shares of all events")
    if experiment.network != "content":
        return
    for each in experiment.methods:
        if each.asks == "dense" and not experiment.has_dense:
            one = "one attribute in over, or two and the second in one_sided"
            refuse("content", f'methods has "{each.name}", which is not for boxes', one)
    if experiment.servers > experiment.objects:
        refuse("content", f"servers is {experiment.servers}", f"at most the {experiment.objects} objects")
    if experiment.servers > 1 and len(experiment.over) > 1:
        refuse("content", f"servers is {experiment.servers}", "1, as over has several attributes")


def _checked(check: Check, name: str, value: Any, place: str) -> Any:
    """Check one value; a mistake also says where it stands."""
    try:
        return check(name, value)
    except InputError as mistake:
        raise SettingError(f"{place}: {mistake}") from None
