"""Texts as terms, under the name by which users import them; the code is in `geotext.text`."""

from rankcast.geotext.text import Analyzer

__all__ = ["Analyzer"]
