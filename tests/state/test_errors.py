"""Errors: their text says what, where, what was expected and what to do; their parts stay at hand."""

from __future__ import annotations

import pickle

import pytest

from rankcast import errors


def test_bad_input_names_column_row_and_what_was_expected() -> None:
    error = errors.InputError(
        "has 3 dimensions",
        where="subscriptions",
        column="weights",
        row=17,
        expected="4",
        detail="Dimensions are fixed.",
        hint="Pass four.",
    )
    assert str(error).splitlines() == [
        'column "weights" of "subscriptions" has 3 dimensions, expected 4',
        "Detail: Dimensions are fixed. First such row: 17.",
        "Hint: Pass four.",
    ]
    assert (error.column, error.row, error.detail, error.hint) == (
        "weights",
        17,
        "Dimensions are fixed.",
        "Pass four.",
    )
    assert isinstance(error, ValueError)


def test_parts_that_are_not_given_are_not_told() -> None:
    assert str(errors.InputError("is odd")) == "is odd"
    assert str(errors.InputError("is odd", where="events")) == '"events": is odd'
    assert (
        str(errors.InputError("is null", column="y", row=0))
        == 'column "y" is null\nDetail: First such row: 0.'
    )


@pytest.mark.parametrize("key", ["leafsize", "leaf-size", "Leaf_size", "leaf_sizes"])
def test_an_unknown_word_gets_the_nearest_known_one(key: str) -> None:
    error = errors.SettingError.unknown(key, {"universe", "leaf_size"}, where="tuning")
    assert f'unknown key "{key}", expected one of: leaf_size, universe' in str(error)
    assert error.hint == 'Did you mean "leaf_size"?'


def test_an_unknown_word_unlike_any_gets_no_guess() -> None:
    assert errors.SettingError.unknown("zzz", ["universe"], where="tuning").hint is None
    assert "no key at all" in str(errors.SettingError.unknown(3, [], where="tuning"))


def test_a_missing_extra_says_how_to_get_it() -> None:
    error = errors.MissingExtraError("plot", needs="matplotlib")
    assert 'pip install "rankcast[plot]"' in str(error)
    assert isinstance(error, ImportError)


@pytest.mark.parametrize(
    "error",
    [
        errors.InputError("is NaN", where="events", column="y", row=3, detail="why", hint="what"),
        errors.SettingError.unknown("a", ["b"], where="x"),
        errors.SnapshotError("damaged", detail="why"),
        errors.JournalError("damaged", hint="what"),
        errors.ShardError("closed"),
        errors.StaleTokenError("stale"),
        errors.MissingExtraError("plot", needs="matplotlib"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_the_way_to_another_process(error: errors.RankcastError) -> None:
    found = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(found) is type(error)
    assert (str(found), vars(found)) == (str(error), vars(error))
