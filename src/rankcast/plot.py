"""Pictures of engines: the zone of a moving query, the influence of an object (matplotlib; extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankcast.errors import InputError, required
from rankcast.moving.plot import label, words, zone

if TYPE_CHECKING:
    from rankcast.range_topk.engine import RangeTopK

__all__ = ["influence", "zone"]

MOST_POINTS = 5_000
BLUE, ORANGE, GREY, GREEN = "#2b6cb0", "#dd6b20", "#a0aec0", "#2f855a"


def influence(engine: RangeTopK, item: Any, *, figure: Any = None) -> Any:
    """Draw an object's influence region; returns the matplotlib figure.

    Left: the objects by place and value, the object itself, and the better ones that bound its region. Right:
    subscription space with a point (lo, hi) per subscription, those that list the object in colour, and the
    tiles that reach exactly these. It draws at most 5,000 subscriptions.

    >>> from rankcast import RangeTopK, plot
    >>> engine = RangeTopK(over="risk", by="pe", k=2)
    >>> _ = engine.publish({"id": ["ACME", "BOLT", "CORE"], "risk": [3, 5, 8], "pe": [12.0, 9.5, 7.0]})
    >>> _ = engine.subscribe({"id": ["ada"], "risk_lo": [2], "risk_hi": [6]})
    >>> figure = plot.influence(engine, "BOLT")  # figure.savefig("bolt.png")
    >>> [axes.get_title() for axes in figure.axes]
    ['objects', 'subscription space']
    """
    if not hasattr(engine, "influence"):
        what = f"{type(engine).__name__} has no influence regions"
        raise InputError(what, where="influence", expected="RangeTopK")
    region = engine.influence(item)
    figure = figure or _figure()
    left, right = figure.subplots(1, 2)
    _objects(left, region)
    _subscriptions(right, region)
    figure.suptitle(
        f"influence of {label(region['item'])}: {words(region['by'])} = {region['y']:g} "
        f"at {words(region['over'])} = {region['x']:g}"
    )
    figure.tight_layout()
    return figure


def _figure() -> Any:
    return required("matplotlib.figure", "plot").Figure(figsize=(12, 5.5), dpi=110)


def _objects(axes: Any, region: dict[str, Any]) -> None:
    x, y, bounding = region["objects_x"], region["objects_y"], region["bounding"]
    axes.scatter(x, y, s=14, color=GREY, label="objects")
    axes.scatter(x[bounding], y[bounding], s=34, color=GREEN, label="better ones that bound it")
    axes.scatter(
        [region["x"]], [region["y"]], s=80, marker="*", color=ORANGE, label=label(region["item"]), zorder=3
    )
    axes.axhline(region["y"], color=ORANGE, linewidth=0.8, alpha=0.6)
    axes.set(xlabel=words(region["over"]), ylabel=words(region["by"]), title="objects")
    axes.legend(loc="best", fontsize=8, framealpha=0.9)


def _subscriptions(axes: Any, region: dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    lo, hi, lists = region["lo"], region["hi"], region["lists"]
    ends = np.concatenate([region["objects_x"], lo[np.isfinite(lo)], hi[np.isfinite(hi)]])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.05 * (high - low or 1.0)
    low, high = low - margin, high + margin
    for outer, inner, bottom, top in region["tiles"]:
        west, north = (low if np.isnan(outer) else outer), (high if np.isnan(top) else top)
        box = Rectangle((west, bottom), inner - west, north - bottom)
        box.set(facecolor=ORANGE, alpha=0.25, edgecolor=ORANGE, linewidth=1.2)
        axes.add_patch(box)
    shown = slice(None, None, 1 + lo.size // MOST_POINTS)
    lo, hi, lists = np.clip(lo[shown], low, high), np.clip(hi[shown], low, high), lists[shown]
    axes.scatter(lo[~lists], hi[~lists], s=5, color=GREY, label="subscriptions")
    axes.scatter(lo[lists], hi[lists], s=8, color=BLUE, label="those that list it")
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    axes.plot([region["x"]], [region["x"]], marker="*", markersize=12, color=ORANGE)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.set(
        xlabel=words(f"{region['over']}_lo"), ylabel=words(f"{region['over']}_hi"), title="subscription space"
    )
    axes.legend(loc="lower right", fontsize=8, framealpha=0.9)
