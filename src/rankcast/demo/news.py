"""`GeoTextTopK`: the best recent messages near everybody about what they like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.demo.scenes import CHANGE_COLUMNS, Scene, crowd, tell_change
from rankcast.geotext.engine import GeoTextTopK

TEXT = """coffee jazz flood football theatre market strike bridge harvest tram opera rain festival marathon
library bakery cinema ferry election museum garden concert parade chess"""
WORDS = TEXT.split()


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """A town of 10 x 10 km, the last 300 messages, 120 readers with a place and two or three words."""
    engine = GeoTextTopK(bounds=(0, 0, 10, 10), k=3, window=300, **variant)
    chance = 1 / np.arange(1, len(WORDS) + 1)
    chance /= chance.sum()

    def terms(size: int) -> list[str]:
        return [WORDS[place] for place in rng.choice(len(WORDS), size, p=chance)]

    def messages(first: int, size: int) -> dict[str, Any]:
        said = [terms(4) for _ in range(size)]
        names = [f"{' '.join(dict.fromkeys(words))} ({first + place})" for place, words in enumerate(said)]
        return {"id": names, "x": rng.uniform(0, 10, size), "y": rng.uniform(0, 10, size), "terms": said}

    engine.publish(messages(0, 300))
    people = crowd(120)
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
