"""Text to terms, as an expression of Spark's: tokenise, lowercase, leave stop words out.

| tokenise       | terms are                                                             |
| -------------- | --------------------------------------------------------------------- |
| `"words"`      | runs of letters and digits; an apostrophe inside stays: `don't`       |
| `"whitespace"` | runs of anything but white space: `#pizza`                            |
| `"none"`       | the elements of the column, which is a list of strings already        |
"""

from __future__ import annotations

from dataclasses import dataclass

_RUN = r"[\p{L}\p{M}\p{N}]+"
PATTERNS = {"words": rf"{_RUN}(?:[\x27\u2019]{_RUN})*", "whitespace": r"\S+", "none": ""}

_ENGLISH = (
    "a about above after again all also am an and any are as at be because been before being below between "
    "both but by can could did do does doing don't down during each few for from further had has have having "
    "he her here hers him his how i if in into is isn't it it's its just me more most my no nor not now of "
    "off on once only or other our ours out over own same she should so some such than that the their theirs "
    "them then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with would you your yours"
)
ENGLISH = tuple(_ENGLISH.split())


@dataclass(frozen=True)
class Text:
    """How the terms of a row are had from one of its columns.

    Attributes:
        column: the source's column.
        tokenise: one of the words above.
        lowercase: whether terms are in lower case.
        stop: terms that are left out, however they are written.
    """

    column: str
    tokenise: str = "words"
    lowercase: bool = True
    stop: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """The terms as an expression."""
        terms = quoted(self.column)
        if self.tokenise != "none":
            terms = f"regexp_extract_all({terms}, r'{PATTERNS[self.tokenise]}', 0)"
        if self.lowercase:
            terms = f"transform({terms}, word -> lower(word))"
        if self.stop:
            listed = ", ".join(literal(word.lower()) for word in sorted(set(self.stop)))
            terms = f"filter({terms}, word -> lower(word) not in ({listed}))"
        return terms


def quoted(name: str) -> str:
    """A column's name in an expression."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string in an expression."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
