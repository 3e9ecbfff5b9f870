"""The only place with Numba flags.

`EXACT` is for every kernel whose output orders anything: no fastmath, because infinities are used as
sentinels and reassociation can flip a near-tie. `PARALLEL` adds Numba's own threads to the same arithmetic.
Both release the GIL and keep compiled code on disk. Numba's cache does not notice an edit in a callee's
file: run `make clean-cache` after changing a kernel that others call.
"""

from __future__ import annotations

from typing import Any

EXACT: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": False, "error_model": "numpy"}
PARALLEL: dict[str, Any] = {**EXACT, "parallel": True}
