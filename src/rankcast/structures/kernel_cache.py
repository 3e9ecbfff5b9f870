"""Compiled kernels on disk, for as long as no source that they were made from has changed.

Numba's own cache looks at the file of a kernel alone and answers with old code after an edit in the file of
a callee, or of a constant. Here a compiled form belongs to a stamp: a hash of the source of the kernel's
module and of all that it imports, transitively, from its own top-level package and from rankcast. No times of
files are in it, so a copied tree keeps its cache. A form is a file of its own. Its name has the stamp, a tag
of the environment (versions of Python, Numba, llvmlite and NumPy, and Numba's settings) and a digest of
Numba's key (types of arguments, processor); the key is in the file, too, and must be equal.

Of NumPy's version major and minor count, of the others every digit. Numba itself asks for no more wherever
it makes code for a NumPy (`numba.np.numpy_support.numpy_version`), machine code reaches arrays through
Numba's own library, which one wheel of Numba has for every NumPy it supports, and a patch release of NumPy
changes neither its binary interface nor its functions.

A process that still runs the code from before an edit must not save it under the stamp of after: kernels
with a source that changed since the process began are neither saved nor loaded.

A form is looked for in every place: in what came with the wheel (`rankcast/compiled`, made by `ship`), in
`NUMBA_CACHE_DIR`, in `__pycache__` beside the source, in the user's cache directory, and in one of this
user's in the directory for temporary files. It is saved in the first but the wheel's that can be written to;
without any, nothing is kept. To load a form is to run code, so a directory counts only if nobody else can
write there: it belongs to this user or to root, and to nobody's group. Beside the sources it is enough that
whoever can write there can write the sources. When a form is saved, those of older sources of its module go;
in a place that several trees share, which is all but `__pycache__`, those of the last `KEPT` sources stay.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import inspect
import math
import os
import re
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.misc.appdirs import AppDirs
from numba.np.numpy_support import numpy_version

BEGAN = time.time_ns()
OURS = __name__.partition(".")[0]
COMPILED = Path(__file__).parent.parent / "compiled"  # what came with the wheel
VERSIONS = COMPILED / "versions.txt"
SHORT = 12  # hexadecimal digits of a hash in the name of a file
KEPT = 8  # sources of a module whose forms stay in a shared place
OTHERS = stat.S_IWGRP | stat.S_IWOTH

# Import statements, found faster than by parsing. What a docstring has of them does no harm.
_FROM = re.compile(rb"(?:^|;)[ \t]*from[ \t]+([\w.]+)[ \t]*import[ \t]*(\([^)]*\)|[^\n;]*)", re.MULTILINE)
_IMPORT = re.compile(rb"(?:^|;)[ \t]*import[ \t]+([^\n;]+)", re.MULTILINE)
_NOISE = re.compile(rb"#[^\n]*|\\\r?\n")  # comments, and lines that go on


@cache
def environment_tag() -> str:
    """What compiled code depends on besides sources and processor, as a short hash."""
    settings = (
        config.BOUNDSCHECK,
        config.OPT,
        config.DEBUGINFO_DEFAULT,
        config.LOOP_VECTORIZE,
        config.SLP_VECTORIZE,
        config.USING_SVML,
    )
    return hashlib.sha256(repr((versions(), settings)).encode()).hexdigest()[:SHORT]


def versions() -> str:
    """The versions that compiled code depends on, for people to read."""
    python, numpy = sys.implementation.cache_tag, ".".join(map(str, numpy_version))
    return f"{python}, Numba {numba.__version__}, llvmlite {llvmlite.__version__}, NumPy {numpy}"


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


def _trusted(directory: Path, like: Path | None = None) -> bool:
    """Whether nobody else can write there, or nobody who cannot write to the directory `like` either."""
    if not hasattr(os, "getuid"):
        return True
    try:
        status, other = directory.lstat(), like.stat() if like else None
    except OSError:
        return False
    owners = {0, os.getuid()} | ({other.st_uid} if other else set())
    writers = status.st_mode & OTHERS & ~(other.st_mode if other else 0)
    return stat.S_ISDIR(status.st_mode) and status.st_uid in owners and not writers


def _private(directory: Path) -> bool:
    """Whether a directory among temporary files is this user's alone, and always was."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


