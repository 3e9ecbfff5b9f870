"""The report: one HTML page that needs nothing else.

Figures are inline SVG. Text and axes take the colour of the page (`currentColor`), lines a palette that reads
on light and dark and to most colour-blind eyes. Ids inside each drawing get a prefix, so that many drawings
share one page.

A section a case: what it measures and which table or figure of a paper it repeats, a table a size with a row
for each contender under each set of parameters, the paper's value beside ours, and the declared figures.

Everything that comes from a record is escaped: `element` takes text and escapes it, writes what does not
print as an escape, and lets through only what is `Markup` already.
"""

from __future__ import annotations

import html
import io
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from rankcast.bench.records import Measurement, Record
from rankcast.bench.runner import SIZES, Case, Figure
from rankcast.errors import plain, required

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
    required("matplotlib.figure", "plot")
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


class Markup(str):
    """Text that is markup already. Everything else is escaped on its way into an element."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str | int | None) -> Markup:
    """Make an element; content that is not `Markup` is escaped, attributes always are, None leaves one out.

    >>> element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(content)}</{name}>")


def join(content: Iterable[str]) -> Markup:
    """Join pieces, escaping those that are not markup yet."""
    return Markup("".join(each if isinstance(each, Markup) else _escaped(each) for each in content))


def _escaped(value: object) -> str:
    return html.escape(plain(str(value), keep="\n"))


def number(value: float | None) -> str:
    """Write a number with four significant digits, thousands apart, and nothing for None.

    >>> number(1234567.8), number(6.6), number(0.0123456), number(44), number(None)
    ('1,234,568', '6.6', '0.01235', '44', '')
    """
    if value is None:
        return ""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """Write seconds in the unit that fits.

    >>> duration(0.00001234), duration(0.25), duration(12.3)
    ('12.3 µs', '250 ms', '12.3 s')
    """
    for factor, unit in ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s")):
        if seconds < 999.5 * factor or unit == "s":
            return f"{seconds / factor:.3g} {unit}" if seconds < 999.5 else f"{seconds:,.0f} s"
    raise AssertionError("the last unit takes everything")


def size(count: int | None) -> str:
    """Write bytes in the unit that fits.

    >>> size(512), size(2_500_000), size(None)
    ('512 B', '2.5 MB', '')
    """
    if count is None:
        return ""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --card: #ffffff; --ink: #1d2329; --soft: #667079;
  --line: #e2e5e8; --head: #f2f4f5; --accent: #2468a8; --good: #1c7c54; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171a; --card: #1b1f23;
  --ink: #e3e6e8; --soft: #98a2ab;
  --line: #30363c; --head: #22272c; --accent: #7ab3e8; --good: #6cc79b; --bad: #f28b82; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 2.5rem 1.5rem 5rem; background: var(--page);
  color: var(--ink); font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; letter-spacing: -.02em; }
h2 { font-size: 1.25rem; margin: 0; letter-spacing: -.01em; }
h3 { font-size: .82rem; margin: 1.6rem 0 .5rem; color: var(--soft); font-weight: 600; }
p { margin: .3rem 0; max-width: 52rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
.soft { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); font-weight: 700; }
nav { margin: 1.5rem 0 2rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; font-size: .9rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.3rem 1.5rem 1.5rem; margin: 0 0 1.4rem; }
.source { font-size: .82rem; color: var(--soft); border: 1px solid var(--line); border-radius: 99px;
  padding: .1rem .6rem; margin-left: .6rem; vertical-align: .15em; font-weight: 400; letter-spacing: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; min-width: 100%; }
th { text-align: left; font-weight: 600; font-size: .78rem; color: var(--soft); background: var(--head);
  vertical-align: bottom; white-space: nowrap; }
