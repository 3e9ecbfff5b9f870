"""The figures of the geo-text paper, section 7, as far as one machine goes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rankcast.bench.cases.geotext import _follows, publisher
from rankcast.bench.runner import Figure, Grid, Parameters, Trial, case
from rankcast.bench.workloads.geotext import world
from rankcast.geotext.indexes import PRUNINGS

DATA = ["synthetic", "places", "reviews"]
SMALL: dict[str, list[Any]] = {"subscriptions": [1_000], "window": [1_000], "events": [100], "k": [20]}
FULL: dict[str, list[Any]] = {"subscriptions": [50_000], "window": [50_000], "events": [1_000], "k": [20]}
LARGER = {**FULL, "subscriptions": [100_000], "window": [100_000]}

figure = partial(case, seed=24, unit="message", runs=2)


BUFFERS = {  # messages in the buffer of a subscription [Geo Table 2], by our data of the same shape
    "synthetic": {"cost-skyband": 35, "kmax": 58, "skyband": 52},
    "places": {"cost-skyband": 33, "kmax": 58, "skyband": 58},
    "reviews": {"cost-skyband": 28, "kmax": 59, "skyband": 56},
}
PAIR: dict[str, dict[str, Any]] = {
    "ciq, kmax": {"method": "ciq", "refill": "kmax"},
    "igpt, cost-skyband": {},
}
ARRIVALS, EXPIRIES = "arrivals", "expiries"  # the paper's AMP and EMP time


def streaming(
    parameters: Parameters, contenders: dict[str, dict[str, Any]], *, room: bool, split: bool = False
) -> Trial:
    """Messages into worlds that differ in their settings; with `split` also arrivals and expiries alone.

    Arrivals alone are messages into a window with room; expiries alone are caused by messages without words.
    """
    made = {name: world(parameters, **settings) for name, settings in contenders.items()}
    first = next(iter(made))
    whole = [publisher(of, name, room=room) for name, of in made.items()]
    parts = [
        publisher(of, f"{name}: {part}", room=part == ARRIVALS, words=part == ARRIVALS)
        for name, of in made.items()
        for part in (ARRIVALS, EXPIRIES)
    ]
    return Trial(
        work=parameters["events"],
        contenders=[*whole, *(parts if split else [])],
        baseline=first,
        agrees=lambda _: _follows(made[first], full=not room),
    )


def told(trial: Trial, paper: dict[str, dict[str, float]]) -> Trial:
    """The same trial with what the paper reports of contenders."""
    named = [replace(each, paper=paper.get(each.name, {})) for each in trial.contenders]
    return replace(trial, contenders=named)


@figure(
    "geotext.figure-9",
    small={**SMALL, "data": ["synthetic"]},
    full={**LARGER, "data": DATA},
    reproduces="[Geo Fig 9]",
)
def matching(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Arrivals alone: this engine beside covering cells, time and memory."""
    trial = streaming(parameters, PAIR, room=True)
    return told(trial, {"igpt, cost-skyband": {"ratio": 10.0}})


@figure(
    "geotext.ciq",
    small={**SMALL, "data": ["synthetic"]},
    full=[LARGER, {**LARGER, "data": ["places", "reviews"]}],
    reproduces="[Geo Fig 11]",
)
def ciq(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages into a full window, arrivals and expiries apart: this engine, covering cells with kmax."""
    trial = streaming(parameters, PAIR, room=False, split=True)
    return told(trial, {"igpt, cost-skyband": {"ratio": 10.0}})


@figure(
    "geotext.refills",
    small={**SMALL, "data": ["synthetic"]},
    full={**FULL, "data": DATA},
    reproduces="[Geo Fig 10, Table 2]",
)
def refills(parameters: Parameters, _: np.random.Generator) -> Trial:
    """What is kept for when messages expire: sizes of buffers, searches, time, expiries apart."""
    tried = {refill: {"refill": refill} for refill in ("cost-skyband", "skyband", "kmax", "none")}
    paper = {name: {"buffer_size": float(size)} for name, size in BUFFERS[parameters["data"]].items()}
    return told(streaming(parameters, tried, room=False, split=True), paper)


@figure(
    "geotext.figure-6",
    small=[{**SMALL, "kmax": [3]}, {**SMALL, "share": [0.95]}],
    full=[
        {**FULL, "events": [5_000], "kmax": [1, 2, 3, 4, 5, 6]},
        {**FULL, "events": [5_000], "share": [1.0, 0.95, 0.9, 0.85, 0.8, 0.75]},
    ],
    reproduces="[Geo Fig 6]",
    figures=[
        Figure(title, x=x, y=y, contenders=("cost-skyband", refill))
        for title, x, refill in (("Figure 6 (a)", "kmax", "kmax"), ("Figure 6 (b)", "share", "skyband"))
        for y in ("seconds", "buffer_size")
    ],
)
def extents(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Buffers of kmax times k messages, and plain skybands down to a share of the k-th score."""
    tuning = {name: parameters[name] for name in ("kmax", "share") if name in parameters}
    refill = "kmax" if "kmax" in tuning else "skyband"
    plain = {name: value for name, value in parameters.items() if name not in tuning}
    return streaming(plain, {"cost-skyband": {}, refill: {"refill": refill, "tuning": tuning}}, room=False)


@figure(
    "geotext.prunings",
    small={**SMALL, "data": ["synthetic"]},
    full={**FULL, "data": DATA},
    reproduces="[Geo Fig 8]",
)
def prunings(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Arrivals with the prunings of single subscriptions alone, with all, with those of groups alone."""
    individual = [name for name in PRUNINGS if name not in ("cell", "group", "stop")]
    grouped = [name for name in PRUNINGS if name not in individual]
    tried = {"individual": individual, "all": PRUNINGS, "groups": [*grouped, "outer"]}
    return streaming(
        parameters, {name: {"tuning": {"prune": list(prune)}} for name, prune in tried.items()}, room=True
    )


@figure(
    "geotext.groups",
    small=SMALL,
    full=FULL,
    reproduces="[Geo Fig 7]",
)
def groups(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Arrivals with more and fewer groups of alphas in a cell."""
    tried = {f"{count} groups": {"tuning": {"groups": count}} for count in (10, 5, 20, 40)}
    return streaming(parameters, tried, room=True)


def _both(name: str, title: str, told: str, x: str, small: Grid, full: Grid) -> None:
    """Declare a figure of both contenders of the paper over a parameter, arrivals and expiries apart."""

    def body(parameters: Parameters, _: np.random.Generator) -> Trial:
        return streaming(parameters, PAIR, room=False, split=True)

    body.__doc__ = told
    plots = [Figure(f"{title}: time", x=x, y="seconds", log_y=True)]
    figure(name, small=small, full=full, reproduces=f"[Geo {title}]", figures=plots)(body)


_both(
    "geotext.words",
    "Fig 12",
    "Subscriptions with more words.",
    "words",
    {**SMALL, "words": [1, 5]},
    {**FULL, "words": [1, 2, 3, 4, 5]},
)
_both(
    "geotext.results",
    "Fig 13",
    "Subscriptions that want more messages.",
    "k",
    {**SMALL, "k": [10]},
    {**FULL, "k": [10, 20, 40, 60]},
)
_both(
    "geotext.scale",
    "Fig 14",
    "More subscriptions.",
    "subscriptions",
    SMALL,
    {**FULL, "subscriptions": [25_000, 50_000, 75_000, 100_000]},
)
_both(
    "geotext.windows",
    "Fig 15",
    "Larger windows.",
    "window",
    SMALL,
    {**FULL, "window": [25_000, 50_000, 75_000, 100_000]},
)
