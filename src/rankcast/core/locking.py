"""Turns on an engine: one call at a time, and how far the current call has got.

Every public call of an engine takes the engine's lock, also a read. A call first reads and checks; then it
calls `begin`, and from there to its end its change is half done. Any exception in that time leaves
the engine in doubt: no later call touches it. Ctrl-C waits for the end of the call (in a compiled kernel it
would surface as a SystemError); pressed twice, it interrupts the call.

A call from inside a call, by a user's function that the engine has called, is refused; it would wait for
itself for ever. An override may call what it overrides, and other calls before and after.

The lock is taken by `with`, and what a call must clear at its end is written without a function call,
because Python delivers interrupts only after function calls and backward jumps.
"""

from __future__ import annotations

import functools
import os
import signal
import weakref

# Not by way of `signal`, whose conversions to enumerations cost more than all the rest of a turn.
from _signal import getsignal as get_handler  # type: ignore[import-not-found]
from _signal import signal as set_handler
from collections.abc import Callable
from threading import Lock, current_thread, get_ident, main_thread
from types import FrameType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from rankcast.errors import InterruptedEngineError, NestedCallError

SIGINT = int(signal.SIGINT)

P = ParamSpec("P")
T = TypeVar("T")


class HeldInterrupt:
    """A handler of SIGINT that holds the first one until `release`; a second one passes immediately."""

    def __init__(self, former: Callable[[int, FrameType | None], Any]) -> None:
        self._former = former
        self._pending: tuple[int, FrameType | None] | None = None

    @classmethod
    def hold(cls) -> HeldInterrupt | None:
        """Hold interrupts from now on; None without a Python handler, and outside the main thread."""
        former = get_handler(SIGINT)
        if not callable(former) or current_thread() is not main_thread():
            return None
        held = cls(former)
        try:
            set_handler(SIGINT, held)
        except ValueError:  # not the main interpreter
            return None
        return held

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hold an interrupt, or pass on the second one."""
        if self._pending is None:
            self._pending = number, frame
        else:
            self._pending = None
            self._former(number, frame)

    def release(self) -> None:
        """Pass on a held interrupt to the previous handler."""
        if get_handler(SIGINT) is self:
            set_handler(SIGINT, self._former)
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._former(*pending)


class Turn:
    """The lock of an engine, and what the current call is doing.

    Invariant: without a call inside, `changing` is True exactly if a change was left half done.
    """

    def __init__(self, reason: str | None = None) -> None:
        self.lock = Lock()
        self.owner = 0  # the thread that is inside
        self.sealed = False  # whether calls from inside the call are refused
        self.own = False  # whether the engine itself is about to make a call from inside
        self.begun = 0  # changes that were begun
        self.changing = reason is not None
        self.reason = reason  # what left a change half done
        TURNS.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of an engine has its own turn."""
        return Turn, (
            "it was copied in the middle of a change" if self.changing and not self.reason else self.reason,
        )

    def begin(self) -> None:
        """All checks have passed: what follows changes the engine, to the end of the call."""
        if not self.owner:
            return  # a part of a call that was called by itself
        self.changing = True
        self.begun += 1

    def undo(self) -> None:
        """The started change has changed nothing after all."""
        self.begun -= 1
        self.changing = False

    def note(self, error: BaseException) -> None:
        """An exception has left a change half done."""
        if self.reason is None:
            self.reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

    def refuse(self) -> None:
        """Refuse every call if a change was left half done."""
        if self.changing or self.reason is not None:
            raise InterruptedEngineError(self.reason)

    def nested(self, method: Callable[..., T], seals: bool, engine: Any, *given: Any, **named: Any) -> T:
        """Make a call from inside a call, if that is an override or the engine itself."""
        if self.sealed:
            raise NestedCallError(method.__name__)
        if self.reason is not None:
            raise InterruptedEngineError(self.reason)
        begun, changing = self.begun, self.changing
        own, self.own, self.sealed = self.own, False, seals
        try:
            answer = method(engine, *given, **named)
            if not own:  # for an override the change is whole; the engine has more to do
                self.changing = changing
            return answer
        except BaseException as error:
            if self.begun != begun:
                self.note(error)
            raise
        finally:
            self.sealed = False


class HasTurn(Protocol):
    """An engine, as far as turns are concerned."""

    _turn: Turn


E = TypeVar("E", bound=HasTurn)


def call(method: Callable[Concatenate[E, P], T], *, seals: bool = True) -> Callable[Concatenate[E, P], T]:
    """Make a method take its turn; functions called by one that `seals` can never enter the engine."""

    @functools.wraps(method)
    def in_turn(self: E, /, *given: P.args, **named: P.kwargs) -> T:
        turn, me, held = self._turn, get_ident(), None
        if turn.owner == me and turn.lock.locked():
            return turn.nested(method, seals, self, *given, **named)
        try:
            with turn.lock:
                held = HeldInterrupt.hold()
                turn.owner = me
                turn.sealed = seals
                try:
                    if turn.changing:
                        turn.refuse()
                    answer = method(self, *given, **named)
                    turn.changing = False
                    return answer
                except BaseException as error:
                    if turn.changing:
                        turn.note(error)
                    raise
                finally:
                    turn.owner = 0
        finally:
            if held is not None:
                held.release()

    return cast(Callable[Concatenate[E, P], T], in_turn)


def inside(method: Callable[P, T]) -> Callable[P, T]:
    """Make a method take no turn: it only looks, and may be called while the commands of a batch are made."""
    vars(method)["inside"] = True
    return method


def wrap(cls: type) -> None:
    """Make the public methods of a class take turns; an override seals nothing, what it calls does."""
    for name, method in list(vars(cls).items()):
        if name.startswith("_") or not callable(method) or isinstance(method, type):
            continue
        if getattr(method, "inside", False):
            continue
        if getattr(method, "__isabstractmethod__", False):
            continue
        former = getattr(super(cls, cls), name, None)
        seals = former is None or getattr(former, "__isabstractmethod__", False)
        setattr(cls, name, call(method, seals=seals))


TURNS: weakref.WeakSet[Turn] = weakref.WeakSet()


def _after_fork() -> None:
    """In a child process the thread inside an engine does not exist: its lock would never be released."""
    for turn in list(TURNS):
        if turn.owner != get_ident() and turn.lock.locked():
            turn.lock, turn.owner = Lock(), 0


os.register_at_fork(after_in_child=_after_fork)
