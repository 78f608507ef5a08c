"""The loggers of Clew, all below ``clew``.

A library does not decide where records go: without a handler of the program, nothing is printed. Ask for a logger where
it is used, not when a module is imported: ``dictConfig`` disables those that exist, unless the program forbids it.
"""

from __future__ import annotations

import logging

logging.getLogger("clew").addHandler(logging.NullHandler())


def logger(part: str) -> logging.Logger:
    """Return the logger ``clew.part``."""
    return logging.getLogger(f"clew.{part}")
