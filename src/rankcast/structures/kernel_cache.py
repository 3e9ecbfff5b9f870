"""Compiled kernels on disk, for as long as no source that they were made from has changed.

Numba's own cache looks at the file of a kernel alone and answers with old code after an edit in the file of
a callee, or of a constant. Here an entry belongs to a stamp: a hash of the source of the kernel's module and
of all that it imports, transitively, from its own top-level package and from rankcast. No times of files are
in it, so a copied tree keeps its cache. The name of a file has the stamp and a tag of the environment
(versions of Python, Numba, llvmlite and NumPy, and Numba's settings); the processor is in Numba's key. When
the first kernel of a module is saved, files of the same module and tag with another stamp are removed.

A process that still runs the code from before an edit must not save it under the stamp of after: kernels
with a source that changed since the process began are neither saved nor loaded.

Entries lie in `NUMBA_CACHE_DIR` if that is set, else in `__pycache__` beside the source, else in the user's
cache directory, else in one of this user's in the directory for temporary files; the first that can be
written to. Without any of them nothing is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.misc.appdirs import AppDirs

BEGAN = time.time_ns()
OURS = __name__.partition(".")[0]
SHORT = 12  # hexadecimal digits of a hash in the name of a file; the index has all of them

# Import statements, found faster than by parsing. What a docstring has of them does no harm.
_FROM = re.compile(rb"(?:^|;)[ \t]*from[ \t]+([\w.]+)[ \t]*import[ \t]*(\([^)]*\)|[^\n;]*)", re.MULTILINE)
_IMPORT = re.compile(rb"(?:^|;)[ \t]*import[ \t]+([^\n;]+)", re.MULTILINE)
_NOISE = re.compile(rb"#[^\n]*|\\\r?\n")  # comments, and lines that go on


@cache
def environment_tag() -> str:
    """What compiled code depends on besides sources and processor, as a short hash."""
    versions = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__, np.__version__)
    settings = (config.BOUNDSCHECK, config.OPT, config.DEBUGINFO_DEFAULT)
    return hashlib.sha256(repr((versions, settings)).encode()).hexdigest()[:SHORT]


@cache
def source_stamp(module: str, path: str) -> str | None:
    """Hash the sources of a module and of its import closure; None if one of them cannot be relied on."""
    todo, seen, digest = [(module, path)], {path}, hashlib.sha256()
    roots = {module.partition(".")[0], OURS}
    found: dict[str, bytes] = {}
    while todo:
        name, file = todo.pop()
        source = _source(name, file)
        if source is None:
            return None
        found[name] = hashlib.sha256(source).digest()
        for imported in _imports(name, file, source):
            target = _file(imported) if imported.partition(".")[0] in roots else None
            if target and target not in seen:
                seen.add(target)
                todo.append((imported, target))
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + found[name])
    return digest.hexdigest()


@cache
def _source(module: str, path: str) -> bytes | None:
    """The source of a module; None if there is none or it changed after this process began."""
    try:
        found = Path(path)
        while not found.exists():  # a path within a zip file
            found = found.parent
        status = found.stat()
        if not stat.S_ISREG(status.st_mode) or max(status.st_ctime_ns, status.st_mtime_ns) > BEGAN:
            return None
        if str(found) == path:
            return found.read_bytes()
        loader: Any = getattr(sys.modules[module.partition(".")[0]], "__loader__", None)
        return bytes(loader.get_data(path))
    except (OSError, KeyError, AttributeError):
        return None


def _imports(module: str, path: str, source: bytes) -> Iterator[str]:
    """Names of modules that a source imports; of `from a import b` that is `a.b` if it is one, else `a`."""
    package = module if Path(path).name == "__init__.py" else module.rpartition(".")[0]
    source = _NOISE.sub(b"", source)
    for names in _IMPORT.findall(source):
        for name in names.decode().split(","):
            yield name.split(" as ")[0].strip()
    for origin, names in _FROM.findall(source):
        base = origin.decode()
        if base.startswith("."):
            level = len(base) - len(base.lstrip("."))
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) - level + 1], *filter(None, [base.lstrip(".")])])
        for name in names.decode().strip("() \t\r\n").split(","):
            part = f"{base}.{name.split(' as ')[0].strip()}"
            yield part if _file(part) else base


@cache
def _file(module: str) -> str | None:
    """The file of a module by its name, below the directory of its top-level package."""
    root, *rest = module.split(".")
    top = getattr(sys.modules.get(root), "__file__", None)
    if not top or not all(part.isidentifier() for part in rest):
        return None
    if not rest:
        return str(top)
    place = Path(top).parent.joinpath(*rest)
    listed = _listing(str(place.parent))
    if f"{place.name}.py" in listed:
        return f"{place}.py"
    return str(place / "__init__.py") if "__init__.py" in _listing(str(place)) else None


@cache
def _listing(directory: str) -> frozenset[str]:
    """Names in a directory; in one within a zip file, as its importer knows them."""
    try:
        return frozenset(path.name for path in Path(directory).iterdir())
    except OSError:
        importer = sys.path_importer_cache.get(directory)
        prefix = getattr(importer, "prefix", "")
        files = getattr(importer, "_files", {})
        return frozenset(name[len(prefix) :] for name in files if name.startswith(prefix))


@cache
def _writable(directory: Path) -> bool:
    """Whether files can be written there; makes the directory if need be."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _private(directory: Path) -> bool:
    """Whether a directory among temporary files is this user's alone: code is loaded from it."""
    if not hasattr(os, "getuid"):
        return False
    try:
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


