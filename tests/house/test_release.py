"""What `make release-check` looks for: it accepts what is right, and finds what is not."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.house import release

INSIDE = f"rankcast-{release.version()}.dist-info"
METADATA = f"""Metadata-Version: 2.4
Name: rankcast
Version: {release.version()}
License-Expression: Apache-2.0
License-File: LICENSE
Description-Content-Type: text/markdown

# rankcast
"""
CONSOLE = [f"service/console/{path.name}" for path in release.CONSOLE.iterdir()]


def wheel(path: Path, *more: str, without: str = "", metadata: str = METADATA) -> Path:
    names = [*release.IN_WHEEL, *(f"rankcast/{name}" for name in CONSOLE), *more]
    names += [f"{INSIDE}/licenses/LICENSE", f"{INSIDE}/entry_points.txt"]
    with zipfile.ZipFile(path / "rankcast.whl", "w") as file:
        for name in names:
            if name != without:
                file.writestr(name, "")
        file.writestr(f"{INSIDE}/METADATA", metadata)
    return path / "rankcast.whl"


def source(path: Path, without: str = "") -> Path:
    folder = f"rankcast-{release.version()}"
    with tarfile.open(path / "rankcast.tar.gz", "w:gz") as file:
        for name in (*release.IN_SOURCE, *(f"src/rankcast/{name}" for name in CONSOLE), "PKG-INFO"):
            if name != without:
                content = METADATA.encode() if name == "PKG-INFO" else b""
                member = tarfile.TarInfo(f"{folder}/{name}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    return path / "rankcast.tar.gz"


def test_what_is_right_is_accepted(tmp_path: Path) -> None:
    assert list(release.wrong_wheel(wheel(tmp_path))) == []
    assert list(release.wrong_source(source(tmp_path))) == []
    assert list(release.wrong_licences()) == []


@pytest.mark.parametrize(
    ("more", "without", "metadata", "told"),
    [
        (["tests/test_cli.py"], "", METADATA, "tests/test_cli.py is outside the package"),
        (["rankcast/__pycache__/cli.pyc"], "", METADATA, "should not be there"),
        ([], "rankcast/service/console/app.js", METADATA, "app.js is missing"),
        ([], "", METADATA.replace("Apache-2.0", "MIT"), "the licence is MIT"),
        ([], "", METADATA.replace(f"Version: {release.version()}", "Version: 9"), "the version is 9"),
        ([], "", METADATA.replace("Name: rankcast", "Name: rank cast"), "invalid"),
        ([], "", METADATA.replace("# rankcast\n", ""), "no description"),
        ([], "", METADATA + "![map](docs/map.png)\n", "links to docs/map.png"),
        ([], "", METADATA + "[Range]: docs/papers.md#range\n", "links to docs/papers.md#range"),
    ],
)
def test_what_is_wrong_is_found(
    tmp_path: Path, more: list[str], without: str, metadata: str, told: str
) -> None:
    (found,) = release.wrong_wheel(wheel(tmp_path, *more, without=without, metadata=metadata))
    assert told in found


def test_a_source_without_console_or_metadata_is_found(tmp_path: Path) -> None:
    assert list(release.wrong_source(source(tmp_path, without="setup.py"))) == ["sdist: setup.py is missing"]
    assert list(release.wrong_source(source(tmp_path, without="PKG-INFO"))) == ["sdist: PKG-INFO is missing"]


def test_a_package_without_its_licence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [each for each in release.vendored() if each[0] != "preact"]
    monkeypatch.setattr(release, "vendored", lambda: [*some, ("odd", "1.0", "GPL-3.0-only")])
    told = list(release.wrong_licences())
    assert len(told) == 2
    assert told[0].startswith("licences.txt: preact ")
    assert told[1] == "licences.txt: odd has the licence GPL-3.0-only"


def test_the_bill_names_all_that_is_required_and_built_in() -> None:
    found = release.bill()
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    named = {part["name"].lower() for part in found["components"]}
    assert {"numpy", "numba", "llvmlite", "pyarrow", "preact", "world-atlas"} <= named
    assert "pytest" not in named
    refs = [part["bom-ref"] for part in found["components"]]
    assert len(refs) == len(set(refs))
    known = {*refs, found["metadata"]["component"]["bom-ref"]}
    assert all({each["ref"], *each["dependsOn"]} <= known for each in found["dependencies"])
    assert all(part["licenses"] for part in found["components"])
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", found["serialNumber"])
