"""What comes out of a shard: the table of deltas or matches, with the rows that were refused among them.

| deltas          | matches         | meaning                                                               |
| --------------- | --------------- | --------------------------------------------------------------------- |
| `subscription`  | `subscription`  | whose result; the id of a refused row of subscriptions (or positions) |
| `item`          | `event`         | what is listed; the id of a refused row of events (or objects)        |
| `op`            | `op`            | `enter`, `leave`, `update`; `match`; `refused`                        |
| `score`, `rank` | `score`, `rank` | null on `leave` and `refused`                                         |
| `seq`           | `seq`           | a sequence number, see below                                          |
| `reason`        | `reason`        | why a row was refused                                                 |

`seq` is the highest sequence number of the rows that an answer reflects. Of deltas it is the highest that
came in up to and in their micro-batch, over all inputs. A match reflects its event and the subscriptions
before it: `seq` is the event's, or, if that came behind, the highest of the commands that had come before. A
refused row has its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rankcast.spark.applying import Kept
from rankcast.spark.roles import names_of

REFUSED, MATCH = "refused", "match"
_ARROW = {"long": pa.int64(), "string": pa.string()}


def columns(kind: str, ids: Mapping[str, str]) -> dict[str, str]:
    """The output columns of an engine and their Spark types; `ids` has those of each input's ids."""
    subscription, other, source = names_of(kind)
    mine, theirs = (subscription, ids["subscriptions"]), (other, ids[source])
    rest = [("seq", "long"), ("reason", "string")]
    if kind == "RankedMatcher":
        return dict([theirs, ("rank", "long"), mine, ("score", "double"), ("op", "string"), *rest])
    return dict([mine, ("op", "string"), theirs, ("score", "double"), ("rank", "long"), *rest])


def schema(kind: str, ids: Mapping[str, str]) -> pa.Schema:
    """The same as an Arrow schema."""
    forms = {**_ARROW, "double": pa.float64()}
    return pa.schema([(name, forms[form]) for name, form in columns(kind, ids).items()])


def table(kept: Kept, form: pa.Schema) -> pa.Table:
    """The output of one batch: its answer, then the rows set aside."""
    answer = kept.answer
    if "op" not in answer.column_names:
        answer = answer.append_column("op", pa.repeat(MATCH, answer.num_rows))
    answer = answer.append_column("reason", pa.nulls(answer.num_rows, pa.string()))
    rows = [
        {"op": REFUSED, refusal.role.column: refusal.id, "seq": refusal.seq, "reason": refusal.reason}
        for refusal in kept.refused
    ]
    refused = [pa.Table.from_pylist(rows, schema=form)] if rows else []
    return pa.concat_tables([answer.select(form.names).cast(form), *refused])
