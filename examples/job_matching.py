"""Job matching: an offer comes in; whom does it suit best?

Each seeker is a subscription of a `RankedMatcher`: an interval of pay, kinds of work, towns, and a first day.
Kinds of work form a `Hierarchy`: who asks for "care" is found by an offer for an intensive-care nurse. A
seeker with alternatives has several rows of one `group`, and is told once, by the best of them. Offers of an
agency that somebody has blocked are sent with `exclude`.

    python examples/job_matching.py
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np

from rankcast import Hierarchy, RankedMatcher

WORK = Hierarchy(
    {
        "nurse": "care", "icu nurse": "nurse", "midwife": "care", "carer": "care",
        "cook": "kitchen", "pastry cook": "cook", "dishwasher": "kitchen",
        "python developer": "developer", "web developer": "developer", "developer": "office",
        "clerk": "office",
    }
)  # fmt: skip
JOBS = ["icu nurse", "nurse", "midwife", "carer", "pastry cook", "dishwasher", "python developer", "clerk"]
TOWNS = ["Basel", "Bern", "Geneva", "Lugano", "Zurich"]
NAMED: list[dict[str, Any]] = [
    # Ann would rather be a midwife, and takes any care for more pay.
    {"id": "ann-1", "group": "Ann", "work_in": ["midwife"], "pay_lo": 30.0, "score": 0.95},
    {"id": "ann-2", "group": "Ann", "work_in": ["care"], "pay_lo": 38.0, "score": 0.80},
    {"id": "ben-1", "group": "Ben", "work_in": ["nurse"], "town_in": ["Bern", "Basel"], "score": 0.90},
    {"id": "cem-1", "group": "Cem", "work_in": ["kitchen"], "work_not_in": ["dishwasher"], "score": 0.85},
    {"id": "dea-1", "group": "Dea", "work_in": ["office"], "start_hi": datetime(2026, 3, 1), "score": 0.85},
]
OFFERS: list[dict[str, Any]] = [
    {"id": 1, "work": "icu nurse", "town": "Bern", "pay": 41.0, "start": date(2026, 2, 1)},
    {"id": 2, "work": "midwife", "town": "Geneva", "pay": 36.0, "start": date(2026, 4, 1)},
    {"id": 3, "work": "pastry cook", "town": "Zurich", "pay": 27.0, "start": date(2026, 2, 15)},
    {"id": 4, "work": "dishwasher", "town": "Zurich", "pay": 24.0, "start": date(2026, 2, 15)},
    {"id": 5, "work": "python developer", "town": "Basel", "pay": 55.0, "start": date(2026, 2, 1)},
    {
        "id": 6,
        "work": "icu nurse",
        "town": "Bern",
        "pay": 41.0,
        "start": date(2026, 2, 1),
        "exclude": ["Ben"],
    },
]


def seekers(rng: np.random.Generator, size: int) -> list[dict[str, Any]]:
    """Many others, each with a wish; `score` is how well they fit their own wishes, up to 0.7."""
    wishes = sorted({*WORK.parents, *filter(None, WORK.parents.values())})
    return [
        {
            "id": f"s{number}",
            "group": f"seeker {number}",
            "work_in": [str(rng.choice(wishes))],
            "town_in": [str(town) for town in rng.choice(TOWNS, int(rng.integers(1, 4)), replace=False)],
            "pay_lo": float(rng.integers(20, 60)),
            "score": float(rng.uniform(0.1, 0.7)),
        }
        for number in range(size)
    ]


def main(size: int = 20_000, seed: int = 5) -> RankedMatcher:
    """Match some offers; returns the matcher."""
    board = RankedMatcher(over=["work", "town", "pay", "start"], categories={"work": WORK, "town": None}, k=4)
    board.subscribe(NAMED + seekers(np.random.default_rng(seed), size))
    print(f"{len(board):,} wishes are registered.")

    matches = board.publish(OFFERS).to_pylist()
    for offer in OFFERS:
        without = f", not to {', '.join(offer['exclude'])}" if offer.get("exclude") else ""
        print(
            f"\n{offer['work']} in {offer['town']}, {offer['pay']:.0f} an hour, "
            f"from {offer['start']:%d %B}{without}"
        )
        for row in matches:
            if row["event"] == offer["id"]:
                stars = "*" * round(20 * row["score"])
                print(f"  {row['rank']}. {row['subscription']:<13} {row['score']:.2f}  {stars}")

    print("\nAnn has found work and leaves; Ben is in a hurry, and counts more. The first two offers again:")
    board.unsubscribe(["ann-1", "ann-2"])
    board.rescore([{"id": "ben-1", "score": 1.5}])
    for row in board.publish(OFFERS[:2]).to_pylist():
        if row["rank"] == 1:
            print(f"  {OFFERS[row['event'] - 1]['work']}: {row['subscription']}, {row['score']:.2f}")
    return board


if __name__ == "__main__":
    main()
