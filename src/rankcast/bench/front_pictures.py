"""The front table and its two pictures in the README, from the records of one run.

`write` puts all three in their places; a test makes them again and compares. The pictures are files of SVG,
in a grey that reads on light and on dark pages.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rankcast.bench import drawing, front
from rankcast.bench.records import Record
from rankcast.bench.runner import Figure
from rankcast.errors import InputError

BEGIN = "<!-- made by: rankcast bench front --readme README.md -->"
END = "<!-- end of what is made -->"
IMAGES = Path("docs/images")
FACTORS, RANGES = "front-factors.svg", "front-ranges.svg"
LABEL = 72  # characters in a line beside a bar
ROW_HEIGHT = 0.36  # inches
GREY = "#6e7781"
_UNIT = "microseconds_an_event"


def factors(records: Sequence[Record]) -> str:
    """A bar a row of the front table, the factor to the best peer, and a mark, that to the best program."""
    rows = front.rows(records)[::-1]
    matplotlib = drawing.load_matplotlib()
    with matplotlib.rc_context(drawing.SETTINGS):
        size = drawing.WIDTH + 3.0, 1.2 + ROW_HEIGHT * len(rows)
        canvas = matplotlib.figure.Figure(figsize=size, layout="constrained")
        axes = canvas.subplots()
        shown = [(at, row.system_factor) for at, row in enumerate(rows) if row.system_factor is not None]
        places, values = [at for at, _ in shown], [value for _, value in shown]
        axes.barh(places, [value - 1 for value in values], left=1, height=0.55, color=drawing.PALETTE[0])
        plain = [(at, row.plain_factor) for at, row in enumerate(rows) if row.plain_factor is not None]
        axes.plot(
            [value for _, value in plain],
            [at for at, _ in plain],
            linestyle="none",
            marker="D",
            markersize=5,
            color=drawing.PALETTE[1],
        )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(drawing.tick)
        axes.axvline(1, color=drawing.INK, linewidth=0.8)
        names = [textwrap.fill(f"{row.task}; {row.size}", LABEL) for row in rows]
        axes.set_yticks(range(len(rows)), names, fontsize=8)
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.set_xlabel("times faster; left of 1 the other one is")
        axes.minorticks_off()
        axes.grid(visible=True, axis="x", linewidth=0.5, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        lines = matplotlib.lines.Line2D
        canvas.legend(
            [
                lines([], [], color=drawing.PALETTE[0], linewidth=7),
                lines([], [], color=drawing.PALETTE[1], marker="D", linestyle="none", markersize=5),
            ],
            ["than the best peer", "than the best plain program"],
            loc="outside upper center",
            ncols=2,
            frameon=False,
            fontsize=9,
        )
        return _file(drawing.to_svg(canvas, "factors"))


def ranges(records: Sequence[Record]) -> str:
    """The time of an event over the number of ranges, a line a contender; the fastest six."""
    chosen = [record for record in records if record.case == "front.range"]
    best: dict[str, float] = {}
    for measured in (each for record in chosen for each in record.contenders):
        unit = measured.median / measured.work
        best[measured.name] = min(unit, best.get(measured.name, unit))
    named = sorted(best, key=lambda name: (name != front.OURS, best[name]))[: drawing.MOST_LINES]
    timed = [
        replace(
            record,
            contenders=[
                replace(each, counters={_UNIT: 1e6 * each.median / each.work}) for each in record.contenders
            ],
        )
        for record in chosen
    ]
    figure = Figure(
        "10 best of a range: an event",
        x="subscriptions",
        y=_UNIT,
        log_x=True,
        log_y=True,
        contenders=tuple(named),
    )
    return _file(drawing.draw(figure, timed, "ranges")[0])


def _file(svg: str) -> str:
    """A drawing as a file of its own."""
    lines = [line.rstrip() for line in svg.replace("currentColor", GREY).splitlines()]
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join(lines) + "\n"


def section(records: Sequence[Record]) -> str:
    """What stands in the README between its two marks."""
    told = {
        FACTORS: "How many times faster rankcast is than the best peer and the best plain program, by task",
        RANGES: "The time of an event over the number of ranges, for rankcast and its peers",
    }
    pictures = [f"![{words}]({(IMAGES / name).as_posix()})" for name, words in told.items()]
    return "\n\n".join([BEGIN, front.markdown(records), *pictures, END])


def write(readme: Path, records: Sequence[Record]) -> list[Path]:
    """Put table and pictures in their places; the files that were written.

    Raises:
        InputError: the file has no marks.
    """
    text = readme.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or END not in text:
        raise InputError(f"{readme} does not say where the front table goes", hint=f"Add: {BEGIN} and {END}")
    before, _, rest = text.partition(BEGIN)
    images = readme.parent / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    made = {
        images / FACTORS: factors(records),
        images / RANGES: ranges(records),
        readme: before + section(records) + rest.partition(END)[2],
    }
    for path, content in made.items():
        path.write_text(content, encoding="utf-8")
    return list(made)
