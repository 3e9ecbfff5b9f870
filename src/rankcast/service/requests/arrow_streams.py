"""How much an Arrow stream from outside would unpack to, found before Arrow unpacks it.

Buffers of a record batch may be compressed one by one. Each then begins with the number of bytes that it
unpacks to, which Arrow allocates on the word of whoever wrote it. So the messages are read as they lie there
(Arrow verifies their flatbuffers when it reads them), and the announced sizes are added up. Only the few
fields that lead there are looked at: Message (1: type, 2: header), DictionaryBatch (1: data), RecordBatch
(2: buffers, 3: compression).
"""

from __future__ import annotations

import struct

import pyarrow as pa

from rankcast.service.problems import Problem

MOST = 1 << 30  # bytes that all buffers of a stream may have together
_DICTIONARY, _RECORDS = 2, 3
_NOT_COMPRESSED = -1  # announced by a buffer that was left as it is


def check(data: bytes, most: int = MOST) -> None:
    """Refuse a stream whose buffers would unpack to more than `most` bytes.

    Raises:
        Problem: it would, or it cannot be read at all.
    """
    size = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
            size += _unpacked(memoryview(message.metadata), message.body)
            if size > most:
                raise Problem(413, f"The Arrow stream unpacks to more than {most} bytes.")
    except (pa.ArrowException, struct.error, IndexError, ValueError, OSError) as error:
        raise Problem(400, "The body is no Arrow stream, or a damaged one.") from error


def _unpacked(flat: memoryview, body: pa.Buffer | None) -> int:
    """How many bytes the buffers of a message have when they are unpacked."""
    root = _number("<I", flat, 0)
    kind = _field(flat, root, 1)
    header = _field(flat, root, 2)
    if kind is None or header is None or body is None or flat[kind] not in (_DICTIONARY, _RECORDS):
        return 0
    records = _follow(flat, header)
    if flat[kind] == _DICTIONARY:
        data = _field(flat, records, 1)
        if data is None:
            return 0
        records = _follow(flat, data)
    buffers, compression = _field(flat, records, 2), _field(flat, records, 3)
    if buffers is None or compression is None:
        return int(body.size)
    start = _follow(flat, buffers)
    content, size = memoryview(body), 0
    for place in range(_number("<I", flat, start)):
        offset, length = struct.unpack_from("<qq", flat, start + 4 + 16 * place)
        if length <= 0:
            continue
        if offset < 0 or offset + length > body.size:
            raise ValueError("a buffer lies outside of its message")
        announced = _number("<q", content, offset)
        if announced < _NOT_COMPRESSED:
            raise ValueError("a buffer announces a negative size")
        size += length if announced == _NOT_COMPRESSED else announced
    return size


def _number(form: str, data: memoryview, at: int) -> int:
    if at < 0:
        raise ValueError("a message points outside of itself")
    found: int = struct.unpack_from(form, data, at)[0]
    return found


def _field(flat: memoryview, table: int, field: int) -> int | None:
    """Where a field of a table stands; None if it is not there."""
    layout = table - _number("<i", flat, table)
    place = 4 + 2 * field
    if place >= _number("<H", flat, layout):
        return None
    offset = _number("<H", flat, layout + place)
    return table + offset if offset else None


def _follow(flat: memoryview, at: int) -> int:
    """Where the table or vector is that a field points to."""
    return at + _number("<I", flat, at)
