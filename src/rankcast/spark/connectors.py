"""Jars that Spark needs beside its own, for queues and tables: found in a folder, or fetched into it once.

`rankcast run` fetches what a pipeline names when it needs it first; `python -m rankcast.spark.connectors`
(`make jars`) does so beforehand, for machines that reach no repository: copy the folder there. It is named
by `RANKCAST_JARS`, otherwise it is in the user's cache; inside, every version of Spark has its own. Jars come
from wherever Spark's own resolver (Ivy, as for `spark.jars.packages`) looks.

A connector is of the very version of Spark that runs. One helper of Kafka's connector is missing from some
repositories in some versions; an older one, which has the same classes, then stands in for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankcast.errors import InputError, RankcastError
from rankcast.spark import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "RANKCAST_JARS"
PATIENCE = 600.0  # seconds for which a repository may take
_VERSIONED = re.compile(r"(.+)-\d[^-]*\.jar")
_EXTENSIONS = "spark.sql.extensions"
_HELPER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"


@dataclass(frozen=True)
class Connector:
    """What one format needs.

    Attributes:
        packages: by version of Spark (`4.2`; an empty text: any), what to fetch; `{spark}` is that version.
        helper: a part of it that may be missing ...
        versions: ... and older versions that then do.
        settings: what a session must be told beside.
        instead: what to do where there is no package; None: the user may name one of his own.
    """

    packages: Mapping[str, str]
    helper: str | None = None
    versions: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    instead: str | None = None

    def package(self, name: str, version: str) -> str:
        """What to fetch for a version of Spark."""
        minor = ".".join(version.split(".")[:2])
        found = self.packages.get(minor, self.packages.get(""))
        if found is None:
            known = ", ".join(f"{package} (Spark {of})" for of, package in self.packages.items())
            raise InputError(
                f"there is no connector for {name} and Spark {version}",
                detail=f"Known are: {known}.",
                hint=self.instead
                or "Name a package for this Spark in jars.packages of [spark] once there is one.",
            )
        return found.format(spark=version)


CONNECTORS: Mapping[str, Connector] = {
    "kafka": Connector(
        {"": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"},
        helper=_HELPER,
        versions=("4.1.1", "4.1.0", "4.0.1", "4.0.0"),
    ),
    "delta": Connector(
        {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"},
        settings={
            _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
    # None for a Spark of our range: what is published for 4.1 does not load on 4.2 (`View` is a class there).
    # So nothing that writes such tables could be tried, and there is nothing: jars of one's own do not help.
    "iceberg": Connector(
        {"4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"},
        instead='Use format = "delta", or files.',
    ),
}


class ConnectorError(RankcastError, RuntimeError):
    """Jars could not be had."""


def needed(formats: Iterable[str]) -> list[str]:
    """The connectors that some formats need."""
    return [name for name in CONNECTORS if name in set(formats)]


def check(format_: str, own: Mapping[str, str]) -> None:
    """Refuse a format that no connector has for the Spark that is installed; nothing is started.

    Raises:
        InputError: there is none, and the user's settings name none.
    """
    if format_ in CONNECTORS and (CONNECTORS[format_].instead or not _is_named(format_, own)):
        CONNECTORS[format_].package(format_, metadata.version("pyspark"))


def settings(formats: Iterable[str], own: Mapping[str, str]) -> dict[str, str]:
    """What a session that begins must be told, so that it knows some formats; fetches jars if need be.

    Args:
        formats: names of formats, those that need nothing among them.
        own: the user's settings. Where they name jars or packages of a connector, nothing is fetched for it.

    Raises:
        ConnectorError: jars are neither there nor to be had.
    """
    told: dict[str, str] = {}
    jars = [own["spark.jars"]] if own.get("spark.jars") else []
    for name in needed(formats):
        for key, value in CONNECTORS[name].settings.items():
            before = told.get(key, own.get(key))
            if key == _EXTENSIONS and before is not None and value not in before:
                told[key] = f"{before},{value}"
            elif before is None:
                told[key] = value
        if not _is_named(name, own):
            jars += [str(path) for path in jars_of(name)]
    return told | ({"spark.jars": ",".join(jars)} if jars else {})


def _is_named(name: str, own: Mapping[str, str]) -> bool:
    """Whether the user's settings name a connector's jars."""
    artifacts = {package.split(":")[1].split("_")[0] for package in CONNECTORS[name].packages.values()}
    given = " ".join(own.get(key, "") for key in ("spark.jars", "spark.jars.packages"))
    return any(artifact in given for artifact in artifacts)


def folder(version: str) -> Path:
    """Where the jars for a version of Spark are, or would be."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).absolute() / f"spark-{version}"
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache else Path.home() / ".cache"
    return home / "rankcast" / "jars" / f"spark-{version}"


def jars_of(name: str) -> list[Path]:
    """The jars of a connector for the Spark that is installed; they are fetched first, if need be."""
    place = folder(_version()) / name
    if not place.is_dir():
        _fetch_apart([name])
    return sorted(place.glob("*.jar"))


