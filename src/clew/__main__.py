"""Run ``clew`` as ``python -m clew``."""

from __future__ import annotations

from clew.cli import main

if __name__ == "__main__":
    main()
