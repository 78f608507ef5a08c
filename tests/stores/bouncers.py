"""A real PgBouncer in transaction mode, in a temporary folder, on a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stores.servers import PostgresServer

BOUNCER = """
[databases]
postgres = host={server} dbname=postgres user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
logfile = {folder}/log
pidfile = {folder}/pid
{user}
"""


def bouncer_program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


@contextmanager
def pgbouncer(server: PostgresServer) -> Iterator[str]:
    """Start one with three connections to a server, and yield its address. Skip the test if it is not installed."""
    program = bouncer_program()
    if program is None:
        pytest.skip("PgBouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="clew-pgb-"))
    folder.chmod(0o777)
    user = "user = nobody" if os.geteuid() == 0 else ""  # it refuses to run as root
    config = folder / "pgbouncer.ini"
    config.write_text(BOUNCER.format(server=server.folder, folder=folder, user=user))
    with subprocess.Popen([program, config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        address = f"host={folder} port=6432 dbname=postgres user=postgres"
        while not (folder / ".s.PGSQL.6432").exists():  # the name of a socket, not a port
            assert process.poll() is None, (folder / "log").read_text()
        try:
            yield address
        finally:
            process.terminate()
    shutil.rmtree(folder)
