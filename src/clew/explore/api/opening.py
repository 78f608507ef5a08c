"""Opens what a service is explored with: its systems from addresses, its document, its transport.

A database or a service on another machine is refused unless that is allowed: an exploration writes and deletes.

Its migrations can be applied first. The folder of the command decides which tool does it: `manage.py` is Django's,
`alembic.ini` or a table `tool.alembic` in `pyproject.toml` is Alembic's. The tool runs in a separate process, with this
interpreter, as a person would run it. Migrations are not part of the exploration: they stay when it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clew.errors import DefinitionError, RefusedServiceError, SystemSetupError
from clew.explore.api.openapi.document import load_document, read_document
from clew.explore.api.transports.messages import HttpRequest, Transport
from clew.explore.api.transports.network_guard import is_local
from clew.runtime.loader import load_module

ROWS_SHOWN = 1000  # of a table, row by row: generated values can be renamed only in rows
DOCUMENTS = (
    "/openapi.json",
    "/api/openapi.json",
    "/api/v1/openapi.json",
    "/schema/openapi.json",
    "/schema",
    "/api/schema/",
    "/swagger.json",
)


def open_systems(given: Any, *, allow_remote: bool) -> tuple[dict[str, Any], list[Any]]:
    """Return systems by name, and those that were opened here and must be closed."""
    named = _named(given)
    if "session" in named:
        raise DefinitionError("systems: the name 'session' is used for the credentials of the actors")
    systems, opened = {}, []
    for name, each in named.items():
        if isinstance(each, str | os.PathLike):
            systems[name] = _open(os.fspath(each), allow_remote)
            opened.append(systems[name])
        else:
            systems[name] = each
    return systems, opened


def check_systems(given: Any, *, allow_remote: bool) -> None:
    """Refuse databases on another machine, without opening any."""
    for each in _named(given).values():
        if isinstance(each, str | os.PathLike):
            _check_local(hosts_of(os.fspath(each)), allow_remote)


def _named(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable):
        return {"db": given}
    return {"db" if n == 0 else f"db{n + 1}": each for n, each in enumerate(given)}


def _open(address: str, allow_remote: bool) -> Any:
    scheme = urlsplit(address).scheme
    if scheme in ("postgresql", "postgres") or "dbname=" in address:
        _check_local(hosts_of(address), allow_remote)
        from clew.explore.systems.postgres.system import PostgresSystem

        return PostgresSystem(address, rows_shown=ROWS_SHOWN)
    if scheme.startswith(("postgresql+", "sqlite+")):  # as SQLAlchemy writes it
        return _open(address.replace(scheme, scheme.split("+")[0], 1), allow_remote)
    if scheme in ("redis", "rediss"):
        _check_local(hosts_of(address), allow_remote)
        from clew.explore.systems.redis.system import RedisSystem

        return RedisSystem(address)
    path = address.removeprefix("sqlite:///") if scheme == "sqlite" else address
    if "://" in path:
        raise SystemSetupError(
            f"db: unknown address {address!r}; use postgresql://, redis://, a file or a folder"
        )
    if Path(path).is_dir():
        from clew.explore.systems.files.system import FileSystem

        return FileSystem(path)
    if not Path(path).exists():
        raise SystemSetupError(f"db: {path} does not exist; start the service once, or add --migrate")
    from clew.explore.systems.sqlite.system import SQLiteSystem

    return SQLiteSystem(path, rows_shown=ROWS_SHOWN)


def hosts_of(address: str) -> list[str]:
    """Return the hosts of a database address; a folder of Unix sockets is not a host."""
    if "://" in address:
        parts = urlsplit(address)
        found = [parts.hostname or "", *parse_qs(parts.query).get("host", ())]
    else:
        found = [part.split("=", 1)[1] for part in address.split() if part.startswith(("host=", "hostaddr="))]
    return [host for host in found if host and not host.startswith(("/", "%2f", "%2F", "@"))]


def _check_local(hosts: list[str], allow_remote: bool) -> None:
    remote = [host for host in hosts if not is_local(host)]
    if remote and not allow_remote:
        raise RefusedServiceError(
            f"the database at {remote[0]} is not on this machine, and an exploration writes and deletes; "
            "use a local copy, or --allow-remote"
        )


def check_url(url: str, *, allow_remote: bool) -> None:
    """Refuse a service on another machine."""
    host = urlsplit(url).hostname or ""
    if not is_local(host) and not allow_remote:
        raise RefusedServiceError(
            f"the service at {host} is not on this machine, and an exploration writes and deletes; "
            "use a local one, or --allow-remote"
        )


def load_app(app: Any) -> Any:
    """Return an application; a string is `module:name`, and a function without parameters creates it."""
    if not isinstance(app, str):
        return app
    module, found, name = app.partition(":")
    if not found:
        raise DefinitionError(f"app: expected MODULE:APP, got {app!r}")
    target: Any = load_module(module)
    for part in name.removesuffix("()").split("."):
        if not hasattr(target, part):
            raise DefinitionError(f"app: module {module!r} has no {part!r}")
        target = getattr(target, part)
    return target() if name.endswith("()") else target


def find_document(openapi: Any, app: Any, transport: Transport) -> Mapping[str, Any]:
    """Return the OpenAPI document: as given, from a file, from the application, or from the service."""
    if isinstance(openapi, Mapping):
        return openapi
    if openapi is not None and not str(openapi).startswith("/") and "://" not in str(openapi):
        return load_document(openapi)
    if isinstance(openapi, str | os.PathLike) and Path(openapi).is_file():
        return load_document(openapi)
    if openapi is None:
        own = getattr(app, "openapi", None)  # of FastAPI
        if not callable(own):
            own = getattr(getattr(app, "openapi_schema", None), "to_schema", None)  # of Litestar
        if callable(own):
            document: Mapping[str, Any] = own()
            return document
    tried = DOCUMENTS if openapi is None else (urlsplit(str(openapi)).path,)
    for path in tried:
        response = transport.send(HttpRequest("get", path))
        if response.status == 200 and b"paths" in response.body:
            return read_document(response.body)
    raise DefinitionError(
        f"openapi: the service has no document at {', '.join(tried)}; give its path or a file with --openapi"
    )


_COMMANDS = {
    "django": ("manage.py", "migrate", "--no-input"),
    "alembic": ("-m", "alembic", "upgrade", "head"),
}


def run_migrations(folder: Path | None = None) -> None:
    """Apply the pending migrations of the service in a folder."""
    folder = folder or Path.cwd()
    tools = _tools(folder)
    if len(tools) != 1:
        found = "both manage.py and Alembic's settings" if tools else "neither manage.py nor alembic.ini"
        raise DefinitionError(
            f"migrate: {folder} has {found}; run the migrations yourself, and leave migrate out"
        )
    words = _COMMANDS[tools[0]]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise SystemSetupError(
            f"migrate: python {' '.join(words)} failed: {lines[-1] if lines else f'exit code {done.returncode}'}; "
            "run it yourself to see all of its output"
        )


def _tools(folder: Path) -> list[str]:
    found = ["django"] if (folder / "manage.py").is_file() else []
    project = folder / "pyproject.toml"
    settings = tomllib.loads(project.read_text()) if project.is_file() else {}
    if (folder / "alembic.ini").is_file() or "alembic" in settings.get("tool", {}):
        found.append("alembic")
    return found
