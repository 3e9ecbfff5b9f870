"""Geo-text with all its columns and settings in a file: it is checked, and makes the engine that it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rankcast import cli
from rankcast.pipeline import read
from tests.spark.geo_stories import geotext_whole
from tests.spark.pretend import Cluster

CITY = """\
k = 3
alpha = 0.4
window = "30 seconds"
half_life = "15 seconds"
metric = "haversine"
scale = "5 km"
duplicates = "edit"
place_only = true
per_source = 1
distinct = true
phrases = true
vectors = 3
beta = 0.5
analyzer = { language = "english" }
"""
PLANE = """\
bounds = [0, 0, 6, 6]
k = 3
window = "30 seconds"
half_life = "20 seconds"
scale = 4
place_only = true
per_source = 2
distinct = true
phrases = true
vectors = 3
"""
FILE = """\
checkpoint = "checkpoint"
[engine]
name = "GeoTextTopK"
{settings}
[events]
format = "json"
path = "news"
schema = "{events}"
columns = {{ {word} = "body" }}
[subscriptions]
format = "json"
path = "people"
stream = true
schema = "{subscriptions}"
[sink]
format = "console"
"""
LIFE = "source string, time timestamp, until timestamp, vector array<double>"
COUNTED = "vocabulary array<string>, documents array<long>"
LIMITS = "radius double, min_score double, must array<string>, must_not array<string>, phrases array<string>"
PLACE = "x double, y double"


def written(folder: Path, settings: str, word: str, kind: str) -> Path:
    events = f"seq long, op string, id long, {PLACE}, body {kind}, {LIFE}, {COUNTED}"
    own = "k long, alpha double, vector array<double>"
    people = f"seq long, op string, id string, {PLACE}, {word} {kind}, {own}, {LIMITS}, since timestamp"
    for place in ("news", "people"):
        (folder / place).mkdir()
    path = folder / "pipeline.toml"
    path.write_text(FILE.format(settings=settings, events=events, subscriptions=people, word=word))
    return path


@pytest.mark.parametrize("meanings", [False, True])
def test_a_file_with_everything_is_in_order_and_tells_what_one_process_tells(
    meanings: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine of the file runs as shards do, on the columns that the check lets through."""
    story = geotext_whole(6, meanings=meanings)
    word, kind = ("terms", "array<string>") if meanings else ("text", "string")
    path = written(tmp_path, PLANE if meanings else CITY, word, kind)
    for name, place, own in (("events", "news", {word: "body"}), ("subscriptions", "people", {})):
        for number, batch in enumerate(story.batches):
            rows = [{own.get(key, key): value for key, value in row.items()} for row in batch[name]]
            lines = [json.dumps(row, default=lambda time: time.isoformat()) + "\n" for row in rows]
            (tmp_path / place / f"{number}.json").write_text("".join(lines))
    assert cli.main(["run", str(path), "--check"]) == 0, capsys.readouterr().err
    config = read(path, {})
    assert config.unchecked == ()
    for name, columns in story.columns.items():
        commands = {"op"} if name == "subscriptions" else set()
        assert set(config.fits[name] or ()) == {"seq", *columns} | commands
        given = config.sources[name].given()
        assert given is not None
        kinds = {column: kind for column, (_, kind) in config.sources[name].projected(given).items()}
        assert {column: kinds[column] for column in columns} == columns
    made: Any = config.engine.engine
    assert made().state()[0]["settings"] == story.make().state()[0]["settings"]
    expected, _ = story.expected()
    story.make = made
    cluster = Cluster(story, tmp_path / "cluster", monkeypatch, shards=3)
    for batch in story.batches:
        cluster.run(batch)
    assert cluster.told() == expected
    assert cluster.refused() == []
    assert len(expected) > 20


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('scale = "5 miles"', "scale"),
        ('half_life = "soon"', "half_life"),
        ('duplicates = "twice"', "duplicates"),
        ('place_only = "yes"', "place_only"),
        ("per_source = 0", "per_source"),
        ("distinct = 1", "distinct"),
        ("phrases = 1", "phrases"),
        ("vectors = 0", "vectors"),
        ("beta = 2", "beta"),
        ('analyzer = "english"', "analyzer"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(
    setting: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = setting.split(" = ", maxsplit=1)[0]
    lines = [setting if line.startswith(f"{name} =") else line for line in CITY.splitlines()]
    assert setting in lines
    path = written(tmp_path, "\n".join(lines), "text", "string")
    assert cli.main(["run", str(path), "--check"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert f"pipeline.toml:{4 + lines.index(setting)}" in error


@pytest.mark.parametrize(
    ("setting", "column"),
    [("phrases", "phrases"), ("per_source", "source"), ("vectors", "vector"), ("window", "since")],
)
def test_a_column_needs_its_setting(
    setting: str, column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = {setting, "half_life"} if setting == "window" else {setting}
    lines = [line for line in CITY.splitlines() if line.split(" = ")[0] not in absent]
    path = written(tmp_path, "\n".join(lines), "text", "string")
    assert cli.main(["run", str(path), "--check"]) == 2
    assert f'unknown column "{column}"' in capsys.readouterr().err
