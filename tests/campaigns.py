"""The size of the campaigns: `make test-all` runs two parts of most, ``make test-all PARTS=20`` ten times as many.

A part is a range of seeds that no other part has. Two parts of all campaigns take about half an hour on two cores; a
campaign that nobody has time for finds nothing.
"""

from __future__ import annotations

import os

PARTS = range(int(os.environ.get("CLEW_CAMPAIGN_PARTS", "2")))
