"""Kernels compiled ahead: `rankcast warm [ENGINE...]`.

Numba compiles a kernel at its first call with new types, which takes about a second; afterwards the kernel
comes from the cache on disk in milliseconds. So this module runs every engine, with its default method or
index, through the beginning of its demonstration and then through every other call, one process per core, and
prints how long that took. With `--all` it also runs the other methods and indexes, ids of both types, more
attributes, metrics, windows and scores. What remains, such as a user's score, is compiled on first use.

`--ship DIR` copies the used kernels to a directory, as a wheel carries them (`make wheel`); `--level NAME`
compiles for another processor level (`rankcast.structures.jit.LEVELS`).
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError

# The scene of each engine; the one that takes longest to compile comes first.
SCENES = {
    "RankedMatcher": "ads",
    "GeoTextTopK": "news",
    "RangeTopK": "stocks",
    "CoveringTable": "router",
    "MovingSkyline": "hotels",
    "MovingTopK": "taxi",
}
# By scene what its calls leave out; the scene that takes longest to compile comes first.
ENCORES: dict[str, tuple[tuple[str, Any], ...]] = {
    "ads": (
        ("subscribe", {"id": ["new"], "age_lo": [20.0], "score": [1.0]}),
        ("amend", {"id": ["tent 6"], "age_lo": [20.0]}),
        ("unsubscribe", ["tent 6"]),
    ),
    "news": (
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0], "terms": [["coffee"]]}),
        ("amend", {"id": ["Ada"], "terms": [["coffee", "jazz"]]}),
        ("reweigh", {"term": [None, "coffee"], "documents": [3, 2]}),
        ("unsubscribe", ["Ada"]),
    ),
    "stocks": (
        ("subscribe", {"id": ["new"], "risk_hi": [5.0]}),
        ("publish", {"id": ["NEW"], "risk": [5.0], "pe": [1.0]}),
        ("amend", {"id": ["Ada"], "risk_lo": [1.0], "k": [2]}),
        ("amend", {"id": ["Bela"], "risk_lo": [2.0], "risk_hi": [3.0]}),
        ("publish", {"id": ["NEW"], "pe": [None]}),
        ("unsubscribe", ["Ada"]),
    ),
    "router": (
        ("subscribe", {"id": ["all"], "price_lo": [0.0]}),
        ("amend", {"id": ["all"], "price_lo": [50.0]}),
        ("publish", {"id": ["event"], "price": [60.0], "size": [5.0]}),
        ("unsubscribe", ["all"]),
    ),
    "hotels": (
        ("upsert", {"id": ["new"], "x": [9.0], "y": [9.0], "price": [1.0], "rating": [5.0]}),
        ("remove", ["new"]),
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0]}),
        ("publish", {"id": ["Ada", "new", "Ada"], "x": [5.0, 6.0, 7.0], "y": [5.0, 6.0, 7.0]}),
        ("amend", {"id": ["Ada"], "x": [5.0]}),
        ("unsubscribe", ["Ada"]),
    ),
    "taxi": (
        ("remove", ["charger 6"]),
        ("subscribe", {"id": ["new"], "x": [5.0], "y": [5.0]}),
        ("publish", {"id": ["Ada", "new", "Ada"], "x": [5.0, 6.0, 7.0], "y": [5.0, 6.0, 7.0]}),
        ("amend", {"id": ["Ada"], "x": [50.0]}),
        ("unsubscribe", ["Ada"]),
    ),
}
BATCHES = 5
MANY = 5000  # rows of a batch for which engines go other ways than for a few
Rows = dict[str, Any]


def play(name: str) -> str:
    """Run a scene without garbage collection, which saves a tenth; returns a digest of its answers."""
    from rankcast.demo import scenes  # noqa: PLC0415 (imports engines)

    gc.collect()
    gc.disable()
    scene = scenes.build(name, batches=BATCHES)
    answers = [getattr(scene.engine, call)(rows) for call, rows in (*scene.calls, *ENCORES[name])]
    if hasattr(scene.engine, "results"):
        answers.append(scene.engine.results())
    told = [None if answer is None else answer.to_pylist() for answer in answers]
    return hashlib.sha256(repr(told).encode()).hexdigest()


class Fed:
    """An engine that gets rows as lists, arrays or tables: kernels see Arrow's memory as read-only."""

    def __init__(self, engine: Any, kind: str) -> None:
        self.engine, self._form = engine, FORMS[kind]

    def __getattr__(self, name: str) -> Any:
        call, form = getattr(self.engine, name), self._form

        def fed(*given: Any, **options: Any) -> Any:
            return call(
                *(form(each) if isinstance(each, dict) and "id" in each else each for each in given),
                **options,
            )

        return fed


