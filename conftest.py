"""What holds for all tests: how Hypothesis searches; files in memory; and a PostgreSQL server for each worker.

In CI a test result must be a function of the commit, so examples are derived from the test itself. At a
desk the search is random and remembers what it found in ``.hypothesis``. There is no deadline in either, and no check
of how long examples take to generate: workers share cores, so the time of one example says nothing.

Temporary files are in memory where that is a file system with room. On a disk, creating and closing a SQLite store
takes a hundred times as long, and most tests do that. What survives a SIGKILL does not depend on the disk; tests that
need a disk mount their own. `TMPDIR` and ``--basetemp`` choose another place.

A shell that starts a command in the background has it ignore interrupts, and what it starts too; tests that interrupt
a process of their own need one that does not.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from hypothesis import HealthCheck, settings

from tests.classes import forget_replaced_classes
from tests.connections import stores_left_open
from tests.posix import needs_posix
from tests.stores.servers import PostgresServer

settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("desk"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

MEMORY, ROOM = Path("/dev/shm"), 4 << 30  # containers often have 64 MiB there
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use one worker more than there are cores: a third of the time, tests wait for processes that they started."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of garbage collections: a full one takes a quarter of a second else."""
    forget_replaced_classes()
    gc.collect()
    gc.freeze()


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
def open_postgres(server: PostgresServer) -> Iterator[Callable[[], object]]:
    """Opens stores on one fresh schema, and closes them."""
    from clew.stores import PostgresStore

    schema, opened = f"t_{token_hex(6)}", list[PostgresStore]()

    def open_store() -> PostgresStore:
        opened.append(PostgresStore(server.dsn, schema=schema))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that leaves a PostgreSQL store open: Python blames whichever test is running when it is collected."""
    result = yield
    forget_replaced_classes()
    left = stores_left_open()
    assert not left, f"{item.nodeid} leaves stores open: {left}"
    return result
