"""The clock of a stream whose engine has one: time goes on while nothing comes.

An engine goes by the times of its events. Where nothing comes the service moves its clock: from the newest
time that came on, as fast as time passes here. So a stream of now drops what is old as it should, and one
that is fed with the events of last year is not emptied by the date. A move of the clock is a write like any
other, `advance`, made only when something leaves by it.
"""

from __future__ import annotations

from rankcast.core.spec import Clock

SECOND = 1_000_000_000  # nanoseconds
UNTOLD = -(1 << 64)  # no time has come yet: the first one counts from when it comes


class StreamClock:
    """Where the clock of an engine is while nothing comes. Times of here are seconds since 1970.

    Attributes:
        due: when something leaves, in times of here; None: nothing does.
    """

    def __init__(self, since: float) -> None:
        """`since`: when the engine got its time; at the latest, if it was before this process began."""
        self._known: int | None = None
        self._since = since
        self.due: float | None = None

    def follow(self, clock: Clock | None, now: float) -> None:
        """The engine tells its clock behind a write."""
        if clock is None:
            self.due = None
            if self._known is None:
                self._known = UNTOLD
            return
        if self._known not in (None, clock.now):
            self._since = now
        self._known = clock.now
        self.due = self._since + (clock.due - clock.now) / SECOND

    def at(self, now: float) -> int:
        """What the engine's clock is to be at now, in nanoseconds since 1970."""
        return (self._known or 0) + max(0, int((now - self._since) * SECOND))
