"""The laws of streams, without Spark: the same deltas for any number of shards, through all faults."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import MovingSkyline, MovingTopK
from rankcast.core import snapshot
from rankcast.errors import FunctionError, InputError, SnapshotError
from rankcast.moving import scoring
from rankcast.spark import applying, scratch
from rankcast.spark.shard import Limits
from rankcast.state.shard_cache import Live
from tests.spark import stories
from tests.spark.geo_stories import geotext_whole
from tests.spark.pretend import Cluster, GivenUpError, settle
from tests.spark.stories import Story

STORIES: dict[str, Callable[..., Story]] = {
    "range_topk": stories.range_topk,
    "range_topk_worded": partial(stories.range_topk, worded=True),
    "matching": stories.matching,
    "geotext": stories.geotext,
    "geotext_living": stories.geotext_living,
    "geotext_whole": geotext_whole,
    "geotext_meanings": partial(geotext_whole, meanings=True),
    "moving_topk": stories.moving_topk,
    "moving_skyline": stories.moving_skyline,
    "moving_hours": stories.moving_hours,
    "moving_roads": stories.moving_roads,
    "skyline_roads": stories.skyline_roads,
}
SEEDS = 8 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 2
TABLES = ["range_topk", "geotext", "geotext_whole", "geotext_meanings", "moving_topk", "moving_skyline"]


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("name", STORIES)
def test_any_number_of_shards_gives_the_deltas_of_one_process(
    name: str, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = STORIES[name](3)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=shards)
    for batch in story.batches:
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]
    assert cluster.refused() == []


@pytest.mark.parametrize("shards", [1, 3])
def test_messages_that_are_gone_cannot_be_taken_back_and_late_ones_are_told(
    shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever shards hold, each row that is refused or late is told once, and the others do their work."""
    story = stories.geotext_living(8, count=3, size=60, refusals=True)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=shards)
    for batch in story.batches:
        cluster.run(batch)
    refused: list[int] = []
    told, engine = story.expected(refused)
    assert cluster.told() == told
    late = [row["seq"] for row in cluster.refused() if "is too late for the window" in row["reason"]]
    assert len(late) == engine.stats()["late"] > 3
    assert sorted([*late, *refused]) == [row["seq"] for row in cluster.refused()]
    assert len(refused) > 3


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_told_with_the_first_micro_batch(
    name: str, shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = STORIES[name](4, table=True)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=shards)
    for batch in story.batches:
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]


def test_bad_rows_stop_a_strict_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.range_topk(17, count=1)
    story.batches[0]["events"].append({"seq": -1, "id": 77, "x": 1.0, "y": None})
    cluster = Cluster(story, tmp_path, monkeypatch, strict=True)
    with pytest.raises(InputError, match="is null for object 77, which is not there"):
        cluster.run(story.batches[0])


def steep(attributes: Any, distance: Any) -> Any:
    """A score that has no number at a distance, and none for some objects."""
    with np.errstate(all="ignore"):
        return np.exp(distance * 100) + np.sqrt(attributes[:, 0])


MOOD: dict[str, Any] = {"left": 0, "fault": ""}


def moody(attributes: Any, distance: Any) -> Any:
    """A score that fails at a call it was told of."""
    MOOD["left"] -= 1
    if MOOD["left"] == 0 and MOOD["fault"] == "raises":
        raise ZeroDivisionError
    scores = attributes[:, 0] + distance
    return scores[1:] if MOOD["left"] == 0 and MOOD["fault"] else scores


ODD = [0.0, -1.0, 1e8, -1e40, 1e120, 1e149, 1e151, -1e200, 1.7e308]
SCORES = [None, scoring.weighted_product([2, 3]), scoring.weighted_distance([1]), steep]


