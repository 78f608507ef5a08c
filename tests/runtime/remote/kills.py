"""Workers killed at random moments, while items run that note who started them and who made their recorded call."""

from __future__ import annotations

import operator
import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Annotated, Any, TypedDict

from clew import Context, Engine, Graph, Send, node, route
from clew.runtime.remote.executor import RemoteExecutor
from tests.runtime.remote.checks import digests, lines
from tests.runtime.remote.flow import note


class Items(TypedDict, total=False):
    n: int
    folder: str
    done: Annotated[list[Any], operator.add]


def linger(random: Random) -> None:
    time.sleep(random.uniform(0, 0.03))


def call(folder: str, i: int) -> int:
    note(f"{folder}/calls", f"{i} {os.getpid()}")
    linger(Random(i))
    return i * i


@route(targets=["item"], on="driver")
def each(n: int) -> list[Send]:
    return [Send("item", {"i": i}) for i in range(n)]


@node(output="done")
def item(i: int, folder: str, ctx: Context) -> list[Any]:
    note(f"{folder}/starts", f"{i} {os.getpid()}")
    linger(Random(-i))
    found = ctx.record("call", call, folder, i)
    linger(Random(i + 1))
    return [[i, found, ctx.random.random(), ctx.attempt]]


graph = Graph([each, item], state=Items, name="kills")


def pairs(path: Path) -> list[tuple[int, int]]:
    """Return the item and the process of each line."""
    return [(int(i), int(pid)) for i, pid in (line.split() for line in lines(path))]


def kill_some(folder: Path, random: Random, most: int, killed: set[int], done: Event) -> None:
    """Kill processes that have started an item lately."""
    while len(killed) < most and not done.wait(random.uniform(0, 0.4)):
        try:
            recent = (folder / "starts").read_text().split()[1::2][-4:]
        except FileNotFoundError:
            continue
        pid = int(random.choice(recent)) if recent else 0
        if pid and pid not in killed:
            killed.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def campaign(on: RemoteExecutor, folder: Path, seed: int, *, n: int, kills: int) -> None:
    """Run items while workers are killed; the chain is that of the local run, and nothing happens too often."""
    values, killed, done = {"n": n, "folder": str(folder)}, set[int](), Event()
    killer = Thread(target=kill_some, args=(folder, Random(seed), kills, killed, done))
    killer.start()
    with Engine(graph, store=folder / "there.db", executor=on, seed=seed, default_node_timeout=120) as there:
        try:
            result = there.run(values, run_id="r")
        finally:
            done.set()
            killer.join()
        assert killed
        assert [each[3] for each in result["done"]] == [0] * n, "no attempt has failed"
        starts, calls = pairs(folder / "starts"), pairs(folder / "calls")
        assert there.replay("r").ok
        with Engine(graph, store=folder / "here.db", seed=seed) as here:
            here.run(values, run_id="r")
            assert digests(there, "r") == digests(here, "r")
    for name, found in (("started", starts), ("called", calls)):
        assert {i for i, _ in found} == set(range(n)), f"each item was {name}"
        assert max(Counter(found).values()) == 1, f"no process has {name} an item twice"
        survived = Counter(i for i, pid in found if pid not in killed)
        assert max(survived.values()) == 1, f"only those of killed workers were {name} again"
