"""Pacing: every advertiser's budget lasts the day, by giving its ads new scores from what was shown.

`pace` is all there is to it. It takes the matches of a batch, books each shown ad to its owner's budget, and
gives the owner's ads the score bid x what is left of the budget / what should be left by now: who is behind
its plan bids more. The ads of one that is ahead, or cannot pay any more, wait: their score is below 0, and
events with `min_score` 0 do not see them.

In one process the rows go to `rescore`, as in `Server`. On Spark they are commands: written with `op`
"rescore" and the next `seq` to the stream of subscriptions of `rankcast.spark.continuous`, from
`foreachBatch` over its matches.

>>> server = Server({"a": ("acme", 1.0), "b": ("bolt", 0.9)}, {"acme": 2.0, "bolt": 9.0})
>>> [server.serve([{"id": hour, "age": 30}], day=hour / 6) for hour in range(6)]
[['a'], ['b'], ['b'], ['b'], ['b'], ['b']]
>>> server.left
{'acme': 1.0, 'bolt': 4.5}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankcast import RankedMatcher

Ads = Mapping[str, tuple[str, float]]  # by id: the owner, and what it pays to be shown once


def pace(shown: list[str], ads: Ads, budget: Mapping[str, float], left: dict[str, float], day: float) -> Any:
    """Book the ads that were shown, and give rows for `rescore`; `day` is the share of it that has passed."""
    for ad in shown:
        owner, bid = ads[ad]
        left[owner] = round(left[owner] - bid, 9)
    rows = []
    for ad, (owner, bid) in ads.items():
        due = max(budget[owner] * (1.0 - day), bid)  # what should be left by now
        rows.append({"id": ad, "score": bid * left[owner] / due if left[owner] >= due else -1.0})
    return rows


class Server:
    """Ads for events, one an event, paced by batch."""

    def __init__(self, ads: Ads, budget: Mapping[str, float]) -> None:
        self.ads, self.budget, self.left = ads, budget, dict(budget)
        self.matcher = RankedMatcher(over=["age"], k=1)
        self.matcher.subscribe([{"id": ad, "score": bid} for ad, (_, bid) in ads.items()])

    def serve(self, events: list[dict[str, Any]], day: float) -> list[str]:
        """The ads that a batch of events is shown, at a time of the day."""
        matches = self.matcher.publish([{**event, "min_score": 0.0} for event in events])
        shown: list[str] = matches["subscription"].to_pylist()
        self.matcher.rescore(pace(shown, self.ads, self.budget, self.left, day))
        return shown