def _listed(rows: Rows) -> Rows:
    return {
        name: each if isinstance(each, list) else np.asarray(each).tolist() for name, each in rows.items()
    }


FORMS: dict[str, Callable[[Rows], Any]] = {"lists": _listed, "arrays": dict, "tables": pa.table}


def _ids(kind: str, prefix: str, size: int) -> list[Any]:
    return [f"{prefix}{place}" for place in range(size)] if kind == "lists" else list(range(size))


def _uniform(rng: np.random.Generator, names: list[str], size: int) -> Rows:
    return {name: rng.uniform(0, 10, size) for name in names}


def _boxes(rng: np.random.Generator, names: list[str], size: int) -> Rows:
    ends = {name: np.sort(rng.uniform(0, 10, (size, 2)), axis=1) for name in names}
    return {f"{name}_{end}": ends[name][:, at] for name in names for at, end in enumerate(("lo", "hi"))}


def _some(rows: Rows, size: int, **changed: Any) -> Rows:
    return {name: values[:size] for name, values in rows.items()} | changed


def _close(fed: Fed, rows: Rows) -> None:
    """The other calls of every engine: no rows, queries, save, load."""
    fed.subscribe(_some(rows, 0))
    engine = fed.engine
    engine.stats()
    if hasattr(engine, "results"):
        engine.results()
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "state")
        other = type(engine).load(Path(folder) / "state")
    if hasattr(other, "results"):
        other.results()


