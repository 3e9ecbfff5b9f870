"""`python -m rankcast` is the command `rankcast`."""

from __future__ import annotations

import sys

from rankcast.cli import main

if __name__ == "__main__":
    sys.exit(main())
