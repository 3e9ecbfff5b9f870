"""Workloads and a plain model of `RankedMatcher`, written from the contract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from rankcast import RankedMatcher
from rankcast.core.contract import Bad, Spoiler, Workload
from rankcast.core.engine import Engine
from tests.laws.covering import Box, box_columns, changed, enter, events, records, some, steps

SCORE_TOLERANCE = 0.0  # sums of a few halves are exact, and closed forms are the same everywhere
CHURN_SETTINGS = {"over": ["x", "job"], "categories": ["job"], "per_owner": 3}

CALLS = ["subscribe", "subscribe", "publish", "publish", "publish", "amend", "rescore", "unsubscribe"]
SCORES = st.sampled_from([0, 1, 1, 2, -1, 0.5])
WEIGHTS = st.sampled_from([None, 0, 1, 1, 2, 0.5])
NAMES = ["b", "ab", "", "é", "a", "z"]
JOBS = ["cook", "", "nurse", "é", "icu", "ward"]
TREE = {"nurse": "care", "icu": "nurse", "ward": "nurse", "cook": "", "é": None}
LISTS = st.none() | st.lists(st.sampled_from(JOBS[:4]), max_size=3)
OWNERS = [None, "p", "q"]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Boxes alone in half of them; in the others, what else events and subscriptions may ask."""
    over = draw(st.sampled_from([["x"], ["x", "y"], ["x", "y", "z"]]))
    settings = {
        "over": over,
        "k": draw(st.sampled_from([1, 2, 3, 9, 10**6, 2**31 - 1])),
        "mode": draw(st.sampled_from(["exact", "relaxed"])),
        "combine": draw(st.sampled_from(["sum", "sum", "max"])),
    }
    name_of = draw(st.sampled_from([lambda i: 3 - i, lambda i: NAMES[i % 6] + "x" * (i // 6)]))
    event_of = draw(st.sampled_from([lambda i: i - 1, lambda i: "cab"[i]]))
    more = draw(st.booleans()) and _More(draw, settings, name_of)

    def rows(call: str, live: dict[Any, Box]) -> dict[str, Any]:
        names = enter(draw, live, name_of) if call == "subscribe" else some(draw, list(live))
        ends = {} if call == "rescore" else box_columns(draw, over, [live[name] for name in names])
        ranking = _ranking(draw, settings, call, len(names))
        return {"id": names, **ends, **ranking, **(more.said(call, names) if more else {})}

    published = (
        events(over, event_of, nullable=True).map(more.asked)
        if more
        else events(over, event_of, nullable=True)
    )
    drawn = steps(draw, CALLS, published, rows)
    return Workload({**settings, **(more.settings if more else {})}, drawn)


class _More:
    """What a workload has beside boxes: settings, and columns of subscriptions and events."""

    def __init__(self, draw: st.DrawFn, settings: dict[str, Any], name_of: Any) -> None:
        self.draw, self.over = draw, settings["over"]
        self.groups = [name_of(place) for place in range(3)] + ([7] if name_of(0) == 3 else ["g"])
        self.has = draw(st.sets(st.sampled_from(["jobs", "groups", "owners", "wishes", "errors", "spans"])))
        self.settings: dict[str, Any] = {}
        if "jobs" in self.has:
            tree = draw(st.sampled_from([None, None, TREE]))
            self.settings |= {"over": [*self.over, "job"], "categories": {"job": tree}}
            if draw(st.booleans()):
                self.has.add("truths")
                self.settings |= {
                    "over": [*self.over, "job", "open"],
                    "categories": {"job": tree, "open": None},
                }
            if draw(st.booleans()):
                self.settings["boosts"] = {"job": {"nurse": 2.0, "cook": 0.5}}
        if "owners" in self.has:
            self.settings["per_owner"] = draw(st.integers(1, 2))
        if "spans" in self.has:
            self.settings["overlap"] = draw(st.sampled_from(["any", "inside", "contains"]))
        if "errors" in self.has:
            self.settings["errors"] = draw(st.sampled_from(["uniform", "normal"]))

    def said(self, call: str, names: list[Any]) -> dict[str, list[Any]]:
        """Columns of subscriptions; where there are groups, an owner is that of the group's name."""
        if call == "rescore":
            return {}
        draw, rows = self.draw, dict[str, list[Any]]()
        if "jobs" in self.has:
            for word in ("in", "not_in"):
                if draw(st.integers(0, 2)):
                    rows[f"job_{word}"] = [draw(LISTS) for _ in names]
                if "truths" in self.has and draw(st.booleans()):
                    rows[f"open_{word}"] = [draw(st.none() | st.lists(st.booleans())) for _ in names]
        if "groups" in self.has and draw(st.booleans()):
            rows["group"] = [draw(st.sampled_from([None, *self.groups])) for _ in names]
        if "owners" in self.has and "groups" not in self.has and draw(st.booleans()):
            rows["owner"] = [draw(st.sampled_from(OWNERS)) for _ in names]
        elif "owners" in self.has and "groups" in self.has and ("group" in rows or call == "subscribe"):
            groups = rows.get("group", names)
            named = [name if group is None else group for name, group in zip(names, groups, strict=True)]
            rows["owner"] = [OWNERS[len(str(name)) % 3] for name in named]
        return rows

    def asked(self, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """Events with more columns."""
        draw, size = self.draw, len(rows["id"])

        def column(name: str, values: Any) -> None:
            if draw(st.booleans()):
                rows[name] = [draw(values) for _ in range(size)]

        if "spans" in self.has:
            place = self.over[-1]
            rows[f"{place}_lo"] = rows.pop(place)
            rows[f"{place}_hi"] = [
                None if low is None or draw(st.integers(0, 3)) == 0 else low + draw(st.integers(0, 3))
                for low in rows[f"{place}_lo"]
            ]
        if "errors" in self.has:
            for name in self.over:
                if name in rows:
                    column(f"{name}_error", st.sampled_from([None, 0, 0.5, 2]))
        if "wishes" in self.has:
            column("k", st.sampled_from([None, 1, 2, 5]))
            column("min_score", st.sampled_from([None, -1, 0, 1, 1.5]))
            column("boost", st.sampled_from([None, 1, 0.5, 3]))
            column("exclude", st.none() | st.lists(st.sampled_from(self.groups), max_size=2))
        if "jobs" in self.has:
            rows["job"] = [draw(st.sampled_from([None, *JOBS])) for _ in range(size)]
        if "truths" in self.has:
            rows["open"] = [draw(st.none() | st.booleans()) for _ in range(size)]
        return rows


def _ranking(draw: st.DrawFn, settings: dict[str, Any], call: str, size: int) -> dict[str, list[Any]]:
    """The columns that rank; where they may be absent, some are."""
    if settings["mode"] == "exact":
        given = ["score"] if call != "amend" or draw(st.booleans()) else []
        return {name: [draw(SCORES) for _ in range(size)] for name in given}
    names = [f"{name}_weight" for name in settings["over"]]
    given = [name for name in names if draw(st.integers(0, 3))]
    if call == "rescore" and not given:
        given = names[-1:]
    return {name: [draw(WEIGHTS) for _ in range(size)] for name in given}


def spoilers(settings: dict[str, Any]) -> Sequence[Spoiler]:
    """Bad lists and wishes."""

    def spoiled(column: str, value: Any) -> Spoiler:
        def spoil(call: str, rows: Any) -> Bad | None:
            if not isinstance(rows, dict) or not rows["id"] or column not in rows:
                return None
            return Bad({**rows, column: [*rows[column][:-1], value]}, column, len(rows["id"]) - 1)

        return spoil

    return (
        spoiled("job_in", [None]),
        spoiled("job_not_in", ["a", None]),
        spoiled("exclude", [None]),
        spoiled("boost", 0),
        spoiled("k", 0),
        spoiled("x_error", -1),
    )


def churn(engine: Engine, round_: int) -> None:
    """A round that ends with as much alive as it began with."""
    assert isinstance(engine, RankedMatcher)
    names = [f"s{i}-{round_}" for i in range(20)]
    jobs = [[f"j{i}-{round_}", "cook"] if i % 3 else None for i in range(20)]
    engine.subscribe(
        {
            "id": names,
            "x_lo": list(range(20)),
            "score": [round_ + i for i in range(20)],
            "job_in": jobs,
            "group": [f"g{i % 5}-{round_}" for i in range(20)],
            "owner": [f"o{i % 5}-{round_}" for i in range(20)],
        }
    )
    engine.publish({"id": [f"e{round_}-{i}" for i in range(30)], "x": list(range(30)), "job": ["cook"] * 30})
    engine.rescore({"id": names, "score": list(range(20))})
    engine.amend({"id": names[:5], "job_not_in": [[f"n{round_}"]] * 5})
    engine.unsubscribe(names)


class Naive:
    """Dicts and sorted lists."""

    def __init__(self, *, over: list[str], k: int, mode: str, combine: str, **more: Any) -> None:
        self.over, self.k, self.mode, self.combine = over, k, mode, combine
        self.categories: dict[str, Any] = more.get("categories", {})
        self.numbers = [name for name in over if name not in self.categories]
        self.boosts: dict[str, Any] = more.get("boosts", {})
        self.per_owner, self.overlap = more.get("per_owner", math.inf), more.get("overlap", "any")
        self.errors = more.get("errors")
        self.boxes: dict[Any, Box] = {}
        self.score: dict[Any, float] = {}
        self.weights: dict[Any, dict[str, float]] = {}
        self.said: dict[Any, dict[str, Any]] = {}

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        if name == "publish":
            return [match for row in records(rows) for match in self.matches(row)]
        if name == "unsubscribe":
            for gone in rows:
                del self.boxes[gone], self.score[gone], self.weights[gone], self.said[gone]
            return None
        for row in records(rows):
            self.register(row)
        return None

    def results(self) -> None:
        return None

    def register(self, row: dict[str, Any]) -> None:
        name = row["id"]
        self.boxes[name] = changed(self.boxes.get(name, {}), row, self.numbers)
        self.score[name] = row.get("score", self.score.get(name, 0))
        weights = self.weights.setdefault(name, {})
        for attribute in self.over:
            weights[attribute] = row.get(f"{attribute}_weight", weights.get(attribute)) or 0.0
        said = [
            *(f"{each}_{word}" for each in self.categories for word in ("in", "not_in")),
            "group",
            "owner",
        ]
        self.said[name] = {key: row.get(key, self.said.get(name, {}).get(key)) for key in said}

    def matches(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        scored = []
        factors = {name: table.get(event[name], 1.0) for name, table in self.boosts.items()}
        boost = event.get("boost") or 1.0
        for id_ in self.boxes:
            shares = [self.share(id_, name, event) for name in self.over]
            if self.mode == "exact":
                chance = math.prod(shares)
                score = self.score[id_] * chance * boost * math.prod(factors.values())
                fits = chance > 0
            else:
                weights = [
                    self.weights[id_][name] * share * factors.get(name, 1.0)
                    for name, share in zip(self.over, shares, strict=True)
                ]
                score = (sum(weights) if self.combine == "sum" else max(weights)) * boost
                fits = score > 0
            group = self.said[id_]["group"]
            name = id_ if group is None else group
            unwanted = event.get("exclude") or []
            least = event.get("min_score")
            if fits and id_ not in unwanted and name not in unwanted and (least is None or score >= least):
                scored.append((-score, name, self.said[id_]["owner"]))
        kept: list[tuple[float, Any, Any]] = []
        for score, name, owner in sorted(scored, key=lambda each: each[:2]):
            owned = sum(owner is not None and other == owner for _, _, other in kept)
            if name not in [other for _, other, _ in kept] and owned < self.per_owner:
                kept.append((score, name, owner))
        return [
            {"event": event["id"], "rank": rank, "subscription": name, "score": float(-score)}
            for rank, (score, name, _) in enumerate(kept[: event.get("k") or self.k], 1)
        ]

    def share(self, id_: Any, name: str, event: dict[str, Any]) -> float:
        """The probability that an interval or a set contains the value of an event."""
        if name in self.categories:
            return float(self.allowed(id_, name, event[name]))
        interval = self.boxes[id_][name]
        if name in event:
            error = event.get(f"{name}_error") or 0
            if event[name] is None or error == 0:
                return float(hits(interval, event[name]))
            return probability(interval, event[name], error, str(self.errors))
        return float(self.meets(interval, event[f"{name}_lo"], event[f"{name}_hi"]))

    def meets(self, interval: tuple[float | None, float | None], lo: float | None, hi: float | None) -> bool:
        """Whether an interval and that of an event lie as they should; without both ends it is unknown."""
        if interval == (None, None) or (lo is None and hi is None):
            return interval == (None, None)
        low, high = (
            -math.inf if interval[0] is None else interval[0],
            math.inf if interval[1] is None else interval[1],
        )
        lo, hi = -math.inf if lo is None else lo, math.inf if hi is None else hi
        if self.overlap == "inside":
            return low <= lo and hi <= high
        if self.overlap == "contains":
            return lo <= low and high <= hi
        return low <= hi and lo <= high

    def allowed(self, id_: Any, name: str, value: str | None) -> bool:
        """Whether the sets of a subscription allow a value; with a hierarchy also what is below a member."""
        wanted, unwanted = self.said[id_][f"{name}_in"], self.said[id_][f"{name}_not_in"]
        if value is None:
            return wanted is None and unwanted is None
        above, tree = [value], self.categories[name] or {}
        while tree.get(above[-1]) is not None:
            above.append(tree[above[-1]])
        return (wanted is None or any(each in above for each in wanted)) and not any(
            each in above for each in unwanted or []
        )


def hits(interval: tuple[float | None, float | None], value: float | None) -> bool:
    """Whether an interval contains a value; an unknown one only if there is no bound at all."""
    low, high = interval
    if value is None:
        return low is None and high is None
    return (low is None or low <= value) and (high is None or value <= high)


def probability(
    interval: tuple[float | None, float | None], value: float, error: float, distribution: str
) -> float:
    """The probability that an interval contains an uncertain value."""
    low = -math.inf if interval[0] is None else interval[0]
    high = math.inf if interval[1] is None else interval[1]
    if distribution == "uniform":
        inside = min(high, value + error) - max(low, value - error)
        return max(0.0, inside) / (2 * error)
    a, b = (low - value) / (error * math.sqrt(2)), (high - value) / (error * math.sqrt(2))
    if a > 0:
        return 0.5 * (math.erfc(a) - math.erfc(b))
    if b < 0:
        return 0.5 * (math.erfc(-b) - math.erfc(-a))
    return 1 - 0.5 * (math.erfc(-a) + math.erfc(b))
