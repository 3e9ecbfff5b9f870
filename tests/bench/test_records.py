"""Records on disk, comparison, report."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.bench import growth, limits, records
from rankcast.bench.drawing import draw
from rankcast.bench.records import Measurement, Record, compare, lines
from rankcast.bench.report import page
from rankcast.bench.runner import Case, Figure, Trial
from rankcast.errors import InputError

NUMBERS = st.floats(1e-9, 1e9)


def measured(name: str = "ours", seconds: list[float] | None = None, **more: Any) -> Measurement:
    given: dict[str, Any] = {"work": 100, "first_seconds": 1.0, "compile_seconds": 0.5}
    return Measurement(name=name, seconds=seconds or [0.2, 0.1, 0.3], **given | more)


def record(*contenders: Measurement, **more: Any) -> Record:
    given: dict[str, Any] = {
        "case": "some.case",
        "parameters": {"k": 10},
        "size": "small",
        "seed": 1,
        "unit": "event",
        "contenders": list(contenders) or [measured()],
        "baseline": None,
        "agrees_with_brute_force": True,
        "reproduces": None,
        "at": "2026-01-02T03:04:05+00:00",
        "commit": "abc1234",
        "machine": {"cpu": "a cpu", "cores": 2, "system": "Linux", "load": 0.1},
        "versions": {"python": "3.11"},
    }
    return Record(**given | more)


@settings(max_examples=30)
@given(
    seconds=st.lists(NUMBERS, min_size=1),
    counters=st.dictionaries(st.text(), NUMBERS | st.integers(-(2**40), 2**40)),
    parameters=st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()),
    ratio=st.none() | NUMBERS,
)
def test_a_line_reads_back_as_the_record(
    seconds: list[float], counters: dict[str, float], parameters: dict[str, Any], ratio: float | None
) -> None:
    original = record(measured(seconds=seconds, counters=counters, ratio=ratio), parameters=parameters)
    line = original.line()
    assert "\n" not in line
    assert records._parse(line, "here") == original


def test_minimum_and_median_are_in_the_line() -> None:
    told = json.loads(record().line())["contenders"][0]
    assert (told["seconds_min"], told["seconds_median"]) == (0.1, 0.2)


def test_records_are_appended_by_case_and_the_last_of_a_key_counts(tmp_path: Path) -> None:
    first, second = record(at="2026-01-01"), record(at="2026-01-03")
    other = record(case="other.case")
    for each in (first, other, second):
        assert records.append(each, tmp_path / "new").name == f"{each.case}.jsonl"
    found = records.read(tmp_path / "new")
    assert found == [other, first, second]
    assert [each.at for each in records.latest(found).values() if each.case == "some.case"] == ["2026-01-03"]
    assert records.read(tmp_path / "new" / "other.case.jsonl") == [other]


def test_a_directory_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no records"):
        records.read(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"contenders": []}',
        '{"contenders": [3]}',
        record().line().replace('"seed"', '"sead"'),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.b.jsonl"
    path.write_text(record().line() + "\n\n" + line + "\n")
    with pytest.raises(InputError, match=rf"{re.escape(str(path))}:3 is no benchmark record"):
        records.read(tmp_path)


def test_fields_of_a_later_version_are_left_out() -> None:
    told = json.loads(record().line()) | {"later": 1}
    assert records._parse(json.dumps(told), "here") == record()


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ([1.0, 1.1, 1.2], [1.5, 1.6, 1.7], "SLOWER"),
        ([1.0, 1.1, 1.8], [1.5, 1.6, 1.7], ""),
        ([1.0, 1.1, 1.2], [1.3, 1.5, 2.9], ""),
        ([1.00, 1.01, 1.02], [1.03, 1.04, 1.05], ""),
        ([1.5, 1.6, 1.7], [1.0, 1.1, 1.2], "faster"),
        ([1.0, 1.1, 1.2], [1.0, 1.1, 1.2], ""),
    ],
)
def test_a_change_counts_beyond_the_noise_only(old: list[float], new: list[float], verdict: str) -> None:
    before, after = record(measured(seconds=old)), record(measured(seconds=new))
    [change] = compare(records.latest([before]), records.latest([after]))
    assert (change.verdict, change.by) == (verdict, "seconds")


def beside(ours: list[float], scan: list[float]) -> dict[records.Key, Record]:
    return records.latest([record(measured(seconds=ours), measured("scan", seconds=scan), baseline="scan")])


@pytest.mark.parametrize(
    ("ours", "scan", "verdict"),
    [
        ([2.0, 6.0], [20.0, 60.0], ""),
        ([2.0, 2.0], [10.0, 10.0], "SLOWER"),
        ([1.0, 1.0], [5.0, 5.0], "SLOWER"),
        ([1.0, 1.0], [30.0, 30.0], "faster"),
    ],
)
def test_beside_a_baseline_its_rounds_are_the_measure(
    ours: list[float], scan: list[float], verdict: str
) -> None:
    found = {each.contender: each for each in compare(beside([1.0, 1.0], [10.0, 10.0]), beside(ours, scan))}
    assert (found["ours"].verdict, found["ours"].by) == (verdict, "ratio")
    assert (found["scan"].verdict, found["scan"].by) == ("", "drift")


def test_work_that_changed_is_compared_by_the_unit() -> None:
    before, after = record(measured(seconds=[1.0], work=100)), record(measured(seconds=[2.0], work=200))
    [change] = compare(records.latest([before]), records.latest([after]))
    assert change.change == pytest.approx(1.0)


def test_the_comparison_tells_of_other_machines_and_of_what_is_missing() -> None:
    before = records.latest([record(), record(parameters={"k": 1})])
    after = records.latest([record(machine={"cpu": "other", "cores": 8})])
    told = list(lines(compare(before, after), before, after))
    assert "different machines" in told[0]
    assert told[-1] == "1 compared, 0 slower than the noise; 1 only in the old records, 0 only in the new."


class _Checker(HTMLParser):
    """Collects tags, ids and addresses, and checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(text: str) -> _Checker:
    checker = _Checker()
    checker.feed(text)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert all(address.startswith("#") for address in checker.addresses)
    return checker


