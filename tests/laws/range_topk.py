"""Workloads and a plain model of `RangeTopK`, written from the contract."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from rankcast import RangeTopK
from rankcast.core.contract import Bad, Spoiler, Workload
from rankcast.core.engine import Engine

SCORE_TOLERANCE = 0.0

SPOTS = st.integers(0, 4)
RANKS = st.integers(0, 3)
NULLS = st.sampled_from(["delete", "delete", "keep", "refuse"])
WHATEVER = st.sampled_from([None, 3, 0.5, math.nan, -math.inf])  # beside the id of what is removed
CALLS = ("subscribe", "publish", "publish", "publish", "publish", "remove", "amend", "unsubscribe")
LARGE = [8, 80, 10**6, 2**31 - 1]  # beyond all objects: about as many, some more, and far more
CROWD = 16  # of subscriptions or objects: more than the room that arrays begin with


@st.composite
def workloads(draw: st.DrawFn, *, narrow: bool = False) -> Workload:
    """Steps that are valid one after the other; with `narrow` over one attribute, what painting is for."""
    over = ["x"] if narrow else draw(st.sampled_from([["x"], ["x"], ["x", "z"], ["x", "z", "w"]]))
    settings: dict[str, Any] = {
        "over": over[0] if len(over) == 1 else over,
        "k": draw(st.integers(1, 3) | st.sampled_from(LARGE)),
        "order": draw(st.sampled_from(["asc", "desc"])),
        "nulls": draw(NULLS),
    }
    subscription = draw(st.sampled_from([lambda i: i - 1, lambda i: f"s{i}"]))
    item = draw(st.sampled_from([lambda i: 10 * i - 20, lambda i: chr(ord("z") - i)]))
    live: set[Any] = set()
    objects: set[Any] = set()
    steps: list[tuple[str, Any]] = []
    if draw(st.booleans()):  # somebody sees all of some objects from the start
        live.add(subscription(0))
        objects |= {item(i) for i in range(4)}
        values = {name: list(range(4)) for name in [*over, "y"]}
        steps += [("subscribe", {"id": sorted(live)}), ("publish", {"id": sorted(objects), **values})]
    for _ in range(draw(st.integers(1, 8))):
        call = draw(st.sampled_from(CALLS))
        if call == "publish":
            steps.append((call, draw(_events(over, item, objects, settings["nulls"]))))
        elif call == "remove":
            removed = draw(_some(sorted(objects)))
            objects -= set(removed)
            steps.append((call, removed))
        elif call == "unsubscribe":
            gone = draw(_some(sorted(live)))
            live -= set(gone)
            steps.append((call, gone))
        else:
            free = [name for name in map(subscription, range(CROWD + 6)) if name not in live]
            crowd = call == "subscribe" and len(live) < 2 and draw(st.integers(0, 5)) == 5
            chosen = _some(free[:6] if call == "subscribe" else sorted(live))
            names = free[:CROWD] if crowd else draw(chosen)
            live |= set(names)
            steps.append((call, draw(_ranges(over, names))))
    return Workload(settings, tuple(steps))


def _some(names: list[Any]) -> st.SearchStrategy[list[Any]]:
    if not names:
        return st.just([])
    return st.lists(st.sampled_from(names), unique=True, max_size=4)


@st.composite
def _ranges(draw: st.DrawFn, over: list[str], names: list[Any]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {"id": names}
    for name in over:
        both = draw(st.booleans())
        ends = [sorted((draw(SPOTS), draw(SPOTS))) for _ in names]
        lows = [None if draw(st.integers(0, 3)) == 0 else end[0] for end in ends]
        highs = [None if draw(st.integers(0, 3)) == 0 else end[1] for end in ends]
        if both or draw(st.booleans()):
            rows[f"{name}_lo"] = lows if both else [None for _ in names]
            rows[f"{name}_hi"] = highs
    if draw(st.booleans()):
        rows["k"] = [draw(st.sampled_from([None, 1, 2, 7, *LARGE])) for _ in names]
    return rows


@st.composite
def _events(
    draw: st.DrawFn, over: list[str], item: Any, objects: set[Any], nulls: str
) -> dict[str, list[Any]]:
    """Events with some of the columns; each row gives what it likes of them, as far as it may."""
    given = [name for name in over if draw(st.integers(0, 5))]
    ranked, worded = draw(st.integers(0, 5)) > 0, draw(st.booleans())
    rows: dict[str, list[Any]] = {"id": [], **{name: [] for name in given}}
    rows |= {name: [] for name, there in (("y", ranked), ("op", worded)) if there}
    whole = ranked and given == over
    keeps = given + ["y"] * (ranked and (nulls == "keep" or (nulls == "delete" and worded)))
    deletes = worded or (ranked and nulls == "delete")
    size = draw(st.sampled_from([*range(7), CROWD]))
    for _ in range(size):
        known = sorted(objects) if draw(st.booleans()) else []
        name = draw(st.sampled_from(known)) if known else item(draw(st.integers(0, max(size, 6))))
        if name not in objects and not whole:
            continue
        gone = deletes and name in objects and draw(st.integers(0, 4)) == 0
        values: dict[str, Any] = {"id": name, "op": "remove" if gone else "upsert"}
        for attribute in [*given, "y"]:
            keep = attribute in keeps and name in objects and draw(st.integers(0, 2)) == 0
            values[attribute] = None if keep else draw(RANKS if attribute == "y" else SPOTS)
        if gone:
            values |= {each: draw(WHATEVER) for each in [*given, "y"]} if worded else {"y": None}
        for column, listed in rows.items():
            listed.append(values[column])
        objects.discard(name) if gone else objects.add(name)
    return rows


def spoilers(settings: dict[str, Any]) -> Sequence[Spoiler]:
    """What else must be refused, under these settings."""

    def in_last(rows: Any, column: str, value: Any) -> Bad | None:
        """A value in the last row that does not remove."""
        words = rows.get("op", ["upsert"] * len(rows["id"]))
        places = [place for place, word in enumerate(words) if word == "upsert"]
        if column not in rows or not places:
            return None
        spoiled = [value if place == places[-1] else each for place, each in enumerate(rows[column])]
        return Bad({**rows, column: spoiled}, column, places[-1])

    def null_to_be_refused(call: str, rows: Any) -> Bad | None:
        refused = call == "publish" and settings["nulls"] == "refuse"
        return in_last(rows, "y", None) if refused else None

    def another_word(call: str, rows: Any) -> Bad | None:
        return in_last(rows, "op", "delete") if call == "publish" else None

    def no_word(call: str, rows: Any) -> Bad | None:
        return in_last(rows, "op", None) if call == "publish" else None

    def nothing_of_a_new_object(call: str, rows: Any) -> Bad | None:
        if call != "publish" or not rows["id"] or not ("op" in rows or settings["nulls"] == "keep"):
            return None
        new = 99 if isinstance(rows["id"][0], int) else "new"
        row = {"id": new, "op": "upsert", "y": None}
        last = {name: [*values, row.get(name, 1)] for name, values in rows.items()}
        return Bad(last, None, len(rows["id"]))

    def nan_of_pandas(call: str, rows: Any) -> Bad | None:
        bad = in_last(rows, "y", math.nan) if call == "publish" else None
        kinds = dict.fromkeys(settings["over"], "Float64") | {"y": "float64"}
        return bad and Bad(framed(bad.rows, kinds), bad.column)

    return (null_to_be_refused, another_word, no_word, nothing_of_a_new_object, nan_of_pandas)


def framed(rows: dict[str, list[Any]], kinds: dict[str, str]) -> pd.DataFrame:
    """Rows as a frame of pandas', with those types of columns."""
    return pd.DataFrame({name: pd.Series(values, dtype=kinds.get(name)) for name, values in rows.items()})


