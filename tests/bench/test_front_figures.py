"""The figures of `README.md` and `benchmarks/README.md` are those of committed records, dates included."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankcast.bench import front, front_pictures
from rankcast.bench.records import DEFAULT_DIRECTORY, DIRTY, Measurement, Record, latest, read
from rankcast.errors import InputError

ROOT = Path(__file__).parents[2]
TABLES = ((ROOT / "benchmarks" / "README.md", "## Front figures"),)
SCALES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))


def row(record: Record, measured: Measurement) -> list[str]:
    """Write what a row of the table has to say of one contender of a record."""
    return [
        f"`{record.case}`: {measured.name}",
        f"{duration(measured.median / measured.work)}/{record.unit}",
        "" if measured.ratio is None else f"{significant(measured.ratio)} x {record.baseline}",
        f"{record.at[:10]}, {processor(record)}{', modified' if modified(record) else ''}",
    ]


def duration(seconds: float) -> str:
    factor, unit = next((scale for scale in SCALES if seconds * scale[0] >= 1), SCALES[-1])
    return f"{significant(seconds * factor)} {unit}"


def significant(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def processor(record: Record) -> str:
    name = "Xeon" if "Xeon" in record.machine["cpu"] else record.machine["cpu"].split()[-1]
    return f"{name}, {record.machine['cores']} core{'s' if record.machine['cores'] > 1 else ''}"


def modified(record: Record) -> bool:
    return (record.commit or "").endswith(DIRTY)


def shown(path: Path, heading: str) -> list[list[str]]:
    """The rows of a table of figures, without the cell that says in words what was measured."""
    text = path.read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines[2:]]


FIGURES = [figure for table in TABLES for figure in shown(*table)]


@pytest.fixture(scope="module")
def committed() -> list[list[str]]:
    records = [record for record in read(ROOT / DEFAULT_DIRECTORY) if record.size == "full"]
    return [row(record, measured) for record in records for measured in record.contenders]


def test_there_are_front_figures() -> None:
    assert len(FIGURES) >= 15


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: str(figure[0]))
def test_a_front_figure_is_that_of_a_record(figure: list[str], committed: list[list[str]]) -> None:
    assert figure in committed, [known for known in committed if known[0] == figure[0]]


@pytest.fixture(scope="module")
def newest() -> list[Record]:
    return [record for record in latest(read(ROOT / DEFAULT_DIRECTORY)).values() if record.size == "full"]


def test_the_readme_has_the_front_table_of_the_newest_records(newest: list[Record]) -> None:
    table = front.markdown(newest)
    assert table.count("\n| ") > 14
    assert DIRTY not in table
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(front_pictures.section(newest)) == 1


@pytest.mark.parametrize("name", [front_pictures.FACTORS, front_pictures.RANGES])
def test_a_picture_of_the_readme_is_made_of_the_newest_records(name: str, newest: list[Record]) -> None:
    pytest.importorskip("matplotlib")
    made = {
        front_pictures.FACTORS: front_pictures.factors,
        front_pictures.RANGES: front_pictures.ranges,
    }[name](newest)
    assert (ROOT / front_pictures.IMAGES / name).read_text(encoding="utf-8") == made


def test_writing_puts_all_three_in_their_places_and_twice_is_once(
    tmp_path: Path, newest: list[Record]
) -> None:
    pytest.importorskip("matplotlib")
    readme = tmp_path / "README.md"
    readme.write_text(f"# A\n\n{front_pictures.BEGIN}\nold\n{front_pictures.END}\n\n## B\n", encoding="utf-8")
    written = front_pictures.write(readme, newest)
    text = readme.read_text(encoding="utf-8")
    assert text == f"# A\n\n{front_pictures.section(newest)}\n\n## B\n"
    assert [path.name for path in written] == [front_pictures.FACTORS, front_pictures.RANGES, "README.md"]
    before = [path.read_bytes() for path in written]
    front_pictures.write(readme, newest)
    assert [path.read_bytes() for path in written] == before
    readme.write_text("# no marks\n", encoding="utf-8")
    with pytest.raises(InputError, match="does not say where"):
        front_pictures.write(readme, newest)
