"""Services of other people, for `python -m benchmarks.explore_api --services FOLDER`.

Their code is not part of this repository. `FOLDER/services.toml` says how each of them starts; every measurement gets a
new database and a new process:

```toml
[[service]]
name = "shop"
revision = "the commit that was checked out"
folder = "shop/backend"                     # below FOLDER; commands run there
database = "postgresql"                     # or "sqlite"
prepare = [["venv/bin/alembic", "upgrade", "head"]]
serve = ["venv/bin/uvicorn", "shop:app", "--port", "{port}"]
document = "/openapi.json"
logins = ["ann:secret"]                     # for Clew; without them a sign-up operation is used
environment = { DATABASE_URL = "{database}" }
header = "Authorization: Bearer {token}"    # for Schemathesis, with the token of the last response of:
options = ["--exclude-path", "/logout"]     # for Schemathesis: what would sign it out
sign_in = [{ path = "/users", json = '{"name": "tester"}' }, { path = "/login", form = "username=tester" }]
```

`{port}`, `{database}` (an address) and `{name}` (of the PostgreSQL database) are replaced. Nobody knows all bugs of
these services, so what counts is the operations that answer 5xx, and everything else that a tool reports is listed.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

PATIENCE = 60.0  # seconds in which a service must answer


class PublicService(NamedTuple):
    """How a service starts, as `services.toml` says."""

    name: str
    revision: str
    folder: str
    serve: list[str]
    database: str = "sqlite"
    prepare: list[list[str]] = []  # noqa: RUF012 - a tuple of options, never changed
    document: str = "/openapi.json"
    logins: list[str] = []  # noqa: RUF012
    environment: dict[str, str] = {}  # noqa: RUF012
    sign_in: list[dict[str, str]] = []  # noqa: RUF012
    header: str = ""
    options: list[str] = []  # noqa: RUF012


class Started(NamedTuple):
    """A service that runs on a new database."""

    url: str
    database: str
    document: str
    header: str


def read_services(folder: Path) -> list[PublicService]:
    """Return the services of a folder."""
    with (folder / "services.toml").open("rb") as file:
        return [PublicService(**each) for each in tomllib.load(file)["service"]]


@contextmanager
def started(service: PublicService, folder: Path, scratch: Path, server: str) -> Iterator[Started]:
    """Run a service on a new database. `server` is the address of a PostgreSQL server."""
    name = f"clew_bench_{os.getpid()}_{scratch.stem}".lower().replace("-", "_")
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    if service.database == "postgresql":
        database = server.rsplit("/", 1)[0] + f"/{name}"
        _create_database(server, name)
    else:
        database = str(scratch.with_suffix(".sqlite"))
    words = {"port": str(port), "database": database, "name": name}
    environment = {**os.environ, **_filled(service.environment, words)}
    place = folder / service.folder
    for command in service.prepare:
        subprocess.run(
            _command(command, words, place), cwd=place, env=environment, check=True, stdout=-3, stderr=-3
        )
    process = subprocess.Popen(
        _command(service.serve, words, place), cwd=place, env=environment, stdout=-3, stderr=-3
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(f"{url}{service.document}")
        yield Started(url, database, f"{url}{service.document}", _header(service, url))
    finally:
        process.kill()
        process.wait()


def _filled(texts: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    return {key: _replaced(text, words) for key, text in texts.items()}


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text


def _command(command: list[str], words: Mapping[str, str], place: Path) -> list[str]:
    """Return a command; its program is a file of the service, or one of the machine."""
    program, *rest = (_replaced(each, words) for each in command)
    return [str(place / program) if (place / program).exists() else program, *rest]


def _create_database(server: str, name: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _wait(address: str) -> None:
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(address, timeout=5):
                return
        except (URLError, OSError):
            if time.monotonic() > limit:
                raise
            time.sleep(0.1)


def _header(service: PublicService, url: str) -> str:
    """Return the header with which Schemathesis is signed in."""
    answer: Any = {}
    for each in service.sign_in:
        kind = "application/x-www-form-urlencoded" if "form" in each else "application/json"
        headers = {"Content-Type": kind}
        if "basic" in each:
            headers["Authorization"] = "Basic " + base64.b64encode(each["basic"].encode()).decode()
        body = each.get("form", each.get("json", "")).encode()
        with urlopen(Request(url + each["path"], body, headers, method="POST")) as response:
            answer = json.loads(response.read() or b"{}")
    return service.header.replace("{token}", str(_token(answer)))


def _token(answer: Any) -> Any:
    if isinstance(answer, Mapping):
        for key, value in answer.items():
            if "token" in key.lower() and isinstance(value, str):
                return value
            found = _token(value)
            if found is not None:
                return found
    return None
