"""Snapshots that somebody crafted: sealed as they should be, but with contents that no engine has written.

`case(subject, seed)` is one of them: an engine after some calls, whose arrays or header are changed in a few
places before they are sealed again. `judge` loads it and goes on with every call there is. Allowed are a
`SnapshotError` at loading, or answers and errors of the package; whatever else comes is a fault.

`python -m tests.state.crafted [--seconds S] [--first SEED] [subject ...]` searches until the time is over
and prints the faults it finds as `subject seed: what happened`. Each case runs in a process forked for it, so
that a crash or a call without end is seen and costs nobody else.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.core import contract, snapshot
from rankcast.core.contract import Subject
from rankcast.core.engine import Engine
from rankcast.errors import RankcastError, SnapshotError

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
SUBJECTS = {str(subject): subject for subject in contract.subjects()}
LIMIT = 20  # seconds of the processor that one case may take; by the clock ten times as many
WORDS = ["coffee", "tea", "jazz", "rain", "sun", "bus", "tram", "park", "été", "雨"]
Rows = dict[str, list[Any]]
Rng = np.random.Generator


# Engines with something in them


class Play:
    """Calls for one engine: everything follows from the generator of numbers."""

    def __init__(self, subject: Subject, rng: Rng) -> None:
        self.subject, self.rng = subject, rng
        self.text = bool(rng.integers(2))
        self.item_text = bool(rng.integers(2))
        self.live: list[int] = []
        self.items: list[int] = []
        self.next = self.next_item = 0
        self.size = int(rng.choice([3, 12, 60, 250], p=[0.2, 0.3, 0.4, 0.1]))
        self.size = min(self.size, 12) if "scan" in subject.variant.values() else self.size
        self.settings: dict[str, Any] = getattr(self, f"_settings_{subject.family}")()
        self.over = self.settings.get("over", [])
        self.over = [self.over] if isinstance(self.over, str) else self.over

    def engine(self) -> Engine:
        """The engine after a few calls."""
        engine = self.subject.make(copy.deepcopy(self.settings))
        for _ in range(int(self.rng.integers(1, 5))):
            self.some(engine, None)
        return engine

    def name(self, number: int) -> Any:
        return f"s{number}-é" if self.text else 7 * number - 20

    def item(self, number: int) -> Any:
        return f"o{number}" if self.item_text else 3 * number - 9

    def some(self, engine: Any, heard: Callable[[str], None] | None) -> None:
        """Every kind of call once; with `heard`, errors of the package are passed over."""
        calls = {"subscribe", "publish", "amend", "publish again", "unsubscribe"}
        calls |= {"upsert", "remove"} if hasattr(engine, "upsert") else set()
        calls |= {"rescore"} if hasattr(engine, "rescore") else set()
        order = [
            "upsert",
            "subscribe",
            "publish",
            "amend",
            "rescore",
            "remove",
            "unsubscribe",
            "publish again",
        ]
        for call in order:
            if call not in calls:
                continue
            rows = getattr(self, "_" + call.split()[0])()
            if rows is None:
                continue
            plain = call.split()[0]
            if heard is None:
                getattr(engine, plain)(rows)
            else:
                heard(plain)
                with suppress(RankcastError):
                    getattr(engine, plain)(rows)

    def every(self, engine: Any, heard: Callable[[str], None], folder: Path) -> None:
        """All calls on an engine that was loaded, twice, and what only asks in between."""
        for _ in range(2):
            self.ask(engine, heard)
            self.some(engine, heard)
        self.ask(engine, heard)
        everybody = [self.name(number) for number in self.live]
        for one in everybody:
            heard("unsubscribe one")
            with suppress(RankcastError):
                engine.unsubscribe([one])
        if hasattr(engine, "remove"):
            for number in self.items:
                heard("remove one")
                with suppress(RankcastError):
                    engine.remove([self.item(number)])
        self.some(engine, heard)
        heard("save")
        engine.save(folder / "again")

    def ask(self, engine: Any, heard: Callable[[str], None]) -> None:
        """What changes nothing."""
        some = self.name(self.live[int(self.rng.integers(len(self.live)))]) if self.live else self.name(0)
        item = self.item(self.items[int(self.rng.integers(len(self.items)))]) if self.items else self.item(0)
        asked: list[tuple[str, tuple[Any, ...]]] = [
            ("results", ()),
            ("results", ([some],)),
            ("stats", ()),
            ("__len__", ()),
            ("__repr__", ()),
            ("forwarded", ()),
            ("zone", (some,)),
            ("explain", (some, item)),
            ("explain", (some,)),
            ("snapshot_of", (some,)),
        ]
        for call, arguments in asked:
            if hasattr(engine, call):
                heard(call)
                try:
                    getattr(engine, call)(*arguments)
                except (RankcastError, TypeError) as error:
                    if isinstance(error, TypeError) and "argument" not in str(error):
                        raise

    # Settings by family

    def _pick(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def _settings_range_topk(self) -> dict[str, Any]:
        over = self._pick(["x"], ["x"], ["x", "z"], ["x", "z", "w"])
        return {"over": over, "k": self._pick(1, 3, 10), "order": self._pick("asc", "desc")}

    def _settings_covering(self) -> dict[str, Any]:
        return {"over": self._pick(["x"], ["x", "y"], ["x", "y", "z"])}

    def _settings_matching(self) -> dict[str, Any]:
        over = self._pick(["x"], ["x", "y"], ["x", "y", "z"])
        tuning = {"threads": 1, "branching": self._pick(3, 50)}
        mode = self._pick("exact", "relaxed")
        settings = {"over": over, "k": self._pick(1, 3, 20), "mode": mode, "tuning": tuning}
        if self.rng.random() < 0.5:  # with sets, groups and owners
            more = {"over": [*over, "job"], "categories": {"job": self._pick(None, {"b": "a", "c": "a"})}}
            return {**settings, **more, "per_owner": self._pick(1, 2), "errors": "normal"}
        return settings

    def _settings_geotext(self) -> dict[str, Any]:
        settings = {"bounds": (0, 0, 40, 40), "k": self._pick(1, 3, 8), "window": self._pick(5, 40, 200)}
        settings |= {} if self.rng.random() < 0.7 else {"per_source": self._pick(1, 2)}
        return settings | ({} if self.rng.random() < 0.7 else {"distinct": True})

    def _settings_moving_topk(self) -> dict[str, Any]:
        return {
            "over": self._pick([], ["a"], ["a", "b"]),
            "k": self._pick(1, 3, 8),
            "m": self._pick(1, 3),
            "ordered": self._pick(True, False),
            "metric": self._pick("euclidean", "euclidean", "haversine"),
            "tuning": {"threads": 1},
        }

    def _settings_moving_skyline(self) -> dict[str, Any]:
        return {
            "over": self._pick([], ["a"], ["a", "b"]),
            "metric": self._pick("euclidean", "euclidean", "haversine"),
            "tuning": {"threads": 1},
        }

    # Rows of calls

    def _numbers(self, size: int, most: int = 40) -> list[Any]:
        return [int(each) for each in self.rng.integers(0, most, size)]

    def _ends(self, size: int) -> Rows:
        ends: Rows = {}
        for name in [each for each in self.over if each != "job"]:
            low = self._numbers(size)
            width = self._numbers(size, 12)
            odd = self.rng.random((2, size)) < 0.1
            ends[f"{name}_lo"] = [None if o else each for each, o in zip(low, odd[0], strict=True)]
            ends[f"{name}_hi"] = [None if o else a + b for a, b, o in zip(low, width, odd[1], strict=True)]
        return ends

    def _terms(self, size: int) -> list[list[str]]:
        return [
            [WORDS[each] for each in self.rng.integers(0, len(WORDS), self.rng.integers(1, 4))]
            for _ in range(size)
        ]

    def _subscription(self, size: int) -> Rows:
        family = self.subject.family
        place = {"x": self._numbers(size), "y": self._numbers(size)}
        if family == "geotext":
            return {**place, "terms": self._terms(size)}
        if family.startswith("moving"):
            return place
        if family == "matching":
            weights = (
                {"score": self._numbers(size, 5)}
                if self.settings["mode"] == "exact"
                else {f"{name}_weight": self._numbers(size, 5) for name in self.over}
            )
            return {**self._ends(size), **weights, **self._said(size)}
        return self._ends(size)

    def _said(self, size: int) -> Rows:
        """What subscriptions of ranked matching say beside boxes; everything of a group has one owner."""
        if "categories" not in self.settings:
            return {}
        jobs = [None, [], ["a"], ["b", "c"], ["a", "c"]]
        groups = [self._pick(None, 1001, 1002, 1003) for _ in range(size)]
        owners = [1 if group is None else group % 2 for group in groups]
        said: Rows = {f"job_{word}": [self._pick(*jobs) for _ in range(size)] for word in ("in", "not_in")}
        return {**said, "group": [None if g is None else self.name(g) for g in groups], "owner": owners}

    def _few(self, numbers: list[int], share: float) -> list[int]:
        return [number for number in numbers if self.rng.random() < share]

    def _subscribe(self) -> Rows:
        fresh = list(range(self.next, self.next + self.size))
        self.next += self.size
        self.live += fresh
        rows = self._subscription(self.size)
        if self.subject.family in ("range_topk", "geotext", "moving_topk") and self.rng.random() < 0.5:
            rows["k"] = [self._pick(None, 1, 2, 5) for _ in fresh]
        return {"id": [self.name(number) for number in fresh], **rows}

    def _amend(self) -> Rows | None:
        some = self._few(self.live, 0.3)
        return (
            {"id": [self.name(number) for number in some], **self._subscription(len(some))} if some else None
        )

    def _rescore(self) -> Rows | None:
        rows = self._amend()
        return (
            None
            if rows is None
            else {name: each for name, each in rows.items() if name in ("id", "score") or "_weight" in name}
        )

    def _unsubscribe(self) -> list[Any] | None:
        gone = self._few(self.live, 0.3)
        self.live = [number for number in self.live if number not in gone]
        return [self.name(number) for number in gone] or None

    def _upsert(self) -> Rows:
        fresh = list(range(self.next_item, self.next_item + self.size))
        self.next_item += self.size
        some = self._few(self.items, 0.2)
        self.items += fresh
        size = len(fresh) + len(some)
        values = {name: self._numbers(size, 6) for name in ("x", "y", *self.over)}
        if self.settings["metric"] == "euclidean":
            values["x"], values["y"] = self._numbers(size), self._numbers(size)
        return {"id": [self.item(number) for number in fresh + some], **values}

    def _remove(self) -> list[Any] | None:
        gone = self._few(self.items, 0.3)
        self.items = [number for number in self.items if number not in gone]
        return [self.item(number) for number in gone] or None

    def _publish(self) -> Rows | None:
        family = self.subject.family
        if family.startswith("moving"):
            some = self._few(self.live, 0.6)
            place = {"x": self._numbers(len(some)), "y": self._numbers(len(some))}
            return {"id": [self.name(number) for number in some], **place} if some else None
        fresh = list(range(self.next_item, self.next_item + self.size))
        self.next_item += self.size
        if family in ("covering", "matching"):
            values = {name: self._numbers(self.size) for name in self.over if name != "job"}
            if "categories" in self.settings:
                values["job"] = [self._pick(None, "a", "b", "c", "d") for _ in fresh]
                values["exclude"] = [[self.name(self._pick(1, 2, 1001))] for _ in fresh]
                values["x_error"] = [self._pick(None, 1.0) for _ in fresh]
            return {"id": [self.item(number) for number in fresh], **values}
        if family == "geotext":
            self.items = (self.items + fresh)[-self.settings["window"] :]
            place = {"x": self._numbers(self.size), "y": self._numbers(self.size)}
            if "per_source" in self.settings:
                place["source"] = [self._pick(None, "s", "t", f"u{number}") for number in fresh]
            return {"id": [self.item(number) for number in fresh], **place, "terms": self._terms(self.size)}
        moved = self._few(self.items, 0.3)
        gone = [number for number in self._few(self.items, 0.2) if number not in moved]
        self.items = [number for number in self.items if number not in gone] + fresh
        size = len(fresh) + len(moved)
        values = {name: [*self._numbers(size), *([None] * len(gone))] for name in self.over}
        y = [*self._numbers(size), *([None] * len(gone))]
        return {"id": [self.item(number) for number in fresh + moved + gone], **values, "y": y}


# Changes of arrays and headers


def spoil(header: Any, arrays: dict[str, NDArray[Any]], rng: Rng) -> str:
    """Change a state in place, in a way that `snapshot.write` can still write; says how."""
    if rng.random() < 0.12:
        return _spoil_header(header, rng)
    full = [name for name, array in arrays.items() if array.size]
    name = str(rng.choice(full if full and rng.random() < 0.95 else sorted(arrays)))
    kind = rng.random()
    if kind < 0.15 or not arrays[name].size:
        return _spoil_form(arrays, name, rng)
    flat = np.array(arrays[name], copy=True).reshape(-1)
    how = _spoil_values(flat, rng)
    arrays[name] = flat.reshape(arrays[name].shape)
    return f"{name} {how}"


def _spoil_values(flat: NDArray[Any], rng: Rng) -> str:  # noqa: PLR0911
    where = rng.integers(0, flat.size, max(1, int(rng.choice([1, 1, 1, 2, 5, flat.size]))))
    if flat.dtype == np.bool_:
        flat[where] ^= True
        return f"flipped at {where[:5]}"
    way = int(rng.integers(0, 9))
    if way == 0:
        other = rng.permutation(where)
        flat[where] = flat[rng.integers(0, flat.size, where.size)] if where.size == 1 else flat[other]
        return f"swapped at {where[:5]}"
    if way == 1:
        flat[where] = flat[int(rng.integers(flat.size))]
        return f"repeated at {where[:5]}"
    if flat.dtype.kind == "f":
        odd = [np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, -1e308, 5e-324]
        with np.errstate(over="ignore"):
            flat[where] = flat[where] + 1 if way == 2 else odd[int(rng.integers(len(odd)))]
        return f"odd at {where[:5]}"
    info = np.iinfo(flat.dtype)
    if way in (2, 3):
        with np.errstate(over="ignore"):
            flat[where] = flat[where] + flat.dtype.type(1) if way == 2 else flat[where] - flat.dtype.type(1)
        return f"off by one at {where[:5]}"
    if way in (4, 5):
        values = rng.integers(0, min(max(2, flat.size + 2), info.max), where.size)
        flat[where] = values.astype(flat.dtype)
        return f"{values[:5]} at {where[:5]}"
    odd = [0, 1, -1, -2, info.max, info.min, info.max // 2, flat.size, flat.size - 1, 2 * flat.size]
    value = min(max(odd[int(rng.integers(len(odd)))], info.min), info.max)
    flat[where] = value
    return f"{value} at {where[:5]}"


def _spoil_form(arrays: dict[str, NDArray[Any]], name: str, rng: Rng) -> str:  # noqa: PLR0911
    array, way = arrays[name], int(rng.integers(0, 8))
    if way == 0:
        del arrays[name]
        return f"{name} absent"
    if way == 1 and array.ndim:
        arrays[name] = array[: int(rng.integers(0, max(array.shape[0], 1)))].copy()
        return f"{name} cut to {arrays[name].shape}"
    if way == 2 and array.ndim:
        more = np.zeros((int(rng.integers(1, 9)), *array.shape[1:]), array.dtype)
        arrays[name] = np.concatenate([array, more])
        return f"{name} longer {arrays[name].shape}"
    if way == 3:
        dtype = str(rng.choice(["i4", "i8", "f8", "u1", "i2", "f4"]))
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(dtype)
        return f"{name} as {dtype}"
    if way == 4:
        arrays[name] = array.reshape(-1, 1) if array.ndim < 2 else array.reshape(-1)
        return f"{name} with shape {arrays[name].shape}"
    if way == 5:
        arrays[name] = array[..., None] if rng.random() < 0.5 else np.zeros((), array.dtype)
        return f"{name} with shape {arrays[name].shape}"
    if way == 6 and array.ndim == 2:
        arrays[name] = np.concatenate([array, array[:, :1]], axis=1)
        return f"{name} with shape {arrays[name].shape}"
    if way == 7:
        arrays[f"{name}x"] = array
        return f"{name}x too many"
    arrays[name] = array[:0].copy() if array.ndim else array.reshape(1)
    return f"{name} empty"


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))
        if path:
            yield path
    else:
        yield path


def _spoil_header(header: Any, rng: Rng) -> str:
    inside = "settings" if rng.random() < 0.15 else "parts" if rng.random() < 0.9 else "counters"
    if not isinstance(header.get(inside), dict):
        return f"{inside} as before"
    paths = list(_leaves(header[inside], (inside,)))
    path = paths[int(rng.integers(len(paths)))]
    here = header
    for key in path[:-1]:
        here = here[key]
    held = here[path[-1]]
    near = [held + 1, held - 1, -held, 2 * held + 7] if type(held) in (int, float) else []
    junk = [*near, *near, 0, 1, -1, 2**31, 2**63 - 1, 10**30, 1.5, True, None, "x", [], {}, [1, 2], 1e308]
    value = junk[int(rng.integers(len(junk)))]
    if rng.random() < 0.1 and isinstance(here, dict):
        del here[path[-1]]
        return f"{path} absent"
    here[path[-1]] = value
    return f"{path} = {value!r}"


# One case


def judge(subject: Subject, seed: int, heard: Callable[[str], None]) -> str:
    """Make the case, load it and go on with it; whatever it may not do comes out of here."""
    rng = np.random.default_rng([seed, *subject.family.encode()])
    play = Play(subject, rng)
    heard("make")
    engine = play.engine()
    header, arrays = engine.state()
    header, arrays = json.loads(json.dumps(header)), {name: array.copy() for name, array in arrays.items()}
    told = [spoil(header, arrays, rng) for _ in range(int(rng.choice([1, 1, 1, 2, 4])))]
    heard(f"{'; '.join(told)}: load")
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        snapshot.write(folder / "crafted", kind=type(engine).__name__, header=header, arrays=arrays)
        try:
            loaded = subject.engine.load(folder / "crafted")
        except SnapshotError as error:
            heard(f"refused: {error}")
            return "refused"
        play.every(loaded, heard, folder)
    return "lives"


def forked(subject: Subject, seed: int, limit: int = LIMIT) -> tuple[bool, str]:
    """Judge a case in a process of its own: whether all is well, and what was heard last."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        _child(subject, seed, writer)
    os.close(writer)
    ended, status, began = 0, 0, time.monotonic()
    while not ended and time.monotonic() - began < 10 * limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            time.sleep(0.002)
    if not ended:
        os.kill(child, signal.SIGABRT)
        os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        heard = pipe.read().decode(errors="replace").strip().splitlines()
    last = " | ".join([*heard[1:2], *heard[-1:]]) if heard else "nothing"
    if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return False, f"no end after {limit} s: {last}"
    if os.WIFSIGNALED(status):
        return False, f"signal {os.WTERMSIG(status)}: {last}"
    return os.WEXITSTATUS(status) == 0, last


