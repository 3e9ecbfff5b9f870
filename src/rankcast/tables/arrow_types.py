"""The kind of values of an Arrow type."""

from __future__ import annotations

import pyarrow as pa


def is_string(kind: pa.DataType) -> bool:
    """Whether values are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists of any form."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = (pa.types.is_list_view, pa.types.is_large_list_view)
    return any(test(kind) for test in (*tests, *views))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text, possibly dictionary-encoded, or all null."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return is_string(plain) or bool(pa.types.is_null(plain))


def has_fixed_lists(kind: pa.DataType) -> bool:
    """Whether a type is or contains lists of a fixed size."""
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_fixed_size_list(kind) or any(map(has_fixed_lists, inner))
