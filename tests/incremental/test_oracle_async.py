"""Async pulls concurrent with each other, with changes and with failures, in many orders.

Every computor waits at a gate until the test opens it. A seed decides which one continues next, what happens in
between, and the order in which the event loop runs ready tasks. In each order:

- a pull returns the value of its node at the revision at which it began;
- no pull computes a node twice;
- everything that is up to date has the value that computing everything again gives, and its inputs are up to date too;
- a database that is opened afterwards has the same content.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph, schema
from tests.campaigns import PARTS
from tests.incremental.oracle import FRESH
from tests.incremental.oracle_pair import VALUES, Broken, spoken
from tests.incremental.oracle_worlds import Node, Rule, World, a_world, behave, same

who: ContextVar[int] = ContextVar("who", default=-1)
PURE = ("plain", "coarse", "mixed", "fixed")


class Shuffled(asyncio.SelectorEventLoop):
    """An event loop that runs what is ready in any order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _run_once(self) -> None:
        ready = list(self._ready)
        self._random.shuffle(ready)
        self._ready.clear()
        self._ready.extend(ready)
        super()._run_once()


class Stage:
    """A graph whose computors wait, the values of its sources, and the running pulls."""

    def __init__(self, world: World, store: Path | None, width: int) -> None:
        self.world = world
        self.store = store
        self.values: dict[Node, Any] = {}
        self.pins: dict[Node, Any] = {}  # those that hold
        self.gates: list[tuple[Node, asyncio.Future[None]]] = []
        self.calls: Counter[tuple[int, Node]] = Counter()
        self.pulls: dict[asyncio.Task[Any], int] = {}
        self.worth: dict[int, Any] = {}  # what the node of a pull was worth when it began
        self.width = width
        self.open()

    def open(self) -> None:
        schemas = [
            schema(
                rule.output.text(),
                inputs=[form.text() for form in rule.inputs],
                computor=None if rule.habit == "given" else self._computor(rule),
            )
            for rule in self.world.rules
        ]
        self.graph = DependencyGraph(schemas, store=self.store, max_concurrency=self.width)

    def _computor(self, rule: Rule) -> Any:
        async def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            node = rule.output.at(bindings)
            self.calls[who.get(), node] += 1
            gate = asyncio.get_running_loop().create_future()
            self.gates.append((node, gate))
            assert len(self.gates) <= self.width
            try:
                await gate
            finally:
                self.gates.remove((node, gate))
            return behave(rule, inputs, bindings)

        return computor

    def nodes(self) -> list[Node]:
        """The nodes that can be asked for: nothing that they are made from is missing."""
        return [
            node
            for node in self.world.nodes()
            if all(
                each in self.values if self.world.is_source(each) else self.world.exists(each)
                for each in (*self.world.ancestors(node), node)
            )
        ]

    def scratch(self, node: Node) -> Any:
        rule = self.world.rule(node)
        if node in self.pins or node in self.values:
            return self.pins.get(node, self.values.get(node))
        assert rule is not None
        return behave(
            rule, [self.scratch(each) for each in self.world.inputs(node)], self.world.bindings(node)
        )

    def touch(self, node: Node) -> None:
        """Pins on what depends on a node, and on itself, are over."""
        for pin in list(self.pins):
            if pin == node or node in self.world.ancestors(pin):
                del self.pins[pin]

    def set(self, node: Node, value: Any) -> None:
        self.values[node] = value
        self.touch(node)
        self.graph.set(*spoken(node), value=value)

    def invalidate(self, node: Node) -> None:
        self.touch(node)
        self.graph.invalidate(*spoken(node))

    def pull(self, node: Node) -> None:
        async def pulled(number: int) -> Any:
            who.set(number)
            self.worth[number] = self.scratch(node)
            return await self.graph.apull(*spoken(node))

        number = len(self.pulls)
        self.pulls[asyncio.create_task(pulled(number))] = number

    def pin(self, node: Node, value: Any) -> None:
        async def pinned(number: int) -> None:
            who.set(number)
            await self.graph.aset(*spoken(node), value=value)
            self.touch(node)
            self.pins[node] = value

        self.pulls[asyncio.create_task(pinned(len(self.pulls)))] = -1

    async def idle(self) -> None:
        """Until everything waits at a gate. Pulls begin in here, before anything else happens."""
        for _ in range(40):
            await asyncio.sleep(0)

    async def check(self) -> None:
        before = self.calls.total()
        nodes = self.nodes()
        fresh = {node for node in nodes if self.graph.freshness(*spoken(node)) == FRESH}
        for node in fresh:
            assert fresh.issuperset(self.world.ancestors(node)), f"I2: {node}"
            assert same(await self.graph.apull(*spoken(node)), self.scratch(node)), f"I3: {node}"
        assert self.calls.total() == before, "what is up to date is not computed"
        twice = [node for (number, node), times in self.calls.items() if times > 1 and number in self.worth]
        assert not twice, "P3"

    async def finish(self) -> None:
        """Let everything through, and look at what the pulls say."""
        while not all(pull.done() for pull in self.pulls):
            for _, gate in list(self.gates):
                if not gate.done():
                    gate.set_result(None)
            await self.idle()
        for pull, number in self.pulls.items():
            if not pull.cancelled() and not isinstance(pull.exception(), Broken):
                expected = self.worth.get(number)
                assert same(pull.result(), expected), "a pull answers for the revision that it began with"


