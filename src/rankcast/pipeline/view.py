"""What a running pipeline shows: a live table on a terminal, a line a micro-batch anywhere else.

Ids and reasons come from rows, so they are plain text here: no markup, and escapes for what does not print.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TextIO

import pyarrow as pa

from rankcast.errors import MissingExtraError, plain
from rankcast.pipeline.progress import Batch, Progress

_WIDTH = 12
_OPS = {"enter": "+", "leave": "-", "update": "~", "match": "+"}


class View(AbstractContextManager["View"]):
    """Shows progress and, for the sink `console`, whose lists changed.

    Args:
        name: the pipeline.
        stream: where to write.
        rows: how many subscriptions (matching: events) are shown, the last that changed.
    """

    def __init__(self, name: str, stream: TextIO, *, rows: int = 10) -> None:
        self._name = name
        self._stream = stream
        self._rows = rows
        self._told = -1
        self._changed: OrderedDict[str, list[str]] = OrderedDict()
        self._progress = Progress()
        self._live: Any = None

    def __enter__(self) -> View:
        if self._stream.isatty():
            try:
                from rich.console import Console  # noqa: PLC0415
                from rich.live import Live  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise MissingExtraError("spark", needs="rich") from error
            console = Console(file=self._stream, highlight=False)
            self._live = Live(console=console, refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, value, trace)

    def show(self, progress: Progress) -> None:
        """Show how far a pipeline has come."""
        self._progress = progress
        if self._live is not None:
            self._live.update(self._page())
            return
        for batch in progress.recent:
            if batch.number > self._told:
                self._told = batch.number
                self._stream.write(line_of(batch, progress) + "\n")
        self._stream.flush()

    def changed(self, number: int, told: pa.Table) -> None:
        """Show what a micro-batch told."""
        owner = "event" if "event" in told.column_names else "subscription"
        other = "subscription" if owner == "event" else "item"
        for row in rows_of(told.slice(0, 1000)):
            who = plain(str(row[owner]))
            word = row["reason"] if row["op"] == "refused" else f"{_OPS[row['op']]}{row[other]}{_score(row)}"
            word = plain(str(word))
            if self._live is None:
                self._stream.write(f"  {who}: {word}\n")
                continue
            words = self._changed.setdefault(who, [])
            words.append(word)
            del words[:-_WIDTH]
            self._changed.move_to_end(who)
            while len(self._changed) > self._rows:
                self._changed.popitem(last=False)

    def _page(self) -> Any:
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        told = self._progress
        head = Text(
            f"{plain(self._name)}: {told.batches:,} micro-batches, {told.rows:,} rows, "
            f"{told.rate:,.0f} rows/s, {told.batch_seconds:.2f} s a micro-batch, lag {told.lag:.1f} s"
        )
        shards = Table(
            "shard", "rows", "deltas", "refused", "candidates", "hits", "misses", "redos", "seconds"
        )
        for shard, counted in told.shards.items():
            values = [f"{counted.get(name, 0):,.0f}" for name in _COLUMNS]
            style = "bold red" if shard in told.hot else None
            mark = f"{shard} hot" if shard in told.hot else str(shard)
            shards.add_row(mark, *values, f"{counted['seconds']:.2f}", style=style)
        parts: list[Any] = [head, shards]
        if self._changed:
            lists = Table("who", "what changed")
            for owner, words in reversed(self._changed.items()):
                lists.add_row(Text(owner), Text(" ".join(words)))
            parts.append(lists)
        return Group(*parts)


_COLUMNS = ("rows", "deltas", "refused", "candidates", "hits", "misses", "redos")


def rows_of(told: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table; text that is no UTF-8, which Spark lets through, has escapes where it is not."""
    try:
        found: list[dict[str, Any]] = told.to_pylist()
    except UnicodeDecodeError:
        columns = [_decoded(column) for column in told.columns]
        found = [dict(zip(told.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _decoded(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    parts: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return [None if part is None else part.decode(errors="backslashreplace") for part in parts]


def _score(row: dict[str, Any]) -> str:
    return "" if row["score"] is None else f" {row['score']:.4g} (rank {row['rank']})"


def line_of(batch: Batch, progress: Progress) -> str:
    """One line on a micro-batch."""
    rate = batch.rows / batch.seconds if batch.seconds else 0.0
    hot = f"; hot shards: {', '.join(map(str, progress.hot))}" if progress.hot else ""
    return (
        f"micro-batch {batch.number}: {batch.rows:,} rows, {batch.total('deltas'):,.0f} deltas, "
        f"{batch.total('refused'):,.0f} refused, {batch.seconds:.2f} s, {rate:,.0f} rows/s{hot}"
    )
