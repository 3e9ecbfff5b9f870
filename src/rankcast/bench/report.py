"""The report: one HTML page that needs nothing else.

First the front table, then how costs grow, then what the papers report beside what we measured, then all
cases: a summary for each family, and behind it, folded, a section a case with a table a size, a row for each
contender under each set of parameters, and the declared figures.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from rankcast.bench import front, growth, limits
from rankcast.bench.drawing import draw
from rankcast.bench.markup import STYLE, Markup, document, duration, element, join, number, scroll, size
from rankcast.bench.records import Measurement, Record
from rankcast.bench.runner import SIZES, Case, Figure

HOW_TO_READ = (
    "Seconds are the median of the runs, with the fastest beside it; compiling is apart, and none where "
    "Numba's cache was warm. A ratio is the baseline's time a unit of work over the contender's, both from "
    "the same run: 10 means ten times faster than the baseline."
)
FAMILIES = {
    "front": "Cases of the front table",
    "growth": "Cases of growth",
    "limits": "What the machine allows",
    "range-topk": "Range top-k",
    "range-topk-15d": "Range top-k over two attributes",
    "covering": "Subscription covering",
    "matching": "Ranked matching",
    "geotext": "Spatial-keyword top-k",
    "moving-topk": "Moving top-k",
    "moving-skyline": "Moving skyline",
    "moving": "Moving engines on real tracks",
    "network": "Networks of brokers",
    "spark": "Spark",
    "kafka": "Kafka",
    "pipeline": "Pipelines",
    "start": "First calls",
    "tables": "Reading tables",
    "service": "The service",
}


def page(records: Sequence[Record], cases: Mapping[str, Case]) -> str:
    """Make the whole page from the newest record of every case, size and set of parameters."""
    ordered = sorted(records, key=lambda record: (_rank(record), record.case))
    names = {name: list(group) for name, group in itertools.groupby(ordered, key=lambda record: record.case)}
    families: dict[str, dict[str, list[Record]]] = {}
    for name, group in names.items():
        families.setdefault(name.partition(".")[0], {})[name] = group
    parts = {
        "front": _front(records),
        "costs": _growth(records),
        "papers": _papers(names, cases),
        **{f"family-{each}": _family(each, groups, cases) for each, groups in families.items()},
    }
    titles = {"front": "Front table", "costs": "Growth", "papers": "The papers"}
    titles |= {f"family-{each}": _title(each) for each in families}
    shown = {key: part for key, part in parts.items() if part}
    links = [element("a", titles[key], href=f"#{key}") for key in shown]
    return document(
        "rankcast benchmarks", STYLE, [_introduction(records), element("nav", *links), *shown.values()]
    )


def _rank(record: Record) -> int:
    family = record.case.partition(".")[0]
    return list(FAMILIES).index(family) if family in FAMILIES else len(FAMILIES)


def _title(family: str) -> str:
    return FAMILIES.get(family, family)


def _front(records: Sequence[Record]) -> Markup:
    """The front table, of size full where there is one."""
    chosen = _largest([record for record in records if record.case.startswith("front.")])
    rows = front.rows([*chosen, *(record for record in records if record.case == limits.CASE)])
    if not rows:
        return Markup("")
    names = front.headings(rows)
    heads = [element("th", name, class_="number" if name in front.NUMBERS else None) for name in names]
    body = [
        element(
            "tr",
            *(
                element("td", cell, class_="number" if name in front.NUMBERS else None)
                for name, cell in zip(names, front.cells(row), strict=False)
            ),
        )
        for row in rows
    ]
    note = element("p", front.source(chosen), class_="soft")
    table = element("div", scroll(heads, body), class_="folded")
    return element("section", element("h2", "Front table"), table, note, id="front")


def _growth(records: Sequence[Record]) -> Markup:
    """Exponents, and a drawing for each thing that was varied."""
    chosen = _largest([record for record in records if record.case.startswith(growth.CASE)])
    found = growth.growths(chosen)
    if not found:
        return Markup("")
    heads = [element("th", name) for name in ("engine", "along", "from", "to", "a unit of work at the end")]
    heads += [element("th", name, class_="number") for name in ("exponent", "bytes a subscription")]
    rows = [
        element(
            "tr",
            element("td", each.family),
            element("td", each.along),
            element("td", number(min(each.seconds))),
            element("td", number(max(each.seconds))),
            element("td", f"{duration(each.seconds[max(each.seconds)])} / {each.unit}"),
            element("td", "" if math.isnan(each.exponent) else f"{each.exponent:.2f}", class_="number"),
            element("td", "" if each.bytes is None else f"{each.bytes:,.0f}", class_="number"),
        )
        for each in found
    ]
    drawn: list[Markup] = []
    for along in dict.fromkeys(each.along for each in found):
        mine = [record for record in chosen if record.parameters.get(growth.ALONG) == along]
        title = f"Seconds a unit of work along {along.replace('_', ' ')}"
        figure = Figure(title, x=along, y="seconds_a_unit", log_x=True, log_y=True)
        named = [_as_family(record) for record in mine]
        for drawing in draw(figure, named, f"growth-{along}"):
            drawn.append(element("figure", Markup(drawing), element("figcaption", figure.title)))
    figures = element("div", *drawn, class_="figures")
    return element("section", element("h2", "Growth"), scroll(heads, rows), figures, id="costs")


def _as_family(record: Record) -> Record:
    """The record with its engine alone, named by its family."""
    ours = record.contenders[0]
    unit = {"seconds_a_unit": ours.median / ours.work}
    named = dataclasses.replace(ours, name=record.case.removeprefix(growth.CASE), counters=unit)
    return dataclasses.replace(record, contenders=[named])


def _papers(names: Mapping[str, Sequence[Record]], cases: Mapping[str, Case]) -> Markup:
    """A row for each quantity that a paper reports: how far ours lies from it."""
    rows = []
    for name, group in names.items():
        chosen = _largest(group)
        if not chosen or chosen[-1].reproduces is None:
            continue
        apart: dict[str, list[float]] = {}
        for measured in (each for record in chosen for each in record.contenders):
            for quantity, paper in measured.paper.items():
                ours = measured.quantity(quantity)
                if paper and ours is not None:
                    apart.setdefault(quantity, []).append(ours / paper)
        told = "; ".join(
            f"{quantity.replace('_', ' ')} {_span(values)}" for quantity, values in apart.items()
        )
        rows.append(
            element(
                "tr",
                element("td", chosen[-1].reproduces),
                element("td", element("a", name, href=f"#{name}")),
                element("td", told or "its text gives no value", class_="words"),
            )
        )
    if not rows:
        return Markup("")
    heads = [element("th", each) for each in ("of the paper", "case", "ours over the paper's")]
    return element("section", element("h2", "The papers"), scroll(heads, rows), id="papers")


def _family(family: str, groups: Mapping[str, Sequence[Record]], cases: Mapping[str, Case]) -> Markup:
    """A summary of a family's cases, and all of them folded."""
    heads = [element("th", each) for each in ("case", "what it measures", "against its baseline", "agrees")]
    rows = []
    for name, group in groups.items():
        chosen, case = _largest(group), cases.get(name)
        answers = {record.agrees_with_brute_force for record in chosen}
        worst = next(each for each in (False, True, None) if each in answers)
        rows.append(
            element(
                "tr",
                element("td", element("a", name, href=f"#{name}")),
                element("td", case.summary if case else "No longer declared.", class_="words"),
                element("td", _against(chosen)),
                element("td", _agreement(worst)),
            )
        )
    folded = [
        element("details", element("summary", name), _case(name, group, cases.get(name)), id=name)
        for name, group in groups.items()
    ]
    title = element("h2", _title(family))
    return element("section", title, scroll(heads, rows), *folded, id=f"family-{family}")


