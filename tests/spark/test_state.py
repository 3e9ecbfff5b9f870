"""Live arrays, the depot and hosted shards, on a local file system and on a pretended object store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

from rankcast import RangeTopK
from rankcast.core import snapshot
from rankcast.errors import InputError, JournalError, ShardError, SnapshotError
from rankcast.state import batches, checkpoint
from rankcast.state import shard_cache as live
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.journal import run
from rankcast.state.shard_cache import Hosted, Live, Place, Standing, checksum
from tests.spark import stories
from tests.spark.pretend import Cluster, settle
from tests.spark.remote import ObjectStore


@pytest.fixture(params=["local", "remote"])
def depot(request: pytest.FixtureRequest, tmp_path: Path) -> Depot:
    if request.param == "local":
        return Depot.open(str(tmp_path / "depot"))
    return Depot(fs.PyFileSystem(ObjectStore()), "bucket/depot")


def genesis(depot: Depot, engine: Any) -> Standing:
    header, arrays = engine.state()
    mark = Mark(0, batches.first_token("RangeTopK", header, arrays))
    depot.write("genesis/0", checkpoint.KIND, checkpoint.header_of("RangeTopK", mark, header), arrays)
    return Standing(0, mark.token, "genesis/0", 0)


def batch(*rows: tuple[int, float, float]) -> bytes:
    names, x, y = zip(*rows, strict=True)
    return batches.encode(
        batches.commands_of({"id": list(names), "x": list(x), "y": list(y)}, RangeTopK.calls)
    )


def hosted(root: Path, depot: Depot) -> Hosted[RangeTopK]:
    return Hosted(Live(root), depot, RangeTopK, {}, lambda engine, data, _: run(engine, data))


def test_hit_redo_and_restore(depot: Depot, tmp_path: Path) -> None:
    engine = RangeTopK(k=2)
    engine.subscribe({"id": ["a", "b"], "x_hi": [3, None]})
    standing = genesis(depot, engine)
    log: list[Any] = []
    data = [batch((1, 1, 5), (2, 2, 4)), batch((1, 9, 1)), batch((3, 0, 0))]
    host = tmp_path / "one"
    for number, each in enumerate(data, 1):
        expected = run(engine, each)
        step = hosted(host, depot).step(standing, each, lambda: log)
        again = hosted(host, depot).step(standing, each, lambda: log)
        assert (step.how, again.how) == ("restore" if number == 1 else "hit", "redo")
        assert step.answer == again.answer == expected
        assert step.record == again.record
        assert step.record.digest == checksum(expected)
        log.append(step.record)
        standing = Standing(number, step.record.token, standing.snapshot, standing.covered)
    step = hosted(tmp_path / "two", depot).step(standing, data[0], lambda: reversed(log))
    assert (step.how, step.answer) == ("restore", run(engine, data[0]))


def test_arrays_that_do_not_count_are_never_used(depot: Depot, tmp_path: Path) -> None:
    standing = genesis(depot, RangeTopK())
    first = hosted(tmp_path, depot).step(standing, batch((1, 1, 1)), list)
    other = hosted(tmp_path, depot).step(standing, batch((2, 1, 1)), list)  # the first was given up
    assert (first.how, other.how) == ("restore", "restore")
    (tmp_path / "header.json").write_bytes(b"nonsense")
    assert hosted(tmp_path, depot).step(standing, batch((2, 1, 1)), list).how == "restore"


def test_a_failure_while_applying_leaves_nothing_that_counts(depot: Depot, tmp_path: Path) -> None:
    standing = genesis(depot, RangeTopK())
    with pytest.raises(InputError):
        hosted(tmp_path, depot).step(standing, batch((1, 1, 1), (2, 2, float("nan"))), list)
    assert Live(tmp_path).place() is None
    assert hosted(tmp_path, depot).step(standing, batch((1, 1, 1)), list).how == "restore"


def test_another_boot_of_the_host_is_a_restore(
    depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing = genesis(depot, RangeTopK())
    step = hosted(tmp_path, depot).step(standing, batch((1, 1, 1)), list)
    after = Standing(1, step.record.token, "genesis/0", 0)
    monkeypatch.setattr(live, "boot", lambda: "another")
    assert hosted(tmp_path, depot).step(after, batch((2, 1, 1)), lambda: [step.record]).how == "restore"


def test_a_log_that_does_not_fit_is_told(depot: Depot, tmp_path: Path) -> None:
    standing = genesis(depot, RangeTopK())
    step = hosted(tmp_path / "one", depot).step(standing, batch((1, 1, 1)), list)
    after = Standing(1, step.record.token, "genesis/0", 0)
    with pytest.raises(JournalError, match="does not go on from the snapshot"):
        hosted(tmp_path / "two", depot).step(after, batch((2, 1, 1)), list)
    spoiled = step.record._replace(batch=batch((1, 1, 2)))
    with pytest.raises(JournalError, match="damaged"):
        hosted(tmp_path / "two", depot).step(after, batch((2, 1, 1)), lambda: [spoiled])
    unlike = step.record._replace(digest=b"other")
    with pytest.raises(ShardError, match="another answer than it had"):
        hosted(tmp_path / "two", depot).step(after, batch((2, 1, 1)), lambda: [unlike])


def test_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    depot = Depot.open(str(tmp_path / "depot"))
    standing = genesis(depot, RangeTopK())
    file = tmp_path / "depot" / "genesis" / "0" / "subscription.code.1.array"
    file.write_bytes(b"\1" + file.read_bytes()[1:])
    with pytest.raises(SnapshotError, match="damaged"):
        hosted(tmp_path / "one", depot).step(standing, batch((1, 1, 1)), list)
    file.unlink()
    with pytest.raises(SnapshotError, match="missing"):
        hosted(tmp_path / "one", depot).step(standing, batch((1, 1, 1)), list)


def test_only_arrays_that_were_replaced_are_written(depot: Depot, tmp_path: Path) -> None:
    shard = Live(tmp_path / "one")
    engine = RangeTopK()
    engine.subscribe({"id": list(range(100))})
    engine.unsubscribe([7, 8])  # makes room in the list of rows to use again
    engine.subscribe({"id": [7, 8]})
    with shard.held():
        shard.commit(engine, Place(1, "a", ""), b"")
    before = {file.name for file in shard.root.glob("*.array")}
    with shard.held():
        assert shard.place() == Place(1, "a", "")
        same = shard.open(RangeTopK, {})
        shard.begin()
        assert shard.place() is None
        same.unsubscribe([3])
        shard.commit(same, Place(2, "b", "a"), b"told")
        assert shard.answer() == b"told"
    assert {file.name for file in shard.root.glob("*.array")} == before
    with shard.held():
        assert shard.place() is not None
        grown = shard.open(RangeTopK, {})
        grown.subscribe({"id": list(range(1000, 2000))})
        shard.commit(grown, Place(3, "c", "b"), b"")
    with shard.held():
        assert shard.place() is not None
        held = shard.open(RangeTopK, {})
        assert len(held) == 1099
        assert all(
            np.array_equal(a, b)
            for a, b in zip(held.state()[1].values(), grown.state()[1].values(), strict=True)
        )


def test_a_directory_removed_while_it_is_held_takes_nothing_with_it(tmp_path: Path) -> None:
    """Whoever held it fails; what another process has put in its place stays as it is."""
    engine = RangeTopK()
    engine.subscribe({"id": list(range(100))})
    slow, other = Live(tmp_path / "one"), Live(tmp_path / "one")
    with slow.held():
        slow.commit(engine, Place(1, "a", ""), b"")
        shutil.rmtree(slow.root)
        with other.held():
            other.commit(engine, Place(1, "b", ""), b"other")
        before = {file.name: file.read_bytes() for file in other.root.iterdir()}
        slow.begin()
        with pytest.raises(FileNotFoundError):
            slow.commit(engine, Place(2, "c", "a"), b"slow")
    assert {file.name: file.read_bytes() for file in other.root.iterdir()} == before


@pytest.mark.parametrize("uri", ["relative/path", "./here", "nosuchscheme://x/y"])
def test_a_state_must_be_absolute_and_known(uri: str) -> None:
    with pytest.raises(InputError, match="state is"):
        Depot.open(uri)


@pytest.mark.parametrize("name", ["../x", "a/../b", "/etc", "a//b", "", ".hidden"])
def test_names_never_leave_the_depot(depot: Depot, name: str) -> None:
    with pytest.raises(SnapshotError, match="cannot name"):
        depot.put(name, b"")


def test_a_stream_on_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore()
    story = stories.geotext(8, count=12, size=6)
    remote = Depot(fs.PyFileSystem(store), "bucket/state")
    cluster = Cluster(story, tmp_path, monkeypatch, depot=remote)
    for place, each in enumerate(story.batches):
        cluster.move(f"host{place // 4}")
        cluster.run(each)
        settle()
    assert cluster.told() == story.expected()[0]
    assert any(key.startswith(f"bucket/state/queries/{cluster.query}/") for key in store.files)


def test_shards_have_one_file_of_what_never_changes(depot: Depot, tmp_path: Path) -> None:
    arrays = {"road.x": np.arange(5.0), "road.length": np.arange(4)}
    depot.write("first/0", checkpoint.KIND, {}, arrays)
    given: dict[str, Any] = {"constant": ("road.x",), "shared": tmp_path / "shared"}
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        found = depot.fetch("first/0", tmp_path / name, **given)
        files.append({key: tmp_path / name / entry.file for key, entry in found.arrays.items()})
    one, two = files
    assert one["road.x"].samefile(two["road.x"])
    assert not one["road.length"].samefile(two["road.length"])
    assert len(list((tmp_path / "shared").iterdir())) == 1
    mapped = snapshot.mapped(tmp_path / "one", found, "in-place", given["constant"])
    for array in mapped.values():
        array[0] = 7
    again = snapshot.mapped(tmp_path / "two", found, "read-only")
    assert np.array_equal(again["road.x"], arrays["road.x"])
    assert snapshot.mapped(tmp_path / "one", found, "read-only")["road.length"][0] == 7