def _range(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import RangeTopK  # noqa: PLC0415

    over = settings["over"]
    engine = Fed(RangeTopK(**settings), kind)
    many = 100 if settings["method"] == "scan" else MANY
    items = {"id": _ids(kind, "i", 400), **_uniform(rng, [*over, "y"], 400)}
    boxes = {"id": _ids(kind, "s", many), **_boxes(rng, over, many)}
    engine.publish(_some(items, 300))
    engine.subscribe(boxes)
    for size in (1, 20, 400):
        engine.publish(_some(items, size, y=rng.uniform(0, 10, size)))
    engine.publish({"id": items["id"][:3], "op": ["remove", "remove", "upsert"], "y": [None, 1.0, 2.0]})
    engine.explain(boxes["id"][9], items["id"][9])
    if len(over) == 1:
        engine.influence(items["id"][9])
        engine.disseminate(_some(items, 20, y=rng.uniform(0, 10, 20)))
        engine.disseminate(_some(items, 20, y=rng.uniform(0, 10, 20)), method="dense", batch=True)
    for size in (10, many):
        engine.preview(_some(boxes, size))
    engine.amend({"id": boxes["id"][:3], "k": [1, 2, 60], f"{over[0]}_lo": [0.0, 0.0, 0.0]})
    engine.amend({"id": boxes["id"][:1], f"{over[0]}_hi": [10.0]})
    engine.remove(items["id"][5:8])
    engine.results(boxes["id"][:2])
    engine.unsubscribe(boxes["id"][:1])
    engine.unsubscribe(boxes["id"][1 : many // 2])
    engine.apply([("publish", _some(items, 20)), ("unsubscribe", boxes["id"][many // 2 :])])
    engine.subscribe(_some(boxes, 10))
    _close(engine, boxes)


def _matching(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import RankedMatcher  # noqa: PLC0415

    over = settings["over"]
    engine = Fed(RankedMatcher(**settings), kind)
    relaxed = settings.get("mode") == "relaxed"
    ranked = [f"{name}_weight" for name in over] if relaxed else ["score"]
    ranking = {} if settings.get("score") == "tightest" else _uniform(rng, ranked, MANY)
    boxes = {"id": _ids(kind, "s", MANY), **_boxes(rng, over, MANY), **ranking}
    engine.subscribe(_some(boxes, 1))
    engine.subscribe({name: values[1:] for name, values in boxes.items()})
    events = {"id": _ids(kind, "e", 1000), **_uniform(rng, over, 1000)}
    for size in (1, 20, 1000, 1000, 20):  # often enough for a trial of the best before the index
        engine.publish(_some(events, size))
    engine.publish({**_some(events, 20), "k": [2] * 20, "exclude": [list(boxes["id"][:2])] * 20})
    if ranking:
        engine.rescore({"id": boxes["id"][:5], **{name: [1.0] * 5 for name in ranked}})
    engine.amend({"id": boxes["id"][:2], f"{over[0]}_lo": [0.0, 0.0]})
    engine.explain(boxes["id"][3], dict.fromkeys(over, 5.0))
    engine.unsubscribe(boxes["id"][:1])
    engine.unsubscribe(boxes["id"][1 : MANY // 2])
    engine.publish(_some(events, 20))
    _close(engine, boxes)


def _jobs(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import RankedMatcher  # noqa: PLC0415

    engine = Fed(RankedMatcher(**settings), kind)
    jobs, names = [["cook"], ["nurse", "cook"], None] * 10, _ids(kind, "s", 30)
    rows = {"id": names, "job_in": jobs, "group": names[:15] * 2, "owner": ["p", "q", None] * 10}
    engine.subscribe({**rows, "x_lo": [0.0] * 30, "score": [1.0] * 30})
    for size in (1, 20):
        engine.publish({"id": _ids(kind, "e", size), "x": [1.0] * size, "job": ["cook"] * size})
    engine.amend({"id": names[:1], "job_not_in": [["cook"]]})
    engine.explain(names[3], {"x": 1.0, "job": "cook"})
    engine.unsubscribe(names[:9])


def _covering(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import CoveringTable, maxima  # noqa: PLC0415

    over = settings["over"]
    engine = Fed(CoveringTable(**settings), kind)
    many = 2000 if (settings["index"], settings["graph"]) == ("kdtree", 1) else 300
    boxes = {"id": _ids(kind, "s", many), **_boxes(rng, over, many)}
    engine.subscribe(_some(boxes, 1))
    engine.subscribe({name: values[1:] for name, values in boxes.items()})
    engine.publish({"id": _ids(kind, "e", 20), **_uniform(rng, over, 20)})
    engine.covers({"id": boxes["id"][:3], **{name: boxes[name][:3] for name in boxes if name != "id"}})
    engine.amend({"id": boxes["id"][:1], f"{over[0]}_lo": [0.0]})
    engine.amend({"id": boxes["id"][:3], f"{over[0]}_hi": [10.0, 10.0, 10.0]})
    engine.explain(boxes["id"][3], boxes["id"][4])
    engine.unsubscribe(boxes["id"][:1])
    engine.unsubscribe(boxes["id"][1 : many // 4])
    engine.unsubscribe(boxes["id"][many // 4 : many // 3], limit=10)
    engine.follow([{"op": "subscribe", **{name: boxes[name][0] for name in boxes}}])
    engine.forwarded()
    if many > 300:
        merging = Fed(CoveringTable(**settings, merge=0.2), kind)
        merging.subscribe(_some(boxes, 20))
        merging.publish({"id": _ids(kind, "e", 20), **_uniform(rng, over, 20)})
        merging.unsubscribe(boxes["id"][:2])
        merging.forwarded_boxes()
        _routed_jobs(kind, settings)
    maxima(boxes, over=over)
    _close(engine, boxes)


def _routed_jobs(kind: str, settings: Rows) -> None:
    from rankcast import CoveringTable  # noqa: PLC0415

    engine = Fed(CoveringTable(**{**settings, "over": ["x", "job"]}, categories=["job"]), kind)
    jobs, names = [["cook"], ["nurse", "cook"], None] * 10, _ids(kind, "s", 30)
    engine.subscribe({"id": names, "x_lo": [float(place) for place in range(30)], "job_in": jobs})
    engine.publish({"id": _ids(kind, "e", 2), "x": [1.0] * 2, "job": ["cook"] * 2})
    engine.covers({"id": names[:2], "job_in": jobs[:2]})
    engine.amend({"id": names[:2], "job_not_in": [["cook"], None]})
    engine.explain(names[3], names[4])
    engine.follow({"op": ["unsubscribe"] * 2, "id": names[:2]})
    engine.unsubscribe(names[2:9])


def _geotext(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import GeoTextTopK  # noqa: PLC0415
    from rankcast.demo.scenes import WORDS  # noqa: PLC0415

    engine = Fed(GeoTextTopK(**settings), kind)
    timed = isinstance(settings.get("window"), timedelta)
    began = datetime(2024, 1, 1)

    def dense(size: int) -> Rows:
        return (
            {"vector": rng.normal(size=(size, settings["vectors"])).tolist()} if "vectors" in settings else {}
        )

    def messages(first: int, size: int) -> Rows:
        terms = [list(rng.choice(WORDS, 4)) for _ in range(size)]
        rows = {
            "id": _ids(kind, "m", first + size)[first:],
            **_uniform(rng, ["x", "y"], size),
            "terms": terms,
            **dense(size),
        }
        return (
            rows | {"time": [began + timedelta(seconds=first + at) for at in range(size)]} if timed else rows
        )

    engine.publish(messages(0, 300))
    places = {"id": _ids(kind, "s", 500), **_uniform(rng, ["x", "y"], 500)}
    places |= {"terms": [list(rng.choice(WORDS, 3)) for _ in range(500)], **dense(500)}
    engine.subscribe(_some(places, 1))
    engine.subscribe({name: values[1:] for name, values in places.items()})
    for first, size in ((300, 1), (301, 20), (321, 400)):
        engine.publish(messages(first, size))
    engine.amend({"id": places["id"][:3], "k": [1, 2, 60]})
    engine.amend(
        {"id": places["id"][:2], "x": [1.0, 2.0], "alpha": [0.1, 0.9], "terms": [["jazz"], ["rain"]]}
    )
    last = messages(321, 400)["id"]
    engine.explain(places["id"][5], last[-1])
    engine.retract(last[-1:])
    engine.publish({"id": last[-3:-1], "op": ["retract", "retract"]})
    if timed:
        engine.advance(began + timedelta(seconds=800))
        engine.publish(messages(721, 2) | {"until": [None, began + timedelta(days=1)]})
    engine.amend({"id": places["id"][3:5], "radius": [1.0, None], "must": [["jazz"], None]})
    engine.publish(messages(730, 2))
    engine.unsubscribe(places["id"][:1])
    engine.unsubscribe(places["id"][1:300])
    engine.publish(messages(900, 20))
    _close(engine, places)


def _moving(rng: np.random.Generator, kind: str, settings: Rows) -> None:
    from rankcast import MovingSkyline, MovingTopK  # noqa: PLC0415

    settings = dict(settings)
    over, skyline = settings["over"], settings.pop("skyline", False)
    engine = Fed((MovingSkyline if skyline else MovingTopK)(**settings), kind)
    many = 100 if settings["method"] == "scan" else 1000
    items = {"id": _ids(kind, "i", many), **_uniform(rng, ["x", "y", *over], many)}
    queries = {"id": _ids(kind, "s", many // 3), **_uniform(rng, ["x", "y"], many // 3)}
    engine.upsert(items)
    engine.subscribe(_some(queries, 1))
    engine.subscribe({name: values[1:] for name, values in queries.items()})
    if "graph" in settings:
        engine.update_roads({"id": [0, 7], "length": [2.0, 0.5]})
    for size in (1, 20, many // 3):
        engine.publish(_some(queries, size, **_uniform(rng, ["x", "y"], size)))
        engine.upsert(_some(items, size, **_uniform(rng, ["x", "y", *over], size)))
    if over:
        engine.amend({"id": queries["id"][:2], f"{over[0]}_lo": [1.0, 2.0], f"{over[0]}_hi": [8.0, None]})
    if not skyline:
        engine.amend({"id": queries["id"][:2], "k": [1, 7]})
    engine.publish(_some(queries, 20))
    engine.remove(items["id"][:1])
    engine.remove(items["id"][1 : many // 3])
    engine.explain(queries["id"][5], items["id"][many // 2])
    if settings["method"] != "scan":
        engine.zones()
        engine.view(queries["id"][5])
    engine.unsubscribe(queries["id"][:1])
    engine.unsubscribe(queries["id"][1:10])
    _close(engine, queries)


def _roads() -> Any:
    """A small grid of roads."""
    from rankcast import RoadGraph  # noqa: PLC0415

    side = 6
    place = np.arange(side * side).reshape(side, side)
    start = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    end = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    edges = {"start": start, "end": end, "length": np.ones(start.size), "oneway": start % 7 == 0}
    nodes = {"id": place.ravel(), "x": place.ravel() % side * 2.0, "y": place.ravel() // side * 2.0}
    return RoadGraph.from_edges(edges, nodes=nodes)


HOUR = timedelta(hours=1)
PLANE = {"bounds": (0, 0, 10, 10)}


def _more(
    engine: str, *, default: bool = False
) -> Iterator[tuple[Callable[[np.random.Generator, str, Rows], None], Rows]]:
    """Other settings of an engine, whether only its default method takes them, and how to run it."""
    from rankcast import scoring  # noqa: PLC0415
    from rankcast.core.contract import subjects  # noqa: PLC0415

    variants = [subject.variant for subject in subjects() if subject.engine.__name__ == engine]
    usual: list[Rows]
    if engine == "RangeTopK":
        usual = [{"over": list("xzw")[:size], "k": 3} for size in (1, 2, 3)]
        usual += [{"over": ["x"], "k": 60, "order": "desc", "nulls": "keep"}]
        run = _range
    elif engine == "RankedMatcher":
        usual = [{"over": list("xyzw")[:size], "k": 3} for size in (1, 2, 4)]
        usual += [{"over": ["x", "y"], "mode": "relaxed", "combine": by} for by in ("sum", "max")]
        usual += [{"over": ["x", "y"], "score": "tightest"}]
        run = _matching
    elif engine == "CoveringTable":
        usual = [{"over": list("xyz")[:size]} for size in (1, 2, 3)]
        run = _covering
    elif engine == "GeoTextTopK":
        usual = [{**PLANE, "window": 300}, {**PLANE, "window": HOUR}, {"metric": "haversine", "window": 300}]
        usual += [{**PLANE, "window": HOUR, "half_life": HOUR}]
        usual += [
            {**PLANE, "window": 300, "vectors": size, "beta": beta} for size, beta in ((40, 1.0), (40, 0.5))
        ]
        run = _geotext
    elif engine == "MovingTopK":
        scores = (None, scoring.weighted_product(), scoring.weighted_distance(), scoring.waspas())
        usual = [{"over": ["a", "b"], "k": 3, "score": score} for score in scores]
        usual += [{"over": over, "k": 3, "metric": "haversine"} for over in ([], ["a"], ["a", "b"])]
        usual += [{"over": ["a"], "k": 3, "m": 3, "ordered": False}]
        roads = {"metric": "network", "graph": _roads(), "k": 3}
        usual += [{"over": over, **roads} for over in ([], ["a"])]
        usual += [{"over": ["a"], "score": scoring.weighted_distance(), **roads}]
        run = _moving
    else:
        usual = [{"over": list("abc")[:size], "skyline": True} for size in range(4)]
        usual += [{"over": ["a", "b"], "metric": "haversine", "skyline": True}]
        usual += [{"over": ["a", "b"], "metric": "network", "graph": _roads(), "skyline": True}]
        run = _moving
    for variant in variants[:1] if default else variants:
        for settings in usual:
            yield run, {**settings, **variant}
        if engine == "RankedMatcher":
            yield _jobs, {"over": ["x", "job"], "categories": ["job"], "per_owner": 1, **variant}


def prepare(engine: str, *, everything: bool, default: bool, ship_to: Path | None) -> int:
    """Compile the kernels of an engine in a separate process; returns how many had to be compiled."""
    from rankcast.structures import jit, kernel_cache  # noqa: PLC0415

    jit.PROGRESS.is_told = True
    play(SCENES[engine])
    if everything:
        for run, settings in _more(engine, default=default):
            for kind in FORMS:
                run(np.random.default_rng(7), kind, settings)
    if ship_to is not None:
        kernel_cache.ship(ship_to)
    return jit.PROGRESS.compiled


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast warm`."""
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"{', '.join(SCENES)}; default: all")
    parser.add_argument("--all", action="store_true", help="also other methods, indexes and settings")
    parser.add_argument(
        "--ship", type=Path, metavar="DIR", help="copy the used kernels to a directory for a wheel"
    )
    parser.add_argument("--level", metavar="NAME", help="processor level; default: the best of this machine")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run every requested engine; raises the exception of any that fails."""
    for name in arguments.engines:
        if name not in SCENES:
            raise InputError.unknown(name, SCENES, where="warm", word="engine")
    wanted = [name for name in SCENES if name in (arguments.engines or SCENES)]
    levels = [arguments.level] if arguments.level else reached() if arguments.ship else [None]
    for level in levels:
        if level is not None:
            os.environ["NUMBA_CPU_NAME"] = level
            sys.stderr.write(f"for {level}: ")
        default = level != levels[0]  # lower levels are for few
        _compile(wanted, everything=arguments.all, default=default, ship_to=arguments.ship)
    return 0


def reached() -> list[str]:
    """The levels that this processor supports; others cannot be compiled by calling kernels."""
    from llvmlite import binding  # noqa: PLC0415

    from rankcast.structures import jit  # noqa: PLC0415

    here = binding.get_host_cpu_features()
    levels = jit.LEVELS.get(platform.machine(), ())
    return [level for level, needs in levels if all(here.get(need) for need in needs)]


def _compile(wanted: list[str], **given: Any) -> None:
    began, done, compiled = time.perf_counter(), 0, 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as processes:
        jobs = {processes.submit(prepare, name, **given): name for name in wanted}
        with _bar() as show:
            show(f"kernels of {', '.join(jobs.values())}")
            for job in as_completed(jobs):
                compiled += job.result()
                done += 1
                left = ", ".join(name for each, name in jobs.items() if not each.done())
                show(f"[{'#' * done}{'.' * (len(jobs) - done)}] {left}")
    sys.stderr.write(f"kernels ready in {time.perf_counter() - began:.1f} s, {compiled} of them compiled\n")


@contextmanager
def _bar() -> Iterator[Callable[[str], None]]:
    """A progress line on a terminal, rewritten in place and erased at the end."""
    shown = sys.stderr.isatty()

    def show(text: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    yield show
    show("")


def main() -> None:
    """`python -m rankcast.warm`, which needs no script on the path."""
    parser = argparse.ArgumentParser(prog="rankcast warm")
    configure(parser)
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
