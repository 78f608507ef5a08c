"""How many processes the campaigns kill: thousands, and not fewer without somebody noticing."""

from __future__ import annotations

from tests.crash import test_kills, test_on_postgres, test_wide


def test_the_campaigns_kill_thousands() -> None:
    kills = 4 * test_kills.AT_EVERY_POINT + 6 * test_kills.AT_RANDOM
    kills += sum(test_wide.AT_EVERY_POINT.values()) + test_wide.AT_RANDOM
    kills += test_on_postgres.AT_POINTS
    assert kills >= 4_500
