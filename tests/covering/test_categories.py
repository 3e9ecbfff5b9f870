"""`CoveringTable` over categories: sets and hierarchies beside intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import CoveringTable, Hierarchy, InputError, SettingError
from rankcast.errors import SnapshotError

CARE = Hierarchy({"nurse": "care", "icu": "nurse", "ward": "nurse", "cook": None})


def table(rows: list[dict[str, Any]], **settings: Any) -> CoveringTable:
    engine = CoveringTable(over=["x", "job"], **{"categories": ["job"], **settings})
    engine.subscribe(rows)
    return engine


def lists(**given: Any) -> list[dict[str, Any]]:
    """Rows by name, each a pair of lists."""
    return [{"id": name, "job_in": some, "job_not_in": but} for name, (some, but) in given.items()]


@pytest.mark.parametrize(
    ("outer", "inner", "contained"),
    [
        ((["a", "b"], None), (["a"], None), True),
        ((["a"], None), (["a", "b"], None), False),
        ((["a"], None), (["a", "b"], ["b"]), True),
        ((None, ["b"]), (["a"], None), True),
        ((None, ["a"]), (["a"], None), False),
        ((None, ["a"]), (None, ["a", "b"]), True),
        ((None, ["a", "b"]), (None, ["a"]), False),
        ((["a", "b"], None), (None, ["c"]), False),
        ((None, None), (None, ["c"]), True),
        ((None, []), (None, None), False),
        ((["a"], None), ([], None), True),
        ((["a"], None), (["b"], ["b"]), True),
    ],
)
def test_one_is_covered_where_another_accepts_all_it_accepts(
    outer: tuple[Any, Any], inner: tuple[Any, Any], contained: bool
) -> None:
    engine = table(lists(outer=outer, inner=inner))
    assert engine.forwarded() == (["outer"] if contained else ["outer", "inner"])
    told = engine.explain("inner", "outer")
    assert (told["contained"], told["outside"]) == (contained, [] if contained else ["job"])


def test_a_hierarchy_covers_what_is_below() -> None:
    engine = table(
        lists(all=(["care"], None), wards=(["ward", "icu"], None), cook=(["cook"], None)),
        categories={"job": CARE},
    )
    assert engine.forwarded() == ["all", "cook"]
    told = engine.publish({"id": [1, 2], "x": [0, 0], "job": ["icu", "cook"]}).to_pylist()
    assert [row["subscription"] for row in told] == ["all", "cook"]
    with pytest.raises(InputError, match="gardener"):
        engine.subscribe(lists(more=(["gardener"], None)))


def test_what_neighbours_know_has_lists() -> None:
    engine = table(lists(a=(["p", "q", "p"], None), b=(None, ["p"]), c=([], None)))
    told = engine.forwarded_boxes().to_pylist()
    assert [(row["job_in"], row["job_not_in"]) for row in told] == [(["p", "q"], None), (None, ["p"])]
    tree = table(lists(a=(["ward", "icu", "cook"], None), b=(["care"], ["icu"])), categories={"job": CARE})
    told = tree.forwarded_boxes().to_pylist()
    assert [(row["job_in"], row["job_not_in"]) for row in told] == [
        (["icu", "ward", "cook"], None),
        (["care"], ["icu"]),
    ]
    again = CoveringTable(over=["x", "job"], categories={"job": CARE})
    again.subscribe(tree.forwarded_boxes().drop_columns("members").rename_columns({"subscription": "id"}))
    assert again.forwarded() == tree.forwarded()


def test_boxes_of_values_that_nobody_names_are_asked_for() -> None:
    engine = table(lists(a=(["p"], None), b=(None, ["q"]), c=(None, None)))
    asked = {"id": [1, 2, 3], "job_in": [["new"], ["new", "q"], ["new"]], "job_not_in": [None, None, ["new"]]}
    told = engine.covers(asked, k=9).to_pylist()
    found = {place: [row["covered_by"] for row in told if row["id"] == place] for place in (1, 2, 3)}
    assert {place: sorted(each) for place, each in found.items()} == {
        1: ["b", "c"],
        2: ["c"],
        3: ["a", "b", "c"],
    }
    assert len(engine) == 3


def test_amending_lists_to_and_from_null() -> None:
    engine = table(lists(wide=(["p", "q"], None), narrow=(["p"], None)))
    assert engine.amend(lists(narrow=(None, None))).to_pylist()[0]["action"] == "forward"
    assert engine.amend(lists(narrow=(["q", "p"], None))).to_pylist()[0]["action"] == "withdraw"


def test_other_sets_with_the_same_ends_and_number_are_another_box() -> None:
    engine = table(lists(all=(["p", "q", "r", "s"], ["r"]), one=(["r"], None), low=(["p"], None)))
    engine.amend(lists(all=(["p", "q", "r", "s"], ["q"])))
    assert engine.explain("one", "all")["contained"]
    assert engine.publish({"id": [1], "x": [0], "job": ["q"]}).num_rows == 0
    assert engine.subscribe(lists(more=(["r"], None)))["action"].to_pylist() == ["covered"]


def test_lists_that_say_the_same_leave_a_box_as_it_is() -> None:
    engine = table(lists(a=(["p", "q"], None), b=(None, None)))
    assert engine.forwarded() == ["a", "b"]
    told = engine.amend(lists(a=(["q", "p", "p"], ["x"]))).to_pylist()
    assert [(row["subscription"], row["action"]) for row in told] == [("a", "forward")]
    told = engine.amend(lists(a=(["q"], None))).to_pylist()
    assert [(row["subscription"], row["action"]) for row in told] == [("a", "withdraw")]


@pytest.mark.parametrize("variant", [{"index": "kdtree"}, {"index": "zcurve", "graph": 2}], ids=str)
@pytest.mark.parametrize("tree", [False, True])
def test_many_sets_in_any_order_against_brute_force(variant: dict[str, Any], tree: bool) -> None:
    rng = np.random.default_rng(3)
    names = [f"j{place}" for place in range(24)]
    parents = {name: names[(place - 1) // 3] if place else None for place, name in enumerate(names)}
    categories: Any = {"job": parents if tree else None, "open": None}
    settings = {"over": ["x", "job", "open"], "categories": categories}
    engine, plain = CoveringTable(**settings, **variant), CoveringTable(**settings, index="scan")

    def some() -> list[str] | None:
        size = int(rng.integers(0, 6))
        return None if rng.random() < 0.4 else rng.choice(names, size, replace=False).tolist()

    def rows(ids: list[int]) -> list[dict[str, Any]]:
        ends = np.sort(rng.integers(0, 8, (len(ids), 2)), axis=1).tolist()
        return [
            {"id": name, "x_lo": lo, "x_hi": hi, "job_in": some(), "job_not_in": some(), "open_in": [True]}
            for name, (lo, hi) in zip(ids, ends, strict=True)
        ]

    for step in range(6):
        fresh = list(range(100 * step, 100 * step + 60))
        come = rows(fresh)
        gone = rng.permutation(fresh)[:25].tolist()
        commands = [{"op": "subscribe", **row} for row in come] + [
            {"op": "unsubscribe", "id": i} for i in gone
        ]
        again = rows([name for name in fresh if name not in gone][:10])
        events = [
            {"id": place, "x": place % 8, "job": names[place % 24], "open": True} for place in range(48)
        ]
        for call, given in (("follow", commands), ("amend", again), ("publish", events)):
            mine, theirs = (getattr(each, call)(given).to_pylist() for each in (engine, plain))
            for row in (*mine, *theirs):
                row.pop("covered_by", None)
            assert mine == theirs
        assert engine.forwarded() == plain.forwarded()
        asked = rows(list(range(20)))
        mine, theirs = (
            {(row["id"], row["covered_by"]) for row in each.covers(asked, k=1000).to_pylist()}
            for each in (engine, plain)
        )
        assert mine == theirs


def test_an_unsubscribe_in_portions_forwards_all_below() -> None:
    engine = table(lists(all=(None, ["z"]), **{f"s{place}": ([f"j{place}"], None) for place in range(5)}))
    told: list[str] = []
    while len(engine) == 6:
        told += engine.unsubscribe(["all"], limit=2)["subscription"].to_pylist()
    assert sorted(told) == ["all", *(f"s{place}" for place in range(5))]


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ({"id": [1], "job_in": [[1]]}, "job_in"),
        ({"id": [1], "job_not_in": [["a", None]]}, "job_not_in"),
        ({"id": [1], "job_lo": [1]}, "job_lo"),
    ],
)
def test_lists_that_do_not_fit_are_refused(rows: dict[str, Any], column: str) -> None:
    engine = table(lists(a=(["p"], None)))
    rows = {**rows, "id": ["b"]}
    for call in (engine.subscribe, engine.covers):
        with pytest.raises(InputError, match=column):
            call(rows)
    with pytest.raises(InputError, match=column):
        engine.follow({**rows, "op": ["subscribe"]})
    with pytest.raises(InputError, match="job"):
        engine.publish({"id": [1], "x": [1], "job": [None]})
    assert engine.forwarded() == ["a"]


def test_a_category_is_an_attribute() -> None:
    with pytest.raises(SettingError, match="jobs"):
        CoveringTable(over=["job"], categories=["jobs"])


@pytest.mark.parametrize("graph", [1, 2, "poset"])
def test_a_loaded_table_goes_on(graph: Any, tmp_path: Path) -> None:
    rows = lists(a=(["p", "q"], None), b=(["p"], None), c=(None, ["p"]), d=(["q"], ["q"]))
    engine = table(rows, graph=graph)
    engine.unsubscribe(["c"])
    engine.save(tmp_path / "saved")
    loaded = CoveringTable.load(tmp_path / "saved")
    more = lists(e=(["p", "r"], None), f=(["r"], None))
    assert loaded.subscribe(more).equals(engine.subscribe(more))
    assert loaded.unsubscribe(["a"]).equals(engine.unsubscribe(["a"]))


@pytest.mark.parametrize("wrong", ["ends", "number", "codes"])
def test_sets_that_do_not_fit_their_boxes_are_refused(wrong: str, tmp_path: Path) -> None:
    engine = table(lists(a=(["p", "q"], None), b=(["r"], None)))
    if wrong == "ends":
        engine._slots["hi"][0, 1] = 2.0
    elif wrong == "number":
        engine._slots["hi"][1, 2] = 3.0
    else:
        engine._held.arrays().entries[0, 2] = 1
    engine.save(tmp_path / "saved")
    with pytest.raises(SnapshotError):
        CoveringTable.load(tmp_path / "saved")
