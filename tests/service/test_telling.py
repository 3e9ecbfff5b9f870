"""Being told: a snapshot, then deltas; resumed without loss or double; slow receivers hear of a gap."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from .conftest import Running, make_stocks

STREAM = "/v1/streams/stocks"
Start = Callable[..., Running]


def publish(server: Running, name: str, score: float, risk: float = 4) -> int:
    told = server.http.post(f"{STREAM}/events", json={"id": name, "risk": risk, "pe": score})
    assert told.status_code == 200, told.text
    return int(told.json()["sequence"])


def test_a_receiver_hears_a_snapshot_and_then_what_concerns_it(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    ada, everybody = server.listen(f"{STREAM}/deltas?subscription=ada"), server.listen(f"{STREAM}/deltas")
    event, number, data = ada.next()
    assert (event, number, data["sequence"]) == ("snapshot", 2, 2)
    assert [row["item"] for row in data["rows"]] == ["BOLT", "ACME"]
    assert len(everybody.next()[2]["rows"]) == 3
    publish(server, "DELL", 1.0, risk=9)  # is bob's
    publish(server, "EBAY", 2.0, risk=3)
    event, number, data = ada.next()
    assert (event, number, data["sequence"]) == ("delta", 4, 4)
    assert [(row["op"], row["item"]) for row in data["rows"]] == [("leave", "ACME"), ("enter", "EBAY")]
    assert [everybody.next()[1] for _ in range(2)] == [3, 4]
    ada.close()
    everybody.close()


def test_a_receiver_goes_on_behind_what_it_heard(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    for score in (5.0, 4.0, 3.0):
        publish(server, "EBAY", score)
    ada = server.listen(f"{STREAM}/deltas?subscription=ada", last_event_id="2")
    publish(server, "EBAY", 2.5)
    assert [ada.next()[:2] for _ in range(4)] == [("delta", number) for number in (3, 4, 5, 6)]
    ada.close()
    server = running()
    again = server.listen(f"{STREAM}/deltas?subscription=ada", last_event_id="4")  # after a restart
    assert [again.next()[:2] for _ in range(2)] == [("delta", 5), ("delta", 6)]
    again.close()
    for strange in ("99", "-1", "x", "1" * 30):
        begun = server.listen(f"{STREAM}/deltas?subscription=ada", last_event_id=strange)
        assert begun.next()[:2] == ("snapshot", 6)
        begun.close()


def test_what_is_too_long_ago_begins_with_a_snapshot(running: Start) -> None:
    server = running(log_bytes=1 << 20)
    make_stocks(server.http)
    rows = {"rows": [{"id": f"n{x}", "risk": 4, "pe": 50.0} for x in range(2000)]}
    for _ in range(60):
        server.http.post(f"{STREAM}/events", json=rows)
    assert server.service.streams.find("stocks").log.size < 2 << 20
    ada = server.listen(f"{STREAM}/deltas?subscription=ada", last_event_id="2")
    assert ada.next()[0] == "snapshot"
    ada.close()
    ada = server.listen(f"{STREAM}/deltas?subscription=ada", last_event_id="61")
    publish(server, "EBAY", 1.0)
    assert ada.next()[:2] == ("delta", 63)
    ada.close()


def test_a_quiet_receiver_learns_how_far_it_is(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    ada = server.listen(f"{STREAM}/deltas?subscription=ada")
    ada.next()
    for _ in range(5):
        publish(server, "DELL", 1.0, risk=9)
    time.sleep(0.8)
    publish(server, "EBAY", 1.0)
    assert ada.next()[1] == 8
    assert ada.last == "7"
    ada.close()


def test_replaying_what_was_heard_gives_the_results(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    heard = server.listen(f"{STREAM}/deltas")
    lists: dict[str, dict[str, float]] = {}
    for place in range(40):
        publish(server, f"s{place % 7}", float((place * 37) % 11), risk=float(place % 10))
    while True:
        _, number, data = heard.next()
        for row in data["rows"]:
            mine = lists.setdefault(row["subscription"], {})
            if row.get("op") == "leave":
                del mine[row["item"]]
            else:
                mine[row["item"]] = row["score"]
        if number == 42:
            break
        assert number < 42
    heard.close()
    for name, known in lists.items():
        rows = server.http.get(f"{STREAM}/subscriptions/{name}/results").json()["rows"]
        assert {row["item"]: row["score"] for row in rows} == known


def test_a_slow_receiver_hears_of_a_gap_and_disturbs_nobody(running: Start) -> None:
    server = running(receiver_bytes=2048)
    make_stocks(server.http)
    rows = [{"id": f"w{x}", "risk_lo": 0, "risk_hi": 9, "k": 50} for x in range(200)]
    server.http.post(f"{STREAM}/subscriptions", json={"rows": rows})
    slow, quick = server.listen(f"{STREAM}/deltas"), server.listen(f"{STREAM}/deltas?subscription=ada")
    assert slow.next()[0] == quick.next()[0] == "snapshot"
    stream = server.service.streams.find("stocks")
    last = 0
    for place in range(400):
        last = publish(server, "EBAY", 1.0 + place % 5)
        if stream.hub.dropped > 2:
            break
    assert stream.hub.dropped
    while (told := quick.next())[1] < last:
        assert told[0] == "delta"
    seen: list[tuple[str, int]] = []
    while not seen or seen[-1][1] < last:
        seen.append(slow.next()[:2])
    names = [name for name, _ in seen]
    assert "gap" in names
    assert all(names[place + 1] == "snapshot" for place, name in enumerate(names) if name == "gap")
    slow.close()
    quick.close()


def test_vanished_receivers_are_forgotten(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    hub = server.service.streams.find("stocks").hub
    for _ in range(5):
        listener = server.listen(f"{STREAM}/deltas?subscription=ada")
        listener.next()
        listener.close()
    until = time.monotonic() + 10
    while len(hub) and time.monotonic() < until:
        publish(server, "EBAY", time.monotonic() % 7)
    assert len(hub) == 0
    assert server.service.connections.total() == 0


def test_a_pace_is_kept_and_small_changes_are_not_told(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    paced = server.listen(f"{STREAM}/deltas?subscription=ada&min_interval=0.4&min_change=1.5")
    assert paced.next()[0] == "snapshot"
    for score in (9.0, 8.5, 8.3):
        publish(server, "BOLT", score, risk=5)
    publish(server, "EBAY", 3.0)
    begun = time.monotonic()
    event, number, data = paced.next()
    assert (event, number) == ("delta", 6)
    assert time.monotonic() - begun < 5
    assert [(row["op"], row["item"], row["rank"]) for row in data["rows"]] == [
        ("leave", "ACME", None),
        ("enter", "EBAY", 1),
    ]
    publish(server, "BOLT", 7.0, risk=5)
    assert [(row["op"], row["score"]) for row in paced.next()[2]["rows"]] == [("update", 7.0)]
    paced.close()
    for query in ("min_interval=x&subscription=ada", "min_change=-1&subscription=ada", "min_interval=1"):
        assert server.http.get(f"{STREAM}/deltas?{query}").status_code == 422


def test_a_stop_ends_what_is_open(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    ada = server.listen(f"{STREAM}/deltas?subscription=ada")
    ada.next()
    begun = time.monotonic()
    running()
    assert time.monotonic() - begun < 10
    with pytest.raises((EOFError, ConnectionError)):
        ada.next()
    ada.close()


def test_expired_subscriptions_end_with_their_deltas(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    made = server.http.put(f"{STREAM}/subscriptions/eve", json={"risk_lo": 0, "expires_in": 0.8})
    assert made.status_code == 201
    assert server.http.get(f"{STREAM}/subscriptions/eve").json()["expires_at"] > time.time()
    server = running()  # a restart does not change when it ends
    eve = server.listen(f"{STREAM}/deltas?subscription=eve")
    assert eve.next()[0] == "snapshot"
    event, number, data = eve.next()
    assert (event, number, {row["op"] for row in data["rows"]}) == ("delta", 4, {"leave"})
    assert server.http.get(f"{STREAM}/subscriptions/eve").status_code == 404
    eve.close()
    for span in (0, -1, "x", True, 1e30):
        refused = server.http.put(f"{STREAM}/subscriptions/e", json={"expires_in": span})
        assert (refused.status_code, refused.json()["column"]) == (400, "expires_in")


# WebSockets


def frames(socket: ClientConnection, count: int) -> list[Any]:
    return [json.loads(socket.recv(timeout=20)) for _ in range(count)]


def test_a_socket_tells_the_same(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    with server.socket_to(f"{STREAM}/ws?subscription=ada") as socket:
        [first] = frames(socket, 1)
        assert (first["event"], first["sequence"], len(first["rows"])) == ("snapshot", 2, 2)
        publish(server, "EBAY", 1.0, risk=3)
        [told] = frames(socket, 1)
        assert (told["event"], told["sequence"]) == ("delta", 3)
        socket.send(json.dumps({"add": ["bob"]}))
        [added] = frames(socket, 1)
        assert (added["event"], [row["item"] for row in added["rows"]]) == ("snapshot", ["CORE"])
        socket.send(json.dumps({"drop": ["ada"]}))
        socket.send(json.dumps({"add": ["eve"]}))
        frames(socket, 1)
        publish(server, "EBAY", 1.0, risk=9)
        [told] = frames(socket, 1)
        assert {row["subscription"] for row in told["rows"]} == {"bob"}
    with server.socket_to(f"{STREAM}/ws?subscription=ada") as socket:
        socket.send(json.dumps({"after": 2}))
        heard = [(told["event"], told["sequence"]) for told in frames(socket, 2)]
        assert heard == [("delta", 3), ("delta", 4)]


def test_strange_frames_end_a_socket(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    for word in ("x", "[]", '{"ad": []}', '{"after": -1}', '{"after": true}', '{"add": 3}', b"{}"):
        with server.socket_to(f"{STREAM}/ws?subscription=ada") as socket:
            socket.send(word)
            with pytest.raises(ConnectionClosed):
                frames(socket, 3)
    for path in ("/v1/streams/none/ws", f"{STREAM}/no"):
        with pytest.raises(InvalidStatus):
            server.socket_to(path)
    assert server.service.connections.total() == 0
