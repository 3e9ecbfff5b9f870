"""What is about to be released: wheel, source distribution, metadata, licences, and what it is made of.

    python -m tests.house.release dist [--bill dist/rankcast.cdx.json]     # `make release-check` runs it

Looks at the files alone, and says everything that is wrong with them. The bill of materials is CycloneDX 1.6:
the requirements of rankcast as they are installed here, with theirs, and what is in the console's files.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.metadata import InvalidMetadata, Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src" / "rankcast" / "service" / "console"
VENDORED = re.compile(r"^(\S+) (\d\S*) \(([\w.-]+)\)$", re.MULTILINE)  # a heading of licences.txt
RELATIVE = re.compile(
    r"(?m)\]\((?!\w+://|#)([^)\s]+)\)|^\[[^\]]+\]: (?!\w+://)(\S+)"
)  # of a file beside the README
IN_WHEEL = ("rankcast/py.typed", "rankcast/_version.py", "rankcast/cli.py")
IN_SOURCE = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src/rankcast/_version.py")
FREE = {"MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD", "Unlicense", "CC0-1.0"}


def version() -> str:
    """The version that the sources have."""
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src" / "rankcast" / "_version.py").read_text())
    assert found is not None
    return found[1]


def wrong_names(names: set[str], needed: tuple[str, ...], kind: str) -> Iterator[str]:
    """What is missing among the files of a wheel or a source distribution, and what should not be there."""
    console = {path.name for path in CONSOLE.iterdir() if path.is_file()}
    prefix = "rankcast" if kind == "wheel" else "src/rankcast"
    for name in (*needed, *sorted(f"{prefix}/service/console/{each}" for each in console)):
        if name not in names:
            yield f"{kind}: {name} is missing"
    for name in sorted(names):
        parts = Path(name).parts
        if "__pycache__" in parts or name.endswith((".pyc", ".nbi")) or "node_modules" in parts:
            yield f"{kind}: {name} should not be there"
        if kind == "wheel" and parts[0] not in ("rankcast", f"rankcast-{version()}.dist-info"):
            yield f"{kind}: {name} is outside the package"


def wrong_metadata(text: bytes, kind: str) -> Iterator[str]:
    """What is wrong with metadata: what an index would refuse, and what is not of this release."""
    try:
        told = Metadata.from_email(text, validate=True)
    except (InvalidMetadata, ExceptionGroup) as error:
        yield f"{kind}: {error}: {getattr(error, 'exceptions', '')}"
        return
    if str(told.version) != version():
        yield f"{kind}: the version is {told.version}, and the sources have {version()}"
    if told.license_expression != "Apache-2.0" or "LICENSE" not in (told.license_files or []):
        yield f"{kind}: the licence is {told.license_expression}, in {told.license_files}"
    if not told.description or told.description_content_type != "text/markdown":
        yield f"{kind}: there is no description of text/markdown"
    for link in RELATIVE.finditer(told.description or ""):
        yield f"{kind}: the description links to {link[1] or link[2]}, which an index does not have"


def wrong_wheel(path: Path) -> Iterator[str]:
    """What is wrong with a wheel."""
    with zipfile.ZipFile(path) as file:
        names = {name for name in file.namelist() if not name.endswith("/")}
        inside = f"rankcast-{version()}.dist-info"
        needed = (*IN_WHEEL, f"{inside}/METADATA", f"{inside}/licenses/LICENSE", f"{inside}/entry_points.txt")
        yield from wrong_names(names, needed, "wheel")
        if f"{inside}/METADATA" in names:
            yield from wrong_metadata(file.read(f"{inside}/METADATA"), "wheel")


def wrong_source(path: Path) -> Iterator[str]:
    """What is wrong with a source distribution."""
    with tarfile.open(path) as file:
        folder = f"rankcast-{version()}/"
        names = {member.name.removeprefix(folder) for member in file.getmembers() if member.isfile()}
        yield from wrong_names(names, IN_SOURCE, "sdist")
        if "PKG-INFO" in names:
            told = file.extractfile(f"{folder}PKG-INFO")
            assert told is not None
            yield from wrong_metadata(told.read(), "sdist")
        else:
            yield "sdist: PKG-INFO is missing"


def vendored() -> list[tuple[str, str, str]]:
    """What the console's files hold of others: name, version, licence."""
    return VENDORED.findall((CONSOLE / "licences.txt").read_text())