class Place(NamedTuple):
    """A directory that may hold compiled forms of kernels."""

    directory: Path
    like: Path | None = None  # a directory whose writers may write here, too
    private: Path | None = None  # a directory above that must be this user's alone

    def can_be_read(self) -> bool:
        """Whether forms from here can be relied on."""
        return (not self.private or _private(self.private)) and _trusted(self.directory, self.like)

    def can_be_written(self) -> bool:
        """Whether forms can be kept here; makes the directory."""
        if self.private:
            with contextlib.suppress(OSError):
                self.private.mkdir(mode=0o700)
            if not _private(self.private):
                return False
        return _writable(self.directory) and self.can_be_read()


@cache
def places(module: str, sources: Path) -> tuple[Place, ...]:
    """Where compiled forms of the kernels of a package may be, the wheel's place first."""
    package = module.rpartition(".")[0]
    ours = package.partition(".")[0] == OURS
    part = package if ours else _CacheLocator.get_suitable_cache_subpath(str(sources / "module.py"))
    found = [Place(COMPILED / package, like=COMPILED.parent)] if ours else []
    if config.CACHE_DIR:
        found.append(Place(Path(config.CACHE_DIR, part)))
    found.append(Place(sources / "__pycache__", like=sources))
    users = Path(AppDirs(appname=OURS, appauthor=False).user_cache_dir)
    if users.is_absolute():  # nobody's home is the current directory
        found.append(Place(users / part))
    if hasattr(os, "getuid"):
        own = Path(tempfile.gettempdir(), f"{OURS}-{os.getuid()}")
        found.append(Place(own / part, private=own))
    return tuple(found)


@cache
def readable(module: str, sources: Path) -> tuple[Path, ...]:
    """Where to look for compiled forms."""
    return tuple(place.directory for place in places(module, sources) if place.can_be_read())


@cache
def cache_directory(module: str, sources: Path) -> Path | None:
    """Where new compiled forms are kept, None if nowhere."""
    candidates = (place for place in places(module, sources) if COMPILED not in place.directory.parents)
    return next((place.directory for place in candidates if place.can_be_written()), None)


