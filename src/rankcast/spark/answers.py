"""What comes out of a shard: the table of deltas or matches, with the rows that were refused among them.

| deltas          | matches         | meaning                                                               |
| --------------- | --------------- | --------------------------------------------------------------------- |
| `subscription`  | `subscription`  | whose result; the id of a refused row of subscriptions (or positions) |
| `item`          | `event`         | what is listed; the id of a refused row of events (or objects)        |
| `op`            | `op`            | `enter`, `leave`, `update`; `match`; `refused`                        |
| `score`, `rank` | `score`, `rank` | null on `leave` and `refused`                                         |
| `seq`           | `seq`           | a sequence number, see below                                          |
| `reason`        | `reason`        | why a row was refused                                                 |

`seq` of deltas is the highest sequence number that came in up to and in their micro-batch, over all inputs;
that of a match is its event's, that of a refused row its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rankcast.spark.applying import Kept
from rankcast.spark.keeping import Refusal
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


def table(kept: Kept, form: pa.Schema, seq: int | None, *, told: bool) -> pa.Table:
    """The output of one batch.

    Args:
        kept: what the batch came to.
        form: the output's schema.
        seq: the highest sequence number that deltas reflect.
        told: whether this shard tells refused rows of inputs that every shard gets.
    """
    answer = kept.answer
    size = answer.num_rows
    if "seq" not in answer.column_names:
        answer = answer.append_column("seq", pa.array([seq] * size, pa.int64()))
    if "op" not in answer.column_names:
        answer = answer.append_column("op", pa.array([MATCH] * size, pa.string()))
    answer = answer.append_column("reason", pa.nulls(size, pa.string()))
    parts = [answer.select(form.names).cast(form)]
    refused = [refusal for refusal in kept.refused if refusal.role.divided or told]
    if refused:
        parts.append(_refused(refused, form))
    return pa.concat_tables(parts)


def _refused(refused: Sequence[Refusal], form: pa.Schema) -> pa.Table:
    """Refused rows in the form of the output."""
    rows = [
        {
            "op": REFUSED,
            refusal.role.column: refusal.id,
            "seq": refusal.seq,
            "reason": refusal.reason,
        }
        for refusal in refused
    ]
    return pa.Table.from_pylist(rows, schema=form)
