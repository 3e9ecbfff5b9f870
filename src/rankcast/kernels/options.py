"""The only place with Numba flags.

`EXACT` is for every kernel whose output orders anything: no fastmath, because infinities are used as
sentinels and reassociation can flip a near-tie. `PARALLEL` adds Numba's own threads to the same arithmetic.
Both release the GIL, keep compiled code on disk and leave out the C entry, which nobody calls and which
takes a tenth of the time to compile. Numba's cache does not notice an edit in a callee's file: run
`make clean-cache` after changing a kernel that others call.
"""

from __future__ import annotations

from typing import Any

from rankcast.kernels.kernel import TARGET

EXACT: dict[str, Any] = {
    "_target": TARGET,
    "cache": True,
    "nogil": True,
    "fastmath": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
PARALLEL: dict[str, Any] = {**EXACT, "parallel": True}