async def play(seed: int, store: Path | None, length: int = 60) -> Stage:
    """Some minutes in the life of a graph."""
    chosen = random.Random(seed)
    world = a_world(chosen.choice)
    rules = (
        Rule(r.output, r.inputs, r.habit if r.habit in (*PURE, "given") else "plain") for r in world.rules
    )
    stage = Stage(World(tuple(rules), world.sources), store, chosen.choice([1, 2, 64]))
    sources = [node for node in stage.world.nodes() if stage.world.is_source(node)]
    for node in sources:
        stage.set(node, 0)
    if not (nodes := stage.nodes()):
        return stage
    derived = [node for node in nodes if stage.world.inputs(node)]
    for _ in range(length):
        match chosen.choice(
            ["pull"] * 4 + ["pass"] * 6 + ["set", "set", "fail", "cancel", "invalidate", "pin"]
        ):
            case "pull":
                stage.pull(chosen.choice(nodes))
            case "set" if sources:
                stage.set(chosen.choice(sources), chosen.choice(VALUES))
            case "invalidate":
                stage.invalidate(chosen.choice(nodes))
            case "pin" if derived:
                stage.pin(chosen.choice(derived), chosen.choice(VALUES))
            case "pass" if stage.gates and not (gate := chosen.choice(stage.gates)[1]).done():
                gate.set_result(None)
            case "fail" if stage.gates and not (gate := chosen.choice(stage.gates)[1]).done():
                gate.set_exception(Broken("told to"))
            case "cancel" if stage.pulls:
                chosen.choice(list(stage.pulls)).cancel()
        await stage.idle()
        await stage.check()
    await stage.finish()
    await stage.check()
    return stage


def drive(seed: int, store: Path | None) -> None:
    """Play in an event loop of that seed; then look at the database, if there is one."""

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=lambda: Shuffled(seed)) as runner:
            return runner.run(work)

    stage: Stage = run(play(seed, store))
    seen = {node: stage.graph.freshness(*spoken(node)) for node in stage.nodes()}
    stage.graph.close()
    if store is not None:
        stage.open()
        assert {node: stage.graph.freshness(*spoken(node)) for node in stage.nodes()} == seen
        run(stage.check())
        stage.graph.close()


@pytest.mark.parametrize("seed", range(40))
def test_pulls_beside_each_other(seed: int, tmp_path: Path) -> None:
    drive(seed, tmp_path / "graph.db" if seed % 2 else None)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_many_orders(part: int, tmp_path: Path) -> None:
    for seed in range(1000 + part * 100, 1100 + part * 100):
        drive(seed, tmp_path / f"{seed}.db" if seed % 2 else None)