def wrong_licences() -> Iterator[str]:
    """Packages that are built into the console without their licence, or under one that is not free."""
    lock = json.loads((ROOT / "console" / "package-lock.json").read_text())["packages"]
    told = {name: (number, licence) for name, number, licence in vendored()}
    for place, package in lock.items():
        name = place.rpartition("node_modules/")[2]
        if place and not package.get("dev") and told.get(name, (None,))[0] != package["version"]:
            yield f"licences.txt: {name} {package['version']} is built in, and not there"
    for name, (_, licence) in told.items():
        if licence not in FREE:
            yield f"licences.txt: {name} has the licence {licence}"
    if (CONSOLE / "land.json").exists() and "world-atlas" not in told:
        yield "licences.txt: land.json is of world-atlas, which is not there"


def closure(name: str) -> dict[str, Distribution]:
    """A distribution and all it requires, as installed here, by normal name."""
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        each = distribution(waiting.pop())
        key = normal(each.metadata["Name"])
        if key not in found:
            found[key] = each
            waiting += required(each)
    return found


def required(found: Distribution) -> list[str]:
    """What a distribution requires, without extras, where it is installed."""
    asked = [Requirement(text) for text in found.requires or ()]
    names = [each.name for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    return [name for name in names if is_installed(name)]


def is_installed(name: str) -> bool:
    """Whether there is a distribution of that name."""
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def normal(name: str) -> str:
    """A name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(found: Distribution) -> list[dict[str, Any]]:
    """The licence of a distribution as a bill says it: an expression, or what it is called."""
    metadata: Any = found.metadata
    expression, told = metadata.get("License-Expression"), metadata.get("License")
    classifiers = [each for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    if expression:
        return [{"expression": expression}]
    names = [each.rpartition(" :: ")[2] for each in classifiers] or (
        [told.splitlines()[0][:80]] if told else []
    )
    return [{"license": {"name": each}} for each in names]


def bill(name: str = "rankcast") -> dict[str, Any]:
    """The bill of materials, CycloneDX 1.6."""
    found = closure(name)
    root = f"pkg:pypi/{name}@{version()}"
    refs = {key: f"pkg:pypi/{key}@{each.version}" for key, each in found.items()} | {name: root}
    others = [
        (f"pkg:npm/{each.replace('@', '%40')}@{number}", each, number, of) for each, number, of in vendored()
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid4()}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "component": {
                "type": "library",
                "bom-ref": root,
                "name": name,
                "version": version(),
                "purl": root,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": [
            {
                "type": "library",
                "bom-ref": refs[key],
                "name": each.metadata["Name"],
                "version": each.version,
                "purl": refs[key],
                "licenses": licence(each),
            }
            for key, each in sorted(found.items())
            if key != name
        ]
        + [
            {
                "type": "library",
                "bom-ref": purl,
                "name": each,
                "version": number,
                "purl": purl,
                "licenses": [{"license": {"id": of}}],
            }
            for purl, each, number, of in others
        ],
        "dependencies": [
            {
                "ref": refs[key],
                "dependsOn": sorted({refs[normal(one)] for one in required(each)})
                + ([purl for purl, *_ in others] if key == name else []),
            }
            for key, each in sorted(found.items())
        ],
    }


def main() -> int:
    """Look at a directory of distributions; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--bill", type=Path)
    given = parser.parse_args()
    wheels, sources = sorted(given.dist.glob("*.whl")), sorted(given.dist.glob("*.tar.gz"))
    wrong = [*wrong_licences()]
    if not wheels or not sources:
        wrong.append(f"{given.dist}: {len(wheels)} wheels and {len(sources)} source distributions")
    for wheel in wheels:
        wrong += wrong_wheel(wheel)
    for source in sources:
        wrong += wrong_source(source)
    told = bill()
    if given.bill is not None:
        given.bill.write_text(json.dumps(told, indent=1) + "\n")
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    names = ", ".join(path.name for path in (*wheels, *sources))
    parts = len(told["components"])
    sys.stdout.write(
        f"{names}: {len(wrong)} things wrong; {parts} parts, {len(vendored())} of them built in\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
