"""External streams: lists from outside, each batch once, told and resumed like those of engines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from rankcast import Client, RangeTopK, ServiceError
from rankcast.service.streams.external import Batch as Pushed
from rankcast.service.streams.external import External, Lists, checked, table_of
from rankcast.service.streams.records import Records
from rankcast.state import Shard
from rankcast.tables import deltas
from tests.service.conftest import Opened, Running

STREAM = "/v1/streams/s"
FIRST = [
    {"subscription": "ada", "op": "enter", "item": 1, "score": 5.0, "rank": 1},
    {"subscription": "ada", "op": "enter", "item": 2, "score": 6.0, "rank": 2},
    {"subscription": "bob", "op": "enter", "item": 1, "score": 5.0, "rank": 1},
]
SECOND = [
    {"subscription": "ada", "op": "leave", "item": 1, "score": None, "rank": None},
    {"subscription": "ada", "op": "enter", "item": 3, "score": 7.0, "rank": 2},
    {"subscription": "bob", "op": "update", "item": 1, "score": 4.5, "rank": 1},
]


def make(client: TestClient, **settings: Any) -> None:
    made = client.put(STREAM, json={"engine": "external", "settings": settings})
    assert made.status_code == 201, made.text


def push(client: TestClient, number: int, rows: list[dict[str, Any]], **params: Any) -> Any:
    return client.put(f"{STREAM}/batches/{number}", json={"rows": rows}, params=params)


def lists(client: TestClient, *names: str) -> list[list[tuple[Any, ...]]]:
    found = [client.get(f"{STREAM}/subscriptions/{name}/results").json()["rows"] for name in names]
    return [[(row["rank"], row["item"], row["score"]) for row in rows] for rows in found]


def test_a_batch_is_applied_once_also_after_a_restart(opened: Opened) -> None:
    client = opened()
    make(client)
    assert push(client, 0, FIRST).json() == {"sequence": 1, "deltas": 3}
    assert push(client, 3, SECOND, **{"return": "deltas"}).json()["rows"] == SECOND
    expected = [[(1, 2, 6.0), (2, 3, 7.0)], [(1, 1, 4.5)]]
    assert lists(client, "ada", "bob") == expected
    for _ in range(2):
        assert push(client, 0, FIRST).json() == {"sequence": 1, "deltas": 3}
        assert push(client, 3, []).json() == {"sequence": 2, "deltas": 3}
        client = opened()
        assert lists(client, "ada", "bob", "nobody") == [*expected, []]
    told = client.get(STREAM).json()
    assert (told["engine"], told["settings"], told["subscriptions"], told["sequence"]) == (
        "external",
        {},
        2,
        2,
    )


def test_parts_of_a_batch_are_batches_of_their_own(client: TestClient) -> None:
    make(client)
    assert push(client, 7, FIRST[:2], part=0).json()["sequence"] == 1
    assert push(client, 7, FIRST[2:], part=1).json()["sequence"] == 2
    assert push(client, 7, FIRST[:2], part=0).json()["sequence"] == 1
    assert lists(client, "ada", "bob") == [[(1, 1, 5.0), (2, 2, 6.0)], [(1, 1, 5.0)]]
    assert push(client, 6, FIRST).status_code == 409


def test_another_source_is_refused(client: TestClient) -> None:
    make(client)
    assert push(client, 1, FIRST, source="one").status_code == 200
    refused = push(client, 2, SECOND, source="two")
    assert refused.status_code == 409
    assert "come from 'one', not from 'two'" in refused.json()["detail"]
    assert push(client, 2, SECOND, source="one").status_code == 200


BAD = [
    ({"op": "enter", "item": 1}, "item", "is in the list"),
    ({"op": "update", "item": 9}, "item", "is not in the list"),
    ({"op": "leave", "item": 9}, "item", "is not in the list"),
    ({"op": "enter", "item": 9, "rank": 5}, "rank", "is 5"),
    ({"op": "enter", "item": 9, "rank": 1}, "rank", "is 1 twice"),
    ({"op": "enter", "item": 9, "rank": None}, "rank", "is null"),
    ({"op": "enter", "item": 9, "rank": 0}, "rank", "is 0"),
    ({"op": "gone", "item": 1}, "op", "gone"),
    ({"op": "enter", "item": "nine"}, "item", "is of another type"),
    ({"subscription": 7, "op": "enter", "item": 9}, "subscription", "is of another type"),
    ({"op": "enter", "item": 9, "colour": "red"}, "colour", "unknown column"),
    ({"op": "enter", "item": 9, "rank": 10_001}, "rank", "is 10001"),
]


@pytest.mark.parametrize(("row", "column", "why"), BAD)
def test_a_batch_that_does_not_fit_changes_nothing(
    client: TestClient, row: dict[str, Any], column: str, why: str
) -> None:
    make(client)
    push(client, 0, FIRST)
    bad = {"subscription": "ada", "score": 1.0, "rank": 1, **row}
    fine = {"subscription": bad["subscription"], "op": "enter", "item": 8, "score": 1.0, "rank": 1}
    alike = isinstance(bad["item"], int) and "colour" not in bad
    refused = push(client, 1, [fine, bad] if alike else [bad])
    assert refused.status_code == 400, refused.text
    assert why in refused.json()["detail"]
    assert refused.json()["column"] == column
    assert lists(client, "ada", "bob") == [[(1, 1, 5.0), (2, 2, 6.0)], [(1, 1, 5.0)]]
    assert push(client, 1, SECOND).json()["sequence"] == 2


def test_results_replace_all_lists_and_tell_what_changed(client: TestClient) -> None:
    make(client)
    push(client, 0, FIRST)
    rows = [
        {"subscription": "ada", "item": 2, "score": 6.0, "rank": 1},
        {"subscription": "ada", "item": 3, "score": 7.0, "rank": 2},
        {"subscription": "eve", "item": 2, "score": 6.0, "rank": 1},
    ]
    told = push(client, 1, rows, content="results", **{"return": "deltas"}).json()["rows"]
    assert told == [
        {"subscription": "bob", "op": "leave", "item": 1, "score": None, "rank": None},
        {"subscription": "ada", "op": "leave", "item": 1, "score": None, "rank": None},
        {"subscription": "ada", "op": "enter", "item": 3, "score": 7.0, "rank": 2},
        {"subscription": "eve", "op": "enter", "item": 2, "score": 6.0, "rank": 1},
    ]
    assert lists(client, "ada", "bob", "eve") == [[(1, 2, 6.0), (2, 3, 7.0)], [], [(1, 2, 6.0)]]
    assert push(client, 2, rows, content="results").json() == {"sequence": 3, "deltas": 0}
    assert client.get(STREAM).json()["subscriptions"] == 2
    for bad in ({**rows[0], "rank": 2}, {**rows[0], "rank": None}, {**rows[1], "item": 2}):
        assert push(client, 3, [bad, *rows[1:]], content="results").status_code == 400
    assert push(client, 3, [], content="results").json() == {"sequence": 4, "deltas": 3}


def test_lists_without_ranks_are_sets(client: TestClient) -> None:
    make(client, ranked=False)
    push(client, 0, FIRST)
    push(client, 1, [{"subscription": "ada", "op": "leave", "item": 1}])
    assert lists(client, "ada", "bob") == [[(None, 2, None)], [(None, 1, None)]]
    assert client.put(STREAM, json={"engine": "external"}).status_code == 409
    assert client.put(STREAM, json={"engine": "external", "settings": {"ranked": False}}).status_code == 200


def test_what_an_external_stream_does_not_have(client: TestClient, stocks: TestClient) -> None:
    make(client)
    row = {"x": 2}
    for method, path in [
        ("POST", "events"),
        ("POST", "subscriptions"),
        ("PUT", "subscriptions/a"),
        ("PATCH", "subscriptions/a"),
        ("DELETE", "subscriptions/a"),
        ("GET", "subscriptions/a"),
        ("GET", "subscriptions/a/explain?item=1"),
        ("POST", "objects"),
        ("GET", "zones"),
        ("POST", "dryrun"),
    ]:
        answer = client.request(method, f"{STREAM}/{path}", json=row if method != "GET" else None)
        assert answer.status_code == 404, (method, path, answer.text)
    assert client.put("/v1/streams/stocks/batches/0", json={"rows": FIRST}).status_code == 404
    for number in ("-1", "x", "9" * 19, "%C2%B2"):
        assert client.put(f"{STREAM}/batches/{number}", json={"rows": FIRST}).status_code == 422
    assert push(client, 0, FIRST, content="rumours").status_code == 422
    bad = client.put("/v1/streams/t", json={"engine": "external", "settings": {"ranked": 1}})
    assert bad.status_code == 400


def test_limits_hold(opened: Opened) -> None:
    client = opened(max_subscriptions=1, max_k=1)
    make(client)
    assert push(client, 0, FIRST[1:2]).status_code == 400
    assert push(client, 0, [FIRST[0], FIRST[2]]).status_code == 409
    assert push(client, 0, [FIRST[0]]).json()["sequence"] == 1
    assert push(client, 1, [FIRST[2]]).status_code == 409


def test_listeners_hear_and_resume(running: Callable[..., Running], tmp_path: Path) -> None:
    server = running()
    with Client(f"http://127.0.0.1:{server.port}") as client:
        client.put_stream("s", "external")
        table = pa.Table.from_pylist(FIRST)
        assert client.push("s", 0, table, source="q", deltas=True).rows.to_pylist() == FIRST
        listener = server.listen(f"{STREAM}/deltas?subscription=ada")
        event, number, data = listener.next()
        assert (event, number) == ("snapshot", 1)
        assert [row["item"] for row in data["rows"]] == [1, 2]
        client.push("s", 1, SECOND, source="q")
        assert listener.next() == ("delta", 2, {"rows": SECOND[:2], "sequence": 2})
        client.push("s", 1, SECOND, source="q")  # is not told again
        client.push("s", 2, [FIRST[0]], source="q")
        assert listener.next()[:2] == ("delta", 3)
        listener.close()
    server = running()  # the same after a restart
    listener = server.listen(f"{STREAM}/deltas", Last_Event_ID="1")
    assert listener.next() == ("delta", 2, {"rows": SECOND, "sequence": 2})
    assert listener.next()[:2] == ("delta", 3)
    listener.close()
    with server.socket_to(f"{STREAM}/ws?subscription=bob") as socket:
        assert '"item":1,"score":4.5' in str(socket.recv())
    with Client(f"http://127.0.0.1:{server.port}", retry_for=0) as client:
        with pytest.raises(ServiceError, match="come from 'q'"):
            client.push("s", 3, [])
        assert client.push("s", 2, [], source="q").sequence == 3


steps = st.lists(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2))), max_size=6
    ),
    max_size=5,
)


@given(steps, st.booleans())
def test_lists_are_those_of_the_engine_that_gave_the_deltas(batches: list[list[Any]], whole: bool) -> None:
    """Deltas or whole results of an engine, batch by batch, each after a restart."""
    engine = RangeTopK(k=2)
    with tempfile.TemporaryDirectory() as folder:
        answers = [
            engine.subscribe(
                {"id": ["a", "b", "c"], "x_lo": [0, 1, None], "x_hi": [2, 3, None], "k": [1, 2, 4]}
            )
        ]
        live: set[int] = set()
        for number, batch in enumerate([[], *batches]):
            rows = {name: (x, y) for name, x, y in batch if y is not None or name in live}
            if rows:
                columns = {
                    "id": list(rows),
                    "x": [x for x, _ in rows.values()],
                    "y": [y for _, y in rows.values()],
                }
                answers.append(engine.publish(columns))
                live = {each for each in live | set(rows) if rows.get(each, (0, 0))[1] is not None}
            given = engine.results() if whole else answers[-1]
            if not whole and not rows and number:
                continue
            with Shard.open(folder, External()) as shard:  # replays what was before
                lists = Lists(shard, Records(shard), ranked=True)
                content = "results" if whole else "deltas"
                pushed = Pushed("", number, 0, content, given)
                assert lists.answered(pushed) is None
                change = lists.change(checked(pushed, lambda *_: None), content)
                with shard.together():
                    told = shard.step(shard.prepare([("tell", change.deltas)])).answer
                    lists.write(pushed, change, shard.number)
                assert told.equals(change.deltas)
                found = sorted(
                    lists.results().to_pylist(), key=lambda row: (row["subscription"], row["rank"])
                )
                assert found == sorted(
                    engine.results().to_pylist(), key=lambda row: (row["subscription"], row["rank"])
                )
                assert len(lists) == len({row["subscription"] for row in found})
                assert lists.answered(pushed) == (shard.number, told.num_rows)


def test_a_table_of_few_rows_is_the_table_that_was_read() -> None:
    rows: dict[str, list[Any]] = {
        "subscription": [1],
        "op": ["leave"],
        "item": ["x"],
        "score": [None],
        "rank": [None],
    }
    assert table_of(rows).schema.types == [pa.int64(), deltas.OP, pa.string(), pa.float64(), pa.int64()]
