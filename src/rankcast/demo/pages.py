"""What the reports of demonstrations share: one HTML page with figures in it, that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rankcast.bench import drawing
from rankcast.bench.markup import STYLE, Markup, document, element

_MORE = """
.wide { max-width: none; flex: 1 1 100%; } .wide svg { max-width: 64rem; }
.cards { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; }
.card { flex: 1 1 9rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: .7rem 1rem; } .card b { display: block; font-size: 1.5rem; letter-spacing: -.02em; }
.card span { color: var(--soft); font-size: .85rem; }
pre { background: var(--head); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto;
  font-size: .82rem; line-height: 1.45; }
td.text { white-space: normal; }
"""


def page(title: str, lead: str, parts: Iterable[Markup]) -> str:
    """The whole page."""
    return document(title, STYLE + _MORE, [element("p", lead, class_="soft"), *parts])


def write(path: Path, text: str) -> Path:
    """Write a page, and the directories it lies in; returns where it is, in full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path.resolve()


def section(title: str, *content: Markup, note: str = "") -> Markup:
    """A part of the page under a heading."""
    said = [element("p", note, class_="soft")] if note else []
    return element("section", element("h2", title), *said, *content)


def cards(figures: Iterable[tuple[str, str]]) -> Markup:
    """Large figures side by side, each with a word on what it is."""
    made = (
        element("div", element("b", value), element("span", word), class_="card") for value, word in figures
    )
    return element("div", *made, class_="cards")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> Markup:
    """A table; columns after the first `words` are numbers."""
    kinds = ["text" if place < words else "number" for place in range(len(heads))]

    def line(kind: str, cells: Sequence[str]) -> Markup:
        pairs = zip(cells, kinds, strict=True)
        return element("tr", *(element(kind, cell, class_=style) for cell, style in pairs))

    body = element("tbody", *(line("td", row) for row in rows))
    made = element("table", element("thead", line("th", heads)), body)
    return element("div", made, class_="scroll")


def figures(*drawn: Markup) -> Markup:
    """Figures side by side where there is room."""
    return element("div", *drawn, class_="figures")


def figure(
    name: str,
    caption: str,
    draw: Callable[[Any], None],
    *,
    size: tuple[float, float] = (6.4, 3.4),
    wide: bool = False,
) -> Markup:
    """A figure as inline SVG; `draw` gets its axes.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    matplotlib = drawing.load_matplotlib()
    with matplotlib.rc_context(drawing.SETTINGS):
        canvas = matplotlib.figure.Figure(figsize=size, layout="constrained")
        axes = canvas.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        svg = drawing.to_svg(canvas, name)
    said = element("figcaption", caption)
    return element("figure", Markup(svg), said, id=f"figure-{name}", class_="wide" if wide else None)
