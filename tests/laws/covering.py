"""Workloads and a plain model of `CoveringTable`, written from the contract."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from rankcast import CoveringTable
from rankcast.core.contract import Bad, Spoiler, Workload
from rankcast.core.engine import Engine
from tests.laws.range_topk import CROWD

SCORE_TOLERANCE = 0.0
CHURN_SETTINGS = {"over": ["x", "job"], "categories": ["job"]}

Box = dict[str, tuple[float | None, float | None]]
Lists = dict[str, list[Any] | None]  # by column
JOBS = ["cook", "", "nurse", "é", "icu", "ward", "care"]
TREE = {"nurse": "care", "icu": "nurse", "ward": "nurse", "cook": "", "é": None}
OTHER, UNKNOWN = "elsewhere", None
LARGER = 40  # than the second room of arrays
CALLS = ["subscribe", "subscribe", "subscribe", "amend", "unsubscribe", "publish", "publish"]
END = st.integers(0, 6)  # from 5 on: no bound


@st.composite
def workloads(draw: st.DrawFn, *, amend_together: bool = False, categories: bool = True) -> Workload:
    """Steps that are valid one after the other, over intervals alone or with categories.

    A batch of amendments is net, so that row by row it may forward more. By default an amendment is therefore
    one row, and all laws hold; `amend_together` draws batches of them.
    """
    over = draw(st.sampled_from([["x"], ["x", "y"], ["x", "y"], ["x", "y", "z"]]))
    name_of = draw(st.sampled_from([lambda i: 3 - i, lambda i: f"s{i}"]))
    event_of = draw(st.sampled_from([lambda i: i - 1, lambda i: "cab"[i]]))
    several: list[dict[str, Any]] = [{}, {}, {"job": None}, {"job": TREE}, {"open": None, "job": None}]
    chosen = draw(st.sampled_from(several)) if categories else {}
    # What spoils a number would take a truth for one.
    numbers = over[: draw(st.integers("open" in chosen, len(over)))] if chosen else over
    values: dict[str, list[Any]] = {"job": JOBS, "open": [False, True]}

    def rows(call: str, live: dict[Any, Box]) -> dict[str, Any]:
        most = 1 if call == "amend" and not amend_together else 4
        names = enter(draw, live, name_of) if call == "subscribe" else some(draw, list(live), most)
        columns = {"id": names, **box_columns(draw, numbers, [live[name] for name in names])}
        for name in chosen:
            wanted = st.none() | st.lists(st.sampled_from(values[name]), max_size=4)
            for word in ("in", "not_in"):
                if draw(st.integers(0, 2)):
                    columns[f"{name}_{word}"] = [draw(wanted) for _ in names]
        return columns

    def with_categories(events: dict[str, list[Any]]) -> dict[str, list[Any]]:
        size = len(events["id"])
        more = {name: [*values[name], *(["?"] if name == "job" else [])] for name in chosen}
        return events | {
            name: [draw(st.sampled_from(each)) for _ in range(size)] for name, each in more.items()
        }

    published = events(numbers, event_of, nullable=False).map(with_categories)
    settings = {"over": [*numbers, *chosen], **({"categories": chosen} if chosen else {})}
    return Workload(settings, steps(draw, CALLS, published, rows))


def spoilers(settings: dict[str, Any]) -> Sequence[Spoiler]:
    """Bad lists, and bad categories of events."""

    def spoiled(column: str, value: Any) -> Spoiler:
        def spoil(call: str, rows: Any) -> Bad | None:
            if not isinstance(rows, dict) or not rows["id"] or column not in rows:
                return None
            return Bad({**rows, column: [*rows[column][:-1], value]}, column, len(rows["id"]) - 1)

        return spoil

    return spoiled("job_in", [None]), spoiled("job_not_in", ["a", None]), spoiled("job", None)


def steps(
    draw: st.DrawFn,
    calls: list[str],
    published: st.SearchStrategy[Any],
    rows: Callable[[str, dict[Any, Box]], dict[str, Any]],
) -> tuple[tuple[str, Any], ...]:
    """Calls one after the other; `rows` gives those of a call about boxes, from its name and what is live."""
    live: dict[Any, Box] = {}
    drawn: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(1, 8))):
        call = draw(st.sampled_from(calls))
        if call == "publish":
            drawn.append((call, draw(published)))
        elif call == "unsubscribe":
            drawn.append((call, leave(draw, live)))
        else:
            drawn.append((call, rows(call, live)))
    return tuple(drawn)


def some(draw: st.DrawFn, names: list[Any], most: int = 4) -> list[Any]:
    """Some distinct names, in any order."""
    return draw(st.lists(st.sampled_from(names), unique=True, max_size=most)) if names else []


def enter(draw: st.DrawFn, live: dict[Any, Box], name_of: Any) -> list[Any]:
    """Names that are not live; they are live now. A few of six, or a crowd if nobody is live yet."""
    free = [name for name in map(name_of, range(LARGER + 6)) if name not in live]
    crowd = draw(st.sampled_from([0, 0, 0, 0, CROWD, LARGER])) if not live else 0
    names = free[:crowd] or some(draw, free[:6])
    live.update({name: {} for name in names})
    return names


def leave(draw: st.DrawFn, live: dict[Any, Box]) -> list[Any]:
    """Live names; they are gone now."""
    names = some(draw, list(live))
    for name in names:
        del live[name]
    return names


def box_columns(draw: st.DrawFn, over: list[str], held: list[Box]) -> dict[str, list[Any]]:
    """Columns of ends for boxes that are held so far ({}: unbounded); brings them up to date.

    A column may be absent, and then the box keeps that end.
    """
    columns: dict[str, list[Any]] = {}
    for name in over:
        given = draw(st.sampled_from([("lo", "hi"), ("lo", "hi"), ("lo", "hi"), ("lo",), ("hi",), ()]))
        for box in held:
            low, high = box.get(name, (None, None))
            low = _end(draw) if "lo" in given else low
            high = _end(draw) if "hi" in given else high
            if low is not None and high is not None and low > high:
                low, high = (high, low) if len(given) == 2 else (low, low) if "hi" in given else (high, high)
            box[name] = (low, high)
        for place, end in enumerate(("lo", "hi")):
            if end in given:
                columns[f"{name}_{end}"] = [box[name][place] for box in held]
    return columns


def _end(draw: st.DrawFn) -> int | None:
    end = draw(END)
    return end if end < 5 else None


@st.composite
def events(draw: st.DrawFn, over: list[str], event_of: Any, *, nullable: bool) -> dict[str, list[Any]]:
    """Points on and between the ends of boxes; ids may repeat; from 6 on, if nullable: unknown."""
    names = [event_of(i) for i in draw(st.lists(st.integers(0, 2), max_size=4))]
    rows: dict[str, list[Any]] = {"id": names}
    for name in over:
        values = [draw(st.integers(-1, 7 if nullable else 5)) for _ in names]
        rows[name] = [value if value < 6 else None for value in values]
    return rows


def plain(engine: Engine, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with only whether something covers: any live one that does may be named, and nothing else."""
    assert isinstance(engine, CoveringTable)
    for row in rows:
        if row.get("covered_by") is not None:
            assert row["covered_by"] != row["subscription"]
            assert engine.explain(row["subscription"], row["covered_by"])["contained"], row
    return [
        {name: value is None if name == "covered_by" else value for name, value in row.items()}
        for row in rows
    ]


