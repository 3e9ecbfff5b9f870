"""All columns and settings at once: `explain` says of every pair what results say."""

from __future__ import annotations

import pytest

from rankcast import GeoTextTopK
from tests.spark.geo_stories import CITY, LIMITS, PLANE, geotext_whole, moment


@pytest.mark.parametrize("meanings", [False, True])
def test_explain_agrees_with_results_and_names_what_keeps_a_message_out(meanings: bool) -> None:
    reasons: set[str] = set()
    for seed in range(3):
        story = geotext_whole(seed, meanings=meanings, table=True)
        _, engine = story.expected()
        assert isinstance(engine, GeoTextTopK)
        engine.amend({"id": ["s1"], "since": [moment(10**6)]})
        listed = {
            (row["subscription"], row["item"]): (row["rank"], row["score"])
            for row in engine.results().to_pylist()
        }
        for name in (row["id"] for row in story.tables["subscriptions"]):
            for item in engine._items.take(engine._items.live()).to_pylist():
                told = engine.explain(name, item)
                assert told["in_result"] == ((name, item) in listed)
                if told["in_result"]:
                    assert (told["rank"], told["score"]) == listed[name, item]
                    assert told["pruned_by"] is None
                    assert not told["fails"]
                reasons |= {f"fails {limit}" for limit in told["fails"]} or {told["reason"]}
    per_source = (PLANE if meanings else CITY)["per_source"]
    assert reasons >= {f"fails {limit}" for limit in LIMITS}
    assert reasons >= {"in the result", f"its source has {per_source} better", "3 messages are better"}
    assert meanings or "no common term" in reasons
