"""The second part of the demo: a run that is killed, resumed, replayed without a network, and forked.

Three processes and servers take part:

- `Service` is a server on this machine. It answers prompts and writes each request to a file, so the file shows which
  calls were really made.
- A child process, ``python crash.py``, runs the graph on a SQLite file. Before its fourth call, it reports this through
  a pipe and waits, so that it is killed at the same point each time.
- The parent inspects, resumes, replays and forks the run, and prints the results. It counts calls in the file of the
  service.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict

# ReplayReport imports asyncio and ssl, which need the real socket.socket: import it before the network is off.
from clew import Context, Engine, Graph, ReplayReport, SQLiteStore, append, ifelse, node

Ask = Callable[..., str]
Tell = Callable[[str, tuple[str, ...], Sequence[tuple[str, ...]], str], None]
"""Shows a title, columns, rows, and text below them."""

# -- the graph -------------------------------------------------------------------------------------------------

PROMPT = "Write one sentence.\nManner: {manner}\nFact: {fact}"
OTHER_PROMPT = "Write one short sentence.\nManner: {manner}\nFact: {fact}"
FACTS = (
    "a clew was a ball of thread",
    "Theseus unwound one in the labyrinth",
    "it showed him the way back",
)
VALUES = {"manner": "calm", "wanted": len(FACTS)}
RUN, FORK = "story", "loud-story"
CALLS_BEFORE_THE_KILL = 3


class StoryState(TypedDict, total=False):
    manner: str
    wanted: int
    sentences: Annotated[list[str], append]
    story: str


@node(output="sentences")
def write(sentences: list[str], manner: str, ctx: Context, ask: Ask, prompt: str) -> str:
    """Make two recorded calls: look up a fact, and turn it into a sentence."""
    key, wish = ctx.idempotency_key[:8], f"Fact number {len(sentences) + 1}"
    fact = ctx.record("look up", ask, key=f"{key}-1", prompt=wish)
    text = prompt.format(manner=manner, fact=fact)
    return str(ctx.record("write", ask, key=f"{key}-2", prompt=text))


@ifelse(when_true="bind_up", when_false="write")
def enough(sentences: list[str], wanted: int) -> bool:
    """Decide whether the loop ends."""
    return len(sentences) >= wanted


@node(output="story")
def bind_up(sentences: list[str]) -> str:
    """Join the sentences, without an external call."""
    return " ".join(sentences)


graph = Graph([write, enough, bind_up], name="story", state=StoryState)


def engine_on(file: Path, ask: Ask, prompt: str = PROMPT) -> Engine:
    """Return an engine for the graph on a SQLite file."""
    return Engine(graph.bind(ask=ask, prompt=prompt), store=SQLiteStore(file), seed=7)


# -- the service -----------------------------------------------------------------------------------------------


class Service(socketserver.ThreadingTCPServer):
    """A server on a local port that answers prompts. It writes a line for each request: the key and the prompt."""

    daemon_threads = True

    def __init__(self, effects: Path, pace: float) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.port = int(self.server_address[1])
        self.pace = pace
        self._effects = effects
        effects.touch()

    def happened(self) -> list[list[str]]:
        """Return the requests so far, as key and prompt."""
        return [line.split(" ", 1) for line in self._effects.read_text("utf-8").splitlines()]

    def do(self, key: str, prompt: str) -> str:
        """Write the request to the file, and return the answer."""
        time.sleep(0.15 * self.pace)  # the latency of the service
        with self._effects.open("a", encoding="utf-8") as file:
            file.write(f"{key} {' / '.join(prompt.splitlines())}\n")
        if number := re.fullmatch(r"Fact number (\d+)", prompt):
            return FACTS[int(number[1]) - 1]
        sentence = prompt.rpartition("Fact: ")[2]
        return f"{sentence.upper()}!" if "Manner: loud" in prompt else f"{sentence[0].upper()}{sentence[1:]}."


class _Answer(socketserver.StreamRequestHandler):
    """Handles one call: reads the key and the prompt, and sends the answer."""

    def handle(self) -> None:
        service = self.server
        assert isinstance(service, Service)
        key, _, prompt = self.rfile.read().decode().partition("\n")
        self.wfile.write(service.do(key, prompt).encode())


@contextmanager
def serving(effects: Path, pace: float) -> Iterator[Service]:
    """Run a service inside a with block."""
    with Service(effects, pace) as service:
        thread = threading.Thread(target=partial(service.serve_forever, poll_interval=0.02), daemon=True)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


def asking(port: int) -> Ask:
    """Return a function that calls the service."""

    def ask(*, key: str, prompt: str) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(f"{key}\n{prompt}".encode())
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as answer:
                return answer.read().decode()

    return ask


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Refuse every new socket; yield a list with an entry for each."""
    refused: list[str] = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        refused.append("a socket")
        raise ConnectionRefusedError("the network is off")

    real = socket.socket
    socket.socket = refuse
    try:
        yield refused
    finally:
        socket.socket = real


