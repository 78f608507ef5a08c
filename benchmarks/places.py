"""Where durable runs are kept while a row is measured: a temporary folder, or a PostgreSQL server of our own.

The folder is where `tempfile` puts it. An fsync costs nothing in memory, so set `TMPDIR` to a real disk if need be.
"""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVERS = Path(__file__).parent.parent / "tests" / "stores" / "servers.py"


# The workloads that need a place.
DURABLE = (
    "durable_chain",
    "durable_async_chain",
    "postgres_chain",
    "appends",
    "concurrent",
    "stall",
    "large_values",
    "large_pull",
    "listed",
    "opened",
)


@dataclass(frozen=True)
class Place:
    """What a contestant is given to keep its runs in; it makes a file of its own there."""

    folder: Path
    open: ExitStack  # closes what contestants open
    synchronous: str = "normal"
    durability: str = "sync"
    dsn: str = ""
    server: Any = None  # of the dsn

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def set_up(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """A connection with the journal and the caution that the row asks for."""
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self.synchronous}")
        return db


@contextmanager
def sqlite_place(synchronous: str, durability: str = "sync") -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder, ExitStack() as stack:
        yield Place(Path(folder), stack, synchronous, durability)


@contextmanager
def postgres_place() -> Iterator[Place]:
    """A fresh server, with fsync on; raises where none can be started."""
    spec = importlib.util.spec_from_file_location("benchmarks_servers", SERVERS)
    if spec is None or spec.loader is None or not SERVERS.exists():
        raise RuntimeError("PostgreSQL is started by the tests' own helper, which is not here")
    servers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(servers)
    server = servers.PostgresServer(fsync=True)
    try:
        server.start()
        with ExitStack() as stack:
            yield Place(server.folder, stack, dsn=server.dsn, server=server)
    finally:
        server.remove()


def size_of(file: Path) -> int:
    """Bytes of a SQLite database and its WAL, once all of the WAL is in the database."""
    with closing(sqlite3.connect(file)) as db:
        busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if busy:
            raise RuntimeError(f"{file.name} is still being used: its WAL cannot be moved")
        wal = file.with_name(file.name + "-wal")
        return file.stat().st_size + (wal.stat().st_size if wal.exists() else 0)


def message(number: int) -> dict[str, Any]:
    """What a step appends: about 130 bytes as JSON."""
    return {"role": "assistant", "content": f"{number:06} " + "x" * 93}


PAYLOAD = len(json.dumps(message(0), separators=(",", ":")))
