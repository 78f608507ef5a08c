"""The demo's second act: a run that is killed, resumed, replayed without a network, and forked.

Three parties, as in real life:

- the `Service`, a server on this machine that answers prompts, and writes down each one that it gets: what is in its
  file has happened in the world, whatever became of the run that asked;
- a child process, ``python crash.py``, that runs the graph on a SQLite file. Before its fourth call it says
  so through a pipe and waits for an answer that never comes, so that it is killed at the same place each time;
- the parent, that looks, resumes, replays and forks, and tells what it sees. What it says about calls is counted in
  the service's file.
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

# ReplayReport brings asyncio and ssl, which build on the real socket.socket: before the network is refused.
from clew import Context, Engine, Graph, ReplayReport, SQLiteStore, append, ifelse, node

Ask = Callable[..., str]
Tell = Callable[[str, tuple[str, ...], Sequence[tuple[str, ...]], str], None]
"""Shows something: a title, columns, rows, and what is said below them."""

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
    """Two recorded calls: look a fact up, and have a sentence made of it."""
    key, wish = ctx.idempotency_key[:8], f"Fact number {len(sentences) + 1}"
    fact = ctx.record("look up", ask, key=f"{key}-1", prompt=wish)
    text = prompt.format(manner=manner, fact=fact)
    return str(ctx.record("write", ask, key=f"{key}-2", prompt=text))


@ifelse(when_true="bind_up", when_false="write")
def enough(sentences: list[str], wanted: int) -> bool:
    """The loop's gate."""
    return len(sentences) >= wanted


@node(output="story")
def bind_up(sentences: list[str]) -> str:
    """The end: nothing outside is asked."""
    return " ".join(sentences)


graph = Graph([write, enough, bind_up], name="story", state=StoryState)


def engine_on(file: Path, ask: Ask, prompt: str = PROMPT) -> Engine:
    """The graph on a SQLite file."""
    return Engine(graph.bind(ask=ask, prompt=prompt), store=SQLiteStore(file), seed=7)


# -- the world outside -----------------------------------------------------------------------------------------


class Service(socketserver.ThreadingTCPServer):
    """Answers prompts on a port of this machine. One line in its file for each: the key, and what was asked."""

    daemon_threads = True

    def __init__(self, effects: Path, pace: float) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.port = int(self.server_address[1])
        self.pace = pace
        self._effects = effects
        effects.touch()

    def happened(self) -> list[list[str]]:
        """The lines so far: key, what was asked."""
        return [line.split(" ", 1) for line in self._effects.read_text("utf-8").splitlines()]

    def do(self, key: str, prompt: str) -> str:
        """Let something happen, and answer."""
        time.sleep(0.15 * self.pace)  # a service takes its time
        with self._effects.open("a", encoding="utf-8") as file:
            file.write(f"{key} {' / '.join(prompt.splitlines())}\n")
        if number := re.fullmatch(r"Fact number (\d+)", prompt):
            return FACTS[int(number[1]) - 1]
        sentence = prompt.rpartition("Fact: ")[2]
        return f"{sentence.upper()}!" if "Manner: loud" in prompt else f"{sentence[0].upper()}{sentence[1:]}."


class _Answer(socketserver.StreamRequestHandler):
    """One call: all that comes is the key and the prompt, all that goes is the answer."""

    def handle(self) -> None:
        service = self.server
        assert isinstance(service, Service)
        key, _, prompt = self.rfile.read().decode().partition("\n")
        self.wfile.write(service.do(key, prompt).encode())


@contextmanager
def serving(effects: Path, pace: float) -> Iterator[Service]:
    """A service for as long as it is needed."""
    with Service(effects, pace) as service:
        thread = threading.Thread(target=partial(service.serve_forever, poll_interval=0.02), daemon=True)
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


def asking(port: int) -> Ask:
    """The service as a function."""

    def ask(*, key: str, prompt: str) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
            line.sendall(f"{key}\n{prompt}".encode())
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as answer:
                return answer.read().decode()

    return ask


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Nobody gets a socket; what is yielded has an entry for each that was refused."""
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
    """Run the graph; before the fourth call say so, and wait to be killed."""
    made, ask = 0, asking(port)

    def ask_and_stop(*, key: str, prompt: str) -> str:
        nonlocal made
        if made == CALLS_BEFORE_THE_KILL:
            os.write(sys.stdout.fileno(), b"now\n")
            sys.stdin.read()  # ends only if the parent is gone, and then so is the reason to go on
            os._exit(1)
        made += 1
        return ask(key=key, prompt=prompt)

    engine_on(file, ask_and_stop).run(VALUES, run_id=RUN)


def run_and_kill(file: Path, port: int) -> int:
    """Start the child, wait for its word, kill it; its exit code, the negative number of the signal."""
    command = [sys.executable, __file__, str(file), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        try:
            word = running.stdout.readline()
        finally:
            running.kill()
        code = running.wait()
    if word != b"now\n":
        raise RuntimeError(f"the demo's child process ended with {code} before it was to be killed")
    return code


# -- the parent ------------------------------------------------------------------------------------------------


def act(pace: float, tell: Tell, keep: Path | None = None) -> dict[str, Any]:
    """Killed, resumed, replayed, changed, forked; everything that was found, as plain data.

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
    meaning = {"call": "an answer, as it came", "journal": "its outcome, not committed yet"}
    rows = [
        (kind, path or f"S({n})", meaning.get(kind) or f"after {ran.get(n)}") for kind, path, n in entries
    ]
    recorded = sum(kind == "call" for kind, _, _ in entries)
    by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    alive = owner is not None and owner.is_alive
    below = (
        f"The run says {row.status!r}, and its owner is {'alive' if alive else 'dead'}: that is how a crash looks. "
        f"The service has been called {len(effects)} times, and {recorded} calls are recorded: "
        f"the loop's second round was half done."
    )
    tell(
        f"A run in another process was killed ({by}); what its SQLite file holds",
        ("entry", "of", "what it is"),
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
        f"It is {result.status}. {len(effects) - before} calls were made; the {before} finished ones were not made "
        f"again: {len(effects)} lines, {len(keys)} different keys.\nThe story: {result['story']}"
    )
    tell("Resumed, in this process: what the service wrote down", ("when", "key", "asked for"), rows, below)
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
        f"{report}. All nodes ran again, on {report.calls} recorded answers: {calls} calls were made, and "
        f"{asked_for} sockets asked for.\nThe network was really off. The same call, made by hand: {by_hand}"
    )
    tell("Replayed, with the network refused", (), (), below)
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
        f"Step {found.step}: {found.message}. {calls} calls were made to find that out. "
        f"strict=False lists all such places."
    )
    tell("Replayed again, after one word was put into a prompt", ("", "the call's arguments"), rows, below)
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
        f"It is {fork.status}. {len(effects)} calls were made, for what comes after S({step}); the {step} steps before "
        f"are those of {RUN!r}, which is as it was."
    )
    tell(f"Forked from S({step}), with another manner: loud", ("run", "its story"), rows, below)
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
