"""What `pyproject.toml` cannot say about a distribution.

A wheel with compiled kernels is for one Python on one platform. `make wheel` puts them into
`rankcast/compiled` before it builds. They run where the llvmlite they were made with can be installed, so its
wheel's platforms are taken. Without them the wheel is for all.

A package index shows the README without the repository around it, so links and pictures of files would be
broken there. The description keeps the words of links and leaves the pictures out.
"""

import re
import sys
from importlib.metadata import distribution
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """Names the wheel by what is in it."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, its binary interface, and platforms."""
        if not Path(__file__).with_name("src").joinpath("rankcast", "compiled").is_dir():
            return super().get_tag()
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        told = (distribution("llvmlite").read_text("WHEEL") or "").splitlines()
        platforms = {line.rpartition("-")[2] for line in told if line.startswith("Tag: ")}
        return python, python, ".".join(sorted(platforms))


def description(readme: str) -> str:
    """The README as an index can show it: links to files become their words, pictures of files go."""
    text = re.sub(r"!\[[^\]]*\]\((?!\w+://)[^)]*\)\n*", "", readme)
    text = re.sub(r"\s\(\[guide\]\([^)]*\)\)", "", text)
    text = re.sub(r"\[([^\]]+)\]\((?!\w+://|#)[^)]*\)", r"\1", text)
    for name in re.findall(r"(?m)^\[([^\]]+)\]: (?!\w+://)", text):
        text = re.sub(rf"(?m)^\[{re.escape(name)}\]: .*\n?", "", text).replace(f"[{name}]", name)
    return text.rstrip() + "\n"


setup(
    cmdclass={"bdist_wheel": Wheel},
    long_description=description(Path(__file__).with_name("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
