"""What a `MovingTopK` with zones was asked for, as kernels and indexes take it."""

from __future__ import annotations

from typing import NamedTuple, cast

from rankcast.moving import scoring
from rankcast.moving.kernels import zone_scores
from rankcast.moving.kernels.zone_scores import Form
from rankcast.structures.distance import CODES, HALF_CIRCUMFERENCE

KINDS = {
    scoring.SUM: zone_scores.SUM,
    scoring.PRODUCT: zone_scores.PRODUCT,
    scoring.DISTANCE: zone_scores.DISTANCE,
    scoring.WASPAS: zone_scores.WASPAS,
}
WAYS = {"closed": zone_scores.CLOSED, "trim": zone_scores.TRIM, "lemma": zone_scores.LEMMA}
METRES_A_DEGREE = HALF_CIRCUMFERENCE / 180


class Wish(NamedTuple):
    """The settings of the engine that zones depend on."""

    score: scoring.Score
    metric: str
    k: int
    m: int
    ordered: bool
    threads: int
    circle: str = "closed"
    epsilon: float = 1e-4
    rounds: int = 100

    @property
    def weighted(self) -> scoring.Weighted:
        """The score, which is none of one's own."""
        return cast(scoring.Weighted, self.score)

    def form(self) -> Form:
        """A score with weights as kernels take it."""
        score = self.weighted
        lam = 1.0 if score.lam is None else score.lam
        return Form(
            KINDS[score.name],
            CODES[self.metric],
            float(score.distance_weight),
            float(lam),
            float(1 - lam),
            WAYS[self.circle],
            self.epsilon,
            self.rounds,
        )

    def split_weights(self, attributes: int) -> list[float | None]:
        """How much x, y, sum, product and attributes count when objects are split into blocks.

        In a weighted sum, as they do there.
        """
        score, others = self.weighted, attributes * [0.0]
        if score.name == scoring.SUM:
            weight = score.distance_weight * (METRES_A_DEGREE if self.metric == "haversine" else 1)
            return [weight, weight, 1.0, 0.0, *others]
        by_sum = None if score.name != scoring.PRODUCT else 0.0
        by_product = None if score.name != scoring.DISTANCE else 0.0
        return [None, None, by_sum, by_product, *others]
