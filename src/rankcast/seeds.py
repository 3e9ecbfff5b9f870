"""Seeds of hash tables, which nobody can guess (see `rankcast.kernels.hashing`)."""

from __future__ import annotations

import os
import secrets

from rankcast.kernels.hashing import MOST_SEED

FIXED = "RANKCAST_HASH_SEED"  # in the environment: for states that are alike to the last bit


def draw() -> int:
    """A seed that nobody can guess, or the one in the environment."""
    fixed = os.environ.get(FIXED)
    return secrets.randbits(63) if fixed is None else int(fixed) & MOST_SEED


PROCESS = draw()  # for tables that are thrown away after a batch
