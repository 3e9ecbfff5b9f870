"""Figures as inline SVG: `y` over a parameter, a line a contender, each with its name at its end.

Text and axes take the colour of the page (`currentColor`), lines a palette that reads on light and dark and
to most colour-blind eyes. Ids inside each drawing get a prefix, so that many drawings share one page. A
drawing has six lines at most; what has more becomes several, and lines of one series stay together.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from typing import Any, TypeAlias

from rankcast.bench.records import Record
from rankcast.bench.runner import Figure
from rankcast.errors import plain, required

PALETTE = ("#3b82c4", "#e0803a", "#2fa37c", "#c65f9e", "#8f7fd6", "#b3922e", "#5aa9d6", "#d0574f")
MARKERS = "osD^vP*X"
WIDTH = 6.4
HEIGHT = 3.6
MOST_LINES = 6
LABEL = 24  # characters in a line of a name
LINE_HEIGHT = 0.055  # of the axes
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
Line: TypeAlias = tuple[str, tuple[Points, Points]]  # its name, our points, the paper's


def draw(figure: Figure, records: Sequence[Record], prefix: str) -> list[str]:
    """Draw one figure of one case as SVG elements, one for every six lines; none when no record has it.

    Args:
        figure: what to draw.
        records: of one case, one size.
        prefix: for ids; distinct for every figure of a page.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    parts: list[list[Line]] = []
    for _, group in sorted(_lines(figure, records).items()):
        lines = sorted(group)
        for start in range(0, len(lines), MOST_LINES):
            part = lines[start : start + MOST_LINES]
            if parts and len(parts[-1]) + len(part) <= MOST_LINES:
                parts[-1] += part
            else:
                parts.append(part)
    return [_drawing(figure, part, f"{prefix}-{number}") for number, part in enumerate(parts)]


def _drawing(figure: Figure, lines: Sequence[Line], prefix: str) -> str:
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(SETTINGS):
        canvas = matplotlib.figure.Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = canvas.subplots()
        for number, (_, (ours, paper)) in enumerate(lines):
            style = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
            axes.plot(*zip(*sorted(ours), strict=True), linewidth=1.8, markersize=5, **style)
            if paper:
                axes.plot(*zip(*sorted(paper), strict=True), **_PAPER, **style)
        _dress(axes, figure)
        places = sorted({x for _, (ours, _) in lines for x, _ in ours})
        if len(places) <= MOST_TICKS:
            axes.set_xticks(places)
        _name(axes, [(label, max(ours)) for label, (ours, _) in lines])
        if any(paper for _, (_, paper) in lines):
            canvas.legend(
                [matplotlib.lines.Line2D([], [], color=INK, marker="o", **_PAPER)],
                ["the paper"],
                loc="outside lower center",
                frameon=False,
                fontsize=9,
            )
        return to_svg(canvas, prefix)


def _name(axes: Any, ends: Sequence[tuple[str, tuple[float, float]]]) -> None:
    """Write the name of each line beside its end, in its colour, none over another."""
    height = axes.transAxes.inverted().transform(axes.transData.transform([end for _, end in ends]))[:, 1]
    texts = [textwrap.fill(label, LABEL) for label, _ in ends]
    below = -1.0
    for place in sorted(range(len(ends)), key=lambda each: float(height[each])):
        lines = 1 + texts[place].count("\n")
        middle = max(float(height[place]), below + lines * LINE_HEIGHT / 2)
        below = middle + lines * LINE_HEIGHT / 2
        colour = PALETTE[place % len(PALETTE)]
        axes.text(1.02, middle, texts[place], transform=axes.transAxes, color=colour, fontsize=9, va="center")


def _lines(figure: Figure, records: Sequence[Record]) -> dict[str, list[Line]]:
    """Label, our points and the paper's of every line that has a point of ours, by the values of `series`."""
    found: dict[tuple[str, str], tuple[Points, Points]] = {}
    for record in records:
        x, given = record.parameters.get(figure.x), record.parameters
        if not isinstance(x, int | float):
            continue
        group = " ".join(f"{each}={given[each]}" for each in figure.series if each in given)
        for measured in record.contenders:
            if figure.contenders and measured.name not in figure.contenders:
                continue
            label = plain(f"{measured.name} {group}".rstrip())
            ours, paper = found.setdefault((group, label), ([], []))
            y = measured.quantity(figure.y)
            if y is not None:
                ours.append((x, y))
            if figure.y in measured.paper:
                paper.append((x, measured.paper[figure.y]))
    groups: dict[str, list[Line]] = {}
    for (group, label), points in found.items():
        if points[0]:
            groups.setdefault(group, []).append((label, points))
    return groups


def _dress(axes: Any, figure: Figure) -> None:
    """Set scales, labels and grid."""
    axes.set_xlabel(figure.x.replace("_", " "))
    axes.set_ylabel(figure.y.replace("_", " "))
    if figure.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(tick)
    if figure.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(tick)
    else:
        axes.set_ylim(bottom=0)
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.5, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def tick(value: float, _: int = 0) -> str:
    """A number beside an axis, with its digits as long as they are few.

    >>> tick(1e6), tick(0.25), tick(1e-7)
    ('1,000,000', '0.25', '1e-07')
    """
    return f"{value:,.9g}"


def load_matplotlib() -> Any:
    """Import matplotlib, without its global state."""
    required("matplotlib.figure", "plot")
    required("matplotlib.lines", "plot")
    return required("matplotlib", "plot")


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
