"""Ranked publish/subscribe: standing top-k queries, kept current over streams.

This module has the public names only. Each is imported on first use, so `import rankcast` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankcast._version import __version__
from rankcast.errors import (
    InputError,
    InterruptedEngineError,
    RankcastError,
    ServiceError,
    SettingError,
    SnapshotError,
)

if TYPE_CHECKING:
    from rankcast.client.clients import AsyncClient, Client
    from rankcast.covering.engine import CoveringTable
    from rankcast.covering.maxima import maxima
    from rankcast.gateway import Gateway
    from rankcast.geotext.engine import GeoTextTopK
    from rankcast.geotext.vocabulary import Vocabulary
    from rankcast.matching.engine import RankedMatcher
    from rankcast.moving.road_graph import RoadGraph
    from rankcast.moving.skyline import MovingSkyline
    from rankcast.moving.topk import MovingTopK
    from rankcast.range_topk.engine import RangeTopK
    from rankcast.subscriber_list import SubscriberList
    from rankcast.tables.boxes import Hierarchy, near
    from rankcast.zone_numbers import ZoneNumbers

    from . import scoring

__all__ = [
    "AsyncClient",
    "Client",
    "CoveringTable",
    "Gateway",
    "GeoTextTopK",
    "Hierarchy",
    "InputError",
    "InterruptedEngineError",
    "MovingSkyline",
    "MovingTopK",
    "RangeTopK",
    "RankcastError",
    "RankedMatcher",
    "RoadGraph",
    "ServiceError",
    "SettingError",
    "SnapshotError",
    "SubscriberList",
    "Vocabulary",
    "ZoneNumbers",
    "__version__",
    "maxima",
    "near",
    "scoring",
]

_HOMES = {
    "AsyncClient": "rankcast.client.clients",
    "Client": "rankcast.client.clients",
    "CoveringTable": "rankcast.covering.engine",
    "Gateway": "rankcast.gateway",
    "GeoTextTopK": "rankcast.geotext.engine",
    "Hierarchy": "rankcast.tables.boxes",
    "MovingSkyline": "rankcast.moving.skyline",
    "MovingTopK": "rankcast.moving.topk",
    "RangeTopK": "rankcast.range_topk.engine",
    "RankedMatcher": "rankcast.matching.engine",
    "RoadGraph": "rankcast.moving.road_graph",
    "SubscriberList": "rankcast.subscriber_list",
    "ZoneNumbers": "rankcast.zone_numbers",
    "Vocabulary": "rankcast.geotext.vocabulary",
    "maxima": "rankcast.covering.maxima",
    "near": "rankcast.tables.boxes",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name == "scoring":
        return import_module("rankcast.scoring")
    if name not in _HOMES:
        raise AttributeError(f"module 'rankcast' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
