"""The real command, in a process of its own (most are forks, see `fork_server`), in a folder of its own."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fork_server import fork_server

FLOW = Path(__file__).with_name("flow.py")
COMMAND = [sys.executable, "-m", "clew"]
AT_START = ("PYTHON", "LANG", "LC_", "TZ")  # variables that a process reads as it starts


# The graphs of flow.py that commands may load because a run names them.
PROJECT = """
[tool.clew]
graphs = [
    "flow:graph", "flow:asking", "flow:failing", "flow:made", "flow:slow", "flow:looping", "flow:nested",
]
"""


class Folder:
    """A folder with flow.py in it and a project that lists its graphs, where commands are given."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copy(FLOW, path / "flow.py")
        (path / "pyproject.toml").write_text(PROJECT)

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
        return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}

    def clew(
        self, *words: str, code: int = 0, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Give a command, and expect its exit code."""
        given = self.environment(**env)
        if any(name.startswith(AT_START) for name in env):
            done = subprocess.run(
                [*COMMAND, *words],
                cwd=self.path,
                env=given,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        else:
            done = fork_server().run(words, cwd=self.path, env=given, stdin=stdin, timeout=300)
        assert done.returncode == code, f"clew {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr or env.get("CLEW_DEBUG"), done.stderr
        return done

    def json(self, *words: str, code: int = 0, **env: str) -> Any:
        """What a command says with --json."""
        return json.loads(self.clew(*words, "--json", code=code, **env).stdout)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """A command that goes on by itself."""
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.path,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def lines(self, name: str) -> list[str]:
        """The lines of a file that nodes write to."""
        file = self.path / name
        return file.read_text().splitlines() if file.exists() else []

    def in_terminal(self, *words: str) -> tuple[int, str]:
        """Give a command on a pseudo-terminal; its exit code, and what the terminal got."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            os.execve(
                sys.executable, [*COMMAND, *words], self.environment(TERM="xterm-256color", COLUMNS="100")
            )
        got = b""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    got += os.read(terminal, 65536)
                except OSError:  # it is closed: the command has ended
                    break
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return os.waitstatus_to_exitcode(status), got.decode(errors="replace")

    def talk(self, *words: str) -> Talk:
        """Give a command on a pseudo-terminal, to talk with."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.path)
            environment = self.environment(TERM="dumb", COLUMNS="100")
            os.execve(sys.executable, [*COMMAND, *words], environment)
        return Talk(pid, terminal)


class Talk:
    """A command at a terminal: what it said so far, and what it is told."""

    def __init__(self, pid: int, terminal: int) -> None:
        self._pid, self._terminal = pid, terminal
        self._said = ""

    def send(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def expect(self, text: str, seconds: float = 300.0) -> None:
        """Wait for words; what came before them is done with."""
        deadline = time.monotonic() + seconds
        while text not in self._said:
            assert time.monotonic() < deadline, f"{text!r} was not said, but: {self._said}"
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._said += os.read(self._terminal, 65536).decode(errors="replace")
        self._said = self._said.partition(text)[2]

    def interrupt(self) -> None:
        """Press ^C once it waits for a key. Between showing its prompt and waiting, a line editor takes note of a
        signal and then waits for a key all the same: nobody is that quick at a keyboard, and a test is."""
        until(lambda: self._state() == "S")
        self.send("\x03")

    def _state(self) -> str:
        """R for running, S for asleep: the field behind the name, which is in parentheses."""
        return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]

    def ended(self) -> int:
        """The exit code, once it is over."""
        try:
            while os.read(self._terminal, 65536):
                pass
        except OSError:  # it is closed
            pass
        _, status = os.waitpid(self._pid, 0)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for other processes."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
