"""Comparing two sets of records: what changed by more than the noise.

A contender counts as slower when every new run was slower than every old one and the medians differ by more
than `MARGIN`. If nothing had changed, all n new runs would lie above all m old ones with probability
1 / C(n + m, n), 1 in 252 for five against five; the margin keeps a drift of the machine between two runs from
being called a change of the code. Where both records have a ratio to a baseline of the same run, the ratio
must have fallen too: the baseline went through the same drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankcast.bench.records import Key, Measurement, Record

MARGIN = 0.10


@dataclass(frozen=True)
class Change:
    """How one contender of one case moved; `change` is new over old median time a unit (2: twice as slow)."""

    case: str
    parameters: str
    contender: str
    old_seconds: float
    new_seconds: float
    change: float
    spread: float
    old_ratio: float | None
    new_ratio: float | None
    verdict: str


def compare(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> list[Change]:
    """Compare what both sides have; the slower ones come first, each group by case."""
    changes = [
        _change(new[key], before, after)
        for key in new
        if key in old
        for after in new[key].contenders
        for before in old[key].contenders
        if before.name == after.name
    ]
    order = {"SLOWER": 0, "faster": 1, "": 2}
    return sorted(changes, key=lambda each: (order[each.verdict], each.case, each.parameters))


def lines(changes: list[Change], old: Mapping[Key, Record], new: Mapping[Key, Record]) -> Iterator[str]:
    """Write the comparison for people."""
    if _machines(old) != _machines(new):
        yield "The two sets come from different machines: trust the ratios, not the seconds."
    if changes:
        yield f"{'':7} {'change':>7} {'spread':>7} {'old s':>10} {'new s':>10} {'ratio':>19}  case"
    for each in changes:
        known = each.old_ratio is not None and each.new_ratio is not None
        ratio = f"{each.old_ratio:8,.2f} > {each.new_ratio:8,.2f}" if known else ""
        yield (
            f"{each.verdict:7} {each.change:6.2f}x {each.spread:6.0%} {each.old_seconds:10.4f} "
            f"{each.new_seconds:10.4f} {ratio:>19}  {each.case} {each.parameters} {each.contender}"
        )
    slower = sum(each.verdict == "SLOWER" for each in changes)
    yield f"{len(changes)} compared, {slower} slower than the noise; {_only(old, new)}."


def _change(record: Record, before: Measurement, after: Measurement) -> Change:
    """Compare one contender with its former self."""
    old_units = [seconds / before.work for seconds in before.seconds]
    new_units = [seconds / after.work for seconds in after.seconds]
    change = (after.median / after.work) / (before.median / before.work)
    return Change(
        case=record.case,
        parameters=" ".join(f"{name}={value}" for name, value in record.parameters.items()),
        contender=after.name,
        old_seconds=before.median,
        new_seconds=after.median,
        change=change,
        spread=max(_spread(before), _spread(after)),
        old_ratio=before.ratio,
        new_ratio=after.ratio,
        verdict=_verdict(old_units, new_units, change, _ratio_change(before, after, record)),
    )


def _verdict(old: list[float], new: list[float], change: float, ratio: float | None) -> str:
    """Say whether a change is beyond the noise; `ratio` is the new ratio over the old, if both have one."""
    if min(new) > max(old) and change > 1 + MARGIN and (ratio is None or ratio < 1 / (1 + MARGIN)):
        return "SLOWER"
    if max(new) < min(old) and change < 1 / (1 + MARGIN) and (ratio is None or ratio > 1 + MARGIN):
        return "faster"
    return ""


def _ratio_change(before: Measurement, after: Measurement, record: Record) -> float | None:
    """Give the new ratio over the old one; the baseline itself has none, its ratio is 1 by definition."""
    if before.ratio is None or after.ratio is None or after.name == record.baseline:
        return None
    return after.ratio / before.ratio


def _spread(measured: Measurement) -> float:
    """Give the range of the runs over their median."""
    return (max(measured.seconds) - measured.least) / max(measured.median, 1e-12)


def _machines(records: Mapping[Key, Record]) -> set[tuple[object, object]]:
    """Name the processors that records come from."""
    return {(record.machine.get("cpu"), record.machine.get("cores")) for record in records.values()}


def _only(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> str:
    """Say what only one side has."""
    return f"{len(set(old) - set(new))} only in the old records, {len(set(new) - set(old))} only in the new"
