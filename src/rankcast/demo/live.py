"""`rankcast demo live`: a service with six streams at work, to be seen in its console until it is stopped.

The city's evening has couriers, walkers, deals, offers and routers; beside it a screener of stocks. A thread
feeds them over HTTP, as anybody would; everything is drawn from the seed.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.demo import scenes
from rankcast.demo.city.evening import BOUNDS, City, Minute
from rankcast.errors import required

ENDLESS = 10**9  # half minutes
PACE = 0.8  # seconds for half a minute of the city
AREAS = 250  # of a router, at most
Rows = dict[str, Any]
YOU: Rows = {"id": ["You"], "x": [5.0], "y": [4.0]}  # stands still until somebody drags it
Call = tuple[str, str, Any]  # stream, what is written, rows

STREAMS: dict[str, tuple[str, Rows]] = {
    "couriers": (
        "MovingTopK",
        {
            "over": ["wait", "missing"],
            "k": 5,
            "m": 8,
            "score": {"name": "weighted_sum", "weights": [0.08, 0.8, 1.0]},
        },
    ),
    "walkers": ("MovingSkyline", {"over": ["wait", "missing"]}),
    "deals": ("GeoTextTopK", {"bounds": list(BOUNDS), "k": 5, "window": 300}),
    "stocks": ("RangeTopK", {"over": "risk", "by": "pe", "k": 5}),
    "offers": ("RankedMatcher", {"over": ["x", "y", "hour", "budget"], "k": 5}),
    "router": ("CoveringTable", {"over": ["x", "y", "price"]}),
}


def show(*, data: Path | None, port: int, seed: int) -> int:
    """Serve and feed until somebody stops it; returns the exit code."""
    required("uvicorn", "serve")
    required("pydantic_settings", "serve", needs="pydantic-settings")
    from rankcast.service import settings as reading  # noqa: PLC0415
    from rankcast.service.server import serve  # noqa: PLC0415

    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = reading.read(None, {"data": folder, "port": port, "log_level": "warning"})
        over = threading.Event()
        feeder = threading.Thread(target=feed, args=(settings.host, settings.port, seed, over), daemon=True)
        feeder.start()
        stack.callback(feeder.join, 5)
        stack.callback(over.set)
        return serve(settings)


def feed(host: str, port: int, seed: int, over: threading.Event) -> None:
    """Make the streams, fill them, and let the evening pass."""
    service = Caller(host, port)
    if not service.wait(over):
        return
    sys.stdout.write(f"See it: http://{host}:{port}/    Ctrl-C ends it.\n")
    sys.stdout.flush()
    for name, (engine, settings) in STREAMS.items():
        service.put(f"/v1/streams/{name}", {"engine": engine, "settings": settings})
    try:
        for call in calls(seed):
            if over.is_set():
                return
            if call is None:
                over.wait(PACE)
                continue
            service.write(*call)
    except (OSError, http.client.HTTPException):
        if not over.is_set():  # nobody stopped it
            raise


def calls(seed: int) -> Iterator[Call | None]:
    """All that is written, for ever; None: some time passes."""
    city = City(seed)
    for name in ("couriers", "walkers"):
        yield name, "objects", city.kitchens()
    yield "couriers", "subscriptions", city.couriers
    yield "walkers", "subscriptions", city.walkers
    for name in ("couriers", "walkers"):
        yield name, "subscriptions", YOU
    yield "deals", "subscriptions", city.customers
    yield "offers", "subscriptions", city.offers
    tickers, pe, risk = quotes(seed)
    yield "stocks", "events", {"id": tickers, "risk": risk, "pe": pe}
    rng = np.random.default_rng([seed, 2])
    people = scenes.subscriber_names(200)
    ends = np.sort(rng.uniform(0, 10, (len(people), 2)).round(2), axis=1)
    yield "stocks", "subscriptions", {"id": people, "risk_lo": ends[:, 0], "risk_hi": ends[:, 1]}
    areas: deque[str] = deque()
    for minute in city.minutes(ENDLESS):
        yield from city_calls(minute, areas)
        yield None
        moved = rng.choice(len(tickers), 2, replace=False)
        pe[moved] = np.clip(pe[moved] * rng.lognormal(0, 0.25, len(moved)), 3, 90).round(2)
        yield "stocks", "events", {"id": [tickers[at] for at in moved], "pe": pe[moved]}


def quotes(seed: int) -> tuple[list[str], Any, Any]:
    """Stocks with a price-earnings ratio and a risk."""
    rng = np.random.default_rng([seed, 3])
    letters = np.array(list("ABCDEFGHIJKLMNOPRSTUVWXYZ"))
    tickers = sorted({"".join(rng.choice(letters, 4)) for _ in range(250)})
    return (
        tickers,
        rng.lognormal(2.8, 0.5, len(tickers)).round(2),
        rng.uniform(0, 10, len(tickers)).round(2),
    )


def city_calls(minute: Minute, areas: deque[str]) -> Iterator[Call]:
    """Half a minute of the city; `areas` are those that the router knows, the oldest first."""
    for name in ("couriers", "walkers"):
        yield name, "objects", minute.waits
    yield "couriers", "events", minute.couriers
    yield "walkers", "events", minute.walkers
    yield "deals", "events", {key: column for key, column in minute.deals.items() if key != "price"}
    hours = 17.5 + (minute.visitors["hour"] - 17.5) % 6  # it is always evening
    yield "offers", "events", {**minute.visitors, "hour": hours}
    for rows in minute.areas.values():
        yield "router", "subscriptions", rows
        areas.extend(rows["id"])
    while len(areas) > AREAS:
        yield "router", "ended", areas.popleft()


class Caller:
    """Calls of one thread, over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=60)

    def wait(self, over: threading.Event) -> bool:
        """Wait until the service takes calls; False: it was stopped before."""
        while not over.is_set():
            try:
                if self._ask("GET", "/readyz")[0] == 200:
                    return True
            except OSError:
                self._connection.close()
            time.sleep(0.1)
        return False

    def put(self, path: str, document: Any) -> None:
        """Make something; it may be there."""
        self._ask("PUT", path, document)

    def write(self, stream: str, what: str, rows: Any) -> None:
        """Write rows, or end a subscription; in a directory that was used before, subscriptions are there."""
        if what == "ended":
            self._ask("DELETE", f"/v1/streams/{stream}/subscriptions/{rows.replace(' ', '%20')}")
            return
        table = {name: list(column) for name, column in rows.items()}
        records = [
            dict(zip(table, map(plain, each), strict=True)) for each in zip(*table.values(), strict=True)
        ]
        self._ask("POST", f"/v1/streams/{stream}/{what}", {"rows": records})

    def _ask(self, method: str, path: str, document: Any = None) -> tuple[int, bytes]:
        body = None if document is None else json.dumps(document).encode()
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self._connection.getresponse()
        return answer.status, answer.read()


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return value.item() if isinstance(value, np.generic) else value
