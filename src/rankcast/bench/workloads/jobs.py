"""The generators of this package as Spark jobs, for sizes that one process should not make.

`frame(spark, name, rows, seed=...)` is a DataFrame; the same seed gives the same rows whatever the number of
partitions. Rows are drawn block by block, so they are not those that one process draws with that seed, only
of the same kind. Ids count from 0 over all blocks.

| name                   | a row is                                                                        |
| ---------------------- | ------------------------------------------------------------------------------- |
| range.objects          | an object `id, x, y`                                                            |
| range.subscriptions    | a range `id, x_lo, x_hi`                                                        |
| range.events           | `rows` objects (those of range.objects), `each` updates of every one, with `seq`|
| covering.boxes         | a box in `attributes` attributes                                                |
| matching.subscriptions | a scored box in `attributes` attributes                                         |
| matching.events        | a point in the same space                                                       |
| geotext.messages       | a message `id, x, y, terms`; all blocks have the same towns                     |
| geotext.subscriptions  | a subscription drawn from the messages of the same seed                         |
| moving.objects         | an object `id, x, y` and `attributes` attributes                                |
| moving.positions       | `rows` cars on the same roads, `seconds` positions of each, with `seq`          |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rankcast.bench.workloads import Columns, covering, geotext, matching, moving, range_topk
from rankcast.errors import InputError

if TYPE_CHECKING:
    from rankcast.spark.generating import Block


def frame(spark: Any, name: str, rows: int, *, seed: int, block: int = 50_000, **options: Any) -> Any:
    """Rows of a kind as a DataFrame; `options` are those of the generator, by name."""
    from rankcast.spark.generating import generated  # noqa: PLC0415 (the extra spark)

    if name not in JOBS:
        raise InputError.unknown(name, JOBS, where="workload", word="kind")
    return generated(spark, partial(JOBS[name], **options), rows, seed=seed, block=block)


def range_objects(block: Block, **options: Any) -> Columns:
    """Objects of the range top-k paper."""
    return _from(block, range_topk.objects(block.count, block.rng, **options))


def range_subscriptions(block: Block, **options: Any) -> Columns:
    """Ranges; clustered ones have centres of their own in every block."""
    return _from(block, range_topk.subscriptions(block.count, block.rng, **options))


def range_events(block: Block, *, each: int = 10, **options: Any) -> Columns:
    """Updates of the objects of one block; `seq` mixes those of all blocks."""
    rng = block.rng
    objects = _from(block, range_topk.objects(block.count, rng, **options))
    events = range_topk.uniform_events(objects, each * block.count, rng)
    return {"seq": np.arange(each * block.count) * block.blocks + block.number, **events}


def covering_boxes(block: Block, *, attributes: int = 4, **options: Any) -> Columns:
    """Boxes of the covering paper."""
    over = covering.attributes(attributes)
    return _from(block, covering.boxes(block.count, over, block.rng, **options))


def matching_subscriptions(block: Block, *, attributes: int = 2, **options: Any) -> Columns:
    """Scored boxes; the regions are the same for all blocks and for the events of that seed."""
    source = matching.zipfian(attributes, block.shared)
    rows = matching.subscriptions(source, block.count, covering.attributes(attributes), block.rng, **options)
    return _from(block, rows)


def matching_events(block: Block, *, attributes: int = 2) -> Columns:
    """Points of the same regions."""
    source = matching.zipfian(attributes, block.shared)
    return _from(block, matching.events(source, block.count, covering.attributes(attributes), block.rng))


def geotext_messages(block: Block, **options: Any) -> pa.Table:
    """Messages around the same towns."""
    towns = block.shared.random((geotext.TOWNS, 2))
    return geotext.messages(block.count, block.rng, first_id=block.first, towns=towns, **options)


def geotext_subscriptions(block: Block, *, most_words: int = geotext.MOST_WORDS, **options: Any) -> pa.Table:
    """Subscriptions drawn from the messages of the block with the same number."""
    source = geotext_messages(block, **options)
    rng = np.random.default_rng([block.seed, 2, block.number])
    rows = geotext.subscriptions(source, block.count, rng, most_words=most_words)
    return rows.set_column(0, "id", pa.array(np.arange(block.first, block.first + block.count)))


def moving_objects(block: Block, *, attributes: int = 2, **options: Any) -> Columns:
    """Objects with places and attributes."""
    return _from(block, moving.objects(block.count, attributes, block.rng, **options))


def moving_positions(block: Block, *, seconds: int = 60, side: int = 100, speed: float = 60.0) -> Columns:
    """Cars on one grid of `side` x `side` crossings; `seq` counts cars within seconds."""
    roads = moving.roads(side, block.shared)
    rows = _from(block, moving.tracks(roads, block.count, seconds, block.rng, speed=speed))
    second = np.repeat(np.arange(seconds), block.count)
    return {"seq": second * block.rows + rows["id"], **rows}


JOBS: dict[str, Callable[..., Any]] = {
    "range.objects": range_objects,
    "range.subscriptions": range_subscriptions,
    "range.events": range_events,
    "covering.boxes": covering_boxes,
    "matching.subscriptions": matching_subscriptions,
    "matching.events": matching_events,
    "geotext.messages": geotext_messages,
    "geotext.subscriptions": geotext_subscriptions,
    "moving.objects": moving_objects,
    "moving.positions": moving_positions,
}


def _from(block: Block, rows: Columns) -> Columns:
    """Rows with ids that count on from the first of the block."""
    return {**rows, "id": rows["id"] + block.first}
