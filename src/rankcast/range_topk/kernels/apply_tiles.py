"""A whole batch of tiles meets the subscriptions: bucket by bucket, with one work for all that share a list.

The tiles go down the point tree together: a node keeps the ones that meet its box, in order; one that holds
the whole box is marked (as -1 - tile) and not tested again below. At a leaf the tiles that got there are
applied in sending order. Neighbours in subscription space mostly have the same list, so the lanes of the
bucket that hear anything are first parted into clusters with equal boards, and a tile is applied once to a
cluster; a tile that reaches only a part of a cluster splits it. At the end every cluster is compared once
with the list it began with, and all its members point to the same net change: leaves first, then entries and
updates by rank. `known` holds every object's value before the batch; a tile sets its item's entry while the
leaf is worked on, and afterwards it is set back.

Cost: O(tiles) a level at most, in practice little more than the tiles that reach somebody; O(k) for each pair
of tile and cluster, on data in the first cache; O(1) for each subscription reached.

`publish` is the whole way of a batch for lists of one k; before it `resolve` has told, without changing
anything, what each row of the batch makes of its object.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import SIZE, ObjectTree, too_empty
from rankcast.range_topk.kernels.paint import FIRSTK, MINY, IntervalEvents, PaintState, Stairs, Tiles, paint
from rankcast.range_topk.kernels.points import BUCKET, DEPTH, PointTree
from rankcast.structures import hashing
from rankcast.structures.arrays import borrowed, with_room
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import (
    AFFECTED,
    DELTAS,
    GROUPS,
    TRIED,
    BoardChanges,
    Boards,
    Deltas,
    ListValues,
    count_rows,
    in_order,
    receive,
    spread,
    take_out,
    write_entries,
    write_leaves,
)

Lanes = NDArray[np.uint8]


class Clusters(NamedTuple):
    """Working space for one bucket; `used[0]` clusters are in use, of the lanes that are `heard` of."""

    cluster: NDArray[np.int32]
    members: NDArray[np.int32]
    origin: NDArray[np.int32]
    last: NDArray[np.int32]
    hits: NDArray[np.int32]
    target: NDArray[np.int32]
    heard: Lanes
    now: Boards
    then: Boards
    used: NDArray[np.int64]


@njit(**EXACT)
def empty_clusters(k: int) -> Clusters:
    """Working space for boards of k items."""
    ints, boards = np.empty((6, BUCKET), np.int32), np.empty((2, BUCKET, k), np.int32)
    heard, used = np.empty(BUCKET, np.uint8), np.zeros(1, np.int64)
    return Clusters(ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], heard, boards[0], boards[1], used)


@njit(**EXACT)
def _alike(one: Boards, i: int, two: Boards, j: int) -> bool:
    for place in range(one.shape[1]):
        if one[i, place] != two[j, place]:
            return False
    return True


@njit(**EXACT)
def part(clusters: Clusters, boards: Boards) -> None:
    """Part the lanes that hear by their boards; a lane is compared with its neighbour's cluster first."""
    cluster, members, now, then, heard = (
        clusters.cluster, clusters.members, clusters.now, clusters.then, clusters.heard
    )  # fmt: skip
    size, c = 0, 0
    for lane in range(boards.shape[0]):
        cluster[lane] = 0
        if not heard[lane]:
            continue
        if size == 0 or not _alike(boards, lane, now, c):
            c = 0
            while c < size and not _alike(boards, lane, now, c):
                c += 1
        if c == size:
            now[c], then[c] = boards[lane], boards[lane]
            members[c], clusters.origin[c], clusters.last[c] = 0, c, -1
            size += 1
        cluster[lane] = c
        members[c] += 1
    clusters.used[0] = size


@njit(**EXACT)
def split(clusters: Clusters, inside: Lanes, lanes: int) -> None:
    """Make every cluster lie inside or outside; `hits` says how many members of each are inside."""
    cluster, members, hits, target = clusters.cluster, clusters.members, clusters.hits, clusters.target
    before, size = clusters.used[0], clusters.used[0]
    hits[:before] = 0
    for lane in range(lanes):
        hits[cluster[lane]] += inside[lane]
    for c in range(before):
        target[c] = c
        if 0 < hits[c] < members[c]:
            clusters.now[size], clusters.last[size] = clusters.now[c], clusters.last[c]
            clusters.origin[size], members[size], hits[size] = clusters.origin[c], hits[c], hits[c]
            members[c] -= hits[c]
            hits[c], target[c] = 0, size
            size += 1
    if size > before:
        for lane in range(lanes):
            if inside[lane]:
                cluster[lane] = target[cluster[lane]]
    clusters.used[0] = size


