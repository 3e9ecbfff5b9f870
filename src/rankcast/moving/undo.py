"""Undo of a call in which a custom score has failed.

A search for zones evaluates the function many times, at points that depend on what has changed so far: it
cannot be evaluated everywhere first. So a call notes, beside each change, a step that takes it back. If the
function then raises or returns NaN, the steps run, the last first, and the call has changed nothing visible.
Engines whose scores are formulas note nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankcast.errors import FunctionError
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Rows

Step = Callable[[], None]


class Undo:
    """The steps that take back the changes of one call; `noting` is whether changes are noted now.

    Args:
        count: the counters of the engine.
        last_step: called at the start of a call; the step it returns runs after all others.

    `needed` is whether there is a function that may fail.
    """

    def __init__(self, count: dict[str, int], last_step: Callable[[], Step]) -> None:
        self._count = count
        self._last_step = last_step
        self._steps: list[Step] = []
        self._before: dict[str, int] = {}
        self._last: Step = lambda: None
        self._depth = 0
        self.needed = self.noting = False

    def note(self, step: Step) -> None:
        """Add the step that takes back the next change, or the last one."""
        if self.noting:
            self._steps.append(step)

    def __enter__(self) -> None:
        """Note the changes of a call, or of a part of one, and take them back if the function fails."""
        self._depth += 1
        if self.needed and not self.noting:  # noting: this is a part of a call that is noted already
            self.noting, self._before, self._last = True, dict(self._count), self._last_step()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Take the changes back if the function has failed."""
        self._depth -= 1
        if self._depth or not self.noting:
            return
        try:
            if isinstance(error, FunctionError):
                for step in reversed(self._steps):
                    step()
                self._count.update(self._before)
                self._last()
        finally:
            self.noting = False
            self._steps.clear()


def restore_columns(slots: Slots, names: tuple[str, ...], rows: Rows) -> Step:
    """A step that restores the current values of columns for rows."""
    held = {name: slots[name][rows] for name in names}

    def back() -> None:
        for name, values in held.items():
            slots[name][rows] = values

    return back


def release(slots: Slots, rows: Rows) -> None:
    """Release the ids that were added last; if they were the first of all, their type is open again."""
    if rows.size and rows.size == slots.next_sequence:
        slots.unsettle()
    else:
        slots.release(rows)
