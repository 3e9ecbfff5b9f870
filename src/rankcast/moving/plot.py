"""Pictures of safe zones: `zone` is `rankcast.plot.zone` (matplotlib; the extra `plot`).

A zone of `MovingTopK`, or of a skyline in a metric other than the Euclidean, is a circle with members; a
Euclidean zone of `MovingSkyline` is a polygon, drawn with the impact regions that bound it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rankcast.errors import InputError, MissingExtraError, brief, shown

BLUE, ORANGE, GREY, GREEN = "#2b6cb0", "#dd6b20", "#a0aec0", "#2f855a"
POLYGON_MARGIN = 1.3
MOST_REGIONS = 60


def label(value: Any) -> str:
    """A value in a title or a legend: printable, and with no formula between dollar signs."""
    return words(shown(value))


def words(text: str) -> str:
    """A name on an axis, as `label`."""
    return brief(text).replace("$", r"\$")


def _draw_polygon(axes: Any, view: dict[str, Any], subscription: Any, path: Any) -> None:
    """Draw what `MovingSkyline.view` view of a euclidean zone.

    The zone, holes and all; the impact regions of the skyline (the query is inside) and of the other
    objects that bound the zone (it is outside), but for those that are everywhere in the skyline; objects,
    the skyline with its ranks, and the query.
    """
    seen = _polygon_extent(axes, view, path)
    _regions(axes, view)
    _zone(axes, view)
    _polygon_objects(axes, view, seen)
    if path.size:
        axes.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=1.2, alpha=0.7, label="track", zorder=4)
    dot = {"marker": "o", "linestyle": "none", "markersize": 8, "color": BLUE, "label": "query"}
    axes.plot([view["x"]], [view["y"]], zorder=6, **dot)
    edges = sum(map(len, view["rings"]))
    axes.set(
        title=f"zone of {label(subscription)}: {edges} edges, a skyline of {len(view['result'])}",
        xlabel="x",
        ylabel="y",
    )
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)


def _polygon_extent(axes: Any, view: dict[str, Any], path: Any) -> tuple[float, float, float, float]:
    """Show the zone, the objects that bound it and the nearest results; returns what is seen."""
    near = view["result"][:5]
    others = np.setdiff1d(view["members"], view["result"])
    shown = np.concatenate([near, others])
    spots = np.column_stack([view["objects_x"][shown], view["objects_y"][shown]])
    places = np.vstack([view["rings"][0], [[view["x"], view["y"]]], spots, path])
    low, high = places.min(axis=0), places.max(axis=0)
    half = 0.5 * POLYGON_MARGIN * max(float((high - low).max()), 1e-9)
    (x, y) = 0.5 * (low + high)
    axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half), aspect="equal")
    return x - half, x + half, y - half, y + half


def _regions(axes: Any, view: dict[str, Any]) -> None:
    from matplotlib.patches import Polygon  # noqa: PLC0415

    result, named = set(view["result"].tolist()), set()
    regions = sorted(view["regions"].items(), key=lambda each: each[0] in result)
    for at, corners in regions[:MOST_REGIONS]:
        mine = at in result
        word = "impact regions of results" if mine else "impact regions of others"
        shape = Polygon(corners, label=None if word in named else word, fill=not mine)
        shape.set(edgecolor=GREEN if mine else GREY, facecolor="#edf2f7", linewidth=1.0, alpha=0.8)
        axes.add_patch(shape)
        named.add(word)


def _zone(axes: Any, view: dict[str, Any]) -> None:
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    corners, codes = [], []
    for ring in view["rings"]:
        corners.append(np.vstack([ring, ring[:1]]))
        codes += [Path.MOVETO, *[Path.LINETO] * (len(ring) - 1), Path.CLOSEPOLY]
    shape = PathPatch(Path(np.vstack(corners), codes), label="zone", zorder=2)
    shape.set(facecolor=ORANGE, alpha=0.3, edgecolor=ORANGE, linewidth=1.8)
    axes.add_patch(shape)


def _polygon_objects(axes: Any, view: dict[str, Any], seen: tuple[float, float, float, float]) -> None:
    x, y, result = view["objects_x"], view["objects_y"], view["result"]
    others = np.setdiff1d(view["members"], result)
    inside = (x >= seen[0]) & (x <= seen[1]) & (y >= seen[2]) & (y <= seen[3])
    shown = np.flatnonzero(inside)
    shown = shown[:: 1 + shown.size // MOST_OBJECTS]
    axes.scatter(x[shown], y[shown], s=8, color=GREY, label="objects", zorder=3)
    axes.scatter(x[others], y[others], s=30, color="#4a5568", label="others that bound the zone", zorder=4)
    axes.scatter(x[result], y[result], s=130, marker="*", color=GREEN, label="skyline, with ranks", zorder=5)
    for rank, place in enumerate(result, 1):
        spot, beside = (x[place], y[place]), {"xytext": (5, 4), "textcoords": "offset points"}
        axes.annotate(str(rank), spot, fontsize=8, clip_on=True, **beside)


BLUE, ORANGE, GREY, GREEN = "#2b6cb0", "#dd6b20", "#a0aec0", "#2f855a"
DEGREE = 111_195.08  # metres of a degree of latitude
CIRCLE_MARGIN = 1.6
MOST_OBJECTS = 20_000


def zone(engine: Any, subscription: Any, *, track: Any = None, figure: Any = None) -> Any:
    """Draw the zone of a subscription of `MovingTopK` or `MovingSkyline`; returns the matplotlib figure.

    It shows the objects that pass the filter, the members of the zone, the result with its ranks, the circle
    within which the result is among the members (a diamond in the Manhattan metric), and the query. For a
    skyline in the plane it shows the polygon within which the skyline stays the same, and impact regions.
    `track` are places (n, 2) that the query went through.

    >>> from rankcast import MovingTopK, plot
    >>> engine = MovingTopK(over=["price"], k=1)
    >>> _ = engine.upsert({"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]})
    >>> _ = engine.subscribe({"id": [7], "x": [1], "y": [0]})
    >>> figure = plot.zone(engine, 7)  # figure.savefig("zone.png")
    >>> len(figure.axes)
    1
    """
    if not hasattr(engine, "zones"):
        what = f"{type(engine).__name__} has no zones"
        raise InputError(what, where="zone", expected="MovingTopK or MovingSkyline")
    view = engine.view(subscription)
    figure = figure or _figure()
    axes = figure.subplots()
    path = np.empty((0, 2)) if track is None else np.asarray(track, np.float64).reshape(-1, 2)
    if "rings" in view:
        _draw_polygon(axes, view, subscription, path)
        figure.tight_layout()
        return figure
    _circle_objects(axes, view, _circle_extent(axes, view, path))
    _circle(axes, view)
    if path.size:
        axes.plot(path[:, 0], path[:, 1], color=BLUE, linewidth=1.2, alpha=0.7, label="track", zorder=4)
    axes.plot(
        [view["x"]],
        [view["y"]],
        marker="o",
        linestyle="none",
        markersize=8,
        color=BLUE,
        label="query",
        zorder=6,
    )
    radius = view["zone"]["radius"]
    axes.set(
        title=f"zone of {label(subscription)}: radius {radius:,.6g}, {len(view['members'])} members",
        xlabel="x",
        ylabel="y",
    )
    axes.legend(loc="upper right", fontsize=8, framealpha=0.9)
    figure.tight_layout()
    return figure


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("plot", needs="matplotlib") from error
    return Figure(figsize=(7.5, 7), dpi=110)


def _radii(view: dict[str, Any]) -> tuple[float, float]:
    """The radius along x and along y, in the units of the axes; 0 if it is infinite."""
    radius = view["zone"]["radius"]
    if not math.isfinite(radius):
        return 0.0, 0.0
    if view["metric"] != "haversine":
        return radius, radius
    up = radius / DEGREE
    return up / max(0.01, math.cos(math.radians(view["zone"]["y"]))), up


def _circle_extent(axes: Any, view: dict[str, Any], path: Any) -> tuple[float, float, float, float]:
    """Show the zone, its members and the track, with a margin; returns what is seen."""
    along, up = _radii(view)
    centre_x, centre_y, members = view["zone"]["x"], view["zone"]["y"], view["members"]
    x = np.concatenate(
        [[centre_x - along, centre_x + along, view["x"]], view["objects_x"][members], path[:, 0]]
    )
    y = np.concatenate([[centre_y - up, centre_y + up, view["y"]], view["objects_y"][members], path[:, 1]])
    aspect = 1.0
    if view["metric"] == "haversine":
        aspect = 1 / max(0.01, math.cos(math.radians(centre_y)))
    half = 0.5 * CIRCLE_MARGIN * max(float(np.ptp(x)), float(np.ptp(y)) * aspect, 1e-9)
    middle_x, middle_y = 0.5 * float(x.min() + x.max()), 0.5 * float(y.min() + y.max())
    seen = middle_x - half, middle_x + half, middle_y - half / aspect, middle_y + half / aspect
    axes.set(xlim=seen[:2], ylim=seen[2:], aspect=aspect)
    return seen


def _circle_objects(axes: Any, view: dict[str, Any], seen: tuple[float, float, float, float]) -> None:
    x, y, members, result = view["objects_x"], view["objects_y"], view["members"], view["result"]
    inside = (x >= seen[0]) & (x <= seen[1]) & (y >= seen[2]) & (y <= seen[3])
    shown = np.flatnonzero(inside)
    shown = shown[:: 1 + shown.size // MOST_OBJECTS]
    axes.scatter(x[shown], y[shown], s=8, color=GREY, label="objects")
    axes.scatter(x[members], y[members], s=30, color=GREEN, label="members", zorder=3)
    axes.scatter(x[result], y[result], s=150, marker="*", color=ORANGE, label="result, with ranks", zorder=5)
    for rank, place in enumerate(result, 1):
        axes.annotate(
            str(rank),
            (x[place], y[place]),
            xytext=(4, 4),
            textcoords="offset points",
            fontsize=8,
            clip_on=True,
        )


def _circle(axes: Any, view: dict[str, Any]) -> None:
    from matplotlib.patches import Ellipse, Polygon  # noqa: PLC0415

    along, up = _radii(view)
    x, y = view["zone"]["x"], view["zone"]["y"]
    if along == 0.0:
        return
    if view["metric"] == "manhattan":
        shape: Any = Polygon([(x - along, y), (x, y + up), (x + along, y), (x, y - up)])
    else:
        shape = Ellipse((x, y), 2 * along, 2 * up)
    shape.set(facecolor=ORANGE, alpha=0.18, edgecolor=ORANGE, linewidth=1.4, label="zone")
    axes.add_patch(shape)
    axes.plot([x], [y], marker="+", markersize=9, color=ORANGE, zorder=4)