def declared(*figures: Figure) -> dict[str, Case]:
    def body(parameters: Any, rng: Any) -> Trial:
        raise NotImplementedError

    return {"some.case": Case("some.case", body, {}, 1, "event", "Measures <it>.", figures=figures)}


def test_everything_from_a_record_is_escaped() -> None:
    evil = '<script>alert("x")</script>'
    contender = measured(evil, counters={evil: 1.0}, paper={evil: 2.0}, ratio=2.0)
    text = page(
        [record(contender, parameters={evil: evil}, commit=evil, reproduces=evil, unit=evil)], declared()
    )
    assert "script" not in check(text).seen
    assert text.count("&lt;script&gt;") >= 7


def test_the_papers_value_stands_beside_ours() -> None:
    contender = measured(counters={"miny": 6.6, "calls": 3}, paper={"miny": 6.0})
    text = page([record(contender, reproduces="[Range Table III]")], declared())
    check(text)
    assert "miny, paper" in text
    assert "miny, ours" in text
    assert "+10.0%" in text
    assert "[Range Table III]" in text
    assert "Measures &lt;it&gt;." in text


def test_a_disagreement_is_seen() -> None:
    assert '<span class="bad">NO</span>' in page([record(agrees_with_brute_force=False)], declared())
    assert '<span class="bad">' not in page([record()], declared())


def test_a_case_that_is_gone_still_shows_its_records() -> None:
    assert "No longer declared" in page([record()], {})


