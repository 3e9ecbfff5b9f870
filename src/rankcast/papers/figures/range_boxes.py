"""Tables VII and VIII and figure 26 of the range top-k paper: what 1.5-d subscriptions cost a server.

Two attributes, the second bounded from above. Counts come from the painting kernels and do not depend on the
machine; all repetitions of a run together apply it once, in sequence. A 1.5-d tile has one nested pair more
than one in one attribute: 32 bytes instead of 24.
"""

from __future__ import annotations

import numpy as np

from rankcast import RangeTopK
from rankcast.bench.runner import Figure, Grid, Parameters, Trial
from rankcast.bench.workloads import Columns
from rankcast.bench.workloads.range_topk import Workload, ends, half_bounded_workload
from rankcast.papers.figures.range_topk import PARTS, by_k, counted, counting
from rankcast.range_topk.boxes import SUBSCRIPTIONS, corners_of
from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.dissemination.slab_painters import SlabPainter
from rankcast.range_topk.dissemination.slabs import FIRSTK, MIN, SNAP
from rankcast.range_topk.kernels.object_versions import BoxEvents
from rankcast.range_topk.subscriptions import SlotMap

TILE_BYTES = 32
KS = [1, 2, 5, 10, 15]
SAMPLE, FEW = 200, 20
SMALL: Grid = {"objects": [1_000], "subscriptions": [20_000], "events": [500], "data": [1, 3], "k": [1, 10]}
FULL: Grid = {"objects": [10_000], "subscriptions": [400_000], "events": [10_000], "data": [1, 2, 3], "k": KS}


DENSE_MIN = by_k(6.35, 11.31, 26.13, 50.48, 74.40)
SPARSE_MIN = {
    1: by_k(5.68, 9.88, 23.07, 45.85, 68.826),
    2: by_k(5.40, 8.97, 19.45, 36.97, 54.67),
    3: by_k(5.51, 9.36, 21.12, 41.13, 61.07),
}
SPARSE_SNAP = {
    1: by_k(4.55, 13.86, 88.43, 473.43, 1361.90),
    2: by_k(4.08, 10.92, 51.44, 213.40, 561.45),
    3: by_k(4.29, 12.28, 70.69, 360.45, 1022.86),
}


class SlabServer:
    """Applies updates of y to objects and adds up what notifying the affected takes, one message a tile.

    `asking`: it asks what the paper's server asks, and no less.
    """

    def __init__(self, work: Workload, k: int, *, aware: bool, asking: bool = False) -> None:
        self.k = k
        self.events = self.messages = self.most_bytes = 0
        objects, rows = BoxObjects(2), work.objects["id"].astype(np.int32)
        objects.set_labels(rows, work.objects["id"].astype(np.int64))
        self.x = np.column_stack([work.objects["x"], work.objects["z"]])
        objects.settle(rows, self.x, work.objects["y"].copy())
        self.painter, self.index = SlabPainter(objects), None
        self.painter.asking = asking
        if aware:  # the boards stay empty: painting does not read them
            self.index = CornerIndex(4, k, SUBSCRIPTIONS, SlotMap())
            ids = work.subscriptions["id"].astype(np.int32)
            self.index.insert(ids, corners_of(*ends(work.subscriptions)), np.full(len(ids), np.inf))

    def send(self, rows: Columns) -> None:
        """Apply updates in order, one a call, so that bytes are known by event."""
        ids = rows["id"].astype(np.int32)
        for at in range(len(ids)):
            event = BoxEvents(ids[at : at + 1], self.x[ids[at : at + 1]], rows["y"][at : at + 1])
            sent = int(self.painter.paint(event, self.k, 1, self.index, None).size[0])
            self.messages += sent
            self.most_bytes = max(self.most_bytes, TILE_BYTES * sent)
        self.events += len(ids)

    def counts(self) -> dict[str, float]:
        """What an event took on average, and the bytes of the largest."""
        questions = self.painter.questions / self.events
        return {
            "firstk": questions[FIRSTK],
            "min": questions[MIN],
            "snap": questions[SNAP],
            "messages": self.messages / self.events,
            "bytes_out": TILE_BYTES * self.messages / self.events,
            "most_bytes": self.most_bytes,
        }


@counted(
    "range-topk-15d.tables-7-8",
    small=SMALL,
    full=FULL,
    seed=61,
    reproduces="[Range Table VII; Table VIII; Fig. 26]",
    figures=[
        Figure("26 (a): bytes from the server an event", "k", "bytes_out", ("data",), log_y=True),
        Figure(
            "26 (b): bytes from the server for the largest event", "k", "most_bytes", ("data",), log_y=True
        ),
    ],
)
def tables(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions and bytes an event over k: dense, and sparse on three sets of subscriptions.

    "sparse" asks as the paper's server does; "sparse, members first" is what `disseminate` runs.
    """
    k, data = parameters["k"], parameters["data"]
    work = half_bounded_workload(parameters, rng)
    paper: dict[str, dict[str, float]] = {"dense": {}, "sparse": {}}
    if (parameters["objects"], parameters["subscriptions"]) == (10_000, 400_000):
        sparse = {"min": SPARSE_MIN[data][k], "snap": SPARSE_SNAP[data][k]}
        paper = {"dense": {"min": DENSE_MIN[k]}, "sparse": sparse}
    servers = {
        "dense": SlabServer(work, k, aware=False),
        "sparse": SlabServer(work, k, aware=True, asking=True),
        "sparse, members first": SlabServer(work, k, aware=True),
    }
    contenders = [
        counting(name, server, work.events, paper.get(name, {})) for name, server in servers.items()
    ]
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))


def agree(work: Workload, k: int) -> bool:
    """Whether sparse tiles reach exactly the affected: a few events, a few subscriptions, by brute force."""
    some = {name: column[:SAMPLE] for name, column in work.subscriptions.items()}
    few = {name: column[:FEW] for name, column in work.events.items()}
    affected: list[int] = []
    for method in ("sparse", "scan"):
        engine = RangeTopK(over=["x", "z"], k=k, method=method)
        engine.publish(work.objects)
        engine.subscribe(some)
        before = engine.stats()["affected"]
        engine.disseminate(few)
        affected.append(engine.stats()["affected"] - before)
    return affected[0] == affected[1]
