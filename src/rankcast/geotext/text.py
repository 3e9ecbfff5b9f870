"""Texts as terms: words by Unicode's rules, without case and accents, stop words and endings.

An `Analyzer` normalises a text to NFKC and splits it into runs of letters, marks and digits; an
apostrophe between two letters belongs to the word. Case is folded. Chinese, Japanese and
Korean use few or no spaces: their runs become overlapping pairs of characters. Stop words are
dropped, a stem stands for all forms of a word, and accents are removed last, because stems depend on them.

Cost: O(1) per character; each form of a word is stemmed once and remembered.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError, SettingError, required, shown
from rankcast.geotext.stop_words import STOP_WORDS
from rankcast.tables import schema
from rankcast.tables.readers import read_column
from rankcast.tables.schema import NO_TEXT, NO_VALUES, Batch, Column, Ids, Kind, Names, Terms, arrow

TERMS, TEXT = Column("terms", Kind.TERMS), Column("text", Kind.ID)

LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "nepali", "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish",
    "tamil", "turkish", "yiddish",
)  # fmt: skip
_REMEMBERED = 1 << 16  # stems of words
_PLAIN = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "\u0131": "i", "þ": "th", "ð": "d"}
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_CJK = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_PARTS = re.compile(f"[{_CJK}]+|[^{_CJK}]+")
_IS_CJK = re.compile(f"[{_CJK}]")


@lru_cache(maxsize=1)
def _words() -> re.Pattern[str]:
    """The pattern of a word: letters, digits and their marks; an apostrophe may stand between two of them."""
    marks = "".join(chr(code) for code in range(0x300, 0x1F000) if unicodedata.category(chr(code))[0] == "M")
    one = f"(?:[^\\W_]|[{re.escape(marks)}])"
    return re.compile(f"{one}+(?:['\u2019]{one}+)*")


class Analyzer:
    """Turns texts into terms.

    Args:
        language: the language of stop words and stems, such as "english"; None: neither.
        stem: whether to stem words; by default if there is a language. Needs the extra "text".
        stop_words: words that are no terms; by default those of the language, if known here.
        accents: whether to keep accents; by default "é" becomes "e".

    >>> Analyzer()("Crème brûlée, don't wait! 東京都")
    ['creme', 'brulee', "don't", 'wait', '東京', '京都']
    """

    def __init__(
        self,
        language: str | None = None,
        *,
        stem: bool | None = None,
        stop_words: Sequence[str] | None = None,
        accents: bool = False,
    ) -> None:
        self._language = None if language is None else schema.one_of("language", language, LANGUAGES)
        self._stem = _truth("stem", language is not None if stem is None else stem)
        self._accents = _truth("accents", accents)
        if self._stem and language is None:
            raise SettingError("stem is True, but there is no language", expected="a language")
        given = STOP_WORDS.get(language or "", ()) if stop_words is None else stop_words
        if isinstance(given, str) or not all(isinstance(word, str) for word in given):
            raise SettingError(f"stop_words is {shown(stop_words)}", expected="a list of words")
        self._own = None if stop_words is None else list(stop_words)
        self._stop = frozenset(form for word in given for form in (_folded(word), _bare(_folded(word))))
        self._stemmer = None
        if self._stem:
            snowball = required("snowballstemmer", "text", needs="snowballstemmer")
            self._stemmer = snowball.stemmer(language)
        self._term = lru_cache(maxsize=_REMEMBERED)(self._term_of)

    def __call__(self, text: str) -> list[str]:
        """The terms of a text, in its order; repeated words are repeated."""
        found: list[str] = []
        for word in _words().findall(_folded(text)):
            if _IS_CJK.search(word) is None:
                found.append(self._term(word))
                continue
            for part in _PARTS.findall(word):
                pairs = _IS_CJK.match(part) is not None and len(part) > 1
                found += [part[i : i + 2] for i in range(len(part) - 1)] if pairs else [self._term(part)]
        return [term for term in found if term]

    def terms(self, texts: Iterable[str]) -> list[list[str]]:
        """The terms of each text."""
        return [self(text) for text in texts]

    def settings(self) -> dict[str, Any]:
        """Its settings, as JSON; `Analyzer(**settings)` creates the same analyzer."""
        return {
            "language": self._language,
            "stem": self._stem,
            "stop_words": self._own,
            "accents": self._accents,
        }

    @classmethod
    def of(cls, settings: Mapping[str, Any] | Analyzer | None) -> Analyzer | None:
        """An analyzer, or one created from its settings; None stays None."""
        if settings is None or isinstance(settings, Analyzer):
            return settings
        if not isinstance(settings, Mapping):
            raise SettingError(
                f"analyzer is {shown(settings)}", expected="an Analyzer, its settings, or None"
            )
        for name in settings:
            if name not in ("language", "stem", "stop_words", "accents"):
                known = ("language", "stem", "stop_words", "accents")
                raise SettingError.unknown(name, known, where="analyzer", word="setting")
        return cls(**settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Analyzer) and self.settings() == other.settings()

    def __hash__(self) -> int:
        return hash(repr(self.settings()))

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self.settings().items())
        return f"Analyzer({', '.join(said)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Analyzer.of, (self.settings(),)

    def _term_of(self, word: str) -> str:
        """The term of a word; an empty text for a stop word."""
        if word in self._stop:
            return ""
        stem = word if self._stemmer is None else self._stemmer.stemWord(word)
        return stem if self._accents else _bare(stem)


def word_column(analyzer: Analyzer | None, *, blank: bool, required: bool = True) -> Column:
    """The column of words: terms, or texts for an analyzer. `blank`: a null is a text without words."""
    if analyzer is None:
        return replace(TERMS, required=required, nullable=blank)
    return replace(TEXT, kind=Kind.NAME if blank else Kind.ID, required=required, nullable=blank)


def read_terms(batch: Batch, analyzer: Analyzer, where: str) -> Terms:
    """The column `text` of a batch as terms."""
    texts: Ids | Names = batch["text"]
    some = bool(texts.known.any()) if isinstance(texts, Names) else batch.size > 0
    if not some:  # of no kind
        return no_terms(batch.size)
    texts = texts.ids if isinstance(texts, Names) else texts  # an empty text for a null
    if texts.kind != "str":
        raise InputError("holds integers", where=where, column="text", row=0, expected="a string")
    return as_terms(analyzer.terms(arrow(texts).to_pylist()), where)


def no_terms(size: int) -> Terms:
    """A column of so many texts without terms."""
    return Terms(np.zeros(size + 1, np.int64), Ids("str", NO_VALUES, np.zeros(1, np.int64), NO_TEXT))


def analyzed(terms: Terms, analyzer: Analyzer, where: str) -> Terms:
    """Lists of words as their terms."""
    words, starts = analyzer.terms(arrow(terms.words).to_pylist()), terms.starts.tolist()
    rows = [list(chain.from_iterable(words[first:last])) for first, last in pairwise(starts)]
    return as_terms(rows, where)


def as_terms(rows: list[list[str]], where: str) -> Terms:
    """Lists of words as a column of terms."""
    found: Terms = read_column(pa.array(rows, pa.list_(pa.string())), TERMS, where)
    return found


def _folded(text: str) -> str:
    """A text in normal form, without case; a typographic apostrophe becomes a plain one."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace(
        "\u2019", "'"
    )


def _bare(word: str) -> str:
    """A word without the accents of European scripts; marks of other scripts are part of their letters."""
    if word.isascii():
        return word
    apart = _ACCENTS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", apart).translate(_PLAIN)


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"{name} is {shown(value)}", expected="True or False")
    return value
