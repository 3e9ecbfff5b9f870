"""Objects over two attributes along the first one, for painting in 1.5 dimensions."""

from __future__ import annotations

import numpy as np

from rankcast.range_topk.kernels.slab_search import Along
from rankcast.range_topk.objects import Floats, Labels, ObjectIndex, Rows, grown


class ObjectsAlong:
    """Objects in dense rows in the order of the first attribute; kernels keep them in step with their tree.

    Nothing of it is kept on disk: it follows from the objects.
    """

    def __init__(self, rows: Rows, places: Floats, values: Floats, label: Labels) -> None:
        self._index = ObjectIndex()
        self._second: Floats = np.zeros(len(label))
        self._index.set_labels(rows, label[rows])
        self.load(rows, places, values)

    def load(self, rows: Rows, places: Floats, values: Floats) -> None:
        """Insert absent rows. O(n log n)."""
        if int(rows.max(initial=-1)) >= len(self._second):
            self._second = grown(self._second, int(rows.max()) + 1, 0.0)
        self._index.load(rows, places[:, 0].copy(), values)
        self._second[rows] = places[:, 1]

    def fetch(self, label: Labels) -> Along:
        """The objects as kernels take them, with these labels and room for some more inserts."""
        self._index.reserve(len(label))
        self._index.tree = self._index.tree._replace(label=label)
        if len(label) > len(self._second):
            self._second = grown(self._second, len(label), 0.0)
        return Along(self._index.tree, self._second)

    def tidy(self) -> None:
        """Give back room that is no longer needed."""
        self._index.tidy()
