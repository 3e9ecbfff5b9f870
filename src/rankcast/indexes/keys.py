"""External ids as the kernels of `rankcast.kernels.hashing` take them, by place."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import seeds
from rankcast.columns import Ids, Ints, integer_ids
from rankcast.errors import shown
from rankcast.kernels import hashing, strings
from rankcast.kernels.hashing import KeyArrays

NO_VALUES, NO_LENGTHS, NO_TEXT = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)


def keys_of(ids: Ids, seed: int = seeds.PROCESS) -> KeyArrays:
    """Ids as kernels take them: the fields of `hashing.Keys`. A store looks up those with its own seed."""
    if ids.kind == "int":
        return integer_keys(ids.values, seed)
    lengths = np.diff(ids.offsets).astype(np.int32)
    return hashing.hash_strings(ids.offsets, ids.data, seed), ids.offsets[:-1], lengths, ids.data, seed


def integer_keys(codes: Ints, seed: int) -> KeyArrays:
    """Integers need no text."""
    return codes, NO_VALUES, NO_LENGTHS, NO_TEXT, seed


def select(ids: Ids, index: Any) -> Ids:
    """The ids at the given places, in that order."""
    if ids.kind == "int":
        return integer_ids(ids.values[index])
    offsets, data = strings.gather(keys_of(ids), np.asarray(index, np.int32))
    return Ids("str", NO_VALUES, offsets, data)


def show(ids: Ids, row: int) -> str:
    """One id, for an error."""
    if ids.kind == "int":
        return str(ids.values[row])
    return shown(bytes(ids.data[ids.offsets[row] : ids.offsets[row + 1]]).decode(errors="backslashreplace"))
