"""A network experiment in one TOML file, read and checked before anything is drawn.

    network = "content"                     # or "acyclic"
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

    [content]
    methods = ["unicast", "relax", "dense", "sparse", "sparse(1)"]
    split = "midpoint"                      # or balanced
    servers = 1                             # more share the objects along the diagonal

    [acyclic]
    gone = 0.25                             # share of subscriptions that go again

    [check]
    listeners = 1000                        # subscriptions whose lists are followed and compared

Every key may be left out; these are its defaults, but for `subscriptions` (50000), `k` (10) and `out`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankcast import settings
from rankcast.errors import InputError, SettingError
from rankcast.network import topology, workload, zones
from rankcast.network.traffic import Method, method

NETWORKS = ("content", "acyclic")
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
    methods: list[Method]
    split: str
    servers: int
    gone: float
    listeners: int


Check = Callable[[str, Any], Any]


def _word(known: tuple[str, ...]) -> Check:
    return lambda name, value: settings.one_of(name, value, known)


def _count(least: int = 1) -> Check:
    return lambda name, value: settings.whole(name, value, least=least)


def _counts(name: str, value: Any) -> list[int]:
    """One whole number or several, in rising order, each once."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise SettingError(f"{name} is empty", expected="a whole number, or several")
    return sorted({settings.whole(name, each) for each in given})


def _methods(name: str, value: Any) -> list[Method]:
    given = value if isinstance(value, list) else [value]
    if not given or not all(isinstance(each, str) for each in given):
        raise SettingError(f"{name} is {value!r}", expected="names of methods")
    return [method(each) for each in dict.fromkeys(given)]


def _path(name: str, value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise SettingError(f"{name} is {value!r}", expected="a directory")
    return Path(value)


# Keys by section: the field of `Experiment`, the default, the check.
KEYS: dict[str, dict[str, tuple[str, Any, Check]]] = {
    "": {
        "network": ("network", "content", _word(NETWORKS)),
        "seed": ("seed", 7, _count(0)),
        "out": ("out", "", _path),
    },
    "topology": {
        "kind": ("kind", "power-law", _word(topology.KINDS)),
        "nodes": ("nodes", 2_000, _count()),
        "brokers": ("brokers", 100, _count()),
    },
    "workload": {
        "objects": ("objects", 1_000, _count()),
        "subscriptions": ("subscriptions", 50_000, _counts),
        "events": ("events", 200, _count()),
        "k": ("k", 10, _counts),
        "kind": ("workload", "uniform", _word(workload.KINDS)),
        "over": (
            "over",
            ["x"],
            lambda name, value: settings.attributes(name, value, most=3, reserved=("id", "y")),
        ),
    },
    "content": {
        "methods": ("methods", METHODS, _methods),
        "split": ("split", "midpoint", _word(zones.SPLITS)),
        "servers": ("servers", 1, _count()),
    },
    "acyclic": {
        "gone": ("gone", 0.25, lambda name, value: settings.number(name, value, low=0, high=1)),
    },
    "check": {"listeners": ("listeners", 1_000, _count())},
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
    """Check what a file has said."""
    sections = {name: value for name, value in given.items() if isinstance(value, Mapping)}
    plain = {name: value for name, value in given.items() if name not in sections}
    known = [*KEYS[""], *filter(None, KEYS)]
    for name in given:
        if name not in (KEYS if name in sections else KEYS[""]):
            raise SettingError.unknown(name, known, where=where)
    fields: dict[str, Any] = {}
    for section, keys in KEYS.items():
        told = sections.get(section, {}) if section else {"out": default_out, **plain}
        place = f"{where} [{section}]" if section else where
        for name in told:
            if name not in keys:
                raise SettingError.unknown(name, keys, where=place)
        for name, (field, default, check) in keys.items():
            fields[field] = _checked(check, name, told.get(name, default), place)
    if fields["brokers"] > fields["nodes"]:
        raise SettingError(
            f"brokers is {fields['brokers']}", where=f"{where} [topology]", expected="at most nodes"
        )
    return Experiment(**fields)


def _checked(check: Check, name: str, value: Any, place: str) -> Any:
    """Check one value; a mistake also says where it stands."""
    try:
        return check(name, value)
    except InputError as mistake:
        raise SettingError(f"{place}: {mistake}") from None
