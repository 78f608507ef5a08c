"""What holds for all tests: how Hypothesis searches.

In CI a test result must be a function of the commit, so examples are derived from the test itself. At a
desk the search is random and remembers what it found in ``.hypothesis``. There is no deadline in either:
workers share cores, so the time of one example says nothing.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
