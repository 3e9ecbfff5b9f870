"""Draws the pictures of the concepts from engines at work: `python docs/_site/pictures.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rankcast import CoveringTable, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher, plot, scoring
from rankcast.plot import BLUE, GREEN, GREY, ORANGE

IMAGES = Path(__file__).parent.parent / "images"


def ranges() -> Any:
    """The influence region of an object, and the tiles that reach it."""
    rng = np.random.default_rng(4)
    engine = RangeTopK(over="risk", by="price", k=3)
    engine.publish({"id": np.arange(40), "risk": rng.uniform(0, 10, 40), "price": rng.gamma(4, 5, 40)})
    low, width = rng.uniform(0, 9, 900), rng.gamma(2, 1.2, 900)
    engine.subscribe({"id": np.arange(900), "risk_lo": low, "risk_hi": np.minimum(low + width, 10)})
    told = {item: engine.influence(item) for item in range(40)}
    telling = [item for item, each in told.items() if len(each["tiles"]) > 2 and 3 < each["x"] < 7]
    return plot.influence(engine, max(telling, key=lambda item: told[item]["lists"].sum()))


def covering() -> Any:
    """Boxes that a router forwards, and those that lie in them."""
    rng = np.random.default_rng(7)
    size = (
        np.minimum(np.sort(rng.pareto(1.2, 60)), 4)[::-1, None] * rng.uniform(0.6, 1.4, (60, 2)) + 0.4
    )  # large ones come first
    low = rng.uniform(0, 11, (60, 2))
    high = np.minimum(low + size, 12)
    table = CoveringTable(over=["x", "y"])
    ends = {f"{axis}_{end}": v[:, i] for i, axis in enumerate("xy") for end, v in (("lo", low), ("hi", high))}
    table.subscribe({"id": np.arange(60), **ends})
    forwarded = set(table.forwarded())
    figure = Figure(figsize=(7.5, 5.2), dpi=110)
    axes = figure.subplots()
    for row in range(60):
        known = row in forwarded
        box = Rectangle(tuple(low[row]), *(high[row] - low[row]), zorder=2 if known else 1)
        box.set(facecolor="none", edgecolor=ORANGE if known else GREY, linewidth=1.6 if known else 0.9)
        axes.add_patch(box)
    axes.plot([], [], color=ORANGE, label=f"forwarded: {len(forwarded)}")
    axes.plot([], [], color=GREY, label=f"covered: {60 - len(forwarded)}")
    axes.set(
        xlim=(0, 12.2), ylim=(0, 12.2), xlabel="x", ylabel="y", title="what a router's neighbours must know"
    )
    axes.legend(loc="upper left", fontsize=9)
    figure.tight_layout()
    return figure


def matching() -> Any:
    """Intervals by score, an event, and where the search ends."""
    rng = np.random.default_rng(11)
    low, width, score = rng.uniform(0, 90, 60), rng.gamma(2, 9, 60), np.sort(rng.uniform(0, 10, 60))[::-1]
    engine = RankedMatcher(over=["age"], k=3)
    rows = {"id": np.arange(60), "age_lo": low, "age_hi": low + width, "score": score}
    engine.subscribe(rows)
    event = 42.0
    found = engine.publish({"id": [0], "age": [event]})["subscription"].to_numpy()
    figure = Figure(figsize=(7.5, 5.2), dpi=110)
    axes = figure.subplots()
    for row in range(60):
        beyond = row > found.max()
        colour = BLUE if row in found else "#e2e8f0" if beyond else GREY
        axes.plot([low[row], low[row] + width[row]], [score[row]] * 2, color=colour, linewidth=2.4)
    axes.axvline(event, color=ORANGE, linewidth=1.4, label=f"an event: age {event:g}")
    axes.axhline(
        score[found.max()], color=GREEN, linewidth=0.9, linestyle="--", label="the third match: stop"
    )
    axes.plot([], [], color=BLUE, linewidth=2.4, label="the 3 best matches")
    axes.plot([], [], color="#e2e8f0", linewidth=2.4, label="never looked at")
    axes.set(xlabel="age", ylabel="score", title="scored intervals")
    axes.legend(loc="lower right", fontsize=9, framealpha=0.95)
    figure.tight_layout()
    return figure


def skyband() -> Any:
    """Messages by time and score: which of them can ever be among the best three."""
    rng = np.random.default_rng(5)
    time, score, k = np.sort(rng.uniform(0, 100, 70)), rng.beta(2, 3, 70), 3
    dominators = np.array([np.count_nonzero(score[i + 1 :] > score[i]) for i in range(70)])
    best = np.argsort(-score)[:k]
    figure = Figure(figsize=(7.5, 4.6), dpi=110)
    axes = figure.subplots()
    axes.scatter(time[dominators >= k], score[dominators >= k], s=18, color=GREY, label="can never come back")
    kept = np.flatnonzero(dominators < k)
    axes.scatter(time[kept], score[kept], s=26, color=BLUE, label=f"the {k}-skyband: kept")
    axes.scatter(time[best], score[best], s=80, facecolor="none", edgecolor=ORANGE, label=f"the {k} best now")
    axes.set(xlabel="arrival (the oldest leaves first)", ylabel="score for one subscription")
    axes.set_title(f"{len(kept)} of 70 messages are enough")
    axes.legend(loc="upper left", fontsize=9, framealpha=0.95)
    figure.tight_layout()
    return figure


def zone() -> Any:
    """The safe zone of a moving top-k query."""
    engine = MovingTopK(over=["price"], k=3, m=4, score=scoring.weighted_sum([0.2, 0.8]))
    engine.upsert(_places())
    engine.subscribe({"id": ["car"], "x": [5.2], "y": [4.6]})
    return plot.zone(engine, "car")


def skyline() -> Any:
    """The safe zone of a moving skyline query."""
    engine = MovingSkyline(over=["price"])
    engine.upsert(_places())
    engine.subscribe({"id": ["car"], "x": [5.2], "y": [4.6]})
    return plot.zone(engine, "car")


def _places() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "id": [f"p{i}" for i in range(30)],
        "x": rng.uniform(0, 10, 30),
        "y": rng.uniform(0, 10, 30),
        "price": rng.uniform(1, 9, 30),
    }


PICTURES = {
    "concept-tiles": ranges,
    "concept-covering": covering,
    "concept-matching": matching,
    "concept-skyband": skyband,
    "concept-zone": zone,
    "concept-skyline": skyline,
}


def draw(folder: Path) -> None:
    """Draw all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        picture().savefig(folder / f"{name}.png", metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