def _child(subject: Subject, seed: int, writer: int) -> None:
    def heard(what: str) -> None:
        os.write(writer, (what.replace("\n", " ")[:500] + "\n").encode())

    if os.environ.get("CRAFTED_TRACE"):
        faulthandler.enable()
    try:
        heard(judge(subject, seed, heard))
        os._exit(0)
    except BaseException as error:
        frame = error.__traceback__
        places = []
        while frame is not None:
            places.append(f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}")
            frame = frame.tb_next
        heard(f"{type(error).__name__}: {error} at {' '.join(places[-4:])}")
        os._exit(1)


def warm(subject: Subject, seeds: range = range(6)) -> None:
    """Compile, or fetch, the kernels of an engine before processes are forked from this one."""
    for seed in seeds:
        play = Play(subject, np.random.default_rng([seed, *subject.family.encode()]))
        with tempfile.TemporaryDirectory(dir=MEMORY) as name:
            engine = play.engine()
            engine.save(Path(name) / "kept")
            play.every(subject.engine.load(Path(name) / "kept"), lambda _: None, Path(name))


def say(what: str) -> None:
    """Write a line."""
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def main() -> int:
    """Search for faults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--cases", nargs="*", default=[], metavar="SUBJECT=SEED", help="to try first")
    parser.add_argument("subjects", nargs="*", help="parts of their names; all, if there are none")
    given = parser.parse_args()
    tried = [(SUBJECTS[name], int(seed)) for name, seed in (case.rsplit("=", 1) for case in given.cases)]
    chosen = [s for name, s in SUBJECTS.items() if any(part in name for part in given.subjects or [""])]
    if tried and not given.subjects:
        chosen = list({str(subject): subject for subject, _ in tried}.values())
    for subject in chosen:
        began = time.monotonic()
        warm(subject, range(2 if given.cases else 6))
        say(f"warm {subject} {time.monotonic() - began:.1f}")
    ends, seed, count, faults = time.monotonic() + given.seconds, given.first, 0, 0
    while tried or time.monotonic() < ends:
        for subject, number in tried or [(subject, seed) for subject in chosen]:
            well, told = forked(subject, number)
            count, faults = count + 1, faults + (not well)
            if not well:
                say(f"{subject} {number}: {told}")
        seed, tried = seed + (not tried), []
    say(f"{count} cases, seeds from {given.first} to {seed}, {faults} faults")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