@njit(**EXACT)
def apply_tile(
    clusters: Clusters,
    whole: bool,
    item: int,
    event: int,
    known: NDArray[np.float64],
    label: NDArray[np.int64],
) -> int:
    """Apply one tile to all clusters, or to those that `split` hit; return who hears of its event first."""
    members, hits, last, now, affected = clusters.members, clusters.hits, clusters.last, clusters.now, 0
    gone = known[item] == np.inf
    for c in range(clusters.used[0]):
        if whole or hits[c] > 0:
            if gone:
                take_out(now, c, item)
            else:
                receive(now, c, item, known, label)
            if last[c] != event:
                affected += members[c]
                last[c] = event
    return affected


@njit(**EXACT)
def copy_back(clusters: Clusters, boards: Boards) -> None:
    """Write the lists of the clusters back to their members' boards."""
    cluster, heard, now, k = clusters.cluster, clusters.heard, clusters.now, boards.shape[1]
    for lane in range(boards.shape[0]):
        c = cluster[lane]
        if heard[lane]:
            for place in range(k):
                boards[lane, place] = now[c, place]


@njit(**EXACT)
def write_changes(
    clusters: Clusters, rows: NDArray[np.int32], moved: NDArray[np.bool_], changes: BoardChanges
) -> None:
    """Write the net change of every cluster once, and a group for each member whose list changed."""
    cluster, heard, start, stop = clusters.cluster, clusters.heard, clusters.hits, clusters.target
    size = changes.tally[DELTAS]
    for c in range(clusters.used[0]):
        start[c] = size
        size = write_leaves(clusters.then, clusters.origin[c], clusters.now, c, changes.item, size)
        changes.mark[start[c] : size] = 0
        size = write_entries(
            clusters.then, clusters.origin[c], clusters.now, c, moved, changes.item, changes.mark, size
        )
        stop[c] = size
    group, groups = changes.group, changes.tally[GROUPS]
    for lane in range(rows.shape[0]):
        c = cluster[lane]
        if heard[lane] and stop[c] > start[c]:
            group[groups, 0], group[groups, 1], group[groups, 2] = rows[lane], start[c], stop[c]
            groups += 1
    changes.tally[GROUPS], changes.tally[DELTAS] = groups, size


@njit(**EXACT)
def _longer_changes(changes: BoardChanges, groups: int, deltas: int) -> BoardChanges:
    """The same changes in buffers twice as long, at least as long as asked for."""
    group = np.empty((max(groups, 2 * changes.group.shape[0]), 3), np.int32)
    group[: changes.group.shape[0]] = changes.group
    return BoardChanges(
        group, with_room(changes.item, deltas), with_room(changes.mark, deltas), changes.tally
    )


@njit(**EXACT)
def _sift_tiles(
    box: NDArray[np.float64],
    node: int,
    tile: NDArray[np.float64],
    queue: NDArray[np.int32],
    start: int,
    end: int,
) -> int:
    """Append to the queue those of its tiles start..end-1 that meet the node's box; return the new end."""
    west, east, bottom, top = box[node, 0], box[node, 1], box[node, 2], box[node, 3]
    size = end
    for i in range(start, end):
        t = queue[i]
        if t < 0:
            queue[size] = t
            size += 1
        elif tile[t, 0] <= east and tile[t, 1] >= west and tile[t, 2] <= top and tile[t, 3] >= bottom:
            inside = tile[t, 0] <= west and east <= tile[t, 1] and tile[t, 2] <= bottom and top <= tile[t, 3]
            queue[size] = -1 - t if inside else t
            size += 1
    return size


@njit(**EXACT)
def _reach(
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    tile: NDArray[np.float64],
    queue: NDArray[np.int32],
    inside: NDArray[np.uint8],
    heard: Lanes,
) -> int:
    """Keep the queued tiles that reach somebody in a bucket; return how many. Marks who hears of which."""
    size, reaching = lo.shape[0], 0
    heard[:size] = 0
    for i in range(queue.shape[0]):
        t = queue[i]
        if t < 0:
            heard[:size] = 1
        else:
            west, east, bottom, top, reached = tile[t, 0], tile[t, 1], tile[t, 2], tile[t, 3], 0
            for lane in range(size):
                within = (lo[lane] >= west) & (lo[lane] <= east) & (hi[lane] >= bottom) & (hi[lane] <= top)
                inside[reaching, lane] = within
                heard[lane] |= within
                reached += within
            if reached == 0:
                continue
            t = -1 - t if reached == size else t
        queue[reaching] = t
        reaching += 1
    return reaching


