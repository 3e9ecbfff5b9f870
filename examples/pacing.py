"""Ad selection with budgets: the best ad for every visitor, and every advertiser's budget lasts the day.

A `RankedMatcher` finds the ad with the highest bid among those whose audience the visitor belongs to. `pace`
is all there is to budgets. It takes the matches of a batch, books each shown ad to its owner's budget, and
gives the owner's ads the score bid x what is left of the budget / what should be left by now: who is behind
its plan bids more. The ads of one that is ahead, or cannot pay any more, wait: their score is below 0, and
events with `min_score` 0 do not see them.

In one process the rows go to `rescore`, as in `Server`. On Spark they are commands: written with `op`
"rescore" and the next `seq` to the stream of subscriptions of `rankcast.spark.continuous`, from
`foreachBatch` over its matches.

    python examples/pacing.py

>>> server = Server({"a": Ad("acme", 1.0), "b": Ad("bolt", 0.9)}, {"acme": 2.0, "bolt": 9.0})
>>> [server.serve([{"id": hour, "age": 30}], day=hour / 6) for hour in range(6)]
[['a'], ['b'], ['b'], ['b'], ['b'], ['b']]
>>> server.left
{'acme': 1.0, 'bolt': 4.5}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rankcast import RankedMatcher


class Ad(NamedTuple):
    """Who pays how much to be shown once, and to whom: ages, and regions (None: everywhere)."""

    owner: str
    bid: float
    age_lo: float | None = None
    age_hi: float | None = None
    region_in: list[str] | None = None


def pace(
    shown: list[str], ads: Mapping[str, Ad], budget: Mapping[str, float], left: dict[str, float], day: float
) -> list[dict[str, Any]]:
    """Book the ads that were shown, and give rows for `rescore`; `day` is the share of it that has passed."""
    for each in shown:
        left[ads[each].owner] = round(left[ads[each].owner] - ads[each].bid, 9)
    rows = []
    for name, ad in ads.items():
        due = max(budget[ad.owner] * (1.0 - day), ad.bid)  # what should be left by now
        rows.append({"id": name, "score": ad.bid * left[ad.owner] / due if left[ad.owner] >= due else -1.0})
    return rows


class Server:
    """Ads for events, one an event; paced by batch, or (`paced=False`) shown until the money is out."""

    def __init__(self, ads: Mapping[str, Ad], budget: Mapping[str, float], *, paced: bool = True) -> None:
        self.ads, self.budget, self.left, self.paced = ads, budget, dict(budget), paced
        self.matcher = RankedMatcher(over=["age", "region"], categories=["region"], k=1)
        self.matcher.subscribe(
            [
                {
                    "id": name,
                    "score": ad.bid,
                    "age_lo": ad.age_lo,
                    "age_hi": ad.age_hi,
                    "region_in": ad.region_in,
                }
                for name, ad in ads.items()
            ]
        )

    def serve(self, events: list[dict[str, Any]], day: float) -> list[str]:
        """The ads that a batch of events is shown, at a time of the day."""
        matches = self.matcher.publish([{"region": None, **event, "min_score": 0.0} for event in events])
        shown: list[str] = matches["subscription"].to_pylist()
        rows = pace(shown, self.ads, self.budget, self.left, day)
        if not self.paced:
            rows = [
                {"id": name, "score": ad.bid if self.left[ad.owner] >= ad.bid else -1.0}
                for name, ad in self.ads.items()
            ]
        self.matcher.rescore(rows)
        return shown


ADS = {
    "acme sneakers": Ad("acme", 1.20, age_lo=14, age_hi=30),
    "acme boots": Ad("acme", 0.90, region_in=["north", "alps"]),
    "bolt scooters": Ad("bolt", 1.00, age_lo=18, age_hi=45),
    "bolt helmets": Ad("bolt", 0.60),
    "core insurance": Ad("core", 0.80, age_lo=30),
    "dune holidays": Ad("dune", 0.70, region_in=["north"]),
}
BUDGET = {"acme": 150.0, "bolt": 120.0, "core": 90.0, "dune": 60.0}


def visitors(rng: np.random.Generator, size: int) -> list[dict[str, Any]]:
    """People who come to the site."""
    ages, regions = rng.uniform(14, 80, size), rng.choice(["north", "south", "alps"], size)
    return [
        {"id": place, "age": float(age), "region": str(region)}
        for place, (age, region) in enumerate(zip(ages, regions, strict=True))
    ]


def bars(values: list[float]) -> str:
    """A line of bars, a value each."""
    most = max(*values, 1e-9)
    return "".join(" ▁▂▃▄▅▆▇█"[round(8 * value / most)] for value in values)


def main(size: int = 720, seed: int = 2) -> Server:
    """The same day without and with pacing; returns the paced server as it stands at midnight."""
    people = visitors(np.random.default_rng(seed), size)
    for paced in (False, True):
        server = Server(ADS, BUDGET, paced=paced)
        spent: dict[str, list[float]] = {owner: [0.0] * 24 for owner in BUDGET}
        empty = 0
        for place, person in enumerate(people):
            shown = server.serve([person], day=place / size)
            empty += not shown
            for name in shown:
                spent[ADS[name].owner][24 * place // size] += ADS[name].bid
        print(f"{'Paced' if paced else 'Not paced'}: {size} visitors, {empty} saw no ad; money spent by hour")
        for owner, hours in spent.items():
            print(f"  {owner}  |{bars(hours)}|  {sum(hours):6.2f} of {BUDGET[owner]:.0f}")
    return server


if __name__ == "__main__":
    main()