@cache
def cache_directory(sources: Path) -> Path | None:
    """Where compiled forms of kernels from a directory of sources are kept."""
    part = _CacheLocator.get_suitable_cache_subpath(str(sources / "module.py"))
    if config.CACHE_DIR and _writable(chosen := Path(config.CACHE_DIR, part)):
        return chosen
    if _writable(beside := sources / "__pycache__"):
        return beside
    if _writable(users := Path(AppDirs(appname=OURS, appauthor=False).user_cache_dir, part)):
        return users
    own = Path(tempfile.gettempdir(), f"{OURS}-{getattr(os, 'getuid', int)()}")
    return own / part if _private(own) and _writable(own / part) else None


class Locator(_CacheLocator):
    """Where a kernel's compiled forms lie and which sources they belong to."""

    def __init__(self, path: str, directory: Path, stamp: str) -> None:
        self._py_file = path  # Numba names it in a warning
        self._directory, self._stamp = directory, stamp

    def ensure_cache_path(self) -> None:
        """Make the directory again if somebody removed it."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The directory."""
        return str(self._directory)

    def get_source_stamp(self) -> str:
        """The hash of the import closure."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """What stands in the name of a file for environment and sources."""
        return f"{environment_tag()}-{self._stamp[:SHORT]}"

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """Locate a kernel; None if it cannot be kept."""
        stamp = source_stamp(py_func.__module__, py_file)
        directory = cache_directory(Path(py_file).absolute().parent) if stamp else None
        return cls(py_file, directory, stamp) if stamp and directory else None


class Forms(CompileResultCacheImpl):
    """How compiled forms are written, with a `Locator` whatever Numba is set to."""

    def __init__(self, py_func: Any, locator: Locator) -> None:
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = locator
        self.module = Path(locator._py_file).stem
        self._filename_base = self.get_filename_base(
            f"{self.module}.{py_func.__qualname__}", getattr(sys, "abiflags", "")
        )


class Files(IndexDataCacheFile):
    """An index and data files of one kernel.

    Data files have random names and are written before the index, so that two processes that save at once
    can lose an entry, but never find one's code under the other's key.
    """

    def __init__(self, forms: Forms) -> None:
        locator = forms.locator
        super().__init__(locator.get_cache_path(), forms.filename_base, locator.get_source_stamp())
        self._forms = forms

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled form, unless another process was quicker."""
        _sweep(self._cache_path, self._forms.module, self._forms.locator.get_disambiguator())
        if key in self._load_index():
            return
        name = f"{self._forms.filename_base}.{uuid.uuid4().hex[:SHORT]}.nbc"
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


@cache
def _sweep(directory: str, module: str, current: str) -> None:
    """Remove what older sources of a module left in this environment; once a process."""
    tag = current.partition("-")[0]
    for stale in Path(directory).glob(f"{module}.*-{tag}-*.nb[ic]*"):
        if f"-{current}." not in stale.name:
            with contextlib.suppress(OSError):
                stale.unlink()


class KernelCache(FunctionCache):
    """The cache of one kernel, set up when it is first used. An error of the file system is a miss."""

    def __init__(self, py_func: Any) -> None:
        self._name, self._py_func = repr(py_func), py_func
        self.enable()

    @cached_property
    def _impl(self) -> Forms | None:
        locator = Locator.from_function(self._py_func, inspect.getfile(self._py_func))
        return Forms(self._py_func, locator) if locator else None

    @cached_property
    def _cache_file(self) -> Files:
        assert self._impl
        return Files(self._impl)

    @property
    def cache_path(self) -> str | None:
        """The directory, if the kernel can be kept."""
        return self._impl.locator.get_cache_path() if self._impl else None

    def flush(self) -> None:
        """Forget the kernel's compiled forms."""
        if self._impl:
            super().flush()

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        return super()._load_overload(sig, target_context) if self._impl else None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._impl:
            super()._save_overload(sig, data)

    @contextlib.contextmanager
    def _guard_against_spurious_io_errors(self) -> Iterator[None]:
        with contextlib.suppress(OSError):
            yield

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), self._py_func.__code__.co_firstlineno)
