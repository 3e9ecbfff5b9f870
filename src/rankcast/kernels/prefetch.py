"""Asking for memory before it is needed: a cache miss that is known beforehand costs next to nothing.

What is asked for need not be there: a place beyond the end of an array does no harm.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable
from numpy.typing import NDArray

READ, KEEP, DATA = 0, 3, 1


def prefetch(array: NDArray[Any], index: int | np.integer[Any]) -> None:
    """Ask for the cache line of an entry, counted in the order in which entries lie; does not wait."""


@type_callable(prefetch)
def _typed(context: Any) -> Any:
    def typer(array: Any, index: Any) -> Any:
        return types.none if isinstance(array, types.Array) else None

    return typer


@lower_builtin(prefetch, types.Array, types.Integer)  # type: ignore[no-untyped-call]
def _lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    """One instruction of the machine."""
    array = context.make_array(signature.args[0])(context, builder, given[0])
    address, word = cgutils.voidptr_t, cgutils.int32_t
    place = builder.bitcast(builder.gep(array.data, [given[1]]), address)
    ir: Any = cgutils.ir  # type: ignore[attr-defined]
    kind = ir.FunctionType(ir.VoidType(), [address, word, word, word])
    ask = builder.module.declare_intrinsic("llvm.prefetch", (address,), kind)
    builder.call(ask, [place, word(READ), word(KEEP), word(DATA)])
    return context.get_dummy_value()