@pytest.mark.parametrize("score", [*SCORES, "skyline"])
def test_shards_agree_on_objects_that_are_far_or_have_no_score(
    score: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever queries are where, any number of shards accepts and refuses the same rows, each told once."""
    story = stories.moving_topk(1, count=6)
    if score == "skyline":
        story.make = lambda: MovingSkyline(over=["price"])
    else:
        story.make = lambda: MovingTopK(over=["price"], k=2, score=score)
    rng = np.random.default_rng(2)
    for row in (row for batch in story.batches for rows in batch.values() for row in rows):
        for name in ("x", "y", "price"):
            if name in row and rng.random() < 0.25:
                row[name] = float(rng.choice(ODD))
    told = []
    for shards in (1, 4):
        cluster = Cluster(story, tmp_path / str(shards), monkeypatch, shards=shards)
        for batch in story.batches:
            cluster.run(batch)
        told.append((cluster.told(), [(row["seq"], row["reason"]) for row in cluster.refused()]))
    assert told[0] == told[1]
    assert told[0][0]
    refused = {seq for seq, _ in told[0][1]}
    assert len(refused) == len(told[0][1])
    if score is not steep:  # which counts as a number everywhere on shards
        assert refused == _refused_by_one_process(story)


def _refused_by_one_process(story: Story) -> set[int]:
    """The sequence numbers of rows that an engine refuses that takes them one by one."""
    engine, refused = story.make(), set()
    for batch in story.batches:
        rows = [(name != "objects", row["seq"], name, row) for name, rows in batch.items() for row in rows]
        for _, seq, name, row in sorted(rows, key=lambda each: each[:2]):
            try:
                engine.apply([(story.call_of(name, row), story._passed(name, row))])
            except InputError:
                refused.add(seq)
    return refused


def test_zones_share_out_a_table_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.range_topk(5, table=True)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=4)
    cluster.run(story.batches[0])
    held = [table["subscription"].unique() for table in cluster.outputs]
    assert cluster.plan.zones is not None
    assert len(pa.chunked_array(held).unique()) == sum(len(each) for each in held)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", STORIES)
def test_faults_of_every_kind_change_nothing(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts are given up before, while and after a batch is applied; hosts change, scratch is lost."""
    story = STORIES[name](seed, count=10, size=12)
    rng = np.random.default_rng(seed)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    real = applying.apply

    def dies(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise GivenUpError

    for batch in story.batches:
        packed = cluster.packed(batch)
        for each in cluster.plan.shards:
            for _ in range(int(rng.integers(0, 3))):
                fault = rng.choice(["after", "while", "other batch", "lost", "moved"])
                if fault == "after":
                    cluster.attempt(each, packed)
                elif fault == "while":
                    with monkeypatch.context() as patch, suppress(GivenUpError):
                        patch.setattr(applying, "apply", dies)
                        cluster.attempt(each, packed)
                elif fault == "other batch":
                    cluster.attempt(each, packed.iloc[: len(packed) // 2])
                elif fault == "lost":
                    settle()
                    scratch.forget(cluster.query)
                else:
                    cluster.move(str(rng.choice(["first", "second"])))
            cluster.commit(each, packed)
        cluster.batch += 1
    settle()
    assert cluster.told() == story.expected()[0]
    assert {told["how"] for told in cluster.metrics} >= {"hit", "restore"}


def damage_here(cluster: Cluster, rng: np.random.Generator) -> str:
    """Lose or cut a file that hosts keep of a shard between batches."""
    found = sorted(file for file in (cluster.folder / "hosts").rglob("*") if file.is_file())
    if not found:
        return "nothing"
    file = found[int(rng.integers(len(found)))]
    cut = file.suffix == ".array" and file.stat().st_size > 0 and rng.random() < 0.5
    if cut:
        os.truncate(file, int(rng.integers(file.stat().st_size)))
    else:
        file.unlink()
    return f"{'cut' if cut else 'lost'} {file.name}"


def no_room(rng: np.random.Generator, patch: pytest.MonkeyPatch) -> None:
    """Let every other write of a snapshot, or of arrays of a host, find a full disk halfway."""
    real_file, real_array = snapshot.write_file, Live._write

    def write_file(path: Path, data: Any) -> None:
        if rng.random() < 0.5:
            real_file(path, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        real_file(path, data)

    def write_array(self: Live, name: str, generation: int, array: Any) -> Any:
        if rng.random() < 0.5:
            (self.here / snapshot.file_name(name, generation)).write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_array(self, name, generation, array)

    patch.setattr(snapshot, "write_file", write_file)
    patch.setattr(Live, "_write", write_array)


def on_bad_disks(name: str, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, *, count: int) -> None:
    """A stream over hosts that lose files between batches and run out of room in them."""
    story = STORIES[name](seed, count=count, size=8)
    rng = np.random.default_rng(seed)
    cluster = Cluster(story, folder, monkeypatch, shards=2)
    for batch in story.batches:
        packed = cluster.packed(batch)
        for each in cluster.plan.shards:
            for _ in range(int(rng.integers(0, 3))):
                settle()
                fault = rng.choice(["damage", "full", "moved", "after"])
                if fault == "damage":
                    damage_here(cluster, rng)
                elif fault == "full":
                    with monkeypatch.context() as patch, suppress(OSError):
                        no_room(rng, patch)
                        cluster.attempt(each, packed)
                        settle()
                elif fault == "after":
                    cluster.attempt(each, packed)
                else:
                    cluster.move(str(rng.choice(["first", "second"])))
            cluster.commit(each, packed)
        cluster.batch += 1
    settle()
    assert cluster.told() == story.expected()[0]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", ["range_topk", "matching", "moving_topk"])
def test_bad_disks_of_hosts_change_nothing(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_bad_disks(name, seed, tmp_path, monkeypatch, count=8)


@pytest.mark.deep
@pytest.mark.parametrize("ten", range(20))
@pytest.mark.parametrize("name", STORIES)
def test_bad_disks_of_hosts_never_change_anything(
    name: str, ten: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(10 * ten + 100, 10 * ten + 110):
        with monkeypatch.context() as patch:
            on_bad_disks(name, seed, tmp_path / str(seed), patch, count=12)


@pytest.mark.parametrize("how", ["flip", "cut", "lose"])
def test_a_damaged_snapshot_in_the_depot_is_told(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever file of it: a shard that needs it fails with a word, and gives no answer."""
    story = stories.range_topk(4, count=4, size=6)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    for batch in story.batches[:3]:
        cluster.run(batch)
    settle()
    (each,) = cluster.plan.shards
    folder = Path(cluster.state) / cluster.standing(each).snapshot
    packed = cluster.packed(story.batches[3])
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        if not data:
            continue
        if how == "lose":
            file.unlink()
        else:
            file.write_bytes(data[:-1] if how == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
        cluster.move(f"new-{file.name}")
        with pytest.raises(SnapshotError):
            cluster.attempt(each, packed)
        file.write_bytes(data)
    cluster.commit(each, packed)
    assert cluster.told() == story.expected()[0]


@pytest.mark.parametrize("fault", ["raises", "shape"])
def test_a_function_that_fails_gives_the_batch_up(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is refused for it, and the shard is restored: the next attempt gives what it should."""
    story = stories.moving_topk(1, count=4)
    story.make = lambda: MovingTopK(over=["price"], k=2, score=moody)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    (each,) = cluster.plan.shards
    for batch in story.batches:
        packed = cluster.packed(batch)
        for call in (40, 95, 130):
            with monkeypatch.context() as patch:
                patch.setitem(MOOD, "left", call)
                patch.setitem(MOOD, "fault", fault)
                with suppress(FunctionError, SnapshotError):  # the latter: on a sample, when restored
                    cluster.attempt(each, packed)
        cluster.commit(each, packed)
        cluster.batch += 1
    assert cluster.told() == story.expected()[0]
    assert cluster.refused() == []
    assert "restore" in {told["how"] for told in cluster.metrics}


def test_a_batch_given_up_after_it_was_applied_is_answered_from_its_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.range_topk(1)
    cluster = Cluster(story, tmp_path, monkeypatch)
    cluster.run(story.batches[0])
    packed = cluster.packed(story.batches[1])
    each = cluster.plan.shards[0]
    _, output, _ = cluster.attempt(each, packed)
    cluster.commit(each, packed.sample(frac=1, random_state=9))
    assert cluster.metrics[-1]["how"] == "redo"
    assert cluster.outputs[-1].equals(output)


def test_snapshots_are_taken_up_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.range_topk(2, count=40, size=4)
    cluster = Cluster(story, tmp_path, monkeypatch, limits=Limits(batches=4, retain=5))
    logs = []
    for batch in story.batches:
        cluster.run(batch)
        settle()
        logs += [len(state) - 1 for state in cluster.store.values()]
    assert cluster.told() == story.expected()[0]
    assert max(logs) <= 6
    for each in cluster.plan.shards:
        folders = list(cluster.depot.folders(f"queries/{cluster.query}/{each}"))
        assert 1 <= len(folders) <= 5
        assert cluster.standing(each).snapshot.rpartition("/")[2] in folders
    scratch.forget(cluster.query)  # and what is left is enough
    cluster.run({"subscriptions": [], "events": []})


def test_snapshots_that_a_retained_version_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.range_topk(2, count=30, size=4)
    cluster = Cluster(story, tmp_path, monkeypatch, limits=Limits(batches=2, retain=6))
    versions = []
    for batch in story.batches:
        cluster.run(batch)
        settle()
        versions.append([cluster.standing(each) for each in cluster.plan.shards])
    for version in versions[-6:]:
        for at in version:
            assert cluster.depot.peek(at.snapshot).header["number"] == at.covered


def test_a_snapshot_of_a_batch_that_was_given_up_is_never_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.range_topk(6, count=8, size=6)
    cluster = Cluster(story, tmp_path, monkeypatch, limits=Limits(batches=1, retain=2))
    for batch in story.batches:
        packed = cluster.packed(batch)
        for each in cluster.plan.shards:
            cluster.attempt(each, packed.iloc[:1])  # another batch, snapped, then given up
            settle()
            cluster.commit(each, packed)
            settle()
        cluster.batch += 1
    scratch.forget(cluster.query)
    cluster.run({"subscriptions": [], "events": [{"seq": 10**6, "id": 10**6, "x": 0.0, "y": 9.0}]})
    assert cluster.metrics[-1]["how"] == "restore"


def test_an_attempt_that_is_given_up_sweeps_nothing_that_another_may_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.range_topk(8, count=12, size=3)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1, limits=Limits(batches=1, retain=2))
    (each,) = cluster.plan.shards
    for host, batch in zip(("one", "two"), story.batches, strict=False):
        cluster.move(host)
        cluster.run(batch)  # each host has a snapshot of its batch, and the store names neither
        settle()
    packed = cluster.packed(story.batches[2])
    cluster.attempt(each, packed)  # takes up the newer one, and is given up
    settle()
    cluster.move("one")
    cluster.commit(each, packed)  # takes up the older one
    settle()
    assert cluster.standing(each).covered == 1
    cluster.move("three")
    cluster.run(story.batches[3])
    assert cluster.metrics[-1]["how"] == "restore"


def test_of_events_that_are_matched_only_a_checksum_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.matching(3)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1, limits=Limits(batches=50))
    for batch in story.batches[:-1]:
        cluster.run(batch)
    events = [event for batch in story.batches for event in batch["events"]] * 20
    before = cluster.metrics[-1]["log_bytes"]
    cluster.run({"subscriptions": [], "events": [{**event, "seq": None} for event in events]})
    assert cluster.metrics[-1]["refused"] == len(events)
    assert cluster.metrics[-1]["log_bytes"] - before < 2_000 < len(events) * 16
    cluster.move("elsewhere")
    cluster.run(story.batches[-1])
    assert cluster.metrics[-1]["how"] == "restore"
    assert cluster.told() == story.expected()[0]


def test_a_log_that_grows_too_long_makes_a_batch_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankcast.state.shard_cache import Uploader

    story = stories.range_topk(7, count=20, size=3)
    cluster = Cluster(story, tmp_path, monkeypatch, limits=Limits(batches=2, retain=2))
    real = Uploader.start
    monkeypatch.setattr(
        Uploader,
        "start",
        lambda self, *given, wait, **more: real(self, *given, wait=True, **more) if wait else None,
    )
    for batch in story.batches:
        cluster.run(batch)
        assert all(len(state) - 1 <= 9 for state in cluster.store.values())
    assert cluster.told() == story.expected()[0]
