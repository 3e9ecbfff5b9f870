"""`CoveringTable`: what a router must forward, and what it may keep to itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.covering.engine import CoveringTable
from rankcast.demo.scenes import Row, Scene, cell


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """Subscriptions to boxes of price and size that come and go."""
    engine = CoveringTable(over=["price", "size"], **variant)
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
