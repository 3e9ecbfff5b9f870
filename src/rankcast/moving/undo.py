"""Taking a change back in which a function of one's own has failed.

A search for zones asks the function many times, and what it asks depends on what has changed so far: the
function cannot be asked about everything first. So a call notes, beside each change, how to put it back. If
the function then raises or gives no numbers, the steps go back, the last first, and the call has changed
nothing that can be seen. Engines whose scores are formulas note nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from rankcast.errors import FunctionError
from rankcast.moving.kernels.zone_search import Zones
from rankcast.moving.zones import ZoneIndex
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Rows

Step = Callable[[], None]


class Undo:
    """The way back from the change of one call; `noting` is whether changes are to be noted now.

    Args:
        count: the counters of the engine.
        standing: asked at the start of a call; what it gives is called when everything is as it was.

    `needed` is whether there is a function that may fail.
    """

    def __init__(self, count: dict[str, int], standing: Callable[[], Step]) -> None:
        self._count = count
        self._standing = standing
        self._steps: list[Step] = []
        self.needed = self.noting = False

    def note(self, step: Step) -> None:
        """Say how to put back what is changed next, or was changed last."""
        if self.noting:
            self._steps.append(step)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Note the changes of a call, or of a part of one, and take them back if a function fails."""
        if self.noting or not self.needed:  # noting: this is a part of a call that is noted already
            yield
            return
        self.noting, before, as_it_was = True, dict(self._count), self._standing()
        try:
            yield
        except FunctionError:
            for step in reversed(self._steps):
                step()
            self._count.update(before)
            as_it_was()
            raise
        finally:
            self.noting = False
            self._steps.clear()


def columns_of(slots: Slots, names: tuple[str, ...], rows: Rows) -> Step:
    """A step that writes back what columns hold for rows."""
    held = {name: slots[name][rows] for name in names}

    def back() -> None:
        for name, values in held.items():
            slots[name][rows] = values

    return back


def release(slots: Slots, rows: Rows) -> None:
    """Let ids go that came last; if these were the first of all, their kind is open again."""
    if rows.size and rows.size == slots.next_sequence:
        slots.unsettle()
    else:
        slots.release(rows)


def zones_of(index: ZoneIndex, rows: Rows) -> Step:
    """A step that sets the zones of subscriptions as they are now."""
    held = index.held
    count = held.count[rows]
    ends = np.cumsum(count)
    at = np.repeat(held.start[rows] - (ends - count), count) + np.arange(int(count.sum()))
    zones = Zones(ends - count, count, held.member[at], held.radius[rows], held.reach[rows])
    x, y = held.x[rows], held.y[rows]
    return lambda: index.put(rows, x, y, zones)
