"""Names of the columns that the runtime adds to rows on their way to an engine, and takes out again there."""

SEQ, OP = "__seq", "__op"  # what an input's own columns for order and command are called once packed
REASON = "__reason"  # a column of any input: why a row is refused before an engine sees it, null if it is not
OWN = frozenset({SEQ, OP, REASON})
