"""Figures of the report as inline SVG.

Text and axes take the colour of the page (`currentColor`), lines a palette that reads on light and dark and
to most colour-blind eyes. Ids inside each drawing get a prefix, so that many drawings share one page.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from rankcast.bench.case import Figure
from rankcast.bench.records import Record
from rankcast.errors import MissingExtraError, plain

PALETTE = ("#3b82c4", "#e0803a", "#2fa37c", "#c65f9e", "#8f7fd6", "#b3922e", "#5aa9d6", "#d0574f")
MARKERS = "osD^vP*X"
WIDTH = 6.4
MARK_POINTS, LETTER_POINTS = 40, 5
MOST_TICKS = 8
INK = "#010203"
SETTINGS = {
    **dict.fromkeys(["text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"], INK),
    "grid.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "rankcast",
    "text.parse_math": False,
}
_PAPER: dict[str, Any] = {
    "linestyle": (0, (2, 2)),
    "linewidth": 1.1,
    "markersize": 7,
    "markerfacecolor": "none",
}
Points: TypeAlias = list[tuple[float, float]]


def draw(figure: Figure, records: Sequence[Record], prefix: str) -> str | None:
    """Draw one figure of one case as an SVG element; None when no record has what it shows.

    Args:
        figure: what to draw.
        records: of one case, one size.
        prefix: for ids; distinct for every drawing of a page.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    lines = dict(_lines(figure, records))
    if not lines:
        return None
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(SETTINGS):
        columns = legend_columns(lines)
        height = 3.5 + 0.2 * math.ceil((len(lines) + 1) / columns)
        canvas = matplotlib.figure.Figure(figsize=(WIDTH, height), layout="constrained")
        axes = canvas.subplots()
        for number, (label, (ours, paper)) in enumerate(sorted(lines.items())):
            style = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
            axes.plot(*zip(*sorted(ours), strict=True), label=label, linewidth=1.8, markersize=5, **style)
            if paper:
                axes.plot(*zip(*sorted(paper), strict=True), **_PAPER, **style)
        if any(paper for _, paper in lines.values()):
            axes.plot([], [], label="the paper", color=INK, marker="o", **_PAPER)
        _dress(axes, figure)
        canvas.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        places = sorted({x for ours, _ in lines.values() for x, _ in ours})
        if len(places) <= MOST_TICKS:
            axes.set_xticks(places)
        return to_svg(canvas, prefix)


def _lines(figure: Figure, records: Sequence[Record]) -> Iterator[tuple[str, tuple[Points, Points]]]:
    """Yield label, our points and the paper's points of every line that has at least one point of ours."""
    found: dict[str, tuple[Points, Points]] = {}
    for record in records:
        x = record.parameters.get(figure.x)
        if not isinstance(x, int | float):
            continue
        for measured in record.contenders:
            if figure.contenders and measured.name not in figure.contenders:
                continue
            label = " ".join(
                [measured.name, *(f"{each}={record.parameters.get(each)}" for each in figure.series)]
            )
            ours, paper = found.setdefault(plain(label), ([], []))
            y = measured.quantity(figure.y)
            if y is not None:
                ours.append((x, y))
            if figure.y in measured.paper:
                paper.append((x, measured.paper[figure.y]))
    return ((label, points) for label, points in found.items() if points[0])


def legend_columns(labels: Iterable[str]) -> int:
    """How many columns of the legend fit under a drawing."""
    return max(1, min(4, int(WIDTH * 72) // (MARK_POINTS + LETTER_POINTS * max(map(len, labels)))))


def _dress(axes: Any, figure: Figure) -> None:
    """Set scales, labels and grid."""
    axes.set_xlabel(figure.x.replace("_", " "))
    axes.set_ylabel(figure.y.replace("_", " "))
    if figure.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,g}")
    if figure.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,g}")
    else:
        axes.set_ylim(bottom=0)
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.5, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def load_matplotlib() -> Any:
    """Import matplotlib, without its global state."""
    try:
        import matplotlib.figure  # noqa: PLC0415 (an extra)
    except ImportError as missing:
        raise MissingExtraError("plot", needs="matplotlib") from missing
    return matplotlib


def to_svg(canvas: Any, prefix: str) -> str:
    """Render, strip the file's head, put the prefix on ids and the page's colour on the ink."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", text)
    return text.replace(INK, "currentColor")
