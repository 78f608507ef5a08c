"""A database that was written with some schemas is opened with different ones that only share names.

Everything that is then up to date or pulled equals what the new schemas compute from scratch. Of the earlier content
only values that were set on nodes without inputs count, if the node still has none.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew import DependencyGraph
from clew.errors import InvalidNodeError, MissingValueError
from tests.incremental.oracle import FRESH
from tests.incremental.oracle_pair import VALUES, Computors, spoken
from tests.incremental.oracle_worlds import Form, Node, Rule, World, a_world, behave, overlap, same


class Scratch:
    """Values from what is set alone."""

    def __init__(self, world: World, given: dict[Node, Any]) -> None:
        self.world = world
        self.given = {
            node: value for node, value in given.items() if self._is_known(node) and not world.inputs(node)
        }

    def _is_known(self, node: Node) -> bool:
        """Whether a value that was set can be read: some schema matches the node, or it is an atom of a free name."""
        name, arguments = node
        is_taken = any(rule.output.name == name and rule.output.args for rule in self.world.rules)
        return self.world.exists(node) or (not arguments and not is_taken)

    def missing(self, node: Node) -> list[Node]:
        """What would have to be set, or have a schema, for a node to have a value."""
        needed = (*self.world.ancestors(node), node)
        return [
            each
            for each in needed
            if each not in self.given and (self.world.is_source(each) or not self.world.exists(each))
        ]

    def value(self, node: Node) -> Any:
        if node in self.given:
            return self.given[node]
        rule = self.world.rule(node)
        assert rule is not None
        return behave(rule, [self.value(each) for each in self.world.inputs(node)], self.world.bindings(node))


def another_world(choose: Any, world: World, version: int) -> World:
    """A world of the same names: quite another one, or the same with some rules gone or with other inputs."""
    other = a_world(choose)
    # The same output and inputs by chance, with another computor: that is for its version to tell.
    other = World(tuple(replace(rule, version=version) for rule in other.rules), other.sources)
    how = choose(["other", "fewer", "mixed"])
    if how == "other":
        return other
    if how == "fewer":
        kept = tuple(rule for rule in world.rules if choose([True, True, False]))
    else:
        kept = tuple(replace(rule, inputs=choose(_variants(rule))) for rule in world.rules)
    names = {rule.output.name for rule in kept}
    for rule in kept:
        for form in rule.inputs:
            if form.args and not any(overlap(form, lower.output) for lower in kept):
                return other  # an input with arguments and without a schema would be rejected
    read = {form.name for rule in kept for form in rule.inputs if not form.args} - names
    return World(kept, tuple(sorted(read)))


def _variants(rule: Rule) -> list[tuple[Form, ...]]:
    return [rule.inputs, rule.inputs[:1], (*rule.inputs, *rule.inputs[:1])] if rule.inputs else [()]


def use(world: World, store: Path, given: dict[Node, Any], choose: Any) -> None:
    """Look at everything, change some sources, look again."""
    computors = Computors(world, {})
    try:
        graph = DependencyGraph(computors.schemas(), store=store)
    except Exception as error:
        error.add_note(str(world))
        raise
    with graph:
        look(graph, computors, Scratch(world, given))
        for _ in range(12):
            node = choose(world.nodes() or [("s0", ())])
            if world.exists(node) and not world.inputs(node) and choose([True, True, False]):
                given[node] = choose(VALUES)
                graph.set(*spoken(node), value=given[node])
            scratch = Scratch(world, given)
            node = choose(world.nodes() or [("s0", ())])
            if scratch.missing(node):
                with pytest.raises((InvalidNodeError, MissingValueError)):
                    graph.pull(*spoken(node))
            else:
                assert same(graph.pull(*spoken(node)), scratch.value(node)), f"P1: {node}"
            look(graph, computors, scratch)
    for node in list(given):
        if world.inputs(node):
            del given[node]  # it does not count again when a later schema has no inputs


def look(graph: DependencyGraph, computors: Computors, scratch: Scratch) -> None:
    world = scratch.world
    nodes = [node for node in world.nodes() if not scratch.missing(node)]
    fresh = {node for node in nodes if graph.freshness(*spoken(node)) == FRESH}
    computors.calls.clear()
    for node in fresh:
        assert fresh.issuperset(world.ancestors(node)), f"I2: {node}"
        assert same(graph.pull(*spoken(node)), scratch.value(node)), f"I3: {node}"
    assert not computors.calls
    for key in graph.orphans():
        with pytest.raises((InvalidNodeError, MissingValueError)):
            graph.pull(key)


def evolve(seed: int, store: Path) -> None:
    choose = random.Random(seed).choice
    given: dict[Node, Any] = {}
    world = a_world(choose)
    worlds = [world]
    try:
        for version in range(2, 5):
            use(world, store, given, choose)
            world = another_world(choose, world, version)
            worlds.append(world)
        with DependencyGraph(Computors(world, {}).schemas(), store=store) as graph:
            orphans = graph.orphans()
            assert sorted(graph.prune()) == sorted(orphans)
            assert graph.orphans() == []
        use(world, store, given, choose)
    except BaseException as error:
        error.add_note(f"seed {seed}\n" + "\n".join(map(str, worlds)))
        raise


@pytest.mark.parametrize("seed", range(40))
def test_other_schemas(seed: int, tmp_path: Path) -> None:
    evolve(seed, tmp_path / "graph.db")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_many_other_schemas(part: int, tmp_path: Path) -> None:
    for seed in range(1000 + part * 200, 1200 + part * 200):
        evolve(seed, tmp_path / f"{seed}.db")