th, td { padding: .36rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th.number, td.number { text-align: right; }
td.given { vertical-align: top; }
tr.first td { border-top: 1px solid var(--line); }
td small { color: var(--soft); font-size: .85em; margin-left: .35em; }
td.paper { color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 1.2rem; }
figure { margin: 1rem 0 0; flex: 1 1 26rem; max-width: 40rem; }
figure svg { width: 100%; height: auto; color: var(--ink); font-family: inherit; }
figcaption { font-size: .85rem; color: var(--soft); }
details { margin-top: .9rem; font-size: .88rem; }
summary { cursor: pointer; color: var(--accent); margin-bottom: .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .88rem;
  margin: .8rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; }
@media print { body { max-width: none; } section { break-inside: avoid; } }
"""


_META = Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">')
HOW_TO_READ = (
    "Seconds are the median of the runs, with the fastest beside it; compiling is apart, and none where "
    "Numba's cache was warm. A ratio is the baseline's time a unit of work over the contender's, both from "
    "the same run: 10 means ten times faster than the baseline."
)


def page(records: Sequence[Record], cases: Mapping[str, Case]) -> str:
    """Make the whole page from the newest record of every case, size and set of parameters."""
    ordered = sorted(records, key=lambda record: record.case)
    groups = {name: list(group) for name, group in itertools.groupby(ordered, key=lambda record: record.case)}
    parts = [
        _introduction(records),
        element("nav", *(element("a", name, href=f"#{name}") for name in groups)),
        *(_section(name, group, cases.get(name)) for name, group in groups.items()),
    ]
    return document("rankcast benchmarks", STYLE, parts)


def document(title: str, style: str, parts: Iterable[Markup]) -> str:
    """A whole page under a title."""
    head = element("head", _META, element("title", title), element("style", Markup(style)))
    body = element("body", element("h1", title), *parts)
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _introduction(records: Sequence[Record]) -> Markup:
    """Say how to read the page and what it was measured on."""
    machines = {
        f"{record.machine.get('cpu')}, {record.machine.get('cores')} cores, {record.machine.get('system')}"
        for record in records
    }
    versions = {
        " · ".join(f"{name} {version}" for name, version in record.versions.items()) for record in records
    }
    checked = [record.agrees_with_brute_force for record in records]
    days = sorted({record.at[:10] for record in records})
    facts = {
        "machine": "; ".join(sorted(machines)),
        "versions": "; ".join(sorted(versions)),
        "commit": _few([record.commit or "unknown" for record in records]),
        "measured": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        "answers": f"{checked.count(True)} agree with brute force, {checked.count(False)} disagree, "
        f"{checked.count(None)} answer no query",
    }
    rows = [each for name, value in facts.items() for each in (element("dt", name), element("dd", value))]
    return join([element("p", HOW_TO_READ, class_="soft"), element("dl", *rows)])


def _few(names: Sequence[str], most: int = 4) -> str:
    """Name the last few different ones, and how many there are besides."""
    different = list(dict.fromkeys(reversed(names)))
    more = f" and {len(different) - most} more" if len(different) > most else ""
    return ", ".join(different[:most]) + more


def _section(name: str, records: Sequence[Record], case: Case | None) -> Markup:
    """Make the section of one case."""
    source = records[-1].reproduces
    title = element("h2", name, *([element("span", source, class_="source")] if source else []))
    parts: list[str] = [title, element("p", case.summary if case else "No longer declared.", class_="soft")]
    for wanted in [*SIZES, *sorted({record.size for record in records} - set(SIZES))]:
        chosen = sorted((record for record in records if record.size == wanted), key=_by_parameters)
        if chosen:
            parts += [element("h3", f"size {wanted}, seed {chosen[-1].seed}"), _table(chosen)]
            parts += [_counters(chosen), _figures(name, wanted, chosen, case)]
    return element("section", *parts, id=name)


def _by_parameters(record: Record) -> list[tuple[str, bool, float, str]]:
    """Order numbers as numbers and words as words."""
    return [
        (name, numeric := isinstance(value, int | float), value if numeric else 0, str(value))
        for name, value in record.parameters.items()
    ]


def _table(records: Sequence[Record]) -> Markup:
    """Make the main table: parameters, contender, seconds, rate, ratio, paper's value and ours, agreement."""
    given = _names(record.parameters for record in records)
    reported = _names(measured.paper for record in records for measured in record.contenders)
    sized = any(m.bytes is not None or m.peak_bytes is not None for r in records for m in r.contenders)
    heads = [element("th", name.replace("_", " ")) for name in given] + [element("th", "contender")]
    labels = ["seconds", f"{records[-1].unit}s a second", "ratio", *(["bytes"] if sized else [])]
    heads += [element("th", label, class_="number") for label in labels]
    for name in reported:
        heads += [
            element("th", f"{name.replace('_', ' ')}, {whose}", class_="number")
            for whose in ("paper", "ours")
        ]
    heads += [element("th", "compiling", class_="number"), element("th", "agrees")]
    rows = [
        _row(record, index, given, reported, sized)
        for record in records
        for index in range(len(record.contenders))
    ]
    return _scroll(heads, rows)


def _row(record: Record, index: int, given: list[str], reported: list[str], sized: bool) -> Markup:
    """Make the row of one contender; the first one of a set carries the parameters for all of them."""
    measured, count = record.contenders[index], len(record.contenders)
    cells: list[Markup] = []
    if index == 0:
        cells += [
            element("td", _value(record.parameters.get(name)), class_="given", rowspan=count)
            for name in given
        ]
    cells += [
        element("td", measured.name),
        element("td", duration(measured.median), element("small", duration(measured.least)), class_="number"),
        element("td", number(measured.rate), class_="number"),
        element("td", _ratio(record, measured), class_="number"),
    ]
    if sized:
        peak = (
            [element("small", f"peak {size(measured.peak_bytes)}")] if measured.peak_bytes is not None else []
        )
        cells.append(element("td", size(measured.bytes), *peak, class_="number"))
    for name in reported:
        cells += _beside(measured, name)
    cells.append(element("td", _compiling(measured), class_="number"))
    if index == 0:
        cells.append(element("td", _agreement(record), class_="given", rowspan=count))
    return element("tr", *cells, class_="first" if index == 0 else None)


def _beside(measured: Measurement, name: str) -> list[Markup]:
    """Put the paper's value and ours side by side, with the difference in per cent."""
    paper, ours = measured.paper.get(name), measured.quantity(name)
    apart: list[str] = []
    if paper and ours is not None:
        apart = [element("small", f"{ours / paper - 1:+.1%}")]
    return [
        element("td", number(paper), class_="number paper"),
        element("td", number(ours) if paper is not None else "", *apart, class_="number"),
    ]


def _ratio(record: Record, measured: Measurement) -> str:
    """Write a ratio; the baseline is named instead."""
    if measured.ratio is None:
        return ""
    return "baseline" if measured.name == record.baseline else f"{_short(measured.ratio)} x"


def _short(ratio: float) -> str:
    """Write a ratio with three digits; more would pretend to a precision that no machine has."""
    return number(ratio) if ratio >= 1000 else f"{ratio:.3g}"


def _compiling(measured: Measurement) -> str:
    """Write what compiling took, and say so if it fell into the timed runs."""
    inside = (
        f", {duration(measured.compile_seconds_timed)} inside the timed runs"
        if measured.compile_seconds_timed
        else ""
    )
    return (duration(measured.compile_seconds) if measured.compile_seconds else "none") + inside


def _agreement(record: Record) -> Markup:
    """Say whether the answers agreed with brute force."""
    words = {True: ("yes", "good"), False: ("NO", "bad"), None: ("no queries", "soft")}
    text, style = words[record.agrees_with_brute_force]
    return element("span", text, class_=style)


def _counters(records: Sequence[Record]) -> Markup:
    """Make the folded table of counters; empty when there are none."""
    given = _names(record.parameters for record in records)
    names = _names(measured.counters for record in records for measured in record.contenders)
    if not names:
        return Markup("")
    heads = [element("th", name.replace("_", " ")) for name in [*given, "contender"]]
    heads += [element("th", name.replace("_", " "), class_="number") for name in names]
    rows = [
        element(
            "tr",
            *(element("td", _value(record.parameters.get(name))) for name in given),
            element("td", measured.name),
            *(element("td", number(measured.counters.get(name)), class_="number") for name in names),
        )
        for record in records
        for measured in record.contenders
        if measured.counters
    ]
    return element("details", element("summary", "counters"), _scroll(heads, rows))


def _figures(name: str, wanted: str, records: Sequence[Record], case: Case | None) -> Markup:
    """Draw the declared figures of one size."""
    drawn: list[Markup] = []
    for index, figure in enumerate(case.figures if case else ()):
        drawing = draw(figure, records, prefix=f"{name.replace('.', '-')}-{wanted}-{index}")
        if drawing is not None:
            drawn.append(element("figure", Markup(drawing), element("figcaption", figure.title)))
    return element("div", *drawn, class_="figures") if drawn else Markup("")


def _scroll(heads: Sequence[Markup], rows: Sequence[Markup]) -> Markup:
    """Make a table that scrolls sideways when the window is narrow."""
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element("div", table, class_="scroll")


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """List the keys of all mappings, each once, in the order of their first appearance."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _value(value: object) -> str:
    """Write a parameter."""
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