def test_figures_are_drawings_in_the_page_in_its_own_ink() -> None:
    figures = [Figure("By $k$", x="k", y="miny", log_y=True), Figure("Rate", x="k", y="rate")]
    made = [
        record(
            measured("a $ b", counters={"miny": k * 1.1}, paper={"miny": k}),
            measured("other"),
            parameters={"k": k},
            size=size,
        )
        for k in (1, 2, 5)
        for size in ("small", "full")
    ]
    text = page(made, declared(*figures))
    checker = check(text)
    assert checker.seen.count("svg") == 4
    assert text.count("the paper") == 2
    assert "a $ b" in text
    assert "currentColor" in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)  # noqa: S314 (our own drawing)


def test_a_figure_without_data_is_left_out() -> None:
    assert "<svg" not in page([record()], declared(Figure("Nothing", x="absent", y="rate")))


def test_the_report_orders_sets_by_their_numbers_and_names_few_commits() -> None:
    sizes = [40_000, 9_000, 100_000]
    told = [record(parameters={"n": n}, commit=f"c{place}") for place, n in enumerate(sizes * 2)]
    text = page([*told, record(parameters={"n": "all"}, commit="last")], {})
    shown = [text.index(f">{n:,}<") for n in sorted(sizes)]
    assert shown == sorted(shown)
    assert "last, c5, c4, c3 and 3 more" in text


def test_a_drawing_has_six_lines_at_most_and_names_each() -> None:
    names = [f"contender-{letter}" for letter in "abcdefgh"]
    made = [record(*map(measured, names), parameters={"k": k}) for k in (1, 2)]
    drawings = draw(Figure("Rate", x="k", y="rate"), made, "p")
    assert len(drawings) == 2
    written = [[name for name in names if f">{name}<" in each] for each in drawings]
    assert [len(each) for each in written] == [6, 2]


def test_what_a_page_begins_with() -> None:
    made = [
        record(case="covering.one"),
        record(case="growth.range", parameters={"along": "n", "n": 10, "subscriptions": 10}),
        record(case="range-topk.one", reproduces="[Range Table I]"),
    ]
    text = page(made, {})
    check(text)
    places = [
        text.index(f"<h2>{title}<")
        for title in ("Growth", "The papers", "Range top-k", "Subscription covering")
    ]
    assert places == sorted(places)


@given(
    st.floats(-3, 3), st.floats(1e-6, 1e3), st.lists(st.floats(1, 1e7), min_size=2, max_size=6, unique=True)
)
def test_an_exponent_is_found_again(exponent: float, factor: float, sizes: list[float]) -> None:
    sizes = sorted({round(each) for each in sizes})
    made = [
        record(
            measured(seconds=[factor * size**exponent], work=1, bytes=640),
            case="growth.range",
            parameters={"along": "n", "n": size, "subscriptions": 10},
        )
        for size in sizes
    ]
    [found] = growth.growths([*made, record()])
    assert found.bytes == 64
    if len(sizes) > 1:
        assert math.isclose(found.exponent, exponent, abs_tol=1e-6)
    else:
        assert math.isnan(found.exponent)


def test_a_limit_counts_reads_and_rows() -> None:
    machine = record(
        measured(limits.MISS, seconds=[2.0], work=10),
        measured(limits.ROWS, seconds=[1.0], work=100),
        case=limits.CASE,
    )
    answer = pa.table({"subscription": [1, 1, 2], "item": [1, 2, 3]})
    counted = limits.answered(answer, 2)
    assert counted == {limits.NAMED: 1.0, limits.WRITTEN: 1.5}
    assert limits.seconds(counted, machine) == pytest.approx(0.2 + 0.015)
    assert limits.seconds({}, machine) is None
    assert limits.machine_of([record(), machine]) is machine
    assert limits.machine_of([record()]) is None


def test_lines_of_a_series_stay_together_and_none_is_named_for_what_it_lacks() -> None:
    names = ("a", "b", "c", "d")
    made = [
        record(*map(measured, names), parameters={"k": k, **place})
        for place in ({}, {"places": "real"})
        for k in (1, 2)
    ]
    drawings = draw(Figure("Rate", x="k", y="rate", series=("places",)), made, "p")
    assert len(drawings) == 2
    assert "places=" not in drawings[0]
    assert drawings[1].count("places=real") == len(names)
