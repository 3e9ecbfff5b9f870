"""Shows doctests in docstrings as code, wherever they are in the text."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).+)*")


class Doctests(griffe.Extension):
    """Fences every doctest before the docstring is read as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
