"""A picture of the safe zone of a skyline, a part of `rankcast.plot.zone` (matplotlib; the extra `plot`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.errors import brief, shown

BLUE, ORANGE, GREY, GREEN = "#2b6cb0", "#dd6b20", "#a0aec0", "#2f855a"
MARGIN = 1.3
MOST_OBJECTS = 20_000
MOST_REGIONS = 60


def label(value: Any) -> str:
    """A value in a title or a legend: no character that does not print, no formula between dollar signs."""
    return words(shown(value))


def words(text: str) -> str:
    """A name on an axis, as `label`."""
    return brief(text).replace("$", r"\$")


def draw(axes: Any, told: dict[str, Any], subscription: Any, path: Any) -> None:
    """Draw what `MovingSkyline.view` told of a euclidean zone.

    The zone, holes and all; the impact regions of the skyline (the query is inside) and of the other
    objects that bound the zone (it is outside), but for those that are everywhere in the skyline; objects,
    the skyline with its ranks, and the query.
    """
    seen = _window(axes, told, path)
    _regions(axes, told)
    _zone(axes, told)
    _objects(axes, told, seen)
    if path.size:
        axes.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=1.2, alpha=0.7, label="track", zorder=4)
    dot = {"marker": "o", "linestyle": "none", "markersize": 8, "color": BLUE, "label": "query"}
    axes.plot([told["x"]], [told["y"]], zorder=6, **dot)
    edges = sum(map(len, told["rings"]))
    axes.set(
        title=f"zone of {label(subscription)}: {edges} edges, a skyline of {len(told['result'])}",
        xlabel="x",
        ylabel="y",
    )
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)


def _window(axes: Any, told: dict[str, Any], path: Any) -> tuple[float, float, float, float]:
    """Show the zone, the objects that bound it and the nearest results; returns what is seen."""
    near = told["result"][:5]
    others = np.setdiff1d(told["members"], told["result"])
    shown = np.concatenate([near, others])
    spots = np.column_stack([told["objects_x"][shown], told["objects_y"][shown]])
    places = np.vstack([told["rings"][0], [[told["x"], told["y"]]], spots, path])
    low, high = places.min(axis=0), places.max(axis=0)
    half = 0.5 * MARGIN * max(float((high - low).max()), 1e-9)
    (x, y) = 0.5 * (low + high)
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
    return x - half, x + half, y - half, y + half


def _regions(axes: Any, told: dict[str, Any]) -> None:
    from matplotlib.patches import Polygon  # noqa: PLC0415

    result, named = set(told["result"].tolist()), set()
    regions = sorted(told["regions"].items(), key=lambda each: each[0] in result)
    for at, corners in regions[:MOST_REGIONS]:
        mine = at in result
        word = "impact regions of results" if mine else "impact regions of others"
        shape = Polygon(corners, label=None if word in named else word, fill=not mine)
        shape.set(edgecolor=GREEN if mine else GREY, facecolor="#edf2f7", linewidth=1.0, alpha=0.8)
        axes.add_patch(shape)
        named.add(word)


def _zone(axes: Any, told: dict[str, Any]) -> None:
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    corners, codes = [], []
    for ring in told["rings"]:
        corners.append(np.vstack([ring, ring[:1]]))
        codes += [Path.MOVETO, *[Path.LINETO] * (len(ring) - 1), Path.CLOSEPOLY]
    shape = PathPatch(Path(np.vstack(corners), codes), label="zone", zorder=2)
    shape.set(facecolor=ORANGE, alpha=0.3, edgecolor=ORANGE, linewidth=1.8)
    axes.add_patch(shape)


def _objects(axes: Any, told: dict[str, Any], seen: tuple[float, float, float, float]) -> None:
    x, y, result = told["objects_x"], told["objects_y"], told["result"]
    others = np.setdiff1d(told["members"], result)
    inside = (x >= seen[0]) & (x <= seen[1]) & (y >= seen[2]) & (y <= seen[3])
    shown = np.flatnonzero(inside)
    shown = shown[:: 1 + shown.size // MOST_OBJECTS]
    axes.scatter(x[shown], y[shown], s=8, color=GREY, label="objects", zorder=3)
    axes.scatter(x[others], y[others], s=30, color="#4a5568", label="others that bound the zone", zorder=4)
    axes.scatter(x[result], y[result], s=130, marker="*", color=GREEN, label="skyline, with ranks", zorder=5)
    for rank, place in enumerate(result, 1):
        spot, beside = (x[place], y[place]), {"xytext": (5, 4), "textcoords": "offset points"}
        axes.annotate(str(rank), spot, fontsize=8, clip_on=True, **beside)
