"""Classes that are loaded by name on first use, so that what nobody asked for is never imported."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """The object that "module:Name" names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