def _version() -> str:
    import pyspark  # noqa: PLC0415

    return str(pyspark.__version__)


def _fetch_apart(names: Sequence[str]) -> None:
    """Fetch in a process of its own: a Java that has started once cannot be started anew in this one."""
    command = [sys.executable, "-m", "rankcast.spark.connectors", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise _no_jars(names, f"no answer came in {PATIENCE:.0f} seconds") from error
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.strip()]
        raise _no_jars(names, told[-1] if told else "no word was left")


def _no_jars(names: Sequence[str], why: str) -> ConnectorError:
    return ConnectorError(
        f"the jars for {', '.join(names)} and Spark {_version()} could not be fetched: {why}",
        hint=f"Run `python -m rankcast.spark.connectors` where a repository can be reached, copy "
        f"{folder(_version())} here, or name the folder in {VARIABLE}.",
    )


def fetch(names: Sequence[str]) -> None:
    """Fetch the jars of connectors into their folders; those that are there already are left alone.

    Jars that Spark brings along are left out: two versions of one class would meet.
    """
    version, own = _version(), _names(sessions.home() / "jars")
    missing = [name for name in names if not (folder(version) / name).is_dir()]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as cache, _java() as java:
        for name in missing:
            found = _resolved(java, name, version, cache)
            fresh = [path for path in found if _stem(_artifact(path)) not in own]
            _put(fresh, folder(version) / name)


def _stem(name: str) -> str:
    """The name of a jar without its version."""
    found = _VERSIONED.fullmatch(name)
    return found[1] if found else name


def _artifact(path: Path) -> str:
    """The name of a jar without the group that Ivy puts in front."""
    return path.name.partition("_")[2] or path.name


def _names(place: Path) -> set[str]:
    return {_stem(path.name) for path in place.glob("*.jar")}


def _put(jars: Sequence[Path], place: Path) -> None:
    """Copy jars into a folder that is there as a whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=place.parent, prefix=".jars-"))
    fresh.chmod(0o755)
    for jar in jars:
        shutil.copyfile(jar, fresh / _artifact(jar))
    try:
        fresh.rename(place)
    except OSError:  # another process was first
        shutil.rmtree(fresh, ignore_errors=True)


def _resolved(java: Any, name: str, version: str, cache: str) -> list[Path]:
    """The jars of a connector, where Ivy has put them."""
    connector = CONNECTORS[name]
    package = connector.package(name, version)
    try:
        return _ivy(java, package, cache, [])
    except ConnectorError:
        if connector.helper is None:
            raise
    found = _ivy(java, package, cache, [connector.helper])
    for older in connector.versions:
        try:
            helper = _ivy(java, f"{connector.helper}:{older}", cache, ["*:*"])
        except ConnectorError:
            continue
        return [*found, *helper]
    raise ConnectorError(f"there is no {connector.helper} for Spark {version}, nor an older one")


def _ivy(java: Any, package: str, cache: str, without: Sequence[str]) -> list[Path]:
    """What Spark's resolver finds for a package; with `*:*` in `without`, for it alone."""
    maven = java.org.apache.spark.util.MavenUtils
    converters = java.scala.jdk.javaapi.CollectionConverters
    nowhere = java.java.io.PrintStream(java.java.io.ByteArrayOutputStream())
    none = java.scala.Option.apply(None)
    settings_ = maven.buildIvySettings(none, java.scala.Option.apply(cache), False, nowhere)
    excluded = java.java.util.ArrayList()
    for each in without:
        if each != "*:*":
            excluded.add(each)
    exclusions = converters.asScala(excluded).toSeq()
    try:
        found = maven.resolveMavenCoordinates(
            package, settings_, none, "*:*" not in without, exclusions, False, nowhere
        )
    except Exception as error:
        raise ConnectorError(str(getattr(error, "java_exception", error)).splitlines()[0]) from error
    return [Path(str(each)) for each in converters.asJava(found)]


@contextmanager
def _java() -> Iterator[Any]:
    """A Java with Spark's classes, without a session."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    sessions.find()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    launch: Any = launch_gateway
    gateway = launch()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _is_there(name: str) -> bool:
    """Whether a connector is known for the Spark that is installed; says so if it is not."""
    try:
        CONNECTORS[name].package(name, _version())
    except InputError as error:
        sys.stderr.write(f"left out: {error.what}\n")
        return False
    return True


def main(names: Sequence[str]) -> int:
    """Fetch the jars of connectors, by default of all that there are; returns an exit code."""
    unknown = [name for name in names if name not in CONNECTORS]
    if unknown:
        sys.stderr.write(f"{unknown[0]} is not one of: {', '.join(CONNECTORS)}\n")
        return 2
    try:
        fetch(names or [name for name in CONNECTORS if _is_there(name)])
    except (RankcastError, OSError) as error:
        sys.stderr.write(f"{error}\n".replace("\n", " ").strip() + "\n")
        return 1
    sys.stdout.write(f"{folder(_version())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
