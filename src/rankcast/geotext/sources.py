"""Where messages come from, if a result may have only so many of one source.

A source is an id of its own, kept as long as one of its messages is live. In a result are the best of each
source, up to the limit; a message without a source is one of its own.

Buffers hold no more of a source than a result may have, and whatever else they have not, they have beyond
their frontier. So when a message leaves a buffer that held as many of its source as may be, and its source
has more that are live, another one of them may come in its stead, and the buffer is refilled by a search.
What dominates a message by score and time may be of one source, and then keeps nothing out: buffers keep
what is dominated, as with refill="kmax".
"""

from __future__ import annotations

import numpy as np

from rankcast.errors import InputError
from rankcast.structures import integrity
from rankcast.structures.hashing import distinct
from rankcast.structures.ids import Slots, keys_of, select
from rankcast.tables.schema import Batch, Column, Ints, Kind, Names, Rows

SOURCE = Column("source", Kind.NAME, required=False, nullable=True)
NONE = -1  # the row of a message without a source


class Sources:
    """The sources of live messages, by rows of their own.

    - Changing: `arrive`, `leave`.
    - Reading: `check`; `slots["alive"]`, how many messages of each are live.

    Args:
        most: how many messages of one source a result may have.
    """

    def __init__(self, most: int) -> None:
        self.most, self.slots = most, Slots({"alive": np.int64})

    def check(self, batch: Batch) -> None:
        """Refuse sources of another kind than those before."""
        names = batch.apart.get(SOURCE.name)
        if names is None or not names.known.any():
            return
        known = np.flatnonzero(names.known)
        try:
            self.slots.find(select(names.ids, known), where="messages", column=SOURCE.name)
        except InputError as error:
            raise error.at(int(known[0])) from None

    def arrive(self, names: Names | None, places: Rows) -> Rows:
        """The rows of the sources of messages at some places of a batch, which are live from now on."""
        found = np.full(places.size, NONE, np.int32)
        known = np.flatnonzero(names.known[places]) if names is not None else places[:0]
        if names is None or not known.size:
            return found
        ids = select(names.ids, places[known])
        number, first = distinct(keys_of(ids))
        once = select(ids, first)
        rows = self.slots.find(once, where="messages")
        new = np.flatnonzero(rows < 0)
        rows[new] = self.slots.add(select(once, new))
        self.slots["alive"][rows[new]] = 0
        self.slots["alive"][rows] += np.bincount(number, minlength=first.size)
        found[known] = rows[number]
        return found

    def leave(self, rows: Rows) -> None:
        """Messages of these sources go; a source without any is forgotten."""
        rows = rows[rows >= 0]
        if rows.size:
            alive, once = self.slots["alive"], np.unique(rows)
            np.subtract.at(alive, rows, 1)
            self.slots.release(np.ascontiguousarray(once[alive[once] == 0]))

    def check_restored(self, rows: Rows) -> None:
        """Refuse sources from a snapshot that are not those of live messages, which have them in `rows`."""
        used = self.slots.used
        integrity.within(rows, NONE, used, "message.source")
        live: Ints = np.zeros(used, np.int64)
        live[self.slots._live()] = self.slots["alive"][self.slots._live()]
        counted = np.bincount(rows[rows >= 0], minlength=used)
        integrity.need(np.array_equal(counted, live), "source.alive", "is not how many messages there are")
        integrity.need((live[self.slots._live()] > 0).all(), "source.alive", "is 0")