# -- the child -------------------------------------------------------------------------------------------------


def child(file: Path, port: int) -> None:
    """Run the graph; before the fourth call, report it and wait to be killed."""
    made, ask = 0, asking(port)

    def ask_and_stop(*, key: str, prompt: str) -> str:
        nonlocal made
        if made == CALLS_BEFORE_THE_KILL:
            os.write(sys.stdout.fileno(), b"now\n")
            sys.stdin.read()  # returns only if the parent has ended
            os._exit(1)
        made += 1
        return ask(key=key, prompt=prompt)

    engine_on(file, ask_and_stop).run(VALUES, run_id=RUN)


def run_and_kill(file: Path, port: int) -> int:
    """Start the child, wait for its report, and kill it. Return its exit code, the negative number of the signal."""
    command = [sys.executable, __file__, str(file), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        try:
            word = running.stdout.readline()
        finally:
            running.kill()
        code = running.wait()
    if word != b"now\n":
        raise RuntimeError(f"the child process of the demo ended with exit code {code} before it was killed")
    return code


# -- the parent ------------------------------------------------------------------------------------------------


def act(pace: float, tell: Tell, keep: Path | None = None) -> dict[str, Any]:
    """Kill, resume, replay, change and fork a run. Return the results as plain data.

    `keep` is the file of the runs; without it, they are deleted.
    """
    with TemporaryDirectory() as name, serving(Path(name) / "effects.txt", pace) as service:
        file, ask = keep or Path(name) / "runs.db", asking(service.port)
        code = run_and_kill(file, service.port)
        with engine_on(file, ask) as engine:
            killed = _look(engine, service, code, tell)
            resumed = _resume(engine, service, tell)
            replayed = _replay(engine, service, ask, tell)
        with engine_on(file, ask, OTHER_PROMPT) as engine:
            changed = _change(engine, service, tell)
        with engine_on(file, ask) as engine:
            forked = _fork(engine, service, tell)
    return {"killed": killed, "resumed": resumed, "replayed": replayed, "changed": changed, "fork": forked}


def _look(engine: Engine, service: Service, code: int, tell: Tell) -> dict[str, Any]:
    row, owner = engine.store.row(RUN), engine.store.owner(RUN)
    effects = service.happened()
    entries = [(entry.kind, entry.path, entry.n) for entry in engine.store.entries(RUN)]
    ran = {at.step_id: ", ".join(at.items) for at in engine.history(RUN)}
    meaning = {"call": "a recorded result", "journal": "a finished item, not committed"}
    rows = [
        (kind, path or f"S({n})", meaning.get(kind) or f"after {ran.get(n)}") for kind, path, n in entries
    ]
    recorded = sum(kind == "call" for kind, _, _ in entries)
    by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    alive = owner is not None and owner.is_alive
    below = (
        f"The run has status {row.status!r}, and its owner is {'alive' if alive else 'dead'}: it was interrupted. "
        f"The service was called {len(effects)} times, and {recorded} calls are recorded: "
        f"the process died in the second turn of the loop."
    )
    tell(
        f"The process of a run was killed ({by}). The log in its SQLite file",
        ("entry", "of", "content"),
        rows,
        below,
    )
    return {
        "signal": by,
        "status": row.status,
        "owner_alive": alive,
        "steps": max(ran),
        "entries": entries,
        "effects": effects,
    }


def _resume(engine: Engine, service: Service, tell: Tell) -> dict[str, Any]:
    before = len(service.happened())
    result = engine.resume(RUN)
    effects = service.happened()
    keys = {key for key, _ in effects}
    rows = [
        ("before the kill" if place < before else "after", key, asked)
        for place, (key, asked) in enumerate(effects)
    ]
    below = (
        f"The run is {result.status}. It made {len(effects) - before} more calls and did not repeat the {before} "
        f"recorded ones: {len(effects)} requests, {len(keys)} different keys.\nThe story: {result['story']}"
    )
    tell(
        "Resumed in this process. The requests that the service received",
        ("when", "key", "prompt"),
        rows,
        below,
    )
    return {"status": result.status, "story": result["story"], "effects": effects, "keys": len(keys)}


def _replay(engine: Engine, service: Service, ask: Ask, tell: Tell) -> dict[str, Any]:
    before = len(service.happened())
    with no_network() as refused:
        report: ReplayReport = engine.replay(RUN)
        asked_for = len(refused)
        try:
            by_hand = ask(key="by hand", prompt="Fact number 1")
        except OSError as error:
            by_hand = f"{type(error).__name__}: {error}"
    calls = len(service.happened()) - before
    below = (
        f"{report}. All nodes ran again with {report.calls} recorded results: {calls} calls were made, and "
        f"{asked_for} sockets were opened.\nThe network was off. The same call without the replay: {by_hand}"
    )
    tell("Replayed, with the network off", (), (), below)
    return {
        "ok": report.ok,
        "steps": report.steps,
        "answered": report.calls,
        "calls": calls,
        "sockets": asked_for,
        "by_hand": by_hand,
    }


def _change(engine: Engine, service: Service, tell: Tell) -> dict[str, Any]:
    before = len(service.happened())
    with no_network():
        report = engine.replay(RUN)
    calls = len(service.happened()) - before
    found = report.divergences[0]
    rows = [(line[:1].strip(), line[1:]) for line in found.diff.splitlines()[3:]]  # without the headings
    below = (
        f"Step {found.step}: {found.message}. The replay made {calls} calls. "
        f"With strict=False, it lists all differences."
    )
    tell("Replayed again, after a word was added to a prompt", ("", "arguments of the call"), rows, below)
    return {"ok": report.ok, "divergence": str(found), "calls": calls}


def _fork(engine: Engine, service: Service, tell: Tell) -> dict[str, Any]:
    before = len(service.happened())
    step = next(at.step_id for at in engine.history(RUN) if "enough#1" in at.items)
    values = {"manner": "loud"}
    fork = engine.fork(RUN, step=step, values=values, run_id=FORK)
    effects = service.happened()[before:]
    old = engine.result(RUN)
    rows = [(RUN, old["story"]), (FORK, fork["story"])]
    below = (
        f"The fork is {fork.status}. It made {len(effects)} calls, for the steps after S({step}), and shares the "
        f"{step} steps before with {RUN!r}, which did not change."
    )
    tell(f"Forked from S({step}), with manner: loud", ("run", "story"), rows, below)
    return {
        "from": step,
        "values": values,
        "status": fork.status,
        "story": fork["story"],
        "effects": effects,
        "difference": str(engine.diff(RUN, FORK)).splitlines(),
    }


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]))
