"""Merged boxes: what neighbours are told is enough, not much more, and the same for every index."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import CoveringTable, Hierarchy, InputError
from rankcast.core import contract
from rankcast.core.contract import Reference, Workload
from rankcast.core.engine import Engine
from rankcast.errors import SettingError, SnapshotError
from tests.laws.covering import workloads

Box = Sequence[tuple[float, float]]
TOP = 6  # ends are whole numbers below this
VARIANTS = [("kdtree", 1), ("zcurve", 2), ("kdtree", "full"), ("scan", 1)]
OVERS = [["x"], ["x", "y"]]


class Router:
    """A table, what its answers have told a neighbour, and all boxes that are live."""

    def __init__(self, over: list[str], bound: float, index: str = "kdtree", graph: Any = 1) -> None:
        self.table = CoveringTable(over=over, merge=bound, index=index, graph=graph)
        self.over, self.bound = over, bound
        self.boxes: dict[int, Box] = {}
        self.told: dict[int, Box] = {}

    def call(self, name: str, rows: Any, **more: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = getattr(self.table, name)(rows, **more).to_pylist()
        self.hear(answer)
        return answer

    def hear(self, answer: list[dict[str, Any]]) -> None:
        """Do as a neighbour does: boxes come with the ids that are forwarded."""
        boxes = told_boxes(self.table, self.over)
        for row in answer:
            if row["action"] == "forward":
                self.told[row["subscription"]] = boxes.get(row["subscription"], [])
            elif row["action"] == "withdraw":
                del self.told[row["subscription"]]
        assert self.told == boxes
        assert self.table.forwarded() == list(boxes)

    def check(self) -> None:
        """Every box lies in one that is told, and of that no more than the bound lies in no box of it."""
        merging = self.table._merging
        assert merging is not None
        merging.check(self.table._table())
        for box in self.boxes.values():
            assert any(contains(outer, box) for outer in self.told.values())
        for row in self.table.forwarded_boxes().to_pylist():
            outer = self.told[row["subscription"]]
            members = [self.boxes[name] for name in row["members"]]
            assert all(contains(outer, box) for box in members)
            for place in range(len(self.over)):
                assert outer[place][0] == min(box[place][0] for box in members)
                assert outer[place][1] == max(box[place][1] for box in members)
            assert wasted(outer, members) <= self.bound + 1e-9


def told_boxes(table: CoveringTable, over: list[str]) -> dict[int, Box]:
    return {
        row["subscription"]: [ends_of(row, name) for name in over]
        for row in table.forwarded_boxes().to_pylist()
    }


def ends_of(row: dict[str, Any], name: str) -> tuple[float, float]:
    low, high = row[f"{name}_lo"], row[f"{name}_hi"]
    return -np.inf if low is None else low, np.inf if high is None else high


def contains(outer: Box, inner: Box) -> bool:
    return all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(outer, inner, strict=True))


def wasted(outer: Box, members: list[Box]) -> float:
    """The share of a box that lies in no member, over attributes in which they differ: cell by cell."""
    places = [place for place, ends in enumerate(outer) if any(box[place] != ends for box in members)]
    if not places or outer in members:
        return 0.0
    assert all(np.isfinite(outer[place]).all() for place in places)
    cells = list(product(*(range(int(outer[place][0]), int(outer[place][1])) for place in places)))
    filled = sum(
        any(
            all(
                box[place][0] <= at and at + 1 <= box[place][1]
                for place, at in zip(places, cell, strict=True)
            )
            for box in members
        )
        for cell in cells
    )
    return 1.0 - filled / len(cells)


END = st.integers(0, TOP - 1) | st.none()


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], float, list[tuple[str, Any]]]:
    over, bound = draw(st.sampled_from(OVERS)), draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]))
    live: list[int] = []
    calls: list[tuple[str, Any]] = []
    for step in range(draw(st.integers(1, 7))):
        call = draw(st.sampled_from(["subscribe", "subscribe", "amend", "unsubscribe"]))
        if call == "subscribe":
            names = [10 * step + each for each in range(draw(st.integers(1, 5)))]
            live += names
        else:
            names = draw(st.lists(st.sampled_from(live), unique=True, max_size=3)) if live else []
        if call == "unsubscribe":
            live = [name for name in live if name not in names]
            calls.append((call, names))
        else:
            calls.append((call, {"id": names, **columns(draw, over, len(names))}))
    return over, bound, calls


def columns(draw: st.DrawFn, over: list[str], count: int) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for name in over:
        drawn = [draw(st.tuples(END, END)) for _ in range(count)]
        ends = [
            (low, high) if low is None or high is None or low <= high else (high, low) for low, high in drawn
        ]
        found |= {f"{name}_{end}": [each[place] for each in ends] for place, end in enumerate(("lo", "hi"))}
    return found


def follow(router: Router, call: str, rows: Any) -> list[dict[str, Any]]:
    answer = router.call(call, rows)
    names = rows if call == "unsubscribe" else rows["id"]
    for place, name in enumerate(names):
        if call == "unsubscribe":
            del router.boxes[name]
        else:
            router.boxes[name] = [
                ends_of({key: values[place] for key, values in rows.items()}, each) for each in router.over
            ]
    return answer


@given(histories())
@settings(max_examples=150)
def test_what_is_told_covers_all_and_wastes_no_more_than_the_bound(history: Any) -> None:
    over, bound, calls = history
    routers = [Router(over, bound, index, graph) for index, graph in VARIANTS]
    for call, rows in calls:
        answers = [
            [{**row, "covered_by": row["covered_by"] is None} for row in follow(router, call, rows)]
            for router in routers
        ]
        assert all(answer == answers[0] for answer in answers)
        routers[0].check()


@given(histories(), st.lists(st.tuples(*[st.integers(-1, 2 * TOP)] * 2), min_size=1, max_size=8))
@settings(max_examples=60)
def test_false_traffic_is_counted(history: Any, points: list[tuple[int, int]]) -> None:
    over, bound, calls = history
    router = Router(over, bound)
    for call, rows in calls:
        follow(router, call, rows)
    events = {"id": list(range(len(points)))}
    events |= {name: [point[place] / 2 for point in points] for place, name in enumerate(over)}
    answer = router.table.publish(events).to_pylist()
    members = {row["subscription"]: row["members"] for row in router.table.forwarded_boxes().to_pylist()}
    expected, false = [], 0
    for event in events["id"]:
        point = [(events[name][event], events[name][event]) for name in over]
        for name, box in router.told.items():
            if contains(box, point):
                expected.append({"event": event, "subscription": name})
                false += not any(contains(router.boxes[each], point) for each in members[name])
    assert answer == expected
    assert router.table.stats()["false_traffic"] == false
    served = {(row["event"], each) for row in answer for each in members[row["subscription"]]}
    for event in events["id"]:
        point = [(events[name][event], events[name][event]) for name in over]
        for name in router.table._slots.take(router.table._slots.live()).to_pylist():
            if contains(router.boxes[name], point):
                assert any(at == event for at, _ in served)


@given(histories(), st.integers(0, 6))
@settings(max_examples=40)
def test_a_loaded_table_goes_on_merging(tmp_path_factory: Any, history: Any, cut: int) -> None:
    over, bound, calls = history
    table = CoveringTable(over=over, merge=bound)
    for call, rows in calls[:cut]:
        getattr(table, call)(rows)
    path = tmp_path_factory.mktemp("merged") / "table"
    table.save(path)
    twin = CoveringTable.load(path)
    assert twin.forwarded_boxes().equals(table.forwarded_boxes())
    for call, rows in calls[cut:]:
        assert getattr(twin, call)(rows).equals(getattr(table, call)(rows))
    assert twin.forwarded_boxes().equals(table.forwarded_boxes())
    assert twin.stats() == table.stats()


@given(histories())
@settings(max_examples=30)
def test_without_a_setting_nothing_is_merged(history: Any) -> None:
    over, _, calls = history
    table = CoveringTable(over=over)
    for call, rows in calls:
        getattr(table, call)(rows)
    told = table.forwarded_boxes()
    assert told["subscription"].to_pylist() == table.forwarded()
    assert told["members"].to_pylist() == [[name] for name in table.forwarded()]
    assert "false_traffic" not in table.stats()


@given(histories())
@settings(max_examples=30)
def test_commands_are_followed_like_calls_of_one_row(history: Any) -> None:
    over, bound, calls = history
    one, other = CoveringTable(over=over, merge=bound), CoveringTable(over=over, merge=bound)
    for call, rows in calls:
        if call == "amend":
            assert one.amend(rows).equals(other.amend(rows))
            continue
        names = rows if call == "unsubscribe" else rows["id"]
        ends = {f"{name}_{end}": [None] * len(names) for name in over for end in ("lo", "hi")}
        given_rows = {"op": [call] * len(names), "id": names, **ends, **({} if rows is names else rows)}
        followed = one.follow(given_rows).to_pylist()
        single = []
        for place, name in enumerate(names):
            row = [name] if call == "unsubscribe" else {key: [values[place]] for key, values in rows.items()}
            single += getattr(other, call)(row).to_pylist()
        assert followed == single
        assert one.forwarded_boxes().equals(other.forwarded_boxes())


def test_boxes_side_by_side_are_told_as_one_and_come_apart_again() -> None:
    router = Router(["x"], 0.0)
    follow(router, "subscribe", {"id": [1], "x_lo": [0], "x_hi": [4]})
    answer = follow(router, "subscribe", {"id": [2], "x_lo": [4], "x_hi": [9]})
    assert [(row["subscription"], row["action"], row["covered_by"]) for row in answer] == [
        (2, "covered", 1),
        (1, "forward", None),
    ]
    assert router.told == {1: [(0.0, 9.0)]}
    answer = follow(router, "unsubscribe", [1])
    assert [(row["subscription"], row["action"]) for row in answer] == [(1, "withdraw"), (2, "forward")]
    assert router.told == {2: [(4.0, 9.0)]}


def test_one_that_joins_two_groups_withdraws_one_of_them() -> None:
    router = Router(["x"], 0.0)
    follow(router, "subscribe", {"id": [1, 2], "x_lo": [0, 5], "x_hi": [4, 9]})
    answer = follow(router, "subscribe", {"id": [3], "x_lo": [3], "x_hi": [6]})
    assert [(row["subscription"], row["action"], row["covered_by"]) for row in answer] == [
        (3, "covered", 1),
        (1, "forward", None),
        (2, "withdraw", 1),
    ]
    router.check()


def test_portions_keep_a_leaving_one_in_its_group() -> None:
    router = Router(["x"], 0.0)
    rows = {"id": [1, 2, 3, 4], "x_lo": [0, 4, 1, 2], "x_hi": [4, 9, 2, 3]}
    follow(router, "subscribe", rows)
    first = router.call("unsubscribe", [1], limit=1)
    assert {row["action"] for row in first} <= {"covered", "forward", "withdraw"}
    assert 1 in router.told
    router.call("unsubscribe", [1], limit=5)
    del router.boxes[1]
    router.check()


def test_many_boxes_are_told_as_few() -> None:
    rng = np.random.default_rng(2)
    lo = np.round(rng.random((400, 2)) * 20) / 2
    rows = {
        "id": np.arange(400),
        "x_lo": lo[:, 0],
        "x_hi": lo[:, 0] + 1,
        "y_lo": lo[:, 1],
        "y_hi": lo[:, 1] + 1,
    }
    merged, plain = (CoveringTable(over=["x", "y"], merge=merge) for merge in (0.2, None))
    merged.subscribe(rows)
    plain.subscribe(rows)
    assert len(merged.forwarded()) < len(plain.forwarded()) / 3
    points = rng.random((500, 2)) * 11
    events = {"id": np.arange(500), "x": points[:, 0], "y": points[:, 1]}
    wanted = set(plain.publish(events)["event"].to_pylist())
    assert wanted <= set(merged.publish(events)["event"].to_pylist())
    assert merged.stats()["false_traffic"] < 0.3 * 500


JOBS = ["cook", "nurse", "icu", "ward", "care"]
ABOVE = {"nurse": "care", "icu": "nurse", "ward": "nurse", "cook": None}


def accepts(row: dict[str, Any], x: float, job: str, tree: bool) -> bool:
    """Whether a subscription, or what is told, accepts an event; written from the contract."""
    names: list[str | None] = [job]
    while tree and names[-1] is not None:
        names.append(ABOVE.get(names[-1]))
    some, but, (low, high) = row["job_in"], row["job_not_in"], ends_of(row, "x")
    named = (some is None or any(name in some for name in names)) and not any(
        name in (but or []) for name in names
    )
    return named and low <= x <= high


LISTS = st.none() | st.lists(st.sampled_from(JOBS), max_size=3, unique=True)
ROWS = st.fixed_dictionaries({"x_lo": END, "x_hi": END, "job_in": LISTS, "job_not_in": LISTS})


@settings(max_examples=60)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=8),
    gone=st.sets(st.integers(0, 7)),
    tree=st.booleans(),
    bound=st.sampled_from([0.0, 0.2, 0.5, 0.9]),
)
def test_what_is_told_accepts_what_its_members_accept(
    rows: list[dict[str, Any]], gone: set[int], tree: bool, bound: float
) -> None:
    categories: Any = {"job": Hierarchy(ABOVE)} if tree else ["job"]
    table = CoveringTable(over=["x", "job"], categories=categories, merge=bound)
    live = {}
    for place, row in enumerate(rows):
        ends = sorted((row["x_lo"], row["x_hi"]), key=lambda end: -1 if end is None else end)
        live[place] = {**row, "x_lo": ends[0], "x_hi": ends[1]}
        table.subscribe([{"id": place, **live[place]}])
    for place in sorted(gone & live.keys()):
        table.unsubscribe([place])
        del live[place]
    assert table._merging is not None
    table._merging.check(table._table())
    told = table.forwarded_boxes().to_pylist()
    points = [(x / 2, job) for x in range(2 * TOP) for job in [*JOBS, *([] if tree else ["else"])]]
    events = {"id": np.arange(len(points)), "x": [x for x, _ in points], "job": [job for _, job in points]}
    found = table.publish(events).to_pylist()
    false = 0
    for place, point in enumerate(points):
        reached = [row["subscription"] for row in told if accepts(row, *point, tree)]
        assert [row["subscription"] for row in found if row["event"] == place] == reached
        wanted = {name for name, row in live.items() if accepts(row, *point, tree)}
        assert reached or not wanted
        false += sum(
            not wanted.intersection(row["members"]) for row in told if row["subscription"] in reached
        )
    assert table.stats()["false_traffic"] == false
    assert bound > 0 or not false


def test_lists_of_names_become_one_list() -> None:
    table = CoveringTable(over=["x", "job"], categories=["job"], merge=0.0)
    both = {"id": [1, 2, 3], "x_lo": [0, 0, 1], "x_hi": [9, 9, 2], "job_in": [["a"], ["b"], ["c"]]}
    assert table.subscribe(both)["action"].to_pylist() == ["forward", "covered", "forward"]
    told = table.forwarded_boxes().to_pylist()
    assert [(row["job_in"], row["members"]) for row in told] == [(["a", "b"], [1, 2]), (["c"], [3])]
    assert table.unsubscribe([1]).select(["subscription", "action"]).to_pylist() == [
        {"subscription": 1, "action": "withdraw"},
        {"subscription": 2, "action": "forward"},
    ]
    table.subscribe({"id": [4], "x_lo": [0], "x_hi": [9], "job_not_in": [["b", "d"]]})
    assert table.forwarded_boxes().to_pylist()[0]["job_not_in"] == ["d"]


def test_what_names_cannot_leave_out_counts_as_not_filled() -> None:
    rows = {"id": [1, 2], "x_lo": [0, 0], "x_hi": [9, 9]}
    lists = {"job_in": [["care"], ["icu"]], "job_not_in": [["nurse"], None]}
    for bound, boxes in ((0.3, 2), (0.4, 1)):  # care without nurse and ward, and with nurse: a third of it
        table = CoveringTable(over=["x", "job"], categories={"job": Hierarchy(ABOVE)}, merge=bound)
        table.subscribe(rows | lists)
        told = table.forwarded_boxes().to_pylist()
        assert len(told) == boxes
    assert (told[0]["job_in"], told[0]["job_not_in"]) == (["care"], ["ward"])
    table.publish({"id": [1, 2, 3], "x": [1, 1, 1], "job": ["nurse", "icu", "ward"]})
    assert table.stats()["false_traffic"] == 1


def test_commands_in_a_row_are_merged_one_by_one() -> None:
    one, other = (CoveringTable(over=["x", "job"], categories=["job"], merge=0.2) for _ in range(2))
    rows: list[dict[str, Any]] = [
        {"id": 1, "x_lo": 0, "x_hi": 4, "job_in": ["a"], "job_not_in": None},
        {"id": 2, "x_lo": 0, "x_hi": 5, "job_in": ["b"], "job_not_in": None},
        {"id": 3, "x_lo": 0, "x_hi": 5, "job_in": None, "job_not_in": []},
    ]
    told = one.follow([{"op": "subscribe", **row} for row in rows] + [{"op": "unsubscribe", "id": 1}])
    answers = [other.subscribe([row]) for row in rows] + [other.unsubscribe([1])]
    assert told.to_pylist() == [row for answer in answers for row in answer.to_pylist()]
    assert one.forwarded_boxes().equals(other.forwarded_boxes())


@pytest.mark.parametrize("merge", [-0.1, 1, 1.5, float("nan"), True, "much", [0.1]])
def test_a_bound_is_a_share(merge: Any) -> None:
    with pytest.raises(SettingError, match="merge is"):
        CoveringTable(over=["x"], merge=merge)


def test_a_refused_call_merges_nothing() -> None:
    table = CoveringTable(over=["x"], merge=0.5)
    table.subscribe({"id": [1], "x_lo": [0], "x_hi": [4]})
    with pytest.raises(InputError):
        table.subscribe({"id": [2, 1], "x_lo": [4, 4], "x_hi": [5, 5]})
    assert table.forwarded_boxes().to_pylist() == [
        {"subscription": 1, "x_lo": 0.0, "x_hi": 4.0, "members": [1]}
    ]


def test_groups_that_no_table_has_written_are_refused() -> None:
    table = CoveringTable(over=["x"], merge=0.5)
    table.subscribe({"id": [1, 2], "x_lo": [0, 4], "x_hi": [4, 8]})
    header, arrays = table.state()
    for name, values in (
        ("member", [0, 0]),
        ("member", [0]),
        ("leader", [7]),
        ("size", [1]),
        ("fill", [0.1]),
        ("fill", [float("nan")]),
    ):
        wrong = {key: np.array(array) for key, array in arrays.items()}
        wrong[f"merging.{name}"] = np.array(values, arrays[f"merging.{name}"].dtype)
        with pytest.raises(SnapshotError, match="does not fit"):
            CoveringTable.restore(header, wrong)


def _without_names(engine: Engine, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with only whether something covers: graphs may name any that does."""
    return [
        {**row, **({"covered_by": row["covered_by"] is None} if "covered_by" in row else {})} for row in rows
    ]


@pytest.mark.parametrize("variant", CoveringTable.variants, ids=str)
def test_merging_keeps_the_laws_that_hold_for_calls_as_they_come(
    variant: dict[str, Any], tmp_path_factory: Any
) -> None:
    """The same answers whatever the graph, refusals that change nothing, and saving at any step."""

    @settings(max_examples=40 if variant == CoveringTable.variants[0] else 8)
    @given(workloads(amend_together=True), st.data())
    def laws(workload: Workload, data: st.DataObject) -> None:
        more = {"merge": data.draw(st.sampled_from([0, 0.1, 0.5, 0.9]), label="merge")}
        workload = Workload({**workload.settings, **more}, workload.steps)

        def make(given: dict[str, Any]) -> CoveringTable:
            return CoveringTable(**given, **variant)

        scan = Reference(CoveringTable(**workload.settings, index="scan"))
        at = data.draw(st.integers(0, len(workload.steps) - 1), label="the step to save or refuse at")
        contract.follow(make, scan, workload, tolerance=0.0, plain=_without_names)
        contract.refuse(make, workload, contract.SPOILERS, at)
        whole = contract.run(make, workload)
        contract.reload(make, workload, whole, tmp_path_factory.mktemp("laws") / "saved", at)

    laws()
