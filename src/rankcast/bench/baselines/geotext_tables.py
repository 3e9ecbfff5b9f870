"""Geo-text top-k by a database inside the process: the inverted file with kmax buffers as tables of DuckDB.

A turn takes a batch of messages as the plain program does (`geotext_buffers`), a statement for each step and
for all subscriptions at once: what has expired goes, messages that reach the score of a buffer come, buffers
that overflow are cut, those with fewer than k are made anew from the window. One thread.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from rankcast.bench.baselines.geotext import Texts
from rankcast.bench.baselines.geotext_buffers import BufferedTermAtATime
from rankcast.bench.workloads import Columns

_SCORE = "s.alpha * (1 - sqrt((s.x - m.x) ** 2 + (s.y - m.y) ** 2) / $diagonal) + (1 - s.alpha) * c.alike"
_ARRIVE = f"""
    insert into best
    with c as (
        select t.row as item, p.row as sub, sum(t.weight * p.weight) as alike
        from message_terms t join postings p on t.term = p.term
        where t.row >= $low and t.row < $high group by all
    )
    select c.sub, c.item, {_SCORE} as score from c
    join s on s.row = c.sub join messages m on m.row = c.item
    where c.alike > 0 and score >= s.bar
"""  # noqa: S608
_CUT = """
    create or replace temp table cut as
    select sub, item, score, row_number() over (partition by sub order by score desc, item desc) as place
    from best where sub in (select sub from best group by sub having count(*) > $most)
"""
_SHORT = """
    create or replace temp table short as select s.row as sub
    from s left join (select sub, count(*) as held from best group by sub) b on b.sub = s.row
    where coalesce(b.held, 0) < $k and s.bar > '-infinity'
"""
_FILL = f"""
    create or replace temp table cut as
    with c as (
        select t.row as item, p.row as sub, sum(t.weight * p.weight) as alike
        from short join postings p on p.row = short.sub join message_terms t on t.term = p.term
        where t.row >= $low and t.row < $high group by all
    ), scored as (
        select c.sub, c.item, {_SCORE} as score from c
        join s on s.row = c.sub join messages m on m.row = c.item where c.alike > 0
    )
    select sub, item, score, row_number() over (partition by sub order by score desc, item desc) as place
    from scored qualify place <= $most
"""  # noqa: S608
_BARS = "update s set bar = cut.score from cut where cut.sub = s.row and cut.place = $most"


class DuckdbGeotext:
    """Buffers in DuckDB that begin as those of a plain program."""

    def __init__(self, plain: BufferedTermAtATime) -> None:
        given = plain.given()
        self._base: Any = importlib.import_module("duckdb").connect(config={"threads": 1})
        self._k, self._most = given.k, given.boards.item.shape[1]
        self._diagonal, (self._oldest, self._next) = given.places.diagonal, given.span
        places, boards = given.places, given.boards
        rows = {"row": np.arange(places.x.size), "x": places.x, "y": places.y}
        self._fill("s", {**rows, "alpha": places.alpha, "bar": boards.bar})
        there = {"row": np.arange(places.message_x.size), "x": places.message_x, "y": places.message_y}
        self._fill("messages", there)
        self._fill("postings", _entries(given.interests))
        self._fill("message_terms", _entries(given.messages))
        held = np.arange(self._most) < boards.size[:, None]
        owner = np.repeat(rows["row"], boards.size)
        self._fill("best", {"sub": owner, "item": boards.item[held], "score": boards.score[held]})

    def turn(self, count: int) -> None:
        """Let the next so many messages in and as many of the oldest go."""
        low, high = self._next, self._next + count
        self._oldest, self._next = self._oldest + count, high
        ask, most = self._base.execute, {"most": self._most}
        ask("delete from best where item < $oldest", {"oldest": self._oldest})
        ask(_ARRIVE, {"low": low, "high": high, "diagonal": self._diagonal})
        ask(_CUT, most)
        ask(
            "delete from best using cut where best.sub = cut.sub and best.item = cut.item and place > $most",
            most,
        )
        ask(_BARS, most)
        ask(_SHORT, {"k": self._k})
        ask("delete from best where sub in (select sub from short)")
        ask("update s set bar = '-infinity' where row in (select sub from short)")
        ask(_FILL, {"low": self._oldest, "high": high, "diagonal": self._diagonal, **most})
        ask("insert into best select sub, item, score from cut")
        ask(_BARS, most)

    def best(self, row: int) -> list[float]:
        """The scores of the result of a subscription."""
        asked = "select score from best where sub = $row order by score desc, item desc limit $k"
        return [score for (score,) in self._base.execute(asked, {"row": row, "k": self._k}).fetchall()]

    def _fill(self, table: str, columns: Columns) -> None:
        self._base.register("given", columns)
        self._base.execute(f"create table {table} as select * from given")  # noqa: S608
        self._base.unregister("given")


def _entries(texts: Texts) -> Columns:
    """A row a term of a text."""
    owner = np.repeat(np.arange(texts.start.size - 1), np.diff(texts.start))
    return {"row": owner, "term": texts.term, "weight": texts.weight}
