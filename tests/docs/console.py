"""Sessions of a shell on the pages: each ``$ command`` is run, and prints what the page says it prints.

``...`` stands for anything, within a line or for whole lines, as in doctest. ``clew`` is the command of this checkout,
``python3`` the interpreter of the tests. A command that fails ends its output with a line ``[exit code N]``.
"""

from __future__ import annotations

import doctest
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import Block
from tests.fork_server import fork_server


def run_console(block: Block, page: Path) -> None:
    """Run the commands of a block in the current folder."""
    commands = read_session(block.code)
    assert commands, f"{page.name}:{block.line}: a console block without $"
    for line, command, expected in commands:
        done = _command(command) or subprocess.run(
            f'clew() {{ "{sys.executable}" -m clew "$@"; }}\npython3() {{ "{sys.executable}" "$@"; }}\n{command}',
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "CLEW_STORE": ""},
        )
        said = done.stdout + (f"[exit code {done.returncode}]\n" if done.returncode else "")
        is_right = doctest.OutputChecker().check_output(expected, said, doctest.ELLIPSIS)
        assert is_right, (
            f"{page.name}:{block.line + line}: `{command}` says\n{said}\nand the page\n{expected}"
        )


def _command(command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a command of Clew, or of pytest, that needs no shell; None for any other."""
    if os.name != "posix" or not set(command).isdisjoint("|&;<>`$*?~"):
        return None
    for start, module in (("clew ", "clew"), ("python3 -m pytest ", "pytest")):
        if command.startswith(start):
            words = shlex.split(command.removeprefix(start))
            env = {**os.environ, "CLEW_STORE": ""}
            return fork_server().run(words, cwd=Path.cwd(), env=env, is_one_stream=True, module=module)
    return None


def read_session(code: str) -> list[tuple[int, str, str]]:
    """Line, command and expected output of each command; a line that ends in a backslash goes on."""
    found: list[tuple[int, str, str]] = []
    goes_on = False
    for number, line in enumerate(code.splitlines()):
        if line.startswith("$ "):
            found.append((number, line[2:], ""))
        elif goes_on:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}", "")
        else:
            assert found, f"output before the first command: {line}"
            found[-1] = (*found[-1][:2], f"{found[-1][2]}{line}\n")
        goes_on = line.endswith("\\") and not found[-1][2]
    return found
