"""Comparing two sets of records: what changed by more than the noise.

Where a record has a baseline, a contender is judged by its time over the baseline's, round by round: both ran
within moments of each other, so a machine that was busier for one of the records does not count. The baseline
itself is then the drift of the machine, and is shown but not judged. Without a baseline seconds are compared.

A contender counts as slower when every new round was slower than every old one, and the medians differ by
more than `MARGIN` and by more than either record's own spread. If nothing had changed, all n new rounds would
lie above all m old ones with probability 1 / C(n + m, n): 1 in 252 for five against five.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankcast.bench.records import Key, Measurement, Record

MARGIN = 0.10
DRIFT = "drift"


@dataclass(frozen=True)
class Change:
    """How one contender of one case moved.

    Attributes:
        case: its name.
        parameters: in words.
        contender: its name.
        old_seconds: median of the old runs.
        new_seconds: median of the new runs.
        change: new over old of what is judged, a unit of work; 2 is twice as slow.
        spread: range of the rounds over their median, the larger of both records.
        by: what is judged, `ratio` or `seconds`, or `drift` for a baseline.
        verdict: `SLOWER`, `faster` or nothing.
    """

    case: str
    parameters: str
    contender: str
    old_seconds: float
    new_seconds: float
    change: float
    spread: float
    by: str
    verdict: str


def compare(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> list[Change]:
    """Compare what both sides have; the slower ones come first, each group by case."""
    changes = [
        _change(old[key], new[key], before, after)
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
        yield "The two sets come from different machines: trust what is judged by ratio, not the seconds."
    if changes:
        yield f"{'':7} {'change':>7} {'spread':>7} {'by':8} {'old s':>10} {'new s':>10}  case"
    for each in changes:
        yield (
            f"{each.verdict:7} {each.change:6.2f}x {each.spread:7.0%} {each.by:8} {each.old_seconds:10.4f} "
            f"{each.new_seconds:10.4f}  {each.case} {each.parameters} {each.contender}"
        )
    slower = sum(each.verdict == "SLOWER" for each in changes)
    yield f"{len(changes)} compared, {slower} slower than the noise; {_only(old, new)}."


def _change(old: Record, new: Record, before: Measurement, after: Measurement) -> Change:
    """Compare one contender with its former self."""
    by = _judged_by(old, new, after.name)
    one = _rounds(before, _baseline(old) if by == "ratio" else None)
    other = _rounds(after, _baseline(new) if by == "ratio" else None)
    change = statistics.median(other) / statistics.median(one)
    spread = max(_spread(one), _spread(other))
    return Change(
        case=new.case,
        parameters=" ".join(f"{name}={value}" for name, value in new.parameters.items()),
        contender=after.name,
        old_seconds=before.median,
        new_seconds=after.median,
        change=change,
        spread=spread,
        by=by,
        verdict="" if by == DRIFT else _verdict(one, other, change, max(MARGIN, spread)),
    )


def _judged_by(old: Record, new: Record, name: str) -> str:
    """Say what a contender is judged by."""
    if new.baseline is None or old.baseline != new.baseline:
        return "seconds"
    return DRIFT if name == new.baseline else "ratio"


def _baseline(record: Record) -> Measurement:
    """Find the baseline of a record that has one."""
    return next(each for each in record.contenders if each.name == record.baseline)


def _rounds(measured: Measurement, baseline: Measurement | None) -> list[float]:
    """Give the time a unit of every round, over that of the baseline in the same round if there is one."""
    own = [max(seconds, 1e-12) / measured.work for seconds in measured.seconds]
    if baseline is None:
        return own
    others = [max(seconds, 1e-12) / baseline.work for seconds in baseline.seconds]
    return [mine / other for mine, other in zip(own, others, strict=False)]


def _verdict(old: list[float], new: list[float], change: float, noise: float) -> str:
    """Say whether a change is beyond the noise."""
    if min(new) > max(old) and change > 1 + noise:
        return "SLOWER"
    if max(new) < min(old) and change < 1 / (1 + noise):
        return "faster"
    return ""


def _spread(rounds: list[float]) -> float:
    """Give the range of the rounds over their median."""
    return (max(rounds) - min(rounds)) / statistics.median(rounds)


def _machines(records: Mapping[Key, Record]) -> set[tuple[object, object]]:
    """Name the processors that records come from."""
    return {(record.machine.get("cpu"), record.machine.get("cores")) for record in records.values()}


def _only(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> str:
    """Say what only one side has."""
    return f"{len(set(old) - set(new))} only in the old records, {len(set(new) - set(old))} only in the new"
