"""The command on PostgreSQL: the same words, another address."""

from __future__ import annotations

from urllib.parse import quote

from tests.cli.command import Folder, until
from tests.stores.servers import PostgresServer


def test_a_run_is_killed_resumed_and_checked(folder: Folder, server: PostgresServer) -> None:
    store = f"postgresql://postgres@/postgres?host={quote(str(server.folder), safe='')}"
    with folder.start(
        "run", "flow:slow", "count=15", "pause=1", "--run-id", "r", CLEW_STORE=store
    ) as process:
        until(lambda: len(folder.lines("ticks.log")) >= 2)
        process.kill()
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
