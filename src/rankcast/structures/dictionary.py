"""Values as small numbers: a `Dictionary` has a code for each value that is in use, and forgets all others.

A code is the row of its value among ids (`rankcast.structures.ids`), so codes are dense and are used again,
and memory follows the largest number of values in use at once. Values are integers or strings, one kind a
dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.structures import hashing, integrity
from rankcast.structures.ids import Slots, keys_of, select
from rankcast.tables.schema import Ids, Ints, Rows


class Dictionary:
    """Values in use with a code each; `ordered`: codes have labels in the order of values.

    - Asking: `find`, `values`.
    - Changing: `intern`, `drop`, and `settle` at the end of a call.
    - Keeping: `state`, `restore`, `check_restored`.
    """

    def __init__(self, *, ordered: bool = False) -> None:
        self.values = Slots({"uses": np.int64}, ordered=ordered)

    def __len__(self) -> int:
        return len(self.values)

    def find(self, ids: Ids, *, where: str, column: str) -> Rows:
        """The code of each value, -1 where it is not in use; refuses values of the other kind."""
        return self.values.find(ids, where=where, column=column)

    def intern(self, ids: Ids) -> Rows:
        """The code of each value, whose use is counted; of a kind that `find` does not refuse."""
        codes = self.values.find(ids, where="")
        fresh = np.flatnonzero(codes < 0)
        if fresh.size:
            new = select(ids, fresh)
            number, first = hashing.distinct(keys_of(new))
            codes[fresh] = self.values.add(select(new, first))[number]
        uses = self.values["uses"]
        uses[codes[fresh]] = 0
        np.add.at(uses, codes, 1)
        return codes

    def drop(self, codes: Ints | Rows) -> None:
        """Take uses back; a value without any is unknown at once, and its code is free after `settle`."""
        uses = self.values["uses"]
        np.subtract.at(uses, codes, 1)
        touched = np.unique(codes).astype(np.int32)
        self.values.release(touched[uses[touched] == 0])

    def settle(self) -> None:
        """End a call: codes that nothing uses may be given again."""
        self.values.settle()

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return self.values.state()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        self.values.restore(header, arrays)
        return self

    def check_restored(self, codes: NDArray[Any], name: str) -> None:
        """Refuse a state in which values are not used as often as they come in `codes`."""
        live = self.values["sequence"] >= 0
        integrity.within(codes, 0, live.size, name)
        counted = np.bincount(codes, minlength=live.size)
        integrity.need((counted[~live] == 0).all(), name, "names values that are not there")
        fits = np.array_equal(counted[live], self.values["uses"][live])
        integrity.need(fits, name, "has not as many uses of its values as were counted")
