"""``python -m dpbinagg`` is the command line."""

from __future__ import annotations

import sys

from dpbinagg.cli import main

if __name__ == "__main__":
    sys.exit(main())