def _against(records: Sequence[Record]) -> str:
    """The ratios of the first contender that is no baseline, over all sets of parameters."""
    ratios = [
        measured.ratio
        for record in records
        for measured in [each for each in record.contenders if each.name != record.baseline][:1]
        if measured.ratio is not None
    ]
    return f"{_span(ratios)} x {records[-1].baseline}" if ratios else ""


def _span(values: Sequence[float]) -> str:
    """The least and the largest of some factors."""
    least, most = _short(min(values)), _short(max(values))
    return least if least == most else f"{least} to {most}"


def _largest(records: Sequence[Record]) -> list[Record]:
    """The records of the largest size that there is."""
    for wanted in reversed(SIZES):
        found = [record for record in records if record.size == wanted]
        if found:
            return found
    return list(records)


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


def _case(name: str, records: Sequence[Record], case: Case | None) -> Markup:
    """All that was measured for one case."""
    parts: list[Markup] = []
    for wanted in [*SIZES, *sorted({record.size for record in records} - set(SIZES))]:
        chosen = sorted((record for record in records if record.size == wanted), key=_by_parameters)
        if chosen:
            parts += [element("h3", f"size {wanted}, seed {chosen[-1].seed}"), _table(chosen)]
            parts += [_counters(chosen), _figures(name, wanted, chosen, case)]
    return join(parts)


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
    return scroll(heads, rows)


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
        cells.append(element("td", _agreement(record.agrees_with_brute_force), class_="given", rowspan=count))
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


def _agreement(agrees: bool | None) -> Markup:
    """Say whether the answers agreed with brute force."""
    words = {True: ("yes", "good"), False: ("NO", "bad"), None: ("no queries", "soft")}
    text, style = words[agrees]
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
    return element("details", element("summary", "counters"), scroll(heads, rows))


def _figures(name: str, wanted: str, records: Sequence[Record], case: Case | None) -> Markup:
    """Draw the declared figures of one size."""
    drawn: list[Markup] = []
    for index, figure in enumerate(case.figures if case else ()):
        for drawing in draw(figure, records, prefix=f"{name.replace('.', '-')}-{wanted}-{index}"):
            drawn.append(element("figure", Markup(drawing), element("figcaption", figure.title)))
    return element("div", *drawn, class_="figures") if drawn else Markup("")


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """List the keys of all mappings, each once, in the order of their first appearance."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _value(value: object) -> str:
    """Write a parameter."""
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
