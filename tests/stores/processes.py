"""Another process with a store, that does what it is told: ``owner.do("claim", "r", ...)``.

Words go over pipes, one line of JSON each way, so nobody ever waits for a time to pass.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from clew.stores import LogEntry, PostgresStore, RunRow, SQLiteStore, Store


def opened(address: str) -> Store:
    """A store by its address: a file, or a PostgreSQL server and a schema."""
    if "|" in address:
        dsn, schema = address.split("|")
        return PostgresStore(dsn, schema=schema)
    return SQLiteStore(address)


def step(n: int, body: bytes = b"{}") -> LogEntry:
    return LogEntry("step", "", n, body, b"digest of " + body)


class Process:
    """A process of its own, with a store of its own on `address`, and a wall clock that is `shift` seconds off."""

    def __init__(self, address: str, *, shift: float = 0.0, **options: Any) -> None:
        wrong = f"import time; now = time.time; time.time = lambda: now() + {shift!r}; " if shift else ""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{wrong}from tests.stores.processes import main; main()", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            **options,
        )
        self.answer()

    def tell(self, verb: str, *values: Any) -> None:
        """Have it do something, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, *values]) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What it answers, or the name of the error that it met."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def do(self, verb: str, *values: Any) -> Any:
        self.tell(verb, *values)
        return self.answer()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop it where it stands, and return when it stands."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()


def main() -> None:
    """The other process."""
    store = opened(sys.argv[1])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        verb, *values = json.loads(line)
        try:
            answer = _VERBS[verb](store, *values)
        except Exception as error:
            answer = type(error).__name__
        print(json.dumps(answer), flush=True)


def _limit(_: Store, size: int | None) -> None:
    import resource

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


def _become_nobody(_: Store) -> None:
    if os.geteuid() == 0:  # who may write everywhere
        os.setegid(65534)
        os.seteuid(65534)


_VERBS: dict[str, Any] = {
    "create": lambda store, run_id: store.create(RunRow(run_id)),
    "claim": lambda store, run_id, owner, lease=600.0: store.claim(run_id, owner, lease=lease),
    "renew": lambda store, owner, lease=600.0: store.renew(owner, lease=lease),
    "append": lambda store, run_id, n, fence, size=2: store.append(run_id, [step(n, b"x" * size)], fence),
    "append two": lambda store, run_id, n, fence, size=2: store.append(
        run_id, [step(n, b"x" * size), step(n + 1, b"x" * size)], fence
    ),
    "steps": lambda store, run_id: [entry.n for entry in store.entries(run_id)],
    "limit": _limit,
    "become nobody": _become_nobody,
    "open": lambda store, address: opened(address).close(),
}
