"""The files for deployments in the recipe `workers`: their commands exist and work, and services stop as the page says.

Neither Docker nor systemd is needed: the commands are executed here, with a server of the tests.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path
from secrets import token_hex

import httpx
import psycopg
import pytest

from clew import Engine, PostgresStore
from tests.stores.servers import PostgresServer

pytestmark = pytest.mark.posix

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "recipes" / "workers"


def compose_commands() -> dict[str, list[str]]:
    """Return the command of each service. A flow list of YAML is JSON."""
    found: dict[str, list[str]] = {}
    service = ""
    for line in (FOLDER / "compose.yaml").read_text().splitlines():
        if named := re.fullmatch(r"  (\w+):", line):
            service = named[1]
        elif given := re.match(r"    command: (\[.*\])", line):
            found[service] = json.loads(given[1])
    return found


def unit(name: str = "clew-worker@.service") -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read(FOLDER / name)
    return parser


def unit_command(name: str = "clew-worker@.service") -> list[str]:
    words = shlex.split(unit(name)["Service"]["ExecStart"].replace("%i", "1"))
    assert Path(words[0]).name == "clew"
    return ["clew", *words[1:]]


def docker_command() -> list[str]:
    text = (FOLDER / "Dockerfile").read_text()
    return list(json.loads(text.partition("\nCMD ")[2]))


COMMANDS = {"compose": compose_commands()["worker"], "systemd": unit_command(), "docker": docker_command()}


def clew(words: list[str]) -> list[str]:
    assert words[0] == "clew"
    return [sys.executable, "-m", "clew", *words[1:]]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_command_of_a_worker_executes_runs_and_drains(
    server: PostgresServer, tmp_path: Path, command: list[str]
) -> None:
    name = f"deploy_{token_hex(4)}"
    with psycopg.connect(server.dsn, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
    shutil.copy(FOLDER / "orders.py", tmp_path)
    url = f"postgresql://postgres@/{name}?host={server.folder}"
    environment = {**os.environ, "CLEW_STORE": url, "PYTHONPATH": str(ROOT / "src")}
    submit = clew(["clew", "submit", "orders:graph", "prices=[1, 2]", "--run-id", "o1"])
    subprocess.run(submit, cwd=tmp_path, env=environment, check=True, capture_output=True)
    with subprocess.Popen(
        clew(command), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as worker:
        with Engine(store=PostgresStore(url)) as engine:
            until = time.monotonic() + 300.0
            while engine.result("o1").status != "completed":
                assert worker.poll() is None, worker.communicate()[0]
                assert time.monotonic() < until
                time.sleep(0.05)  # between two looks
            assert engine.result("o1")["receipt"] == "paid 3"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=300) == 0


PAGES = {"compose": compose_commands()["page"], "systemd": unit_command("clew-page.service")}


@pytest.mark.parametrize("command", PAGES.values(), ids=PAGES)
def test_the_command_of_the_page_shows_runs_and_stops(
    server: PostgresServer, tmp_path: Path, command: list[str]
) -> None:
    url = f"postgresql://postgres@/postgres?host={server.folder}"
    environment = {**os.environ, "CLEW_STORE": url, "PYTHONPATH": str(ROOT / "src"), "CLEW_TOKEN": "a" * 32}
    with subprocess.Popen(
        [*clew(command), "--port", "0"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as page:
        assert page.stdout is not None
        found = re.search(r":(\d+)/", page.stdout.readline())
        assert found is not None
        asked = httpx.get(
            f"http://127.0.0.1:{found[1]}/api/runs",
            headers={"Host": f"localhost:{found[1]}", "Authorization": f"Bearer {'a' * 32}"},
            timeout=300,
        )
        assert asked.status_code == 200, asked.text
        page.send_signal(signal.SIGTERM)
        assert page.wait(timeout=300) in (0, -signal.SIGTERM)  # a service manager counts both as a stop


def test_a_password_may_have_any_characters() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    assert "PGPASSWORD: ${CLEW_PASSWORD}" in text
    assert "@postgres" in text
    assert "}@postgres" not in text  # it would have to be quoted for an address


def seconds_of_grace(command: list[str]) -> float:
    return float(command[command.index("--grace") + 1])


def test_services_wait_longer_than_workers() -> None:
    service = unit()["Service"]
    assert float(service["TimeoutStopSec"]) > seconds_of_grace(COMMANDS["systemd"])
    assert (service["KillSignal"], service["Restart"]) == ("SIGTERM", "always")
    waits = re.search(r"stop_grace_period: (\d+)s", (FOLDER / "compose.yaml").read_text())
    assert waits is not None
    assert float(waits[1]) > seconds_of_grace(COMMANDS["compose"])


def test_the_server_of_the_containers_starts_with_its_options(server: PostgresServer) -> None:
    program, *options = compose_commands()["postgres"]
    assert program == "postgres"
    assert set(options[::2]) == {"-c"}
    with psycopg.connect(server.dsn) as db:
        names = [option.partition("=")[0] for option in options[1::2]]
        known = db.execute("SELECT name FROM pg_settings WHERE name = ANY(%s)", (names,)).fetchall()
    assert {name for (name,) in known} == set(names)


def test_every_file_is_named_in_the_page() -> None:
    page = (ROOT / "docs" / "how-to" / "deploy.md").read_text()
    for name in ("Dockerfile", "clew-worker@.service", "clew-page.service", "compose.yaml", "orders.py"):
        assert (FOLDER / name).is_file()
        assert name in page
