"""A pretended object store: flat keys, no folders, no renaming; a file is there only once it was closed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import fs


class _Upload:
    """A file being written."""

    def __init__(self, store: dict[str, bytes], key: str) -> None:
        self._store, self._key, self._data = store, key, bytearray()
        self.closed = False

    def write(self, data: Any) -> int:
        self._data += bytes(data)
        return len(data)

    def flush(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self._store[self._key] = bytes(self._data)
        self.closed = True


class ObjectStore(fs.FileSystemHandler):  # type: ignore[misc]
    """Keys and bytes; folders are what keys have in common."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def get_type_name(self) -> str:
        return "pretended"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        kinds = {True: fs.FileType.File, False: fs.FileType.NotFound}
        return [fs.FileInfo(path, kinds[path in self.files]) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        inside = f"{selector.base_dir}/"
        names = {key[len(inside) :].split("/")[0] for key in self.files if key.startswith(inside)}
        return [
            fs.FileInfo(
                inside + name, fs.FileType.File if inside + name in self.files else fs.FileType.Directory
            )
            for name in sorted(names)
        ]

    def create_dir(self, path: str, recursive: bool) -> None:
        pass

    def delete_dir(self, path: str) -> None:
        for key in [key for key in self.files if key.startswith(f"{path}/")]:
            del self.files[key]

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> None:
        self.files.clear()

    def delete_file(self, path: str) -> None:
        del self.files[path]

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError("an object store has no renaming")

    def copy_file(self, src: str, dest: str) -> None:
        self.files[dest] = self.files[src]

    def open_input_stream(self, path: str) -> Any:
        if path not in self.files:
            raise FileNotFoundError(path)
        return pa.PythonFile(pa.BufferReader(self.files[path]), mode="r")

    def open_input_file(self, path: str) -> Any:
        return self.open_input_stream(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(self.files, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError("an object store does not append")
