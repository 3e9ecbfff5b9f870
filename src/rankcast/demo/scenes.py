"""What a demonstration plays: an engine, those who follow it, and the calls that come.

One scene an engine; what the engine is for is told by its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankcast.core.engine import Engine
from rankcast.covering.engine import CoveringTable
from rankcast.errors import plain
from rankcast.geotext.engine import GeoTextTopK
from rankcast.matching.engine import RankedMatcher
from rankcast.moving.scoring import weighted_sum
from rankcast.moving.skyline import MovingSkyline
from rankcast.moving.topk import MovingTopK
from rankcast.range_topk.engine import RangeTopK

Row = dict[str, Any]


@dataclass(frozen=True)
class Scene:
    """One demonstration.

    Attributes:
        title: what is shown, in a line.
        engine: the engine, its first subscriptions and items in place.
        calls: what comes, batch after batch: (call, rows).
        columns: headings of the live table.
        tell: a row of an answer as cells of that table, None if it is not worth showing.
    """

    title: str
    engine: Engine
    calls: Iterator[tuple[str, Any]]
    columns: tuple[str, ...]
    tell: Callable[[Row], tuple[str, ...] | None]


def build(name: str, *, batches: int, seed: int = 7) -> Scene:
    """The scene of that name with so many batches."""
    return SCENES[name](np.random.default_rng(seed), batches)


PEOPLE = ("Ada", "Bela", "Chen", "Dina", "Emil", "Fay", "Goran", "Hana", "Ilir", "Juno", "Kofi", "Lena")


def tell_change(row: Row) -> tuple[str, ...] | None:
    """A delta of a subscriber with a name; those of the others are only counted."""
    if not str(row["subscription"])[0].isalpha() or row["subscription"].startswith("user "):
        return None
    signs = {"enter": "[green]+ enters[/]", "leave": "[red]- leaves[/]", "update": "[yellow]~ changes[/]"}
    score = "" if row["score"] is None else f"{row['score']:.2f}"
    rank = "" if row["rank"] is None else f"#{row['rank']}"
    return cell(row["subscription"]), signs[row["op"]], cell(row["item"]), rank, score


def cell(value: object) -> str:
    """An id in a cell: no markup of its own, and escapes for what does not print."""
    from rich.markup import escape  # noqa: PLC0415

    return escape(plain(str(value)))


CHANGE_COLUMNS = ("who", "change", "item", "rank", "score")


def subscriber_names(size: int) -> list[str]:
    """Names of subscribers: a few people, then numbered users."""
    return [*PEOPLE[:size], *(f"user {place}" for place in range(len(PEOPLE), size))]


PRODUCTS = (
    "running shoes",
    "espresso",
    "night train",
    "guitar",
    "garden tools",
    "museum pass",
    "tent",
    "novel",
)


def ads(rng: np.random.Generator, batches: int) -> Scene:
    """2,000 campaigns with an age range, hours of the day and a bid; bids are paced as it goes."""
    engine = RankedMatcher(over=["age", "hour"], k=3)
    ads = [f"{PRODUCTS[place % len(PRODUCTS)]} {place}" for place in range(2000)]
    age, hour = rng.uniform(15, 80, len(ads)), rng.uniform(0, 24, len(ads))
    bids = rng.gamma(2, 0.5, len(ads))
    engine.subscribe(
        {
            "id": ads,
            "age_lo": age,
            "age_hi": age + rng.uniform(2, 20, len(ads)),
            "hour_lo": hour,
            "hour_hi": hour + rng.uniform(1, 8, len(ads)),
            "score": bids,
        }
    )

    def visitors() -> Iterator[tuple[str, Any]]:
        for batch in range(batches):
            paced = rng.choice(len(ads), 50, replace=False)
            bids[paced] *= rng.uniform(0.8, 1.2, 50)
            yield "rescore", {"id": [ads[place] for place in paced], "score": bids[paced]}
            names = [f"visitor {10 * batch + place}" for place in range(10)]
            yield "publish", {"id": names, "age": rng.uniform(18, 80, 10), "hour": rng.uniform(0, 24, 10)}

    title = "ads: the 3 highest bids among 2,000 campaigns that want this visitor"
    return Scene(title, engine, visitors(), ("visitor", "rank", "campaign", "bid"), tell_match)


def tell_match(row: Row) -> tuple[str, ...]:
    """One match."""
    return cell(row["event"]), f"#{row['rank']}", cell(row["subscription"]), f"{row['score']:.2f}"


def hotels(rng: np.random.Generator, batches: int) -> Scene:
    """200 hotels with a price and a rating, 40 travellers on foot."""
    engine = MovingSkyline(over=["price", "rating"], prefer={"price": "min", "rating": "max"})
    size = 200
    engine.upsert(
        {
            "id": [f"hotel {place}" for place in range(size)],
            "x": rng.uniform(0, 20, size),
            "y": rng.uniform(0, 20, size),
            "price": rng.lognormal(4.5, 0.4, size).round(),
            "rating": rng.uniform(2, 5, size).round(1),
        }
    )
    travellers = subscriber_names(40)
    place = rng.uniform(0, 20, (len(travellers), 2))
    step = rng.normal(0, 0.1, (len(travellers), 2))
    engine.subscribe({"id": travellers, "x": place[:, 0], "y": place[:, 1]})

    def walks() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            place[:] = np.clip(place + step, 0, 20)
            yield "publish", {"id": travellers, "x": place[:, 0].copy(), "y": place[:, 1].copy()}

    title = "hotels: those that no other beats in price, rating and distance at once"
    return Scene(title, engine, walks(), CHANGE_COLUMNS, tell_change)


TEXT = """coffee jazz flood football theatre market strike bridge harvest tram opera rain festival marathon
library bakery cinema ferry election museum garden concert parade chess"""
WORDS = TEXT.split()


def news(rng: np.random.Generator, batches: int) -> Scene:
    """A town of 10 x 10 km, the last 300 messages, 120 readers with a place and two or three words."""
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=3, window=300)
    chance = 1 / np.arange(1, len(WORDS) + 1)
    chance /= chance.sum()

    def terms(size: int) -> list[str]:
        return [WORDS[place] for place in rng.choice(len(WORDS), size, p=chance)]

    def messages(first: int, size: int) -> dict[str, Any]:
        said = [terms(4) for _ in range(size)]
        names = [f"{' '.join(dict.fromkeys(words))} ({first + place})" for place, words in enumerate(said)]
        return {"id": names, "x": rng.uniform(0, 10, size), "y": rng.uniform(0, 10, size), "terms": said}

    engine.publish(messages(0, 300))
    people = subscriber_names(120)
    size = len(people)
    liked = [terms(3) for _ in people]
    engine.subscribe(
        {"id": people, "x": rng.uniform(0, 10, size), "y": rng.uniform(0, 10, size), "terms": liked}
    )

    def posts() -> Iterator[tuple[str, Any]]:
        for batch in range(batches):
            yield "publish", messages(300 + 10 * batch, 10)

    title = "news: the 3 best of the last 300 messages by nearness and words"
    return Scene(title, engine, posts(), CHANGE_COLUMNS, tell_change)


def router(rng: np.random.Generator, batches: int) -> Scene:
    """Subscriptions to boxes of price and size that come and go."""
    engine = CoveringTable(over=["price", "size"])
    live: list[str] = []

    def commands() -> Iterator[tuple[str, Any]]:
        for batch in range(batches):
            names = [f"box {10 * batch + place}" for place in range(10)]
            low, width = rng.uniform(0, 100, (10, 2)), rng.pareto(1.5, (10, 2)) * 5
            ends = {"price_lo": low[:, 0], "price_hi": low[:, 0] + width[:, 0]}
            ends |= {"size_lo": low[:, 1], "size_hi": low[:, 1] + width[:, 1]}
            yield "subscribe", {"id": names, **ends}
            live.extend(names)
            gone = [live.pop(int(place)) for place in sorted(rng.choice(len(live), 2, replace=False))[::-1]]
            yield "unsubscribe", gone

    title = "router: subscriptions that neighbours must know, and those another one covers"
    return Scene(title, engine, commands(), ("subscription", "action", "covered by"), tell_action)


def tell_action(row: Row) -> tuple[str, ...]:
    """One action of the router."""
    colours = {"forward": "green", "covered": "dim", "withdraw": "red", "drop": "dim red"}
    by = "" if row["covered_by"] is None else cell(row["covered_by"])
    return cell(row["subscription"]), f"[{colours[row['action']]}]{row['action']}[/]", by


def stocks(rng: np.random.Generator, batches: int) -> Scene:
    """300 stocks with a risk and a price-earnings ratio, 200 investors with a risk range."""
    engine = RangeTopK(over="risk", by="pe", k=3)
    letters = np.array(list("ABCDEFGHIJKLMNOPRSTUVWXYZ"))
    tickers = sorted({"".join(rng.choice(letters, 4)) for _ in range(300)})
    pe = rng.lognormal(2.8, 0.5, len(tickers))
    engine.publish({"id": tickers, "risk": rng.uniform(0, 10, len(tickers)), "pe": pe})
    people = subscriber_names(200)
    ends = np.sort(rng.uniform(0, 10, (len(people), 2)), axis=1)
    engine.subscribe({"id": people, "risk_lo": ends[:, 0], "risk_hi": ends[:, 1]})

    def quotes() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            moved = rng.integers(0, len(tickers), 20)
            pe[moved] *= rng.lognormal(0, 0.12, 20)
            yield "publish", {"id": [tickers[place] for place in moved], "pe": pe[moved]}

    title = "stocks: the 3 lowest price-earnings ratios in each investor's risk range"
    return Scene(title, engine, quotes(), CHANGE_COLUMNS, tell_change)


def taxi(rng: np.random.Generator, batches: int) -> Scene:
    """400 charging points with a price and a queue, 60 taxis that drive on."""
    engine = MovingTopK(over=["price", "queue"], k=3, score=weighted_sum([1.0, 2.0, 1.0]))
    size = 400
    points: dict[str, Any] = {
        "id": [f"charger {place}" for place in range(size)],
        "x": rng.uniform(0, 100, size),
        "y": rng.uniform(0, 100, size),
        "price": rng.uniform(0, 10, size),
        "queue": rng.integers(0, 5, size).astype(float),
    }
    engine.upsert(points)
    taxis = subscriber_names(60)
    place = rng.uniform(0, 100, (len(taxis), 2))
    heading = rng.uniform(0, 2 * np.pi, len(taxis))
    engine.subscribe({"id": taxis, "x": place[:, 0], "y": place[:, 1]})

    def drives() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            heading[:] += rng.normal(0, 0.2, len(taxis))
            place[:] = np.clip(place + np.column_stack([np.cos(heading), np.sin(heading)]), 0, 100)
            yield "publish", {"id": taxis, "x": place[:, 0].copy(), "y": place[:, 1].copy()}
            busy = int(rng.integers(0, size))
            points["queue"][busy] = rng.integers(0, 5)
            yield "upsert", {name: values[busy : busy + 1] for name, values in points.items()}

    title = "taxi: the 3 best charging points by price, queue and distance, on the move"
    return Scene(title, engine, drives(), CHANGE_COLUMNS, tell_change)


SCENES: dict[str, Callable[..., Scene]] = {
    "stocks": stocks,
    "ads": ads,
    "news": news,
    "taxi": taxi,
    "hotels": hotels,
    "router": router,
}
NAMES = tuple(SCENES)