@njit(**EXACT)
def _visit(
    points: PointTree,
    node: int,
    tiles: Tiles,
    queue: NDArray[np.int32],
    inside: NDArray[np.uint8],
    values: ListValues,
    clusters: Clusters,
    changes: BoardChanges,
) -> None:
    """Apply tiles that reach the bucket of a leaf and write what changed. There must be space."""
    item, value, event, known, before = tiles.item, tiles.value, tiles.event, values.known, values.before
    label, first, size, affected = values.label, points.bucket[node] * BUCKET, points.size[node], 0
    part(clusters, points.board[first : first + size])
    for i in range(queue.shape[0]):
        whole = queue[i] < 0
        t = -1 - queue[i] if whole else queue[i]
        if not whole:
            split(clusters, inside[i], size)
        known[item[t]] = value[t]
        affected += apply_tile(clusters, whole, item[t], event[t], known, label)
    for i in range(queue.shape[0]):
        t = queue[i] if queue[i] >= 0 else -1 - queue[i]
        known[item[t]] = before[item[t]]
    changes.tally[AFFECTED] += affected
    copy_back(clusters, points.board[first : first + size])
    write_changes(clusters, points.row[first : first + size], values.moved, changes)


@njit(**EXACT)
def join(points: PointTree, tiles: Tiles, values: ListValues, changes: BoardChanges) -> BoardChanges:
    """Apply all tiles to the boards; return the net changes (in the given buffers, or larger ones)."""
    points, tiles, values = borrowed(points), borrowed(tiles), borrowed(values)
    box, child, sizes = points.box, points.child, points.size
    total, k = tiles.size[0], points.board.shape[1]
    queue = np.empty(total * 48 + 64, np.int32)
    queue[:total] = np.arange(total)
    stack, depth = np.empty((DEPTH, 3), np.int32), 1 if total > 0 and sizes[0] > 0 else 0
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, total
    clusters, inside = empty_clusters(k), np.empty((0, BUCKET), np.uint8)
    changes.tally[:] = 0
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = with_room(queue, 2 * end - start)
        size = _sift_tiles(box, node, tiles.box, queue, start, end)
        if size == end:
            continue
        if child[node, 0] >= 0:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
            continue
        if size - end > inside.shape[0]:
            inside = np.empty((2 * (size - end), BUCKET), np.uint8)
        first, last = points.bucket[node] * BUCKET, points.bucket[node] * BUCKET + sizes[node]
        mine, marks, work = borrowed(queue)[end:size], borrowed(inside), borrowed(clusters)
        reaching = _reach(points.lo[first:last], points.hi[first:last], tiles.box, mine, marks, work.heard)
        changes.tally[TRIED] += (size - end) * sizes[node]
        if reaching == 0:
            continue
        most = 2 * min(k, reaching)  # a tile brings an item in and may push another out
        deltas, groups = changes.tally[DELTAS] + most * BUCKET, changes.tally[GROUPS] + BUCKET
        if groups > changes.group.shape[0] or deltas > changes.item.shape[0]:
            changes = _longer_changes(changes, groups, deltas)
        _visit(points, node, tiles, mine[:reaching], marks, values, work, borrowed(changes))
    return changes


MISSING_ROWS, UNTIDY = -1, -2  # what `publish` may ask for before it begins


