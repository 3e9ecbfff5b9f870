"""The only place with Numba flags, and what makes a kernel cheap to compile.

`EXACT` is for every kernel whose output orders anything: no fastmath, because infinities are used as
sentinels and reassociation can flip a near-tie. `PARALLEL` adds Numba's own threads to the same arithmetic.
Both release the GIL, keep compiled code on disk and leave out the C entry, which nobody calls and which
takes a tenth of the time to compile. Numba's cache does not notice an edit in a callee's file: run
`make clean-cache` after changing a kernel that others call.
"""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.core.registry import CPUDispatcher
from numba.core.target_extension import CPU, dispatcher_registry, target_registry

INNER = "rankcast.kernels."


class Kernel(CPUDispatcher):
    """A kernel, compiled once for the kinds of its arguments however another kernel calls it.

    Left to itself Numba compiles a callee anew for every constant that is passed to it, and apart for whole
    numbers of 32 and of 64 bits: a quarter of all compilations, for what is the same code once inlined.

    A kernel with a leading underscore is called by other kernels alone, and has no entry for Python.
    """

    def __init__(self, py_func: Any, locals: Any, targetoptions: dict[str, Any]) -> None:  # noqa: A002
        self._is_inner = py_func.__module__.startswith(INNER) and py_func.__name__.startswith("_")
        super().__init__(py_func, locals, {**targetoptions, "no_cpython_wrapper": self._is_inner})

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How another kernel calls this one: its arguments are widened on the way."""
        wide = {name: _widened(kind) for name, kind in kws.items()}
        return super().get_call_template([_widened(kind) for kind in args], wide)

    def add_overload(self, cres: Any) -> None:
        """Take a compiled form; Python is told of it only if there is an entry for Python."""
        if self._is_inner:
            self.overloads[tuple(cres.signature.args)] = cres
        else:
            super().add_overload(cres)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        if self._is_inner:
            raise TypeError(f"{self.py_func.__name__} is called by other kernels alone")
        return super()._compile_for_args(*args, **kws)  # type: ignore[misc]


def _widened(kind: Any) -> Any:
    """A type without the value of a constant, a signed whole number with all its bits."""
    kind = types.unliteral(kind)  # type: ignore[no-untyped-call]
    return types.int64 if kind in types.signed_domain else kind


class Exact(CPU):
    """The processor, as Numba knows it, with `Kernel` for its functions."""


target_registry["rankcast"] = Exact
dispatcher_registry[Exact] = Kernel

EXACT: dict[str, Any] = {
    "_target": "rankcast",
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
PARALLEL: dict[str, Any] = {**EXACT, "parallel": True}
