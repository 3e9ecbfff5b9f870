"""Memory for large answers, from Arrow's pool, which keeps what was freed.

The first touch of a fresh page is a fault: an answer of millions of rows would spend most of its time there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


def empty(size: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array without content whose memory goes back to the pool with the last reference to it."""
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * kind.itemsize), kind) if size else np.empty(0, kind)
