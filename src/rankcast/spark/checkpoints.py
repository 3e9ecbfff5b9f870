"""Spark's own checkpoint of a streaming query: where it stands, what its state store holds, a copy of it.

    metadata            the id of the query
    offsets/<batch>     written before a micro-batch: how far each source is to be read, and settings
    commits/<batch>     written after it
    sources/, state/    what sources have seen; the state store

A query stands between two micro-batches if the last one that was begun is also the last that was committed.
Only then is all that its sink has seen also in its state.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from rankcast.errors import ShardError
from rankcast.spark.sessions import PARTITIONS
from rankcast.spark.shard import STATE

_OPERATOR = 0  # the only operator with a state
_SCHEMA = re.compile(r'[^"]*(/state/\d+/_stateSchema/)')
_NUMBER = re.compile(r'("numPartitions"\s*:\s*)\d+')


class Checkpoint:
    """A checkpoint on a file system that pyarrow knows.

    Args:
        uri: an absolute URI or path.

    Attributes:
        files: the file system.
        path: where it is there.
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        self.uri = os.fspath(uri)
        self.files, path = fs.FileSystem.from_uri(self.uri)
        self.path = path.rstrip("/")

    def is_there(self) -> bool:
        """Whether there is anything."""
        return bool(self._entries(""))

    def boundary(self) -> int:
        """The number of the last micro-batch, after which the query stands.

        Raises:
            ShardError: it has not committed one, or was stopped in the middle of one.
        """
        begun, done = (max(self._numbers(log), default=-1) for log in ("offsets", "commits"))
        if done < 0:
            raise ShardError(
                f"{self.uri} has not come to the end of a micro-batch",
                hint="Run the stream once, or begin with a new state and checkpoint.",
            )
        if begun != done:
            raise ShardError(
                f"{self.uri} was stopped in the middle of micro-batch {begun}",
                detail="Its sink may have seen a part of it.",
                hint="Run the stream once more as it is, to the end of what is there (rankcast run --once).",
            )
        return done

    def partitions(self) -> int:
        """How many shuffle partitions the query has."""
        lines = self._read(f"offsets/{self.boundary()}").splitlines()
        with suppress(ValueError, LookupError, TypeError):
            return int(json.loads(lines[1])["conf"][PARTITIONS])
        raise ShardError(f"{self.uri} does not say how many shuffle partitions it has")

    def copy(self, target: Checkpoint, *, but: str | None = None) -> None:
        """Copy all of it to where nothing is yet, but for a folder of the name `but`."""
        for info in self._entries(""):
            if info.base_name != but:
                self._copy(info.path, target, info.base_name)
        target.settle()

    def settle(self) -> None:
        """Let files that name others by their whole paths name those that are here."""
        home = self.uri if urlsplit(self.uri).scheme else f"file:{self.path}"
        for name in self._metadata(f"state/{_OPERATOR}"):
            text = self._read(name)
            self._write(name, _SCHEMA.sub(lambda found: f"{home}{found[1]}", text))

    def entries(self, spark: Any) -> Any:
        """What the state store holds: a DataFrame with `shard, number, data`."""
        reader = spark.read.format("statestore").option("operatorId", _OPERATOR)
        frame = reader.option("stateVarName", STATE).load(self.uri)
        return frame.selectExpr(
            "key.shard as shard", "user_map_key.number as number", "user_map_value.data as data"
        )

    def repartition(self, partitions: int) -> None:
        """Let the query have so many shuffle partitions from now on, whose state stores hold nothing of use.

        A partition that is new begins with a copy of the smallest one. So the numbers of micro-batches go on
        without a hole, which the log of a file sink must not have.

        Raises:
            ShardError: the state store is of a kind that cannot be copied so.
        """
        if partitions == self.partitions():
            return
        last, state = self.boundary(), f"state/{_OPERATOR}"
        if "stateUniqueIds" in self._read(f"commits/{last}"):
            raise ShardError(
                f"{self.uri} has a state store of format 2, whose partitions cannot be copied",
                hint="Keep the number of partitions: --partitions.",
            )
        there = {int(info.base_name): info.path for info in self._entries(state) if info.base_name.isdigit()}
        least = min(there, key=lambda each: (self._bytes(there[each]), each))
        for each in range(partitions):
            if each not in there:
                self._copy(there[least], self, f"{state}/{each}")
        for each, path in there.items():
            if each >= partitions:
                self.files.delete_dir(path)
        for name in self._metadata(state):
            self._write(name, _NUMBER.sub(rf"\g<1>{partitions}", self._read(name)))
        version, settings, *rest = self._read(f"offsets/{last}").split("\n")
        told = json.loads(settings)
        told["conf"][PARTITIONS] = str(partitions)
        self._write(f"offsets/{last}", "\n".join([version, json.dumps(told, separators=(",", ":")), *rest]))

    def _metadata(self, state: str) -> list[str]:
        """The files that say how many partitions the operator has."""
        return [
            f"{state}/_metadata/{kind.base_name}/{info.base_name}"
            for kind in self._entries(f"{state}/_metadata")
            for info in self._entries(f"{state}/_metadata/{kind.base_name}")
            if info.base_name.isdigit()
        ]

    def _copy(self, path: str, target: Checkpoint, name: str) -> None:
        """Copy a folder or a file of this one into another."""
        place = f"{target.path}/{name}"
        whole = self.files.get_file_info(path).type == fs.FileType.Directory
        target.files.create_dir(place if whole else place.rpartition("/")[0], recursive=True)
        fs.copy_files(path, place, source_filesystem=self.files, destination_filesystem=target.files)

    def _bytes(self, path: str) -> int:
        return sum(info.size or 0 for info in self.files.get_file_info(fs.FileSelector(path, recursive=True)))

    def _read(self, name: str) -> str:
        with self.files.open_input_stream(f"{self.path}/{name}") as stream:
            text: str = stream.read().decode()
        return text

    def _write(self, name: str, text: str) -> None:
        """Write a file anew; the checksum that Hadoop may have of it does not count any more."""
        folder, _, file = name.rpartition("/")
        checksum = f"{self.path}/{folder}/.{file}.crc"
        with self.files.open_output_stream(f"{self.path}/{name}") as stream:
            stream.write(text.encode())
        if self.files.get_file_info(checksum).type == fs.FileType.File:
            self.files.delete_file(checksum)

    def _numbers(self, log: str) -> list[int]:
        return [int(info.base_name) for info in self._entries(log) if info.base_name.isdigit()]

    def _entries(self, name: str) -> list[Any]:
        selector = fs.FileSelector(f"{self.path}/{name}".rstrip("/"), allow_not_found=True)
        found: list[Any] = self.files.get_file_info(selector)
        return found
