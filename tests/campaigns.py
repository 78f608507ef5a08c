"""The size of the campaigns: `make test-all` runs two parts of most, ``make test-all PARTS=20`` ten times as many.

A part is a range of seeds that no other part has. Two parts of all campaigns take about half an hour on two cores; a
campaign that nobody has time for finds nothing. Of a random test that takes seconds, `make test` runs the first parts.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

PARTS = range(int(os.environ.get("CLEW_CAMPAIGN_PARTS", "2")))


def first(quick: int, of: int) -> list[Any]:
    """Return the parts of a random test: the first `quick` for every run, the others for `make test-all`."""
    return [pytest.param(part, marks=[pytest.mark.slow] if part >= quick else []) for part in range(of)]