def churn(engine: Engine, round_: int) -> None:
    """A round that ends with as much alive as it began with."""
    assert isinstance(engine, CoveringTable)
    names = [f"s{i}-{round_}" for i in range(20)]
    jobs = [[100 * round_ + i, 7] if i % 3 else None for i in range(20)]
    engine.subscribe({"id": names, "x_lo": list(range(20)), "x_hi": list(range(5, 45, 2)), "job_in": jobs})
    engine.publish({"id": [f"e{round_}-{i}" for i in range(30)], "x": list(range(30)), "job": [7] * 30})
    engine.amend({"id": names[:5], "x_lo": [None] * 5, "job_not_in": [[-round_]] * 5})
    engine.unsubscribe(names)


class Naive:
    """Dicts of boxes, and the definitions word by word."""

    def __init__(self, *, over: list[str], categories: dict[str, Any] | None = None) -> None:
        self.categories = categories or {}
        self.over = [name for name in over if name not in self.categories]
        self.boxes: dict[Any, Box] = {}  # as registered
        self.lists: dict[Any, Lists] = {}
        self.known: set[Any] = set()  # forwarded

    def call(self, name: str, rows: Any) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = getattr(self, name)(rows if name == "unsubscribe" else records(rows))
        for mine in self.boxes:
            assert mine in self.known or self.covered_by(mine) is not None
        return answer

    def results(self) -> None:
        return None

    def subscribe(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        told = []
        for row in rows:
            name = row["id"]
            self.boxes[name], self.lists[name] = changed({}, row, self.over), self.said({}, row)
            covered = any(self.inside(name, other) for other in self.boxes if other != name)
            if not covered:
                self.known.add(name)
            told.append(self.row(name, "covered" if covered else "forward"))
        return told

    def unsubscribe(self, names: list[Any]) -> list[dict[str, Any]]:
        told = [
            {
                "subscription": name,
                "action": "withdraw" if name in self.known else "drop",
                "covered_by": None,
            }
            for name in names
        ]
        for name in names:
            del self.boxes[name], self.lists[name]
            self.known.discard(name)
        return told + [self.row(name, "forward") for name in self.forward_exposed()]

    def amend(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        before = set(self.known)
        for row in rows:
            name = row["id"]
            self.boxes["as it was"], self.lists["as it was"] = self.boxes[name], self.lists[name]
            self.boxes[name] = changed(self.boxes[name], row, self.over)
            self.lists[name] = self.said(self.lists[name], row)
            if not (self.inside(name, "as it was") and self.inside("as it was", name)):
                self.known.discard(name)
            del self.boxes["as it was"], self.lists["as it was"]
        exposed = self.forward_exposed()
        names = [row["id"] for row in rows]
        told = []
        for name in names:
            kept_out = "withdraw" if name in before else "covered"
            told.append(self.row(name, "forward" if name in self.known else kept_out))
        return told + [self.row(name, "forward") for name in exposed if name not in names]

    def publish(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {"event": row["id"], "subscription": name}
            for row in rows
            for name, box in self.boxes.items()
            if name in self.known and contains(box, {a: (row[a], row[a]) for a in self.over})
            if all(self.allows(self.lists[name], each, row[each]) for each in self.categories)
        ]

    def covers(self, rows: list[dict[str, Any]]) -> list[list[Any]]:
        """For each box all that contain it."""
        found = []
        for row in rows:
            self.boxes["asked"], self.lists["asked"] = changed({}, row, self.over), self.said({}, row)
            found.append([name for name in self.boxes if name != "asked" and self.inside("asked", name)])
            del self.boxes["asked"], self.lists["asked"]
        return found

    def said(self, held: Lists, row: dict[str, Any]) -> Lists:
        """Lists with those that a row gives."""
        columns = [f"{name}_{word}" for name in self.categories for word in ("in", "not_in")]
        return {column: row.get(column, held.get(column)) for column in columns}

    def allows(self, lists: Lists, name: str, value: Any) -> bool:
        """Whether lists allow a value; with a hierarchy also what is below a member."""
        wanted, unwanted = lists[f"{name}_in"], lists[f"{name}_not_in"]
        if value is UNKNOWN:
            return wanted is None and unwanted is None
        above, tree = [value], self.categories[name] or {}
        while tree.get(above[-1]) is not None:
            above.append(tree[above[-1]])
        return (wanted is None or any(each in above for each in wanted)) and not any(
            each in above for each in unwanted or []
        )

    def inside(self, mine: Any, other: Any) -> bool:
        """Whether another one's box and sets contain those of one."""
        accepted = all(
            self.allows(self.lists[other], name, value)
            for name in self.categories
            for value in [*JOBS, False, True, "new", OTHER, UNKNOWN]
            if self.allows(self.lists[mine], name, value)
        )
        return accepted and contains(self.boxes[other], self.boxes[mine])

    def forwarded(self) -> list[Any]:
        return [name for name in self.boxes if name in self.known]

    def forward_exposed(self) -> list[Any]:
        """Forward every covered one that no other covers: no larger box, no equal one that comes before."""
        order = list(self.boxes)
        exposed = []
        for place, mine in enumerate(order):
            others = [
                other
                for rival, other in enumerate(order)
                if other != mine
                and self.inside(mine, other)
                and (not self.inside(other, mine) or other in self.known or rival < place)
            ]
            if mine not in self.known and not others:
                exposed.append(mine)
        self.known.update(exposed)
        return exposed

    def covered_by(self, mine: Any) -> Any:
        """The forwarded one registered first among the others that contain it."""
        around = [n for n in self.forwarded() if n != mine and self.inside(mine, n)]
        return around[0] if around else None

    def row(self, name: Any, action: str) -> dict[str, Any]:
        by = self.covered_by(name) if action in ("covered", "withdraw") else None
        return {"subscription": name, "action": action, "covered_by": by}


def changed(box: Box, row: dict[str, Any], over: list[str]) -> Box:
    """A box with the ends that a row gives."""
    held = {name: box.get(name, (None, None)) for name in over}
    return {
        name: (row.get(f"{name}_lo", low), row.get(f"{name}_hi", high)) for name, (low, high) in held.items()
    }


def contains(outer: Box, inner: Box) -> bool:
    """Whether every interval of the inner box lies in that of the outer one."""
    return all(
        _or(outer[name][0], -math.inf) <= _or(inner[name][0], -math.inf)
        and _or(inner[name][1], math.inf) <= _or(outer[name][1], math.inf)
        for name in outer
    )


def _or(end: float | None, unbounded: float) -> float:
    return unbounded if end is None else end


def records(rows: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Columns as rows."""
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
