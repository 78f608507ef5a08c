"""Of many runs that sleep in PostgreSQL, exactly those that are due continue, and the worker needs no more memory.

How late they continue depends on the machine: `benchmarks` measures it (`sleeping`).
"""

from __future__ import annotations

import pytest

from benchmarks.sleeping import Plan, measured
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix


@pytest.mark.slow
def test_a_thousand_of_a_hundred_thousand_sleeping_runs_continue() -> None:
    server = PostgresServer()
    server.start()
    try:
        found = measured(server.dsn, Plan())
    finally:
        server.remove()
    assert len(found.late) == 1_000
    assert min(found.late) >= 0
    assert found.after <= 1.1 * found.before
