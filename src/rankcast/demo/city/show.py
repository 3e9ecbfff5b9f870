"""`rankcast demo city`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from rankcast.demo import pages
from rankcast.demo.city import report
from rankcast.demo.city.chart import Tracks
from rankcast.demo.city.evening import City
from rankcast.demo.city.screen import PACE, Screen, summary
from rankcast.demo.city.town import Town


def show(console: Console, *, seconds: int, seed: int, target: Path) -> Town:
    """Let an evening pass, as long as it takes to show in so many seconds; then the summary and the report.

    What happens, and all counts, depend on the seed and the seconds alone.
    """
    with console.status("the city wakes up ..."):
        town, tracks = Town(City(seed)), Tracks()
    minutes = PACE * seconds
    Screen(town, minutes, console, tracks.note).play()
    console.print(summary(town, minutes))
    written = pages.write(target, report.page(town, tracks, minutes))
    console.print(f"\nThe map and the plots: {written.as_uri()}", soft_wrap=True)
    return town
