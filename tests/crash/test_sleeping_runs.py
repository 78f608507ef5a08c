"""Of many runs that sleep in PostgreSQL, those that are due continue in time, and the worker needs no more memory."""

from __future__ import annotations

import pytest

from benchmarks.sleeping import Plan, measured
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix


@pytest.mark.slow
def test_a_thousand_of_a_hundred_thousand_sleeping_runs_continue_in_time() -> None:
    server = PostgresServer()
    server.start()
    try:
        found = measured(server.dsn, Plan())
    finally:
        server.remove()
    assert len(found.late) == 1_000
    assert min(found.late) >= 0
    assert found.percentile(0.99) <= 2.0
    assert found.after <= 1.1 * found.before
