"""What a first call costs where rankcast is installed with compiled kernels, and that nothing is compiled.

    python -I tests/house/first_calls.py        # `make test-wheel` runs it with the installed wheel

The README's ten lines, then every engine, each in a process of its own, on every level of processors that
came along and that this one reaches. All levels must answer the same to the last bit, nothing may be written,
and no object may have an instruction above its level (if there is an `objdump` to look with). Seconds are of
the processor, above importing NumPy, Numba and PyArrow. Needs rankcast alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
PROGRAM = """
import time
import numba, numpy, pyarrow
began = time.process_time()
{code}
seconds = time.process_time() - began
from rankcast.structures.jit import PROGRESS
print(f"{{seconds:.2f}} {{PROGRESS.compiled}}")
"""
ENGINES = ("RangeTopK", "CoveringTable", "RankedMatcher", "GeoTextTopK", "MovingTopK", "MovingSkyline")

# Writes the machine code of every form to a directory, by level, and prints the levels that this one reaches.
UNPACK = """
import sys
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
from rankcast import warm
from rankcast.structures.kernel_cache import COMPILED
files = IndexDataCacheFile("", "", None)
for path in COMPILED.rglob("*.nbc"):
    _, key, (library, *_) = files._load_data(str(path))
    target = Path(sys.argv[1], key[1][1] + key[1][2], path.name)
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(library[2][0])
print(*warm.reached())
"""
ANYWHERE = r"\tvfn?m(add|sub)"  # a product and a sum in one: other answers than on a lower level
ABOVE = {
    "x86-64-v3": r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])|\t(vpdp|vgf2|adcx|adox|sha1|sha256|serialize|clwb)",
    "x86-64-v2": r"%ymm|\tv[a-z]+ "
    r"|\t(andn|bextr|bls[ir]|blsmsk|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|movbe)[lqw]?\s",
}


def programs() -> dict[str, str]:
    """By name what is run."""
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    if not found:
        raise SystemExit("the README has lost its ten lines")
    calls = {name: f"from rankcast import warm\nprint(warm.play(warm.SCENES[{name!r}]))" for name in ENGINES}
    return {"README": found[1], **calls}


def run(code: str, *arguments: str, **environment: str) -> str:
    """What a program prints in a process of its own."""
    command = [sys.executable, "-I", "-B", "-c", code, *arguments]
    given = {**os.environ, **environment}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.strip()


def instructions_above(objects: Path) -> list[str]:
    """Instructions in machine code that its level does not have, or that fuse two roundings into one."""
    tool = shutil.which("objdump", path=os.environ.get("PATH", os.defpath))
    if tool is None:
        return []
    found = []
    for path in sorted(objects.rglob("*.nbc")):
        told = subprocess.run([tool, "-d", path], capture_output=True, text=True, check=True).stdout
        bad = re.search(f"{ANYWHERE}|{ABOVE.get(path.parent.name, 'bad')}", told)
        if bad:
            found.append(f"{path.parent.name} {path.name}: {bad[0].strip()}")
    return found


def main() -> int:
    """Print a line a program; 1 if anything is wrong."""
    spec = find_spec("rankcast")
    if spec is None or spec.origin is None:
        raise SystemExit("rankcast is not installed")
    package = Path(spec.origin).parent
    before, wrong = set(package.rglob("*")), []
    with tempfile.TemporaryDirectory() as folder:
        levels = [level for level in run(UNPACK, folder).split() if Path(folder, level).is_dir()]
        wrong += [] if levels else ["no kernel came along"]
        for level in levels:
            print(f"{level}: {len(list(Path(folder, level).iterdir()))} kernels came along")  # noqa: T201
        wrong += instructions_above(Path(folder))
    for name, code in programs().items():
        answers = set()
        for level in ["", *levels]:  # the first as it is chosen on import
            chosen = {"NUMBA_CPU_NAME": level} if level else {}
            answer, _, last = run(PROGRAM.format(code=code), **chosen).rpartition("\n")
            seconds, compiled = last.split()
            answers.add(answer)
            print(f"{name:<15} {level or 'as installed':<12} {seconds} s, {compiled} compiled")  # noqa: T201
            wrong += [f"{name} compiled {compiled} kernels"] * (compiled != "0")
        wrong += [f"{name} answers differently on another level"] * (len(answers) > 1)
    wrong += [f"{path} was written" for path in sorted(set(package.rglob("*")) - before)]
    print(*wrong, sep="\n", file=sys.stderr)  # noqa: T201
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
