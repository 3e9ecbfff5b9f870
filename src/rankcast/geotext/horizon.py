"""Where scores decay: up to which gain the thresholds in posting lists hold, and who is to be listed anew.

The gains of messages grow with time. A posting has the threshold of its subscription divided by a gain, the
horizon, that no message has passed yet; before one does, all must be listed for a larger one. That work is
spread: as soon as everybody is listed for `reached`, whoever is listed anew is listed for the next horizon,
and so are all others, row by row, at the pace at which gains approach `reached`. A batch that jumps beyond
does at once what is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from rankcast.structures import integrity

MARGIN = 1.05  # how much larger the next horizon is


class Horizon:
    """For which gains subscriptions are listed.

    Attributes:
        gain: those who are listed now are listed for gains up to this one.
    """

    def __init__(self) -> None:
        self.gain = self._reached = self._base = 1.0  # all are listed for `reached`, since the gain `base`
        self._done = 0  # rows below this one are listed for `gain`

    def rescale(self, factor: float) -> None:
        """All gains are multiplied by a factor; 0 if all messages are about to leave."""
        self.gain, self._reached, self._base = (
            each * factor for each in (self.gain, self._reached, self._base)
        )

    def overtaken(self, top: float, rows: int) -> range:
        """Who must be listed for `gain` before a message of the gain `top` is looked at, of so many rows.

        Everybody who is not yet, if `top` is beyond what all are listed for. To be followed by `next`.
        """
        if top <= self._reached:
            return range(0)
        first = self._done
        if top > self.gain:
            self.gain, first = MARGIN * top, 0
        self._reached, self._base, self._done = self.gain, top, rows
        return range(first, rows)

    def next(self, top: float, rows: int) -> range:
        """Who is to be listed for `gain` now, so that all are when the largest gain, `top`, gets there."""
        if self.gain == self._reached:
            self.gain, self._done = MARGIN * self._reached, 0
        share = (top - self._base) / (self._reached - self._base) if self._reached > self._base else 0.0
        first, due = min(self._done, rows), math.ceil(rows * min(1.0, max(0.0, share)))
        self._done = max(first, due)
        return range(first, self._done)

    def state(self, *, spread: bool) -> dict[str, Any]:
        """For a snapshot; `spread`: it moves."""
        moves = {"spread": [self._reached, self._base, self._done]} if spread else {}
        return {"horizon": self.gain, **moves}

    def restore(self, header: Mapping[str, Any], rows: int) -> Self:
        """Take over what `state` gave; in one of before, all of so many rows were listed for one gain."""
        gain = header["horizon"]
        reached, base, done = header.get("spread", [gain, gain, rows])
        for number in (gain, reached, base):
            fits = type(number) in (int, float) and 0 < number < 1e300
            integrity.need(fits, "horizon", f"is {number!r:.40}, expected a number above 0")
        integrity.need(type(done) is int and 0 <= done < 1 << 31, "horizon", f"is at row {done!r:.40}")
        integrity.need(base <= reached <= gain, "horizon", "does not ascend")
        self.gain, self._reached, self._base, self._done = float(gain), float(reached), float(base), done
        return self
