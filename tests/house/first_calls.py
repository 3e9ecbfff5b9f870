"""What a first call costs where rankcast is installed, and that nothing is compiled for it.

    python -I tests/house/first_calls.py        # `make test-wheel` runs it with the installed wheel

The README's ten lines, then every engine, each in a process of its own. Seconds are of the processor, above
importing NumPy, Numba and PyArrow. Needs rankcast alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PROGRAM = """
import contextlib, io, time
import numba, numpy, pyarrow
began = time.process_time()
with contextlib.redirect_stdout(io.StringIO()):
{code}
seconds = time.process_time() - began
from rankcast.structures.jit import PROGRESS, processor
print(f"{{seconds:.2f}} {{PROGRESS.compiled}} {{processor()[0]}}")
"""
ENGINES = ("RangeTopK", "CoveringTable", "RankedMatcher", "GeoTextTopK", "MovingTopK", "MovingSkyline")


def programs() -> dict[str, str]:
    """By name what is run."""
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found, "the README has lost its ten lines"
    calls = {name: f"from rankcast import warm\nwarm.play(warm.SCENES[{name!r}])" for name in ENGINES}
    return {"README": found[1], **calls}


def run(code: str) -> tuple[str, str, str]:
    """Seconds, how many kernels were compiled, and the level of the processor."""
    indented = "\n".join(f"    {line}" for line in code.splitlines())
    command = [sys.executable, "-I", "-B", "-c", PROGRAM.format(code=indented)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, compiled, level = done.stdout.split()
    return seconds, compiled, level


def main() -> int:
    """Print a line a program; 1 if anything was compiled or written."""
    spec = find_spec("rankcast")
    if spec is None or spec.origin is None:
        raise SystemExit("rankcast is not installed")
    package = Path(spec.origin).parent
    before = set(package.rglob("*"))
    wrong = 0
    print(f"{package}")  # noqa: T201
    for name, code in programs().items():
        seconds, compiled, level = run(code)
        wrong += int(compiled)
        print(f"{name:<15} {seconds} s, {compiled} kernels compiled, {level}")  # noqa: T201
    written = set(package.rglob("*")) - before
    if wrong or written:
        print(f"compiled {wrong}, written {sorted(map(str, written))}", file=sys.stderr)  # noqa: T201
    return int(bool(wrong or written))


if __name__ == "__main__":
    sys.exit(main())
