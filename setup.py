"""What `pyproject.toml` cannot say: a wheel with compiled kernels is for one Python on one platform.

`make wheel` puts them into `rankcast/compiled` before it builds. They run where the llvmlite they were made
with can be installed, so its wheel's platforms are taken. Without them the wheel is for all.
"""

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


setup(cmdclass={"bdist_wheel": Wheel})
