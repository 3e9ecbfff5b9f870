"""Posting lists by term: those of subscriptions and those of the messages of the window; entries come and go.

The list of a term is a stretch of the entry arrays. What bounds need to know of an entry is in 16 bits each,
in tiles of `STEP` entries, so that a tile is tested at once: the weight of the term, the length of the terms
after it, the place, the stamp, and a signature with a bit for each of the terms after its own (several terms
share one), by which terms are known not to be common; of a subscription its alpha and threshold, too.

A block of `BLOCK` entries has a node. Of subscriptions: the box of their places, the largest weights, and
what the least demanding of them needs. Of messages: the box and the largest weights. Invariant: a node bounds
everything in its block. A new entry goes to the end and widens the last node. An entry is live as long as its
stamp is that of its owner, so leaving, expiring, moving and changing cost nothing in the lists. How lists are
put in order is in `rankcast.geotext.kernels.arrange`.

Stretches begin at multiples of `STEP`, and the node of a block stands at its first entry divided by `STEP`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.score import (
    SHARE,
    SLACK,
    STEEP,
    Bits,
    Floats32,
    Frame,
    Plain,
    TermVectors,
    embed,
    named,
    nearness_within,
    needed_alike,
    needed_near,
    rarest_first,
    round_down,
    round_nearest,
    round_up,
    signatures,
)
from rankcast.structures.arrays import borrowed
from rankcast.structures.jit import EXACT

BLOCK, STEP = 32, 16
WEIGHT, REST, ALPHA, THRESHOLD, X, Y, Z, STAMP, LOW_SIGN, HIGH_SIGN, FACTS = range(11)
LOW, HIGH, MESSAGE_FACTS = 2, 3, 8  # of a message: its signature, and how many facts it has
# Of a node: the largest weight and rest, and the largest by what is needed of terms at the same place; the
# largest alpha; how far away a message may be for its weight, for its rest, without terms; the least needed
# by place, and more of terms for a distance; the least alpha; the nearness of the largest radius; the box.
MOST, MOST_REST, PULL, PULL_REST, HIGH_ALPHA, FAR, FAR_REST, FAR_ALONE = range(8)
NEAR, AWAY, LOW_ALPHA, WITHIN, BOX, NODE = 8, 9, 10, 11, 12, 18
MESSAGE_BOX, MESSAGE_NODE = 2, 8  # of a node of messages: the box after the largest weight and rest
CELL, REGION, DISTRICT = 256, 4096, 65536  # messages that are put in order together
LAST_STAMP = 65535
FULL, VOID = -1, -2
FEW = 64  # up to this many places are sorted by insertion
LEAST_NEED = 1e-6  # a smaller need bounds nothing

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Postings(NamedTuple):
    """Posting lists by term, their entries, tiles and nodes.

    By term: where its list begins; how many entries are in order (`main`), were ordered together (`joint`),
    are there in all (`size`), fit (`room`), are void (`dead`). By entry: its owner. By tile: 16-bit facts. By
    block: its node.
    """

    begin: Ints
    main: Rows
    joint: Rows
    size: Rows
    room: Rows
    dead: Rows
    row: Rows
    fact: Bits
    node: Floats32


class ListedColumns(NamedTuple):
    """Subscriptions by row: place, alpha, threshold in the lists, and the stamp of live entries.

    `floor` is a score that no message is below which a subscription takes, `radius` how far one may be; both
    are empty if none has such a limit.
    """

    x: Floats
    y: Floats
    alpha: Floats
    threshold: Floats
    stamp: Bits
    floor: Floats
    radius: Floats


LATEST = np.iinfo(np.int64).max


class Ages(NamedTuple):
    """The age of messages by row: time, then arrival; and the stamp of their live postings.

    `until` is the end that a message has of its own, or the latest time; empty if none has one. A list may
    have `per_source` of one source (0: any number); `alive` is how many messages each has, -1 is none.
    """

    time: Ints
    arrival: Ints
    stamp: Bits
    until: Ints
    source: Rows
    alive: Ints
    per_source: int


@njit(**EXACT)
def newer(time: Ints, arrival: Ints, one: int, two: int) -> bool:
    """Whether message `one` is newer than message `two`, and leaves the window later if by itself."""
    if time[one] != time[two]:
        return bool(time[one] > time[two])
    return bool(arrival[one] > arrival[two])


@njit(**EXACT)
def stays_on(until: Ints, item: int) -> bool:
    """Whether a message has no end of its own."""
    return bool(until.size == 0 or until[item] == LATEST)


@njit(**EXACT)
def last_of_source(items: Rows, begin: int, end: int, source: Rows, item: int, most: int) -> int:
    """Where the last one of the source of an item is in a list at begin..end, if it has `most` of them.

    -1 if there is room for another one: it has fewer, or the item has no source. Cost: O(size).
    """
    mine, count, last = source[item], 0, -1
    if mine < 0:
        return -1
    for at in range(begin, end):
        if source[items[at]] == mine:
            count, last = count + 1, at
    return last if count >= most else -1


class PlaceColumns(NamedTuple):
    """By message: its place and its stamp."""

    x: Floats
    y: Floats
    stamp: Bits


@njit(**EXACT)
def clear_node(node: Floats32, at: int) -> None:
    """Empty a node."""
    for i in range(NEAR):
        node[at, i] = 0.0
    node[at, FAR_ALONE] = -np.inf
    for i in range(NEAR, BOX):
        node[at, i] = np.inf
    for axis in range(3):
        node[at, BOX + axis], node[at, BOX + 3 + axis] = np.inf, -np.inf


@njit(**EXACT)
def widen_node(node: Floats32, at: int, fact: Bits, entry: int, within: np.float32) -> None:
    """Widen a node by one more entry; `within` is the `nearness_within` its radius.

    An entry wants `weight * own + rest * others >= need + distance * alpha / (1 - alpha)`. Divided by its
    need, what is on the left and what is on the right are bounded apart [Geo Theorem 3]; solved for the
    distance, its frontier are bounded apart once more, which tells something also where nothing is needed.
    """
    tile, lane = entry // STEP, entry % STEP
    weight, rest = fact[tile, WEIGHT, lane] * SHARE, fact[tile, REST, lane] * SHARE
    alpha, bar = fact[tile, ALPHA, lane] * SHARE, fact[tile, THRESHOLD, lane] * SHARE
    need, pull, away = needed_alike(alpha, bar), 1e30, 0.0
    if need > LEAST_NEED:
        pull, away = 1.000001 / need, 0.99999 * alpha / ((1.0 - alpha) * need)
    node[at, MOST], node[at, MOST_REST] = max(node[at, MOST], weight), max(node[at, MOST_REST], rest)
    node[at, PULL] = max(node[at, PULL], weight * pull)
    node[at, PULL_REST] = max(node[at, PULL_REST], rest * pull)
    share, alone = (1.000001 - alpha) / max(alpha, STEEP), np.inf
    if alpha > STEEP:
        alone = (alpha - bar + 1.5 * float(SLACK)) / alpha
    node[at, FAR], node[at, FAR_REST] = (
        max(node[at, FAR], weight * share),
        max(node[at, FAR_REST], rest * share),
    )
    node[at, FAR_ALONE] = max(node[at, FAR_ALONE], alone)
    node[at, NEAR], node[at, AWAY] = min(node[at, NEAR], needed_near(alpha, bar)), min(node[at, AWAY], away)
    node[at, LOW_ALPHA], node[at, WITHIN] = min(node[at, LOW_ALPHA], alpha), min(node[at, WITHIN], within)
    node[at, HIGH_ALPHA] = max(node[at, HIGH_ALPHA], alpha)
    for axis in range(3):
        place = fact[tile, X + axis, lane] * SHARE
        node[at, BOX + axis] = min(node[at, BOX + axis], place)
        node[at, BOX + 3 + axis] = max(node[at, BOX + 3 + axis], place)


@njit(**EXACT)
def clear_message_node(node: Floats32, at: int) -> None:
    """Empty a node."""
    node[at, MOST], node[at, MOST_REST] = 0.0, 0.0
    for axis in range(3):
        node[at, MESSAGE_BOX + axis], node[at, MESSAGE_BOX + 3 + axis] = np.inf, -np.inf


@njit(**EXACT)
def widen_message_node(node: Floats32, at: int, fact: Bits, entry: int) -> None:
    """Widen a node by one more entry."""
    tile, lane = entry // STEP, entry % STEP
    node[at, MOST] = max(node[at, MOST], fact[tile, WEIGHT, lane] * SHARE)
    node[at, MOST_REST] = max(node[at, MOST_REST], fact[tile, REST, lane] * SHARE)
    for axis in range(3):
        place = fact[tile, X + axis, lane] * SHARE
        node[at, MESSAGE_BOX + axis] = min(node[at, MESSAGE_BOX + axis], place)
        node[at, MESSAGE_BOX + 3 + axis] = max(node[at, MESSAGE_BOX + 3 + axis], place)


@njit(**EXACT)
def _append_subscriptions(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns, frame: Frame
) -> None:
    """Add owners to the lists of all their terms; there is room."""
    begins, _, _, sizes, _, _, listed, fact, node = lists
    x, y, alphas, thresholds, stamps, floors, radii = owners
    for row in rows:
        term, weight, rest = rarest_first(texts, row, idf)
        if term.size > 0 and idf[term[-1]] == 0.0:
            weight[-1] = 1.0  # of the term of all messages: whoever has it counts the place alone
        spot, sign = embed(frame, x[row], y[row]), signatures(term)
        alpha, bar = round_nearest(alphas[row]), round_down(thresholds[row])
        if floors.size > 0:
            bar = max(bar, round_down(floors[row]))
        within = nearness_within(radii[row] if radii.size > 0 else np.inf, frame.scale)
        for i in range(term.size):
            offset = sizes[term[i]]
            sizes[term[i]] = offset + 1
            at = begins[term[i]] + offset
            listed[at] = row
            tile, lane = at // STEP, at % STEP
            fact[tile, WEIGHT, lane], fact[tile, REST, lane] = round_up(weight[i]), round_up(rest[i])
            fact[tile, ALPHA, lane], fact[tile, THRESHOLD, lane], fact[tile, STAMP, lane] = (
                alpha,
                bar,
                stamps[row],
            )
            fact[tile, LOW_SIGN, lane], fact[tile, HIGH_SIGN, lane] = sign[i] & 65535, sign[i] >> 16
            for axis in range(3):
                fact[tile, X + axis, lane] = round_nearest(spot[axis])
            block = (at - offset % BLOCK) // STEP
            if offset % BLOCK == 0:
                clear_node(node, block)
            widen_node(node, block, fact, at, within)


@njit(**EXACT)
def _append_messages(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, places: PlaceColumns, frame: Frame
) -> None:
    """Add messages to the lists of all their terms; there is room."""
    begins, _, _, sizes, _, _, listed, fact, node = lists
    x, y, stamps = places
    for row in rows:
        term, weight, rest = rarest_first(texts, row, idf)
        spot, sign = embed(frame, x[row], y[row]), signatures(term)
        for i in range(term.size):
            offset = sizes[term[i]]
            sizes[term[i]] = offset + 1
            at = begins[term[i]] + offset
            tile, lane = at // STEP, at % STEP
            listed[at] = row
            fact[tile, WEIGHT, lane], fact[tile, REST, lane] = round_up(weight[i]), round_up(rest[i])
            fact[tile, LOW, lane], fact[tile, HIGH, lane] = sign[i] & 65535, sign[i] >> 16
            fact[tile, STAMP, lane] = stamps[row]
            for axis in range(3):
                fact[tile, X + axis, lane] = round_nearest(spot[axis])
            block = (at - offset % BLOCK) // STEP
            if offset % BLOCK == 0:
                clear_message_node(node, block)
            widen_message_node(node, block, fact, at)


@njit(**EXACT)
def distinct_terms(texts: TermVectors, rows: Rows, seen: Rows) -> tuple[Rows, Ints]:
    """The distinct terms of some texts, as they come, and how often each does; `seen` is 0 throughout."""
    begin, size, term, _ = texts
    total, count = 0, 0
    for row in rows:
        total += size[row]
    words = np.empty(total, np.int32)
    for row in rows:
        for i in range(begin[row], begin[row] + size[row]):
            words[count] = term[i]
            count += seen[term[i]] == 0
            seen[term[i]] += 1
    counts = np.empty(count, np.int64)
    for i in range(count):
        counts[i], seen[words[i]] = seen[words[i]], 0
    return words[:count], counts


@njit(**EXACT)
def drop(dead: Rows, rows: Rows, texts: TermVectors, stamps: Bits) -> bool:
    """Count the entries of owners as void and give the owners their next stamps.

    Returns False, and they have their old stamps, if one had the last stamp.
    """
    begin, size, term, _ = texts
    last = False
    for row in rows:
        last |= stamps[row] == LAST_STAMP
        for i in range(begin[row], begin[row] + size[row]):
            dead[term[i]] += 1
    if not last:
        for row in rows:
            stamps[row] += 1
    return not last


@njit(**EXACT)
def due_subscriptions(lists: Postings, words: Rows, cell: int) -> tuple[Rows, Ints]:
    """Which of some distinct terms have lists that should be put in order, and from which entry on."""
    found, first, count = np.empty(words.size, np.int32), np.empty(words.size, np.int64), 0
    _, mains, joints, sizes, _, deads, _, _, _ = lists
    for word in words:
        size, main = sizes[word], mains[word]
        all_of_it = deads[word] > STEP + size // 4 or size - joints[word] > BLOCK + size // 8
        if all_of_it or size - main > min(BLOCK + size // 4, 8 * BLOCK):
            found[count], first[count] = word, 0 if all_of_it else main // cell * cell
            count += 1
    return found[:count], first[:count]


@njit(**EXACT)
def due_messages(lists: Postings, words: Rows) -> tuple[Rows, Ints]:
    """Which of some distinct terms have lists that should be put in order, and from which entry on."""
    found, first, count = np.empty(words.size, np.int32), np.empty(words.size, np.int64), 0
    _, mains, joints, sizes, _, deads, _, _, _ = lists
    for word in words:
        size, main = sizes[word], mains[word]
        if deads[word] > STEP + size // 4 or size - joints[word] > BLOCK + size // 2:
            found[count], first[count] = word, 0
            count += 1
        elif size - main > min(BLOCK + size // 4, CELL):
            step = CELL
            if size // REGION > main // REGION:
                step = DISTRICT if size // DISTRICT > main // DISTRICT else REGION
            found[count], first[count] = word, main // step * step
            count += 1
    return found[:count], first[:count]


@njit(**EXACT)
def _have_room(lists: Postings, terms: Rows, counts: Ints) -> bool:
    """Whether the lists of terms have room for so many more entries each."""
    _, _, _, sizes, rooms, _, _, _, _ = lists
    for i in range(terms.size):
        if sizes[terms[i]] + counts[i] > rooms[terms[i]]:
            return False
    return True


@njit(**EXACT)
def add_subscriptions(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns, frame: Plain,
    seen: Rows, cell: int,
) -> int:  # fmt: skip
    """Add subscriptions to the lists of their terms; `seen` is 0 throughout, by term.

    Returns how many lists are due to be put in order; `FULL`, and nothing has changed, if there is no room.
    """
    lists, rows, texts, idf = borrowed(lists), borrowed(rows), borrowed(texts), borrowed(idf)
    owners, seen = borrowed(owners), borrowed(seen)
    terms, counts = distinct_terms(texts, rows, seen)
    if not _have_room(lists, terms, counts):
        return FULL
    _append_subscriptions(lists, rows, texts, idf, owners, named(frame))
    terms, _ = due_subscriptions(lists, terms, cell)
    return int(terms.size)


@njit(**EXACT)
def update_subscriptions(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, owners: ListedColumns, frame: Plain,
    seen: Rows, cell: int,
) -> int:  # fmt: skip
    """Replace the entries of subscriptions: `drop`, then `add_subscriptions`; `VOID` if `drop` fails.

    The former entries are void if there is no room for the new ones (`FULL`).
    """
    _, _, _, _, _, dead, _, _, _ = borrowed(lists)
    _, _, _, _, stamps, _, _ = borrowed(owners)
    if not drop(dead, borrowed(rows), borrowed(texts), stamps):
        return VOID
    return add_subscriptions(lists, rows, texts, idf, owners, frame, seen, cell)


@njit(**EXACT)
def add_messages(
    lists: Postings, rows: Rows, texts: TermVectors, idf: Floats, places: PlaceColumns, frame: Plain,
    seen: Rows,
) -> int:  # fmt: skip
    """The same for messages."""
    terms, counts = distinct_terms(texts, rows, seen)
    if not _have_room(lists, terms, counts):
        return FULL
    _append_messages(lists, rows, texts, idf, places, named(frame))
    terms, _ = due_messages(lists, terms)
    return int(terms.size)


@njit(**EXACT)
def arrive(
    ages: Plain, rows: Rows, times: Ints, arrivals: int, newest: int, overtaken: Bools,
    lists: Postings, texts: TermVectors, idf: Floats, x: Floats, y: Floats, frame: Plain, seen: Rows,
) -> int:  # fmt: skip
    """Write the ages (see `results`) of messages that arrive, after so many, and add them to the lists.

    Tells which come after one that is newer; the last one before has the time `newest`. Returns what
    `add_messages` does.
    """
    time, arrival, stamp, _, _, _, _ = borrowed(ages)
    for i in range(rows.size):
        time[rows[i]], arrival[rows[i]] = times[i], arrivals + i
        overtaken[i] = times[i] < newest
        newest = max(newest, times[i])
    places = PlaceColumns(borrowed(x), borrowed(y), stamp)
    return add_messages(
        borrowed(lists), borrowed(rows), borrowed(texts), borrowed(idf), places, frame, borrowed(seen)
    )


@njit(**EXACT)
def move(old: Postings, new: Postings, words: Rows, rooms: Rows, used: int) -> int:
    """Move the lists of terms to new stretches, from `used` on; return where they end.

    `old` and `new` have the same arrays by term; by entry they may be the same or not. Rooms and `used` are
    multiples of `STEP`.
    """
    for i in range(words.size):
        word = words[i]
        begin, size = old.begin[word], old.size[word]
        new.row[used : used + size] = old.row[begin : begin + size]
        source, target, tiles = begin // STEP, used // STEP, (size + STEP - 1) // STEP
        new.fact[target : target + tiles] = old.fact[source : source + tiles]
        new.node[target : target + tiles] = old.node[source : source + tiles]
        new.begin[word], new.room[word] = used, rooms[i]
        used += rooms[i]
    return used


@njit(**EXACT)
def rooms_for(sizes: Ints, slack: int) -> Rows:
    """Room for lists of these sizes, and so many sixteenths more, a multiple of `STEP`."""
    rooms = np.empty(sizes.size, np.int32)
    for i in range(sizes.size):
        rooms[i] = (sizes[i] * (16 + slack) // 16 + STEP - 1) // STEP * STEP
    return rooms


@njit(**EXACT)
def reserve(
    plain: Plain, rows: Rows, texts: TermVectors, seen: Rows, worth: int, slack: int, used: int
) -> tuple[int, Rows]:
    """Move lists that have no room for the entries of some texts to where they have; `used` entries are.

    Returns how many are then. `VOID`, and nothing has changed, if lists should be arranged first, of which
    more than one in `worth` entries is void, and which; `FULL` if there is no room for all.
    """
    lists = Postings(*borrowed(plain))
    terms, counts = distinct_terms(texts, rows, seen)
    void, total, voids, full = np.empty_like(terms), np.empty_like(counts), 0, 0
    for i in range(terms.size):
        size = lists.size[terms[i]]
        if size + counts[i] > lists.room[terms[i]]:
            if lists.dead[terms[i]] > size // worth:
                void[voids] = terms[i]
                voids += 1
            terms[full], total[full] = terms[i], size + counts[i]
            full += 1
    if voids > 0:
        return VOID, void[:voids]
    rooms, end = rooms_for(total[:full], slack), used
    for room in rooms:
        end += room
    if end > lists.row.size:
        return FULL, void[:0]
    return move(lists, lists, terms[:full], rooms, used), void[:0]


@njit(**EXACT)
def radix_sort(order: Rows, keys: Rows, spare: Rows, bits: int) -> None:
    """Sort places stably by keys of `bits` bits: by radix of 8 bits, or by insertion if they are few."""
    if order.size <= FEW:
        for i in range(1, order.size):
            place, j = order[i], i
            while j > 0 and keys[order[j - 1]] > keys[place]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
        return
    for shift in range(0, bits, 8):
        ends = np.zeros(257, np.int64)
        for i in range(order.size):
            ends[((keys[order[i]] >> shift) & 255) + 1] += 1
        for i in range(256):
            ends[i + 1] += ends[i]
        for i in range(order.size):
            digit = (keys[order[i]] >> shift) & 255
            spare[ends[digit]] = order[i]
            ends[digit] += 1
        order[:] = spare[: order.size]
