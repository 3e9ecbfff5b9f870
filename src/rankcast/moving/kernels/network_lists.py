"""The best objects of every node of a road graph, kept as objects and roads change.

Each node has a list of the `width` objects of smallest key, ties by label; the key of an object is its
distance from the node plus a constant of its own, its static part in the same unit. Keys are whole numbers:
if one object comes before another at a node, it does so at every node and place from which the way leads
through there. So an object in the list of a node is in the lists of all nodes on the shortest way to it,
lists follow from those of the neighbours, and the list of a place is made from those of the ends of its edge.

`_spread` is the one way in which lists grow: entries on offer, the smallest key first, each that is taken
being offered to the nodes before it. Building, inserting, refilling after a removal and new lengths differ in
what is on offer to begin with. Cost: O(log n) an entry offered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.network_graph import Floats, Ints, Rows
from rankcast.moving.kernels.network_search import OnEdges, Roads
from rankcast.moving.kernels.scores import POWER, SUM, ScoreForm, value
from rankcast.structures import heap
from rankcast.structures.arrays import with_room
from rankcast.structures.jit import EXACT

LOW = (1 << 32) - 1


class NodeLists(NamedTuple):
    """By node items and distances, best first, and how many; by object its static part and label."""

    item: Rows  # (nodes, width)
    away: Ints
    size: Rows
    static: Ints
    label: Ints


class Offers(NamedTuple):
    """Entries on offer: keys, and nodes and items in one number each."""

    key: Ints
    entry: Ints


@njit(**EXACT)
def _find(lists: NodeLists, node: int, item: int) -> int:
    """The place of an item in a list, or -1."""
    for i in range(lists.size[node]):
        if lists.item[node, i] == item:
            return i
    return -1


@njit(**EXACT)
def _behind(lists: NodeLists, node: int, key: int, item: int) -> bool:
    """Whether a list is full and an item comes behind its last one."""
    last = lists.item.shape[1] - 1
    if lists.size[node] <= last:
        return False
    other = lists.item[node, last]
    other_key = lists.away[node, last] + lists.static[other]
    return key > other_key or (key == other_key and lists.label[item] >= lists.label[other])


@njit(**EXACT)
def _wants(lists: NodeLists, node: int, item: int, way: int) -> bool:
    """Whether an item at that distance would change a list."""
    if _behind(lists, node, way + lists.static[item], item):
        return False
    place = _find(lists, node, item)
    return place < 0 or way < lists.away[node, place]


@njit(**EXACT)
def _take_out(lists: NodeLists, node: int, place: int) -> None:
    size = lists.size[node] - 1
    for i in range(place, size):
        lists.item[node, i], lists.away[node, i] = lists.item[node, i + 1], lists.away[node, i + 1]
    lists.size[node] = size


@njit(**EXACT)
def offer(lists: NodeLists, node: int, item: int, way: int) -> bool:
    """Let an item at that distance into a list, if it is good enough or nearer than it was."""
    if not _wants(lists, node, item, way):
        return False
    place = _find(lists, node, item)
    if place >= 0:
        _take_out(lists, node, place)
    key, label = way + lists.static[item], lists.label[item]
    hole = min(int(lists.size[node]), lists.item.shape[1] - 1)
    lists.size[node] = hole + 1
    while hole > 0:
        other = lists.item[node, hole - 1]
        other_key = lists.away[node, hole - 1] + lists.static[other]
        if other_key < key or (other_key == key and lists.label[other] < label):
            break
        lists.item[node, hole], lists.away[node, hole] = other, lists.away[node, hole - 1]
        hole -= 1
    lists.item[node, hole], lists.away[node, hole] = item, way
    return True


@njit(**EXACT)
def _put(lists: NodeLists, offers: Offers, size: int, node: int, item: int, way: int) -> tuple[Offers, int]:
    """Put an entry on offer, if the list wants it now."""
    if not _wants(lists, node, item, way):
        return offers, size
    if size == offers.key.size:
        offers = Offers(with_room(offers.key, size + 1), with_room(offers.entry, size + 1))
    entry = (np.int64(node) << 32) | np.int64(item)
    return offers, heap.push(offers.key, offers.entry, size, way + lists.static[item], entry)


@njit(**EXACT)
def _spread(roads: Roads, lists: NodeLists, offers: Offers, size: int, touched: Rows) -> Rows:
    """Let lists take what is on offer, and offer it on; returns `touched` and nodes whose lists change."""
    arcs, count = roads.arcs, touched.size
    while size > 0:
        key, entry = offers.key[0], offers.entry[0]
        size = heap.pop(offers.key, offers.entry, size)
        node, item = entry >> 32, entry & LOW
        way = key - lists.static[item]
        if not offer(lists, node, item, way):
            continue
        touched = with_room(touched, count + 1)
        touched[count] = node
        count += 1
        for i in range(arcs.in_first[node], arcs.in_first[node + 1]):
            far = way + roads.length[arcs.in_edge[i]]
            offers, size = _put(lists, offers, size, arcs.in_from[i], item, far)
    return touched[:count]


@njit(**EXACT)
def insert(roads: Roads, lists: NodeLists, items: Rows, edge: Rows, at: Ints) -> Rows:
    """Let objects in, each on an edge so far from its start; returns nodes whose lists change."""
    offers, size = Offers(np.empty(64, np.int64), np.empty(64, np.int64)), 0
    for i in range(items.size):
        item = items[i]
        here, way = edge[item], at[item]
        offers, size = _put(lists, offers, size, roads.start[here], item, way)
        if not roads.oneway[here]:
            offers, size = _put(lists, offers, size, roads.end[here], item, roads.length[here] - way)
    return _spread(roads, lists, offers, size, np.empty(0, np.int32))


@njit(**EXACT)
def erase(roads: Roads, lists: NodeLists, items: Rows, edge: Rows) -> Rows:
    """Take objects out of all lists, from their edges against the arcs; returns nodes that lost one."""
    arcs, stack, needy, count = roads.arcs, np.empty(64, np.int64), np.empty(64, np.int32), 0
    for i in range(items.size):
        size = 2
        stack[0], stack[1] = roads.start[edge[items[i]]], roads.end[edge[items[i]]]
        while size > 0:
            size -= 1
            node = stack[size]
            place = _find(lists, node, items[i])
            if place < 0:
                continue
            _take_out(lists, node, place)
            needy = with_room(needy, count + 1)
            needy[count] = node
            count += 1
            stack = with_room(stack, size + arcs.in_first[node + 1] - arcs.in_first[node])
            for j in range(arcs.in_first[node], arcs.in_first[node + 1]):
                stack[size] = arcs.in_from[j]
                size += 1
    return needy[:count].copy()


@njit(**EXACT)
def _offer_over(
    roads: Roads, lists: NodeLists, on: OnEdges, offers: Offers, size: int, arc: tuple[int, int, int]
) -> tuple[Offers, int]:
    """Put on offer for a node what an arc leads to: objects on its edge, the list of its other end."""
    node, other, edge = arc
    for j in range(on.start[edge], on.start[edge] + on.size[edge]):
        if roads.start[edge] == node:
            offers, size = _put(lists, offers, size, node, on.item[j], on.at[j])
        if roads.end[edge] == node and not roads.oneway[edge]:
            offers, size = _put(lists, offers, size, node, on.item[j], roads.length[edge] - on.at[j])
    for j in range(lists.size[other]):
        way = lists.away[other, j] + roads.length[edge]
        offers, size = _put(lists, offers, size, node, lists.item[other, j], way)
    return offers, size


@njit(**EXACT)
def refill(roads: Roads, lists: NodeLists, on: OnEdges, needy: Rows, edges: Rows) -> Rows:
    """Fill the lists of needy nodes from those around them, and look at edges whose lengths are new.

    Returns nodes whose lists change, the needy ones among them.
    """
    arcs, offers, size = roads.arcs, Offers(np.empty(64, np.int64), np.empty(64, np.int64)), 0
    for i in range(needy.size):
        node = int(needy[i])
        for j in range(arcs.out_first[node], arcs.out_first[node + 1]):
            arc = (node, int(arcs.out_to[j]), int(arcs.out_edge[j]))
            offers, size = _offer_over(roads, lists, on, offers, size, arc)
    for i in range(edges.size):
        start, end, edge = int(roads.start[edges[i]]), int(roads.end[edges[i]]), int(edges[i])
        offers, size = _offer_over(roads, lists, on, offers, size, (start, end, edge))
        if not roads.oneway[edge]:
            offers, size = _offer_over(roads, lists, on, offers, size, (end, start, edge))
    return _spread(roads, lists, offers, size, needy)


@njit(**EXACT)
def _loosen_from(
    roads: Roads,
    lists: NodeLists,
    place: tuple[Rows, Ints],
    arc: tuple[int, int, int],
    needy: Rows,
    count: int,
) -> tuple[Rows, int]:
    """Take out of lists what is reached over an arc, there and at all nodes before; see `loosen`."""
    arcs, where, at = roads.arcs, place[0], place[1]
    node, other, edge = arc
    length = roads.length[edge]
    nodes, ways = np.empty(64, np.int64), np.empty(64, np.int64)
    for i in range(lists.size[node] - 1, -1, -1):
        item, way = lists.item[node, i], lists.away[node, i]
        next_one = _find(lists, other, item)
        over = next_one >= 0 and way == length + lists.away[other, next_one]
        if where[item] == edge:
            over = over or (roads.start[edge] == node and way == at[item])
            over = over or (roads.end[edge] == node and way == length - at[item])
        if not over:
            continue
        _take_out(lists, node, i)
        needy = with_room(needy, count + 1)
        needy[count] = node
        count += 1
        size = 1
        nodes[0], ways[0] = node, way
        while size > 0:
            size -= 1
            here, far = nodes[size], ways[size]
            for j in range(arcs.in_first[here], arcs.in_first[here + 1]):
                before = arcs.in_from[j]
                found = _find(lists, before, item)
                if found >= 0 and lists.away[before, found] == far + roads.length[arcs.in_edge[j]]:
                    nodes, ways = with_room(nodes, size + 1), with_room(ways, size + 1)
                    nodes[size], ways[size] = before, lists.away[before, found]
                    size += 1
                    _take_out(lists, before, found)
                    needy = with_room(needy, count + 1)
                    needy[count] = before
                    count += 1
    return needy, count


@njit(**EXACT)
def loosen(roads: Roads, lists: NodeLists, place: tuple[Rows, Ints], edges: Rows) -> Rows:
    """Take out of lists whatever is reached over edges whose lengths are about to change.

    `place` has, by object, its edge and how far it is from the start of it. Returns nodes that lost some.
    """
    needy, count = np.empty(64, np.int32), 0
    for i in range(edges.size):
        start, end, edge = int(roads.start[edges[i]]), int(roads.end[edges[i]]), int(edges[i])
        needy, count = _loosen_from(roads, lists, place, (start, end, edge), needy, count)
        if not roads.oneway[edge]:
            needy, count = _loosen_from(roads, lists, place, (end, start, edge), needy, count)
    return needy[:count].copy()


@njit(**EXACT)
def _first_at(at: Ints, low: int, high: int, way: int) -> int:
    """The first object on an edge, from `low` to `high`, that is not before a place."""
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if at[middle] < way else (low, middle)
    return low


@njit(**EXACT)
def _offer_along(
    on: OnEdges, mine: NodeLists, span: tuple[int, int], here: int, plain: bool, both: bool
) -> int:
    """The list of a place from the objects on its edge; returns how many.

    If keys are `plain` distances, only the next ones each way are looked at; of equally far ones those with
    the smallest labels come first on the edge.
    """
    begin, end = span
    width = mine.item.shape[1]
    first, last = begin, end
    mine.size[0] = 0
    if plain and end - begin > 2 * width:
        middle = _first_at(on.at, begin, end, here)
        first, last = max(begin, middle - width), min(end, middle + width)
        if both and first < middle:
            alike = _first_at(on.at, begin, first, on.at[first])
            for j in range(alike, min(alike + width, first)):
                offer(mine, 0, on.item[j], here - on.at[j])
    for j in range(first, last):
        if on.at[j] >= here:
            offer(mine, 0, on.item[j], on.at[j] - here)
        elif both:
            offer(mine, 0, on.item[j], here - on.at[j])
    return mine.size[0]


@njit(**EXACT)
def nearest(
    roads: Roads,
    lists: NodeLists,
    on: OnEdges,
    formula: tuple[ScoreForm, Floats, float, float],
    places: tuple[Rows, Ints, Ints],
    found: tuple[Rows, Ints, Ints],
) -> None:
    """The results of queries on edges, so far from their starts, of k each: items, distances and how many.

    `formula` is the score, the statics of objects (n, 2) as it takes them, the unit, and how much a key may
    be off, in units, or a negative number if keys are distances. A count is -1 if the lists do not tell: what
    is not in them might be as good as the last one of the result. The lists of both ends and of the edge are
    merged; of an item that comes again the first one counts. Cost: O(k) steps of O(k) a query, no search.
    """
    form, statics, unit, off = formula
    (edges, ways, wanted), (items, away, counts) = places, found
    static, label, width, plain = lists.static, lists.label, lists.item.shape[1], off < 0.0
    list_item, list_away, list_size = lists.item, lists.away, lists.size
    start, end, length, oneway = roads.start, roads.end, roads.length, roads.oneway
    on_start, on_size = on.start, on.size
    mine = NodeLists(
        np.empty((1, width), np.int32), np.empty((1, width), np.int64), np.zeros(1, np.int32), static, label
    )
    scores, node, shift = np.empty(width), np.empty(3, np.int64), np.empty(3, np.int64)
    at, left = np.empty(3, np.int64), np.empty(3, np.int64)
    for i in range(edges.size):
        edge, here = edges[i], ways[i]
        both = not oneway[edge]
        node[0], shift[0], left[0] = end[edge], length[edge] - here, list_size[end[edge]]
        node[1], shift[1], left[1] = start[edge], here, list_size[start[edge]] if both else 0
        left[2] = 0
        if on_size[edge] > 0:
            span = (on_start[edge], on_start[edge] + on_size[edge])
            left[2] = _offer_along(on, mine, span, here, plain, both)
        at[0] = at[1] = at[2] = 0
        size, last = 0, 0
        while size < width:
            best, best_key, best_item = -1, 0, 0
            for side in range(3):
                if at[side] == left[side]:
                    continue
                if side == 2:
                    item, key = mine.item[0, at[2]], mine.away[0, at[2]]
                else:
                    item, key = list_item[node[side], at[side]], list_away[node[side], at[side]] + shift[side]
                if not plain:
                    key += static[item]
                if best < 0 or key < best_key or (key == best_key and label[item] < label[best_item]):
                    best, best_key, best_item = side, key, item
            if best < 0:
                break
            at[best] += 1
            known = False
            for j in range(size):
                known = known or items[i, j] == best_item
            if known:
                continue
            last = best_key
            far = best_key if plain else best_key - static[best_item]
            s, p = (0.0, 1.0) if plain else (statics[best_item, 0], statics[best_item, 1])
            score, hole = value(form, s, p, far * unit), size
            while hole > 0 and (
                score < scores[hole - 1]
                or (score == scores[hole - 1] and label[best_item] < label[items[i, hole - 1]])
            ):
                scores[hole] = scores[hole - 1]
                items[i, hole], away[i, hole] = items[i, hole - 1], away[i, hole - 1]
                hole -= 1
            scores[hole], items[i, hole], away[i, hole] = score, best_item, far
            size += 1
        count = min(size, wanted[i])
        if size == width:
            if plain:
                beyond = value(form, 0.0, 1.0, (last + 1) * unit)
                beyond = beyond * (1.0 if form.kind == SUM else POWER) if beyond < np.inf else -np.inf
            else:
                beyond = form.weight * unit * (last - 1.0 - off - abs(last) * 2.0**-48)
            if not scores[count - 1] < beyond:
                counts[i] = -1
                continue
        while count > 0 and scores[count - 1] == np.inf:
            count -= 1
        counts[i] = count
