"""The command on PostgreSQL: the same words, another address."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
import pytest

from tests.cli.command import Folder, until
from tests.stores.servers import PostgresServer


def test_a_run_is_killed_resumed_and_checked(folder: Folder, server: PostgresServer) -> None:
    store = f"postgresql://postgres@/postgres?host={quote(str(server.folder), safe='')}"
    (folder.path / "hold").write_text("16")
    with folder.start(
        "run", "flow:slow", "count=15", "pause=0", "--run-id", "r", CLEW_STORE=store
    ) as process:
        until(lambda: len(folder.lines("ticks.log")) >= 2)
        process.kill()
    (folder.path / "hold").unlink()
    (orphan,) = folder.json("doctor", "--store", store)["orphans"]
    assert "has ended" in orphan["reason"]
    assert folder.json("resume", "r", CLEW_STORE=store)["values"]["seen"] == [15, 16, 17, 18, 19]
    assert folder.clew("replay", "--all", CLEW_STORE=store).stdout.endswith("1 of 1 runs replay\n")
    folder.clew("export", "r", "-o", "run.json", CLEW_STORE=store)
    folder.clew("import", "run.json", "--store", "local.db")
    found = folder.json("doctor", "--store", store)
    assert (found["runs"], found["damage"], found["orphans"]) == (1, [], [])
    assert not (folder.path / "clew.db").exists()


def test_a_server_that_is_not_there(folder: Folder) -> None:
    done = folder.clew("runs", "--store", "postgresql://nobody@localhost:1/none?connect_timeout=1", code=1)
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr


def test_a_password_is_not_printed(folder: Folder, server: PostgresServer) -> None:
    place = f"/postgres?host={quote(str(server.folder), safe='')}"
    for store in (f"postgresql://postgres:hush@{place}", f"postgresql://postgres@{place}&password=hush"):
        done = folder.clew("submit", "flow:graph", "query=hi", "--store", store)
        assert "--store postgresql://postgres@/postgres?host=" in done.stdout.replace("'", "")
        assert "hush" not in done.stdout + done.stderr
    done = folder.clew("runs", "--store", "mysql://root:hush@localhost/runs", code=2)
    assert "mysql://root@localhost/runs" in done.stderr
    assert "hush" not in done.stderr


@pytest.mark.parametrize(
    "user, database, says, code",
    [
        ("postgres", "missing", "createdb", 1),
        ("nobody_here", "postgres", "check the user", 1),
        ("without_rights", "postgres", "CREATE SCHEMA clew AUTHORIZATION", 2),
    ],
)
def test_a_server_that_refuses_says_what_to_do(
    folder: Folder, server: PostgresServer, user: str, database: str, says: str, code: int
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as db:
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'without_rights'").fetchone():
            db.execute("CREATE ROLE without_rights LOGIN")
    store = f"postgresql://{user}@/{database}?host={quote(str(server.folder), safe='')}"
    done = folder.clew("worker", "flow:graph", "--until-idle", "--store", store, code=code)
    assert says in done.stderr.partition("\nhint: ")[2]
