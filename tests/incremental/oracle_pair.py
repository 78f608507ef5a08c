"""A real dependency graph and the oracle: every operation is applied to both, and everything observable is compared.

Operations are tuples, so that they can be generated, printed, and repeated by a process that is going to be killed::

    ("set", node, value)       ("pull", node)      ("invalidate", node)     ("mode", node, how)
    ("batch", (operation, ...), breaks)            ("restart", rule or None, habit)

``mode`` decides how the computor of a node ends from now on: normally, by raising, or with Unchanged although it has no
old value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clew import DependencyGraph, Unchanged, schema
from clew.errors import ClewError, InvalidNodeError, InvalidUnchangedError, MissingValueError
from tests.incremental.oracle import FRESH, OUTDATED, Call, Model
from tests.incremental.oracle_worlds import Choose, Node, Rule, World, behave, same, text

Operation = tuple[Any, ...]
VALUES: tuple[Any, ...] = (0, 1, True, 1.0, "1", [1], {"edited": 1}, 2)
HOWS = ("well", "raise", "unchanged")


class Broken(Exception):
    """What a computor raises on request."""


class Abandoned(Exception):
    """What ends a batch halfway."""


class Computors:
    """The computors of a world's schemas, and a note of each call."""

    def __init__(self, world: World, modes: dict[Node, str]) -> None:
        self.world = world
        self.modes = modes
        self.calls: list[Call] = []
        self.before_call: Callable[[], None] = lambda: None

    def schemas(self) -> list[Any]:
        return [
            schema(
                rule.output.text(),
                inputs=[form.text() for form in rule.inputs],
                computor=None if rule.habit == "given" else self._computor(rule),
                version=rule.version,
            )
            for rule in self.world.rules
        ]

    def _computor(self, rule: Rule) -> Callable[[list[Any], Any, dict[str, Any]], Any]:
        def computor(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
            self.before_call()
            node = rule.output.at(bindings)
            mode = self.modes.get(node, "well")
            noted = (node, tuple(copy.deepcopy(inputs)), copy.deepcopy(old), dict(bindings))
            if mode == "raise":
                self.calls.append(Call(*noted, "raised"))
                raise Broken(text(node))
            value = behave(rule, inputs, bindings)
            if (rule.habit == "honest" and same(old, value)) or (
                mode == "unchanged" and old is None and rule.version == 1
            ):  # later, an old None may be another habit's, and Unchanged a lie
                self.calls.append(Call(*noted, "unchanged"))
                return Unchanged
            self.calls.append(Call(*noted, "value"))
            if rule.habit == "editor" and isinstance(old, dict):
                old.clear()
                old.update(value)
                return old
            return value

        return computor


class Pair:
    """The graph and the oracle. ``store`` is a file, or None for a graph in memory, which cannot be opened again.

    Several graphs may be open on one file, as in several processes; they take turns.
    """

    def __init__(
        self,
        world: World,
        store: Path | str | None = None,
        model: Model | None = None,
        handles: int = 1,
        name: str = "graph",
    ) -> None:
        self.model = model or Model(world)
        self.modes: dict[Node, str] = {}
        self.store = store
        self.name = name
        self.handles = handles
        self.open(self.model.world)

    def open(self, world: World) -> None:
        self.computors = Computors(world, self.modes)
        schemas = self.computors.schemas()
        self.graphs = [
            DependencyGraph(schemas, store=self.store, name=self.name) for _ in range(self.handles)
        ]
        self.graph = self.graphs[0]

    def close(self) -> None:
        for graph in self.graphs:
            graph.close()

    def take_turns(self) -> None:
        self.graph = self.graphs[(self.graphs.index(self.graph) + 1) % self.handles]

    def do(self, operation: Operation) -> None:
        """One operation on both; the calls that it made are checked one by one."""
        self.computors.calls.clear()
        getattr(self, f"_do_{operation[0]}")(*operation[1:])
        called = [call.node for call in self.computors.calls]
        assert len(called) == len(set(called)), "P3: a computor runs at most once"

    # -- operations -------------------------------------------------------------------------------------

    def _do_pull(self, node: Node) -> None:
        try:
            value = self.graph.pull(*spoken(node))
        except Exception as error:
            self._failed([node], error)
            return
        for call in self.computors.calls:
            assert call.ended != "raised"
            self.model.called(node, call)
        self.model.settle(node)
        assert same(value, self.model.rows[node].value)
        assert same(value, self.model.scratch(node)), "P1"
        assert self.graph.freshness(*spoken(node)) == FRESH, "P4"

    def _do_set(self, node: Node, value: Any) -> None:
        world = self.model.world
        try:
            if len(node[1]) % 2:
                self.graph.set(text(node), value)
            else:
                self.graph.set(*spoken(node), value=value)
        except Exception as error:
            if node[1] and world.rule(node) is None:
                self._refused(error)
            else:
                self._failed(world.inputs(node), error)
            return
        self._through_inputs(node)
        self.model.set(node, value)

    def _refused(self, error: Exception) -> None:
        """There is no such node."""
        assert isinstance(error, InvalidNodeError)
        assert not self.computors.calls

    def _through_inputs(self, node: Node) -> None:
        """`set` brought the inputs of a node up to date, and nothing else."""
        assert node not in [call.node for call in self.computors.calls], "a pin is not computed"
        for call in self.computors.calls:
            self.model.called(node, call)
        for each in self.model.world.inputs(node):
            self.model.settle(each)

    def _do_invalidate(self, node: Node) -> None:
        try:
            self.graph.invalidate(*spoken(node))
        except InvalidNodeError:
            assert not self.model.world.exists(node)
            assert node not in self.model.rows
            return
        assert not self.computors.calls
        self.model.invalidate(node)

    def _do_mode(self, node: Node, how: str) -> None:
        self.modes[node] = how

    def _do_batch(self, operations: tuple[Operation, ...], breaks: bool) -> None:
        """Changes together: all of them, or none. Pins are made at the end, after everything else."""
        accepted = []
        try:
            with self.graph.batch():
                for kind, node, *value in operations:
                    if self._taken(kind, node, value):
                        accepted.append((kind, node, *value))
                assert not self.computors.calls
                if breaks:
                    raise Abandoned
        except Abandoned:
            return
        except Exception as error:
            pins = [each[1] for each in accepted if self.model.world.inputs(each[1])]
            self._could_fail(pins, error)
            return
        self.model.change_together(accepted, self.computors.calls)

    def _taken(self, kind: str, node: Node, value: list[Any]) -> bool:
        """Whether a batch takes a change; it does not if there is no such node."""
        try:
            getattr(self.graph, kind)(*spoken(node), **({"value": value[0]} if value else {}))
        except InvalidNodeError:
            assert not self.model.world.exists(node)
            return False
        return True

    def _could_fail(self, pins: list[Node], error: Exception) -> None:
        """A batch failed as a whole: some pin needs what cannot be had."""
        world = self.model.world
        needed = {each for pin in pins for each in world.ancestors(pin)}
        assert isinstance(error, ClewError | Broken), repr(error)
        assert any(
            self.modes.get(each, "well") != "well"
            or not world.exists(each)
            or (world.is_source(each) and each not in self.model.rows)
            for each in needed
        ), repr(error)

    def _do_restart(self, index: int | None, habit: str) -> None:
        if self.store is None:
            return
        self.close()
        world = self.model.world
        if index is not None and world.rules:
            world = world.revised(index % len(world.rules), habit)
        self.open(world)
        self.model.revise(world)
        self.check()

    # -- failures ---------------------------------------------------------------------------------------

    def _failed(self, targets: Any, error: Exception) -> None:
        """A pull ended with an error: there was reason to, and what was computed on the way is kept."""
        world, calls = self.model.world, list(self.computors.calls)
        needed = dict.fromkeys(each for target in targets for each in (*world.ancestors(target), target))
        unset = [each for each in needed if world.is_source(each) and each not in self.model.rows]
        strange = [each for each in needed if not world.exists(each) and each not in self.model.rows]
        raised = [call.node for call in calls if call.ended == "raised"]
        empty = [
            call.node for call in calls if call.ended == "unchanged" and call.node not in self.model.rows
        ]
        assert isinstance(error, ClewError | Broken), repr(error)
        message = "\n".join([str(error), *getattr(error, "__notes__", ())])
        if isinstance(error, InvalidUnchangedError):
            assert empty
            assert any(key_in(message, each) for each in empty), message
        elif isinstance(error, MissingValueError):
            assert unset
            assert any(each[0] in message for each in unset), message
        elif isinstance(error, InvalidNodeError):
            assert strange
        else:
            assert isinstance(error, Broken), repr(error)
            assert any(key_in(message.partition("\n")[2], each) for each in raised), message
        for call in calls:
            self._called_for(targets, call)
        self._look_after_failure(needed)

    def _called_for(self, targets: Any, call: Call) -> None:
        for target in targets:
            if call.node == target or call.node in self.model.world.ancestors(target):
                self.model.called(target, call)
                return
        raise AssertionError(f"{call.node} was computed without being needed")

    def _look_after_failure(self, needed: dict[Node, None]) -> None:
        for node in needed:  # inputs first
            if self.model.could_settle(node) and self.graph.freshness(*spoken(node)) == FRESH:
                self.model.settle(node)

    # -- looking ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that can be seen is what the oracle says; I1, I2 and I3 hold."""
        seen = {node: self.graph.freshness(*spoken(node)) for node in self.known()}
        assert seen == {node: self.model.freshness(node) for node in self.known()}
        world = self.model.world
        for node, freshness in seen.items():
            if freshness == OUTDATED:
                assert all(seen[each] == OUTDATED for each in self.model.depends_on(node)), "I1"
            if freshness != FRESH:
                continue
            assert all(seen[each] == FRESH for each in world.ancestors(node)), "I2"
            self.computors.calls.clear()
            value = self.graph.pull(*spoken(node))
            assert not self.computors.calls, f"pull of {node}, which is up to date, made calls"
            assert same(value, self.model.rows[node].value)
            assert same(value, self.model.scratch(node)), "I3"
        assert {str(each) for each in self.graph.materialized()} == {key(node) for node in self.model.rows}

    def check_explanations(self) -> None:
        """What `explain` says about each node is what the oracle knows."""
        world = self.model.world
        for node in self.known():
            row = self.model.rows.get(node)
            explanation = self.graph.explain(*spoken(node))
            if any(not world.exists(each) for each in world.ancestors(node)):
                assert (
                    explanation.freshness != "up-to-date"
                )  # no schema matches something that it is made from
                continue
            assert (explanation.node, explanation.freshness) == (key(node), self.model.freshness(node))
            assert explanation.origin == (row and row.origin)
            assert [one.node for one in explanation.inputs] == [key(each) for each in world.inputs(node)]
            assert [one.freshness for one in explanation.inputs] == [
                *map(self.model.freshness, world.inputs(node))
            ]
            changed = {cause.node for cause in explanation.changed_sources}
            assert changed <= {key(each) for each in world.ancestors(node)}
            if row is not None and row.outdated:
                assert changed or row.must_compute, explanation
            else:
                assert not changed, explanation
            assert str(explanation).startswith(explanation.node)

    def known(self) -> list[Node]:
        world = self.model.world
        return [node for node in world.nodes() if world.exists(node)] + [
            node for node in self.model.rows if not world.exists(node)
        ]


def spoken(node: Node) -> tuple[Any, ...]:
    """The arguments of a request: as a text or in the structured form."""
    return (key(node),) if len(node[1]) % 2 else (node[0], *node[1])


def key(node: Node) -> str:
    """The canonical name: no spaces, words that are no numbers without quotes."""
    name, args = node
    written = ",".join(str(arg) if isinstance(arg, int) or not arg.isdigit() else f'"{arg}"' for arg in args)
    return f"{name}({written})" if args else name


def key_in(message: str, node: Node) -> bool:
    return key(node) in message


def an_operation(choose: Choose[Any], world: World, kinds: tuple[str, ...]) -> Operation:
    """Some operation on some node."""
    near = tuple(node for node in world.nodes() if set(node[1]) <= {0, "a"})  # so that they meet again
    nodes: tuple[Node, ...] = choose([near, near, (*world.nodes(), ("extra", ()), ("n0", ("stranger",)))])
    nodes = nodes or (("extra", ()),)
    kind = choose(kinds)
    match kind:
        case "set":
            return kind, choose(nodes), choose(VALUES)
        case "set source":
            return "set", choose([(name, ()) for name in world.sources] or nodes), choose(VALUES)
        case "mode":
            return kind, choose(nodes), choose(HOWS)
        case "batch":
            inner = ("set source", "set source", "set", "invalidate")
            made = [an_operation(choose, world, inner) for _ in range(choose([0, 1, 2, 4]))]
            if made and choose([False, True]):  # both on one node, in either order
                made.insert(choose([0, len(made)]), ("invalidate", choose(made)[1]))
            return kind, tuple(made), choose([False, False, True])
        case "restart":
            return kind, choose([None, None, *range(len(world.rules))]), choose(("plain", "coarse", "fixed"))
        case _:
            return kind, choose(nodes)


KINDS = (
    *("pull",) * 8,
    *("set source",) * 4,
    *("set",) * 2,
    *("invalidate",) * 2,
    "batch",
    "mode",
    "restart",
)
