"""What holds for all tests: how Hypothesis searches; and a PostgreSQL server a worker, started when a test asks for it.

In CI a test result must be a function of the commit, so examples are derived from the test itself. At a
desk the search is random and remembers what it found in ``.hypothesis``. There is no deadline in either:
workers share cores, so the time of one example says nothing.

A shell that starts a command in the background has it ignore interrupts, and what it starts too; tests that interrupt
a process of their own need one that does not.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from hypothesis import settings

from tests.posix import needs_posix
from tests.stores.servers import PostgresServer

settings.register_profile("desk", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out modules that cannot be imported without POSIX."""
    return True if os.name != "posix" and needs_posix(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of modules that need POSIX, and skip what is marked elsewhere."""
    for item in items:
        if needs_posix(item.path):
            item.add_marker("posix")
        elif os.name != "posix" and item.get_closest_marker("posix") is not None:
            item.add_marker(pytest.mark.skip(reason="needs POSIX"))


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running server; tests that need one are skipped where none can start, but not in CI."""
    try:
        server = PostgresServer()
        server.start()
    except Exception as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield server
    server.remove()


@pytest.fixture
def open_postgres(server: PostgresServer) -> Callable[[], object]:
    """Opens stores on one fresh schema."""
    from clew.stores import PostgresStore

    schema = f"t_{token_hex(6)}"
    return lambda: PostgresStore(server.dsn, schema=schema)
