"""What `RangeTopK` tells about itself: why an object is where it is, and whom it reaches."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.range_topk.brute_range_topk import top_k
from rankcast.range_topk.range_influence import influence
from rankcast.range_topk.range_world import World
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Rows


def explain(world: World, over: list[str], subscription: int, item: int, lists: Lists) -> dict[str, Any]:
    """Score, rank, the score to beat, what keeps an object out; `lists` is the subscription's result."""
    mine = np.array([subscription], np.int32)
    k = int(world.k_of(mine)[0])
    told: dict[str, Any] = {
        "score": float(world.objects["y"][item]),
        "rank": None,
        "in_result": bool((lists.item == item).any()),
        "score_to_beat": float(lists.score[k - 1]) if lists.item.size == k else None,
    }
    box, place = world.boxes(mine), world.objects["x"][item]
    outside = ((place < box.lo) | (place > box.hi))[0]
    if outside.any():
        return {**told, "reason": f"{over[int(np.argmax(outside))]} is outside the range"}
    objects = world.there()
    everyone = objects.row[top_k(box, np.array([objects.row.size]), objects)[0]]
    ahead = int(np.flatnonzero(everyone == item)[0])
    told |= {"rank": ahead + 1, "better": world.objects.take(everyone[:ahead][:k]).to_pylist()}
    if len(over) == 1:
        told["tiles"] = influence(objects, item, k).tiles.tolist()
    if told["in_result"]:
        return {**told, "reason": "in the result"}
    need = ahead - k + 1
    return {
        **told,
        "reason": f"{k} objects in the range are better; {need} of those ahead must fall behind",
    }


def region(world: World, item: int, live: Rows, held: Lists) -> dict[str, Any]:
    """The influence region of an object in one attribute; `live` with the results `held` are those shown."""
    objects = world.there()
    found = influence(objects, item, world.k)
    box = world.boxes(live)
    return {
        "x": float(world.objects["x"][item, 0]),
        "y": float(world.objects["y"][item]),
        "tiles": found.tiles,
        "left": world.objects.take(found.left).to_pylist(),
        "right": world.objects.take(found.right).to_pylist(),
        "objects_x": objects.x[:, 0],
        "objects_y": world.key(objects.key),
        "bounding": np.flatnonzero(np.isin(objects.row, [*found.left, *found.right])),
        "lo": box.lo[:, 0].copy(),
        "hi": box.hi[:, 0].copy(),
        "lists": np.isin(live, held.subscription[held.item == item]),
    }