def churn(engine: Engine, round_: int) -> None:
    """A round that ends with as much alive as it began with."""
    names = [f"s{(round_ + i) % 50}-{round_}" for i in range(20)]
    assert isinstance(engine, RangeTopK)
    engine.subscribe({"id": names, "x_lo": list(range(20)), "x_hi": list(range(5, 25))})
    engine.publish({"id": [round_ * 100 + i for i in range(30)], "x": list(range(30)), "y": list(range(30))})
    engine.publish({"id": [round_ * 100 + i for i in range(20)], "y": [None] * 20})
    engine.remove([round_ * 100 + i for i in range(20, 30)])
    engine.unsubscribe(names)


class Naive:
    """All of it in dicts and sorted lists."""

    def __init__(
        self, *, over: str | list[str] = "x", k: int = 10, order: str = "asc", nulls: str = "delete"
    ) -> None:
        self.nulls = nulls
        self.over = [over] if isinstance(over, str) else over
        self.k = k
        self.sign = 1 if order == "asc" else -1
        self.subscriptions: dict[Any, dict[str, Any]] = {}
        self.objects: dict[Any, dict[str, Any]] = {}

    def call(self, name: str, rows: Any) -> list[dict[str, Any]]:
        before = {subscription: self.top(subscription) for subscription in self.subscriptions}
        order = list(self.subscriptions)
        if name == "unsubscribe":
            for subscription in rows:
                del self.subscriptions[subscription]
        elif name == "remove":
            for item in rows:
                del self.objects[item]
        else:
            for values in records(rows):
                if name == "publish":
                    happen(self.objects, values, self.nulls)
                else:
                    self.register(values)
        order += [subscription for subscription in self.subscriptions if subscription not in before]
        after = {subscription: self.top(subscription) for subscription in self.subscriptions}
        return [row for name in order for row in change_rows(name, before.get(name, []), after.get(name, []))]

    def register(self, values: dict[str, Any]) -> None:
        self.subscriptions.setdefault(values["id"], {}).update(values)

    def top(self, subscription: Any) -> list[tuple[Any, float]]:
        wanted = self.subscriptions[subscription]
        inside = []
        for name, values in self.objects.items():
            fits = True
            for attribute in self.over:
                low, high = wanted.get(f"{attribute}_lo"), wanted.get(f"{attribute}_hi")
                fits &= low is None or low <= values[attribute]
                fits &= high is None or values[attribute] <= high
            if fits:
                inside.append((self.sign * values["y"], name, float(values["y"])))
        return [(name, score) for _, name, score in sorted(inside)[: wanted.get("k") or self.k]]

    def results(self) -> list[dict[str, Any]]:
        return [
            {"subscription": subscription, "rank": rank, "item": item, "score": score}
            for subscription in self.subscriptions
            for rank, (item, score) in enumerate(self.top(subscription), 1)
        ]


def happen(objects: dict[Any, dict[str, Any]], values: dict[str, Any], nulls: str) -> None:
    """What one event makes of the objects."""
    null = values.get("y", 0) is None
    if values["op"] == "remove" if "op" in values else null and nulls == "delete":
        del objects[values["id"]]
        return
    given = {name: value for name, value in values.items() if value is not None and name not in ("id", "op")}
    objects.setdefault(values["id"], {}).update(given)


def records(rows: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


def change_rows(
    subscription: Any,
    before: list[tuple[Any, float]],
    after: list[tuple[Any, float]],
    *,
    updates: bool = True,
) -> list[dict[str, Any]]:
    """The deltas of one subscription, as the contract orders them."""
    old, new = dict(before), dict(after)
    rows: list[dict[str, Any]] = [
        {"subscription": subscription, "op": "leave", "item": item, "score": None, "rank": None}
        for item, _ in before
        if item not in new
    ]
    for rank, (item, score) in enumerate(after, 1):
        op = "enter" if item not in old else "update" if updates and old[item] != score else None
        if op:
            rows.append({"subscription": subscription, "op": op, "item": item, "score": score, "rank": rank})
    return rows
