"""The figures of the geo-text paper, section 7, as far as one machine goes."""

from __future__ import annotations

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


def streaming(parameters: Parameters, contenders: dict[str, dict[str, Any]], *, room: bool) -> Trial:
    """Messages into worlds that differ in their settings."""
    made = {name: world(parameters, **settings) for name, settings in contenders.items()}
    first = next(iter(made))
    return Trial(
        work=parameters["events"],
        contenders=[publisher(of, name, room=room) for name, of in made.items()],
        baseline=first,
        agrees=lambda _: _follows(made[first], full=not room),
    )


@figure(
    "geotext.ciq",
    small={**SMALL, "data": ["synthetic"]},
    full=[LARGER, {**LARGER, "data": ["places", "reviews"]}],
    reproduces="[Geo Fig 9, Fig 11]",
)
def ciq(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages into a full window: this engine beside covering cells with kmax buffers."""
    tried = {"ciq, kmax": {"method": "ciq", "refill": "kmax"}, "igpt, cost-skyband": {}}
    return streaming(parameters, tried, room=False)


@figure(
    "geotext.refills",
    small={**SMALL, "data": ["synthetic"]},
    full={**FULL, "data": DATA},
    reproduces="[Geo Fig 10, Table 2]",
)
def refills(parameters: Parameters, _: np.random.Generator) -> Trial:
    """What is kept for when messages expire: sizes of buffers, searches, time."""
    tried = {refill: {"refill": refill} for refill in ("cost-skyband", "skyband", "kmax", "none")}
    return streaming(parameters, tried, room=False)


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


def _both(name: str, told: str, small: Grid, full: Grid | list[Grid], reproduces: str) -> None:
    """Declare a case of both contenders of the paper, over some parameters."""

    def body(parameters: Parameters, _: np.random.Generator) -> Trial:
        tried = {"ciq, kmax": {"method": "ciq", "refill": "kmax"}, "igpt, cost-skyband": {}}
        return streaming(parameters, tried, room=False)

    body.__doc__ = told
    figure(name, small=small, full=full, reproduces=reproduces)(body)


_both(
    "geotext.words",
    "Subscriptions with more words.",
    {**SMALL, "words": [1, 5]},
    {**FULL, "words": [1, 2, 3, 4, 5]},
    "[Geo Fig 12]",
)
_both(
    "geotext.results",
    "Subscriptions that want more messages.",
    {**SMALL, "k": [10]},
    {**FULL, "k": [10, 20, 40, 60]},
    "[Geo Fig 13]",
)
_both(
    "geotext.scale",
    "More subscriptions, larger windows.",
    SMALL,
    [{**FULL, "subscriptions": [25_000, 50_000, 100_000]}, {**FULL, "window": [25_000, 100_000]}],
    "[Geo Fig 14, Fig 15]",
)