@njit(**EXACT)
def publish(
    plain: tuple[tuple[Any, ...], ...],
    lists: tuple[Any, ...],
    events: tuple[Any, ...],
    held: tuple[Any, ...],
    buffers: tuple[Any, ...],
    columns: tuple[Any, ...],
    k: int,
    descending: bool,
    start: int,
) -> tuple[Any, ...]:
    """Bring objects, lists of one k and the state `held` from event `start` on to what events make of them.

    `plain` are an object tree, a point tree and tiles without their names. Returns how far it got, how many
    delta rows there are, counts, and the buffers of changes. The rows are written if `columns` have the room.
    Stops where the owner must first make a larger object tree or buffer of tiles, or rebuild the tree.
    """
    tree, points = ObjectTree(*borrowed(plain[0])), PointTree(*borrowed(plain[1]))
    tiles, deltas = Tiles(*borrowed(plain[2])), Deltas(*borrowed(columns))
    known, work, moved = borrowed(lists)
    row, x, y = borrowed(events)
    held_x, held_y, held_label, place, span = borrowed(held)
    asked, tally, total = np.zeros(4, np.int64), np.zeros(4, np.int64), row.shape[0]
    changes = BoardChanges(buffers[0], buffers[1], buffers[2], tally)
    done, rows = UNTIDY if start == 0 and too_empty(tree) else start, 0
    for i in range(total):
        done = done if row[i] < tree.x.shape[0] else MISSING_ROWS
    if done >= 0:
        key, places = np.empty(total), np.empty(total)
        for i in range(total):
            tree.label[row[i]] = held_label[row[i]]
            places[i], key[i] = x[i, 0], np.inf if np.isnan(y[i]) else -y[i] if descending else y[i]
        tiles.size[0] = tiles.size[0] if start > 0 else 0
        ks = np.full(1, min(k, tree.meta[SIZE] + total + 1))
        stairs = Stairs(np.empty(ks[0]), np.empty(ks[0]), np.zeros(3, np.int64))
        state = PaintState(tree, points, stairs, tiles, ks, asked, np.empty(4), False, 0)
        done = paint(state, IntervalEvents(row, places, key), start)
    if done == total:
        for i in range(total):
            held_x[row[i], 0], held_y[row[i]] = x[i, 0], y[i]
            moved[row[i]] = known[row[i]] != tree.y[row[i]]
        changes = join(points, tiles, ListValues(known, work, moved, tree.label), changes)
        for i in range(total):
            known[row[i]] = work[row[i]] = tree.y[row[i]]
            moved[row[i]] = False
        rows = count_rows(changes)
        if rows <= deltas.score.shape[0]:
            spread(changes, in_order(changes, place, span), held_y, deltas)
    counts = (asked[FIRSTK], asked[MINY], tally[AFFECTED], tally[TRIED], tally[GROUPS])
    return done, rows, counts, (changes.group, changes.item, changes.mark)


KEEPS, DELETES, REFUSED = range(3)  # what a null in `by` does
NULL, ABSENT, LACKING = range(3)  # what is wrong: from `LACKING` on, a column lacks a value
REMOVE = 1  # the word of an event that deletes its object; see `words` of its column


@njit(**EXACT)
def resolve(
    register: tuple[Any, ...],
    keys: hashing.KeyArrays,
    held: tuple[NDArray[np.float64], NDArray[np.float64]],
    given: NDArray[np.float64],
    removes: NDArray[np.int64],
    null: int,
    out: tuple[Any, ...],
) -> tuple[int, int, int, int]:
    """Follow each object through a batch; writes rows, values, and where new ids come first.

    `given` has a line a column, that of `by` last. Returns how many objects are new and how many go, what is
    wrong with some row, or -1, and the first row with which it is.
    """
    table, code, start, length, text, seed = register
    stored, wanted = hashing.named((code, start, length, text, seed)), hashing.named(keys)
    (held_x, held_y), (row, x, y, first) = held, out
    size, width, new, gone = row.size, held_x.shape[1], 0, 0
    latest = np.full(2 * size + hashing.LEAST if size > 1 else 1, hashing.FREE, np.int32)
    deletes, bad = np.empty(size, np.bool_), np.full(LACKING + width + 1, -1)
    for i in range(size):
        before = -1  # the event before on the same object
        if size > 1:
            cell = hashing.seek(latest, wanted.code, wanted.code[i], wanted, wanted, i)
            before, latest[cell] = latest[cell], i
        if before >= 0:
            row[i], present = row[before], not deletes[before]
            gone -= deletes[before]
        else:
            row[i] = table[hashing.seek(table, code, wanted.code[i], stored, wanted, i)]
            present = row[i] >= 0
            if not present:
                first[new] = i
                new += 1
                row[i] = -new
        empty = np.isnan(given[width, i])
        deletes[i] = (removes.size > 0 and removes[i] == REMOVE) or (empty and null == DELETES)
        gone += deletes[i]
        if empty and null == REFUSED and not deletes[i] and bad[NULL] < 0:
            bad[NULL] = i
        if deletes[i] and not present and bad[ABSENT] < 0:
            bad[ABSENT] = i
        for line in range(width + 1):
            value = given[line, i]
            if np.isnan(value):
                if not present and not deletes[i] and bad[LACKING + line] < 0:
                    bad[LACKING + line] = i
                if before >= 0:
                    value = x[before, line] if line < width else y[before]
                elif row[i] >= 0:
                    value = held_x[row[i], line] if line < width else held_y[row[i]]
            if line < width:
                x[i, line] = value
            else:
                y[i] = np.nan if deletes[i] else value
    for wrong in range(bad.size):
        if bad[wrong] >= 0:
            return new, gone, wrong, bad[wrong]
    return new, gone, -1, -1
