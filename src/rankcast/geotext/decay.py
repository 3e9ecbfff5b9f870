"""Scores that fade with age: halved after every half-life, in an order that time does not change.

All messages fade alike, so what ranks first stays first (forward decay): messages are ranked by score times
gain, where the gain doubles with every half-life of the message's own time. A gain is a number from 1 to 2,
which depends on the time alone, times a power of two from a landmark on. Moving the landmark multiplies all
gains by a power of two, which is exact, so ranks and ties do not depend on it.

Memory: 8 bytes a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SettingError, shown
from rankcast.geotext.windows import TimeWindow, Window
from rankcast.structures import integrity
from rankcast.tables.schema import Floats, Ints

MOST = 256  # half-lives of a window, and of the newest message beyond the landmark


class Decay:
    """The gains of messages by their times, in nanoseconds."""

    def __init__(self, half_life: int) -> None:
        self._half_life = half_life
        self._landmark: int | None = None  # in half-lives

    def advance(self, times: Ints) -> float:
        """Let there be messages of these times; returns what gains so far must be multiplied by.

        That is 0 if all messages so far leave the window before any of these is compared with them.
        """
        if not times.size:
            return 1.0
        newest = int(times.max()) // self._half_life
        before = newest if self._landmark is None else self._landmark
        self._landmark = newest if newest > before + MOST else before
        return 2.0 ** (before - self._landmark) if self._landmark <= before + 2 * MOST else 0.0

    def gains(self, times: Ints) -> Floats:
        """The gains of messages that are in the window."""
        whole, part = np.divmod(times, self._half_life)
        return np.ldexp(np.exp2(part / self._half_life), (whole - (self._landmark or 0)).astype(np.int32))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The landmark."""
        return {"landmark": self._landmark}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        integrity.forms(arrays, {})
        known = header["landmark"] is not None
        self._landmark = integrity.whole(header, "landmark", -integrity.MOST) if known else None
        return self

    def check_restored(self, newest: Ints) -> None:
        """Refuse a landmark from a snapshot that does not suit the newest time, if there is one."""
        for time in newest.tolist():
            behind = MOST + 1 if self._landmark is None else time // self._half_life - self._landmark
            integrity.need(0 <= behind <= MOST, "landmark", "is not that of the newest message")


def decay_of(half_life: object, window: Window) -> Decay | None:
    """The decay that a setting describes, None for none; it must suit the window."""
    if half_life is None:
        return None
    if not isinstance(half_life, timedelta) or half_life <= timedelta(0):
        raise SettingError(f"half_life is {shown(half_life)}", expected="a timedelta above 0, or None")
    if not isinstance(window, TimeWindow):
        raise SettingError(
            "half_life is set, but the window is a count", expected="a window that is a timedelta"
        )
    span = half_life // timedelta(microseconds=1) * 1000
    if window.span > MOST * span:
        raise SettingError(f"half_life is {half_life}", expected=f"at least the window divided by {MOST}")
    return Decay(span)
