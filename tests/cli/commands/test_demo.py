"""`clew demo` ends with the page: with its addresses, or with the page itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from urllib.request import urlopen

import pytest

from clew import SQLiteStore
from clew.web.api import first_run
from tests.cli.command import COMMAND, Folder

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/(\S*)")


def test_it_ends_with_addresses_of_runs_that_are_in_its_file(folder: Folder) -> None:
    printed = folder.clew("demo", "--quick", "--store", "its own.db", "--port", "8123").stdout
    assert "clew serve --store 'its own.db' --port 8123" in printed
    found = ADDRESS.findall(printed)
    assert {port for port, _ in found} == {"8123"}
    named = {name for _, path in found for name in re.findall(r"(?:runs/|[ab]=)([\w-]+)", path)}
    assert named == {"triage", "story", "loud-story"}
    runs = {run["run_id"]: run["status"] for run in folder.json("runs", "--store", "its own.db")}
    assert all(runs[name] == "completed" for name in named)


def test_a_file_with_other_runs_is_refused(folder: Folder) -> None:
    folder.clew("run", "flow:graph", "query=hello", "--run-id", "mine")
    error = folder.clew("demo", "--quick", "--store", "clew.db", code=2).stderr
    assert "clew.db" in error
    assert [run["run_id"] for run in folder.json("runs")] == ["mine"]


@pytest.mark.parametrize("address", ["", "its own.db"])
def test_the_commands_that_the_page_of_an_empty_store_shows_work_as_typed(
    address: str, folder: Folder
) -> None:
    SQLiteStore(folder.path / (address or "clew.db")).close()  # as the server made it
    command = folder.path / "clew"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    command.chmod(0o755)
    run_demo, *write_and_run = first_run(address)
    known = ("--store", address) if address else ()
    for commands, made in (([f"{run_demo} --quick"], 4), (write_and_run, 5)):
        for command in commands:
            subprocess.run(
                ["bash", "-c", command],
                cwd=folder.path,
                env=folder.environment(PATH=f"{folder.path}:{os.environ['PATH']}"),
                check=True,
                timeout=120,
            )
        assert len(folder.json("runs", *known)) == made
    assert folder.json("runs", *known)[-1]["status"] == "waiting"


def test_it_can_start_the_page(folder: Folder) -> None:
    pytest.importorskip("uvicorn")
    command = [*COMMAND, "demo", "--quick", "--serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder.path, env=folder.environment(), stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            pages = []
            for line in running.stdout:
                pages += ADDRESS.findall(line)
                if "Ctrl-C" in line:
                    break
            port = pages[0][0]
            assert [path for _, path in pages] == [
                "",
                "runs/triage",
                "runs/story",
                "compare?a=story&b=loud-story",
            ]
            with urlopen(f"http://127.0.0.1:{port}/api/runs/triage", timeout=60) as answer:
                assert json.load(answer)["status"] == "completed"
        finally:
            running.terminate()
            running.stdout.close()
