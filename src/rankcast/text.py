"""Text as terms; the code is in `geotext.text`."""

from rankcast.geotext.text import Analyzer

__all__ = ["Analyzer"]
