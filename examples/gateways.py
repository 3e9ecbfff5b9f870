"""A dissemination network: one server, gateways that keep everybody's list, and a message that gets lost.

The server knows no subscriber. For each update `RangeTopK.disseminate` paints tiles: boxes in the space of
ranges (lo, hi) that hold exactly those whose list changes. A tile is one message, however many people it is
for. A `Gateway` keeps the lists of the people behind it from these messages. They are numbered, so a gateway
notices with the next one that it has missed something, and asks for its lists anew. A phone needs no gateway:
four comparisons tell whether a message is for it, and a `SubscriberList` keeps its list.

    python examples/gateways.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import Gateway, RangeTopK, SubscriberList
from rankcast.gateway import Lists, answer

K = 3
CITIES = {"Paris": 400, "Tokyo": 900, "Lima": 150}
PHONE = (25.0, 60.0)  # risk from 25 to 60


def is_for(message: dict[str, Any], lo: float, hi: float) -> bool:
    """Whether a message is for the one with this range."""
    outer_lo, inner_lo, inner_hi, outer_hi = (
        message[f"risk_{end}"] for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer")
    )
    below = outer_lo is None or outer_lo < lo
    return below and lo <= inner_lo and inner_hi <= hi and (outer_hi is None or hi < outer_hi)


def people(rng: np.random.Generator, city: str, size: int) -> list[dict[str, Any]]:
    """Subscribers of a city, each with a range of risk."""
    ends = np.sort(rng.uniform(0, 100, (size, 2)), axis=1).round(1)
    return [
        {"id": f"{city} {place}", "risk_lo": lo, "risk_hi": hi}
        for place, (lo, hi) in enumerate(ends.tolist())
    ]


def main(objects: int = 200, updates: int = 60, seed: int = 4) -> dict[str, Gateway]:
    """Play some updates, one of which Tokyo does not hear of; returns the gateways."""
    rng = np.random.default_rng(seed)
    names, risk = [f"S{place:03}" for place in range(objects)], rng.uniform(0, 100, objects).round(1)
    server = RangeTopK(over="risk", by="pe", k=K, method="dense", lists=False)
    server.disseminate({"id": names, "risk": risk, "pe": rng.uniform(5, 50, objects).round(2)})

    def ask(ranges: list[dict[str, Any]]) -> Lists:  # in a real network: a question to the server
        return answer(ranges, lambda rows: server.preview(rows).to_pylist(), server.stats()["messages"])

    before = server.stats()["messages"]
    gateways = {}
    for city, size in CITIES.items():
        gateways[city] = Gateway(ask, over="risk", by="pe", k=K)
        gateways[city].resynchronise(before)
        gateways[city].subscribe(people(rng, city, size))
    phone = SubscriberList(k=K)
    for row in ask([{"id": "phone", "risk_lo": PHONE[0], "risk_hi": PHONE[1]}]).rows:
        phone.receive(row["item"], row["score"])

    told, lost = 0, None
    for update in range(updates):
        event = {"id": str(rng.choice(names)), "pe": round(float(rng.uniform(5, 50)), 2)}
        messages = server.disseminate([event], batch=True, numbered=True).to_pylist()
        for city, gateway in gateways.items():
            if city == "Tokyo" and messages and update >= updates // 2 and lost is None:
                lost = update  # the network drops it, and nobody is told
                print(f"update {update}: {event['id']} at {event['pe']}; Tokyo does not hear of it")
                continue
            gaps = gateway.stats()["gaps"]
            changed = gateway.receive(messages)
            told += len(changed)
            if gateway.stats()["gaps"] > gaps:
                print(f"update {update}: {city} notices a gap, asks, and mends {len(changed)} lists")
        for message in messages:
            if is_for(message, *PHONE):
                phone.receive(message["item"], message["pe"])

    sent = server.stats()["messages"] - before
    print(f"\n{updates} updates, {sent} messages, {told} changes of lists of {sum(CITIES.values())} people.")
    for city, gateway in gateways.items():
        stats = gateway.stats()
        heard = (
            f"{stats['messages']} messages heard, {stats['gaps']} gaps, {len(gateway.check())} wrong lists"
        )
        print(f"  {city:<6} {len(gateway):>4} people, {heard}")
    right = [
        (row["item"], row["score"]) for row in ask([{"id": 0, "risk_lo": PHONE[0], "risk_hi": PHONE[1]}]).rows
    ]
    print(f"  phone  {phone.items()}, {'as the server says' if phone.items() == right else 'wrong'}")
    return gateways


if __name__ == "__main__":
    main()
