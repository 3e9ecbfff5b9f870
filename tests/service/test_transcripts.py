"""Send, expect, send, expect: every route of the service, as a caller sees it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from rankcast import RangeTopK

from .conftest import Opened, make_stocks

STREAM = "/v1/streams/stocks"
NEWS = {"rows": [{"id": "CORE", "risk": 6, "pe": 7.0}, {"id": "ACME", "pe": 8.0}]}
NEWS_DELTAS = [
    {"subscription": "ada", "op": "leave", "item": "BOLT", "score": None, "rank": None},
    {"subscription": "ada", "op": "enter", "item": "CORE", "score": 7.0, "rank": 1},
    {"subscription": "ada", "op": "update", "item": "ACME", "score": 8.0, "rank": 2},
]


def test_a_stream_is_made_once(client: TestClient) -> None:
    asked = {"engine": "RangeTopK", "settings": {"k": 3}}
    made = client.put("/v1/streams/s", json=asked)
    assert made.status_code == 201
    told = made.json()
    assert (told["name"], told["engine"], told["settings"]) == ("s", "RangeTopK", {"k": 3})
    assert (told["subscriptions"], told["sequence"], told["stats"]["events"]) == (0, 0, 0)
    again = {"engine": "RangeTopK", "settings": {"k": 3, "order": "asc"}}  # said, what was so by default
    assert client.put("/v1/streams/s", json=again).status_code == 200
    other = client.put("/v1/streams/s", json={"engine": "RangeTopK", "settings": {"k": 4}})
    assert (other.status_code, other.headers["content-type"]) == (409, "application/problem+json")
    [listed] = client.get("/v1/streams").json()["streams"]
    assert listed.pop("load")["written"] == 0
    assert listed == {
        "name": "s",
        "engine": "RangeTopK",
        "settings": {"k": 3},
        "subscriptions": 0,
        "sequence": 0,
    }
    assert client.delete("/v1/streams/s").status_code == 204
    assert client.get("/v1/streams/s").status_code == 404
    assert client.get("/v1/streams").json() == {"streams": []}
    assert client.put("/v1/streams/s", json={"engine": "RangeTopK", "settings": {"k": 4}}).status_code == 201


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"engine": "NoSuch"}, "NoSuch"),
        ({"engine": "examples.similar_vectors:SimilarVectors"}, "unknown engine"),
        ({"engine": "os:system"}, "unknown engine"),
        ({"engine": ["RangeTopK"]}, "unknown engine"),
        ({"engine": "RangeTopK", "settings": {"kk": 3}}, "kk"),
        ({"engine": "RangeTopK", "settings": {"k": 0}}, "k"),
        ({"engine": "RangeTopK", "settings": {"k": 10**9}}, "at most 10000"),
        ({"engine": "RangeTopK", "settings": []}, "object"),
        ({"engine": "RangeTopK", "more": 1}, "more"),
        ({"engine": "MovingTopK", "settings": {"over": ["a"], "score": "os:getcwd"}}, "score"),
        ({"engine": "GeoTextTopK", "settings": {"vocabulary": {"path": "/etc/passwd"}}}, "network"),
        ({"engine": "MovingSkyline", "settings": {"over": [], "graph": {"edges": "/etc/passwd"}}}, "network"),
        ({"engine": "MovingTopK", "settings": {"over": [], "metric": "network"}}, "graph"),
        ({"engine": "GeoTextTopK", "settings": {"window": "soon"}}, "span of time"),
        ({}, "engine"),
    ],
)
def test_a_stream_that_cannot_be_made(client: TestClient, asked: dict[str, Any], word: str) -> None:
    refused = client.put("/v1/streams/s", json=asked)
    assert refused.status_code == 400, refused.text
    assert word in refused.text
    assert client.get("/v1/streams").json() == {"streams": []}


@pytest.mark.parametrize("name", ["..", ".a", "a.b", "%2e%2e%2fa", "a%00", "a" * 65, "a b", "-a", "ä"])
def test_a_name_that_is_none(client: TestClient, name: str) -> None:
    assert client.put(f"/v1/streams/{name}", json={"engine": "RangeTopK"}).status_code in (400, 404, 405)
    assert client.get("/v1/streams").json() == {"streams": []}


def test_publish_tells_sequence_and_deltas(stocks: TestClient) -> None:
    told = stocks.post(f"{STREAM}/events", json=NEWS)
    assert (told.status_code, told.json()) == (200, {"sequence": 3, "deltas": 3})
    one = stocks.post(f"{STREAM}/events?return=deltas", json={"id": "CORE", "pe": None})
    rows = one.json()["rows"]
    assert [(row["subscription"], row["op"], row["item"]) for row in rows] == [
        ("ada", "leave", "CORE"),
        ("ada", "enter", "BOLT"),
        ("bob", "leave", "CORE"),
    ]
    assert one.json()["sequence"] == 4
    assert one.headers["rankcast-sequence"] == "4"


def test_all_three_forms_say_the_same(opened: Opened) -> None:
    table = pa.table({"id": ["CORE", "ACME"], "risk": pa.array([6, None], pa.int64()), "pe": [7.0, 8.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    lines = b'{"id":"CORE","risk":6,"pe":7.0}\n\n{"id":"ACME","pe":8.0}\n'
    bodies = {
        "application/json": stocks_json(),
        "application/x-ndjson": lines,
        "application/vnd.apache.arrow.stream": sink.getvalue().to_pybytes(),
    }
    client = opened()
    for media, body in bodies.items():
        make_stocks(client)
        asked = {"content-type": media, "accept": media}
        told = client.post(f"{STREAM}/events?return=deltas", content=body, headers=asked)
        assert (told.status_code, told.headers["content-type"]) == (200, media), told.text
        assert told.headers["rankcast-sequence"] == "3"
        if media.endswith("json") and "nd" not in media:
            assert told.json() == {"rows": NEWS_DELTAS, "sequence": 3, "deltas": 3}
        elif media.endswith("ndjson"):
            assert [pa_json(line) for line in told.text.splitlines()] == NEWS_DELTAS
        else:
            with pa.ipc.open_stream(told.content) as reader:
                assert reader.read_all().to_pylist() == NEWS_DELTAS
        client.delete(STREAM)


def stocks_json() -> bytes:
    import json

    return json.dumps(NEWS).encode()


def pa_json(line: str) -> Any:
    import json

    return json.loads(line)


def described(client: TestClient) -> dict[str, Any]:
    """The stream, but for how much it was used."""
    found: dict[str, Any] = client.get(STREAM).json()
    return {name: value for name, value in found.items() if name != "load"}


def test_rows_that_are_refused_change_nothing(stocks: TestClient) -> None:
    before = described(stocks)
    bad = {"rows": [{"id": "A", "risk": 1, "pe": 1.0}, {"id": "B", "risk": 1, "pe": "much"}]}
    refused = stocks.post(f"{STREAM}/events", json=bad)
    told = refused.json()
    assert (refused.status_code, told["status"], told["column"]) == (400, 400, "pe")
    assert {"type", "title", "status", "detail"} <= told.keys()
    unknown = stocks.post(f"{STREAM}/events", json={"id": "A", "risk": 1, "pe": 1.0, "colour": "red"})
    told = unknown.json()
    assert (unknown.status_code, told["column"], told["expected"]) == (
        400,
        "colour",
        "one of: id, op, pe, risk",
    )
    absent = stocks.post(f"{STREAM}/events", json={"id": "A", "pe": 1.0}).json()
    assert (absent["column"], absent["expected"]) == ("risk", "a number")
    long = stocks.post(f"{STREAM}/events", json={"id": "A", "risk": 1, "pe": 1.0, "\x1b" * 9000: 1})
    assert (long.status_code, len(long.content) < 5000) == (400, True)
    assert described(stocks) == before


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 422),
        (b"3", "application/json", 422),
        (b'{"rows": [3]}', "application/json", 422),
        (b"[" * 5000, "application/json", 400),
        (b'{"a":' * 3000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"id": NaN}', "application/json", 400),
        (b"{}\n3\n", "application/x-ndjson", 422),
        (b"nothing", "application/vnd.apache.arrow.stream", 400),
        (b"", "application/vnd.apache.arrow.stream", 400),
        (b"id,x\n1,2\n", "text/csv", 415),
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
    ],
)
def test_bodies_that_are_none(stocks: TestClient, body: bytes, media: str, status: int) -> None:
    headers = {"content-type": media} if media else {}
    refused = stocks.post(f"{STREAM}/events", content=body, headers=headers)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert stocks.get(STREAM).json()["sequence"] == 2


def test_no_rows_are_a_write_of_nothing(stocks: TestClient) -> None:
    assert stocks.post(f"{STREAM}/events", json={"rows": []}).json() == {"sequence": 3, "deltas": 0}


def test_the_life_of_a_subscription(stocks: TestClient) -> None:
    path = f"{STREAM}/subscriptions/eve"
    made = stocks.put(path, json={"risk_lo": 4, "k": 1})
    assert made.status_code == 201
    first = {"subscription": "eve", "rank": 1, "item": "CORE", "score": 7.0}
    assert made.json() == {"id": "eve", "results": [first], "sequence": 3}
    assert stocks.get(path).json() == {"id": "eve", "risk_lo": 4, "k": 1}
    replaced = stocks.put(path, json={"risk_hi": 6})
    assert replaced.status_code == 200
    assert [row["item"] for row in replaced.json()["results"]] == ["BOLT", "ACME"]
    assert stocks.get(path).json() == {"id": "eve", "risk_hi": 6}
    amended = stocks.patch(path, json={"k": 1})
    assert [row["item"] for row in amended.json()["results"]] == ["BOLT"]
    assert stocks.get(path).json() == {"id": "eve", "risk_hi": 6, "k": 1}
    assert stocks.get(f"{path}/results").json() == {
        "rows": [{"subscription": "eve", "rank": 1, "item": "BOLT", "score": 9.5}],
        "sequence": 5,
    }
    told = stocks.get(f"{path}/explain?item=CORE").json()
    assert told["sequence"] == 5
    assert stocks.delete(path).json() == {"sequence": 6, "deltas": 1}
    for gone in (
        stocks.get(path),
        stocks.delete(path),
        stocks.patch(path, json={}),
        stocks.get(f"{path}/results"),
        stocks.get(f"{path}/explain?item=CORE"),
    ):
        assert gone.status_code == 404
    assert stocks.get(STREAM).json()["sequence"] == 6


def test_a_replacement_is_what_a_new_one_would_be(stocks: TestClient) -> None:
    path = f"{STREAM}/subscriptions/ada"
    assert stocks.put(path, json={"risk_lo": 9, "risk_hi": 1}).status_code == 400
    assert stocks.put(path, json={"colour": 1}).status_code == 400
    assert stocks.get(path).json() == {"id": "ada", "risk_lo": 2, "risk_hi": 6}
    assert [row["item"] for row in stocks.put(path, json={}).json()["results"]] == ["CORE", "BOLT"]


def test_many_subscriptions_are_registered_or_none(stocks: TestClient) -> None:
    rows = [{"id": "x1", "risk_lo": 1}, {"id": "ada", "risk_lo": 1}]
    refused = stocks.post(f"{STREAM}/subscriptions", json={"rows": rows})
    assert (refused.status_code, refused.json()["column"]) == (400, "id")
    assert stocks.get(f"{STREAM}/subscriptions/x1").status_code == 404
    told = stocks.post(f"{STREAM}/subscriptions?return=deltas", json={"rows": rows[:1]})
    assert told.status_code == 201
    assert [row["item"] for row in told.json()["rows"]] == ["CORE", "BOLT"]
    assert stocks.get(STREAM).json()["subscriptions"] == 3


def test_ids_are_of_one_kind(client: TestClient) -> None:
    client.put("/v1/streams/s", json={"engine": "RangeTopK"})
    assert client.put("/v1/streams/s/subscriptions/7", json={"id": 7}).status_code == 201
    assert client.post("/v1/streams/s/events", json={"id": 1, "x": 0, "y": 0}).status_code == 200
    assert client.get("/v1/streams/s/subscriptions/7").json() == {"id": 7}
    listed = client.get("/v1/streams/s/subscriptions/7/results").json()["rows"]
    assert listed == [{"subscription": 7, "rank": 1, "item": 1, "score": 0.0}]
    for path in ("a", "7.0", "0x7", "9" * 30):
        assert client.get(f"/v1/streams/s/subscriptions/{path}").status_code == 400
        assert client.get(f"/v1/streams/s/subscriptions/7/explain?item={path}").status_code == 400
    assert client.put("/v1/streams/s/subscriptions/8", json={"id": "8"}).status_code == 400
    assert client.put("/v1/streams/s/subscriptions/8", json={"id": 9}).status_code == 400
    assert client.put("/v1/streams/s/subscriptions/8", json={}).json()["id"] == 8


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "../x", "ä ö", "a?b#c", "a;b", "'; DROP TABLE own_key; --"])
def test_ids_may_be_any_text(stocks: TestClient, name: str) -> None:
    from urllib.parse import quote

    path = f"{STREAM}/subscriptions/{quote(name, safe='')}"
    assert stocks.put(path, json={"risk_lo": 0}).json()["id"] == name
    assert stocks.get(path).json() == {"id": name, "risk_lo": 0}
    assert stocks.delete(path).status_code == 200


def test_matching_answers_with_the_matches(client: TestClient) -> None:
    client.put("/v1/streams/ads", json={"engine": "RankedMatcher", "settings": {"over": ["age"], "k": 1}})
    rows = [{"id": "a", "age_lo": 10, "score": 1.0}, {"id": "b", "age_lo": 20, "score": 2.0}]
    client.post("/v1/streams/ads/subscriptions", json={"rows": rows})
    told = client.post("/v1/streams/ads/events", json={"id": 1, "age": 30}).json()
    assert told["rows"] == [{"event": 1, "rank": 1, "subscription": "b", "score": 2.0}]
    why = client.get("/v1/streams/ads/subscriptions/a/explain", params={"item": '{"age": 30}'}).json()
    assert (why["rank"], why["in_result"]) == (2, False)
    assert client.get("/v1/streams/ads/subscriptions/a/explain?item=30").status_code == 400
    assert client.get("/v1/streams/ads/subscriptions/a/results").status_code == 404
    assert client.put("/v1/streams/ads/subscriptions/a", json={"score": 9.0}).json()["results"] == []
    assert client.post("/v1/streams/ads/events", json={"id": 2, "age": 3}).json()["rows"][0]["score"] == 9.0
    assert client.get("/v1/streams/ads/zones").status_code == 404
    assert client.post("/v1/streams/ads/objects", json={"id": 1}).status_code == 404


@pytest.mark.parametrize("engine", ["MovingTopK", "MovingSkyline"])
def test_moving_queries_have_objects_and_zones(client: TestClient, engine: str) -> None:
    client.put("/v1/streams/taxi", json={"engine": engine, "settings": {"over": ["price"]}})
    objects = [{"id": f"t{x}", "x": x, "y": 0.0, "price": 1.0 + x} for x in range(4)]
    assert client.post("/v1/streams/taxi/objects", json={"rows": objects}).json()["sequence"] == 1
    made = client.put("/v1/streams/taxi/subscriptions/me", json={"x": 0.1, "y": 0.1})
    assert made.json()["results"][0]["item"] == "t0"
    moved = client.post("/v1/streams/taxi/events?return=deltas", json={"id": "me", "x": 3.0, "y": 0.0})
    assert moved.status_code == 200
    zones = client.get("/v1/streams/taxi/zones?subscription=me")
    assert zones.headers["content-type"] == "application/geo+json"
    [zone] = zones.json()["features"]
    assert (zone["type"], zone["id"]) == ("Feature", "me")
    assert zone["geometry"]["type"] in ("Point", "Polygon")
    assert client.get("/v1/streams/taxi/zones?subscription=you").status_code == 404
    assert client.get("/v1/streams/taxi/subscriptions/me/explain?item=t2").json()["sequence"] == 3
    gone = client.delete("/v1/streams/taxi/objects/t0").json()
    assert gone["sequence"] == 4
    assert client.delete("/v1/streams/taxi/objects/t9").status_code == 400


def test_messages_have_times(client: TestClient) -> None:
    settings = {"bounds": [0, 0, 1, 1], "window": "1 hour"}
    assert (
        client.put("/v1/streams/n", json={"engine": "GeoTextTopK", "settings": settings}).status_code == 201
    )
    client.put("/v1/streams/n/subscriptions/me", json={"x": 0.5, "y": 0.5, "terms": ["rain"]})
    message = {"id": 1, "x": 0.5, "y": 0.5, "terms": ["rain"], "time": "2026-01-31T12:00:00"}
    assert client.post("/v1/streams/n/events", json=message).json() == {"sequence": 2, "deltas": 1}
    later = {**message, "id": 2, "time": "2026-01-31T13:00:00"}
    assert client.post("/v1/streams/n/events", json=later).json() == {"sequence": 3, "deltas": 2}
    refused = client.post("/v1/streams/n/events", json={**message, "id": 3, "time": "noon"})
    assert (refused.status_code, refused.json()["column"]) == (400, "time")


def test_another_vocabulary_is_a_row_of_events(client: TestClient) -> None:
    settings = {"bounds": [0, 0, 9, 9], "k": 1, "alpha": 0.2}
    client.put("/v1/streams/n", json={"engine": "GeoTextTopK", "settings": settings})
    client.put("/v1/streams/n/subscriptions/me", json={"x": 1, "y": 1, "terms": ["pizza", "deal"]})
    texts = {"a": ["deal", "today"], "b": ["pizza", "today"]}
    rows = [{"id": name, "x": 1, "y": 1 + (name == "b"), "terms": words} for name, words in texts.items()]
    assert client.post("/v1/streams/n/events", json=rows).status_code == 200
    row = {"op": "reweigh", "vocabulary": ["deal", "today"], "documents": [4, 3, 1]}
    assert client.post("/v1/streams/n/events", json=row).json()["deltas"] == 2
    listed = client.get("/v1/streams/n/subscriptions/me/results").json()["rows"]
    assert [each["item"] for each in listed] == ["b"]
    refused = client.post("/v1/streams/n/events", json={**row, "documents": [4]})
    assert (refused.status_code, refused.json()["column"]) == (400, "documents")


def test_a_router_is_served_too(client: TestClient) -> None:
    client.put("/v1/streams/r", json={"engine": "CoveringTable", "settings": {"over": ["x"]}})
    assert client.put("/v1/streams/r/subscriptions/a", json={"x_lo": 0, "x_hi": 9}).status_code == 201
    told = client.post("/v1/streams/r/subscriptions?return=deltas", json={"id": "b", "x_lo": 1, "x_hi": 2})
    assert told.json()["rows"][0]["action"] == "covered"
    found = client.post("/v1/streams/r/events", json={"id": 1, "x": 1.5}).json()["rows"]
    assert [row["subscription"] for row in found] == ["a"]


def test_a_key_is_good_for_one_write(opened: Opened) -> None:
    client = opened()
    make_stocks(client)
    key = {"Idempotency-Key": "k1"}
    first = client.post(f"{STREAM}/events?return=deltas", json=NEWS, headers=key)
    assert first.json()["sequence"] == 3
    for _ in range(2):
        again = client.post(f"{STREAM}/events?return=deltas", json=NEWS, headers=key)
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["rankcast-sequence"] == "3"
        client = opened()  # also after a restart
    other = client.post(f"{STREAM}/events?return=deltas", json={"id": "X", "risk": 1, "pe": 1}, headers=key)
    assert other.status_code == 422
    elsewhere = client.put(f"{STREAM}/subscriptions/x", json={}, headers=key)
    assert elsewhere.status_code == 422
    assert client.get(STREAM).json()["sequence"] == 3
    refused = client.post(f"{STREAM}/events", json={"id": "X"}, headers={"Idempotency-Key": "k2"})
    assert refused.status_code == 400  # a refusal is not kept
    better = {"id": "X", "risk": 1, "pe": 1}
    told = client.post(f"{STREAM}/events", json=better, headers={"Idempotency-Key": "k2"})
    assert told.json()["sequence"] == 4
    gone = client.delete(f"{STREAM}/subscriptions/ada", headers={"Idempotency-Key": "k3"})
    assert (
        client.delete(f"{STREAM}/subscriptions/ada", headers={"Idempotency-Key": "k3"}).json() == gone.json()
    )
    assert client.delete(f"{STREAM}/subscriptions/ada").status_code == 404
    assert client.post(f"{STREAM}/events", json=NEWS, headers={"Idempotency-Key": ""}).status_code == 400


def test_everything_is_there_after_a_restart(opened: Opened) -> None:
    client = opened()
    make_stocks(client)
    client.put(f"{STREAM}/subscriptions/eve", json={"risk_lo": 4, "k": 1})
    before = described(client), client.get(f"{STREAM}/subscriptions/eve").json()
    listed = client.get(f"{STREAM}/subscriptions/ada/results").json()
    client = opened()
    assert (described(client), client.get(f"{STREAM}/subscriptions/eve").json()) == before
    assert client.get(f"{STREAM}/subscriptions/ada/results").json() == listed
    assert (
        client.post(f"{STREAM}/events?return=deltas", json=NEWS).json()["rows"]
        == [
            *NEWS_DELTAS,
            {"subscription": "eve", "op": "update", "item": "CORE", "score": 7.0, "rank": 1},
        ][:3]
    )


def test_what_is_served_equals_the_engine(stocks: TestClient) -> None:
    engine = RangeTopK(over="risk", by="pe", k=2)
    rows = {"id": ["ACME", "BOLT", "CORE"], "risk": [3, 5, 8], "pe": [12.0, 9.5, 7.0]}
    engine.publish(rows)
    engine.subscribe({"id": ["ada", "bob"], "risk_lo": [2, 6], "risk_hi": [6, None]})
    for name in ("ada", "bob"):
        told = stocks.get(f"{STREAM}/subscriptions/{name}/results").json()["rows"]
        assert told == engine.results([name]).to_pylist()


def test_paths_and_methods_that_are_not_known(client: TestClient) -> None:
    for method, path, status in (
        ("GET", "/v2/streams", 404),
        ("GET", "/v1/streams/none", 404),
        ("POST", "/v1/streams", 405),
        ("PATCH", "/v1/streams/s", 405),
        ("GET", "/v1/streams/none/deltas", 404),
        ("POST", "/v1/streams/none/events", 404),
    ):
        told = client.request(method, path, json={})
        assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json")
        assert told.json()["status"] == status


def test_pages_and_counters(stocks: TestClient) -> None:
    assert stocks.get("/healthz").json() == {"status": "ok"}
    assert stocks.get("/readyz").json() == {"status": "ok"}
    assert 'rankcast_stream_writes_total{stream="stocks"} 2.0' in stocks.get("/metrics").text
    assert "/v1/streams/{stream}/events" in stocks.get("/docs").text
    assert stocks.get("/").headers["content-type"].startswith("text/html")
    assert "/v1/streams/{stream}/events" in stocks.get("/openapi.json").json()["paths"]


def test_requests_have_ids(client: TestClient) -> None:
    assert client.get("/healthz", headers={"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    assert client.get("/healthz", headers={"X-Request-Id": "a b\tc"}).headers["x-request-id"] != "a b\tc"
