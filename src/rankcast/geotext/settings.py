"""Settings and sizes of an engine: how settings stand in a snapshot, and what parts its bytes are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.core.spec import LISTS, Setting, any_other, larger
from rankcast.errors import SettingError, shown
from rankcast.geotext.text import TERMS, TEXT
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.structures.distance import HALF_CIRCUMFERENCE

SPEC = replace(
    LISTS,
    axes=lambda settings: (("x", 0.0), ("y", 0.0)),
    settings={
        "alpha": Setting(changeable=any_other),
        "window": Setting(duration=True, changeable=larger),
        "half_life": Setting(duration=True),
        "vocabulary": Setting(
            documents=lambda rows, settings: Vocabulary.fit(rows, analyzer=settings.get("analyzer")),
            column=lambda settings: TERMS.name if settings.get("analyzer") is None else TEXT.name,
        ),
    },
    copying="rankcast.geotext.dividing:copy",
    title="the k best recent messages near me about my words",
)
PARTS = {  # names of parts in `memory()`, and the prefixes of their arrays in a snapshot; the first that fits
    "reverse lists": ("live.buffers_link_",),
    "buffers": ("live.buffers_",),
    "postings": ("live.readers_",),
    "window": ("message.", "window.", "text.", "said.", "source.", "copy.", "live.messages_", "live.age_"),
    "subscriptions": ("subscription.", "interest.", "phrase.", "live."),
    "words": ("term.",),
    "vectors": ("subscription_vector.", "message_vector."),
}


def truth(name: str, value: object) -> bool:
    """A setting that is true or false."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name} is {shown(value)}", expected="True or False")
    return bool(value)


def window_to_json(window: int | timedelta) -> int | dict[str, int]:
    """The setting of a window as it stands in a snapshot."""
    if isinstance(window, timedelta):
        return {"microseconds": window // timedelta(microseconds=1)}
    return int(window)


def from_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they stand in a snapshot, as an engine takes them."""
    found = dict(settings)
    for name in ("window", "half_life"):
        if isinstance(found.get(name), dict):
            found[name] = timedelta(microseconds=found[name]["microseconds"])
    if found["metric"] == "haversine":
        found.setdefault("scale", HALF_CIRCUMFERENCE)
    return found


def bytes_by_part(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Bytes of the arrays of a snapshot, by those of `PARTS` that it has."""
    sizes = dict.fromkeys(PARTS, 0)
    for name, array in arrays.items():
        part = next((part for part, names in PARTS.items() if name.startswith(names)), None)
        if part is not None:
            sizes[part] += array.nbytes
    return {part: size for part, size in sizes.items() if size}