class Locator(_CacheLocator):
    """Where a kernel's compiled forms lie and which sources they belong to."""

    def __init__(self, module: str, path: str, stamp: str) -> None:
        self._py_file = path  # Numba names it in a warning
        self._module, self._sources, self._stamp = module, Path(path).absolute().parent, stamp

    def ensure_cache_path(self) -> None:
        """Make the directory again if somebody removed it."""
        if directory := cache_directory(self._module, self._sources):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The directory for new forms, empty if there is none."""
        return str(cache_directory(self._module, self._sources) or "")

    def get_source_stamp(self) -> str:
        """The hash of the import closure."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """What stands in the name of a file for environment and sources."""
        return f"{environment_tag()}-{self._stamp[:SHORT]}"

    def readable(self) -> tuple[Path, ...]:
        """Where forms may be."""
        return readable(self._module, self._sources)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Locator | None:
        """Locate a kernel; None if it cannot be kept."""
        stamp = source_stamp(py_func.__module__, py_file)
        return cls(py_func.__module__, py_file, stamp) if stamp else None


class Forms(CompileResultCacheImpl):
    """How compiled forms are written, with a `Locator` whatever Numba is set to."""

    def __init__(self, py_func: Any, locator: Locator) -> None:
        self._lineno = py_func.__code__.co_firstlineno
        self._locator = locator
        self.package, self.module = py_func.__module__.rpartition(".")[0], Path(locator._py_file).stem
        self._filename_base = self.get_filename_base(
            f"{self.module}.{py_func.__qualname__}", getattr(sys, "abiflags", "")
        )


class Files(IndexDataCacheFile):
    """The files of one kernel, one a form.

    A file is put in place whole. Two processes that save the same form write the same file.
    """

    def __init__(self, forms: Forms) -> None:
        super().__init__("", forms.filename_base, forms.locator.get_source_stamp())
        self._forms = forms

    def load(self, key: Any) -> Any:
        """A compiled form, None if there is none; a file that cannot be read is as none."""
        name = self._name(key)
        for directory in self._forms.locator.readable():
            path = directory / name
            if path.is_file():
                with contextlib.suppress(Exception):
                    stamp, found, data = self._load_data(str(path))
                    if (stamp, found) == (self._source_stamp, key):
                        _used[path] = self._forms.package
                        return data
        return None

    def save(self, key: Any, data: Any) -> None:
        """Keep a compiled form. A type that is named by an address is not the same the next time."""
        directory = self._forms.locator.get_cache_path()
        if not directory or " at 0x" in repr(key):
            return
        shared = Path(directory).name != "__pycache__"
        _sweep(directory, self._forms.module, self._forms.locator.get_disambiguator(), KEPT if shared else 1)
        path = Path(directory, self._name(key))
        self._save_data(str(path), (self._source_stamp, key, data))
        _used[path] = self._forms.package

    def flush(self) -> None:
        """Remove all forms that were kept."""
        pattern = glob.escape(self._forms.filename_base) + ".*.nbc"
        if directory := self._forms.locator.get_cache_path():
            for path in Path(directory).glob(pattern):
                path.unlink(missing_ok=True)

    def _name(self, key: Any) -> str:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:SHORT]
        return f"{self._forms.filename_base}.{digest}.nbc"


_used: dict[Path, str] = {}  # the forms that this process has loaded or saved, and their packages


def ship(target: Path) -> int:
    """Copy the forms that this process has used and Python can call, as a wheel carries them; how many.

    They go without the bitcode for other kernels to inline, and without Numba's notes on types: three
    quarters of the bytes. A kernel that is compiled later on gets the bitcode that it needs anew.
    """
    files, shipped = IndexDataCacheFile("", "", None), 0
    for path, package in sorted(_used.items()):
        stamp, key, (library, *rest) = files._load_data(str(path))
        name, kind, data = library
        if kind != "object" or package.partition(".")[0] != OURS:
            continue
        fndesc, environment, signature, objectmode, lifted, _, *others = rest
        code = (name, kind, (data[0], b"", data[2]))
        form = (code, fndesc, environment, signature, objectmode, lifted, "", *others)
        directory = target / package
        directory.mkdir(parents=True, exist_ok=True)
        files._save_data(str(directory / path.name), (stamp, key, form))
        shipped += 1
    (target / VERSIONS.name).write_text(versions() + "\n")
    return shipped


@cache
def _sweep(directory: str, module: str, current: str, kept: int) -> None:
    """Remove what older sources of a module left in this environment, once a process."""
    tag = current.partition("-")[0]
    ages: dict[str, float] = {current: math.inf}
    files: dict[str, list[Path]] = {}
    for path in Path(directory).glob(f"{module}.*-{tag}-*.nb[ic]*"):
        with contextlib.suppress(OSError):
            sources = tag + path.name.rpartition(f"-{tag}")[2].partition(".")[0]
            ages[sources] = max(ages.get(sources, 0.0), path.stat().st_mtime)
            files.setdefault(sources, []).append(path)
    for sources in sorted(ages, key=ages.__getitem__, reverse=True)[kept:]:
        for path in files.get(sources, ()):
            with contextlib.suppress(OSError):
                path.unlink()


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
        return (self._impl.locator.get_cache_path() or None) if self._impl else None

    def flush(self) -> None:
        """Forget the kernel's compiled forms."""
        if self._impl:
            super().flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a form. Code needs Numba's runtime, but not all that its compiler knows."""
        rtsys.initialize(cpu_target.target_context)
        try:
            return self._load_overload(sig, target_context)
        except OSError:
            return None

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
