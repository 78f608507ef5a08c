"""Random schemas as data, and the results of their computors: the part of the oracle that does not depend on time.

A *world* is a list of rules (schemas) over a few constants, small enough to enumerate every instance of every
expression. Where the library unifies, this model tries all instances: which rule a node has, whether two rules overlap,
whether an input can be matched.

The value of a computor is a function of its rule, its input values and the bindings (``behave``). Numbers come from a
checksum over JSON, so they are the same in every process. The ``habit`` of a rule decides how it returns its result.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

Constant = str | int
Node = tuple[str, tuple[Constant, ...]]
"""A concrete node: a name and constants. ``("f", ("1",))`` and ``("f", (1,))`` are two nodes."""

T = TypeVar("T")
Choose = Callable[[Sequence[T]], T]
"""Picks one of several: a random number generator's ``choice``, or a draw of Hypothesis."""

CONSTANTS: tuple[Constant, ...] = (0, 1, "a", "0")
HABITS = ("plain", "coarse", "honest", "nothing", "mixed", "editor", "fixed")
"""plain: a number of many. coarse: of two. honest: the same, but says Unchanged where it can. nothing: None.
mixed: values that Python holds equal and the codec does not. editor: edits the old value and returns it.
fixed: looks at no input. And ``given``, for those without inputs: there is no computor, only `set`."""


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Form:
    """An expression of a schema: a name and arguments, each a constant or a variable."""

    name: str
    args: tuple[Variable | Constant, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arg.name for arg in self.args if isinstance(arg, Variable)))

    def text(self) -> str:
        """As users write it in a schema, where bare words are variables."""
        return _written(
            self.name, [arg.name if isinstance(arg, Variable) else _quoted(arg) for arg in self.args]
        )

    def at(self, bindings: Mapping[str, Constant]) -> Node:
        return self.name, tuple(bindings[arg.name] if isinstance(arg, Variable) else arg for arg in self.args)

    def match(self, node: Node) -> dict[str, Constant] | None:
        """The bindings with which this is the node; a repeated variable has one value."""
        name, args = node
        if name != self.name or len(args) != len(self.args):
            return None
        bindings: dict[str, Constant] = {}
        for mine, theirs in zip(self.args, args):
            wanted = bindings.setdefault(mine.name, theirs) if isinstance(mine, Variable) else mine
            if type(wanted) is not type(theirs) or wanted != theirs:
                return None
        return bindings

    def instances(self, constants: Iterable[Constant] = CONSTANTS) -> list[Node]:
        """Every instance over some constants."""
        names = self.variables
        return [
            self.at(dict(zip(names, values)))
            for values in itertools.product(tuple(constants), repeat=len(names))
        ]


@dataclass(frozen=True)
class Rule:
    """A schema."""

    output: Form
    inputs: tuple[Form, ...]
    habit: str
    version: int = 1


@dataclass(frozen=True)
class World:
    """Schemas, and the atoms that are sources because an input names them and no schema does."""

    rules: tuple[Rule, ...]
    sources: tuple[str, ...]

    def rule(self, node: Node) -> Rule | None:
        return _rule(self, node)

    def bindings(self, node: Node) -> dict[str, Constant]:
        rule = self.rule(node)
        found = None if rule is None else rule.output.match(node)
        return found or {}

    def inputs(self, node: Node) -> tuple[Node, ...]:
        return _inputs(self, node)

    def is_source(self, node: Node) -> bool:
        """Without a computor: nothing but `set` gives it a value."""
        rule = self.rule(node)
        return not node[1] if rule is None else rule.habit == "given"

    def exists(self, node: Node) -> bool:
        """Whether it can be asked for: it has a rule, or some rule reads it as a source."""
        return self.rule(node) is not None or (not node[1] and node[0] in self.sources)

    def ancestors(self, node: Node) -> tuple[Node, ...]:
        """All that it depends on, inputs before those who read them, without the node itself."""
        return _ancestors(self, node)

    def nodes(self) -> tuple[Node, ...]:
        """Every node that the world's constants make."""
        return _nodes(self)

    def revised(self, index: int, habit: str) -> World:
        """The same with one schema changed, as its ``version`` says."""
        rules = list(self.rules)
        rules[index] = replace(rules[index], habit=habit, version=rules[index].version + 1)
        return World(tuple(rules), self.sources)


def text(node: Node) -> str:
    """As users write it in a request."""
    return _written(node[0], [_quoted(arg) for arg in node[1]])


def _quoted(constant: Constant) -> str:
    return str(constant) if isinstance(constant, int) else f'"{constant}"'


def _written(name: str, args: list[str]) -> str:
    return f"{name}({', '.join(args)})" if args else name


@lru_cache(maxsize=100_000)
def _rule(world: World, node: Node) -> Rule | None:
    found = [rule for rule in world.rules if rule.output.match(node) is not None]
    assert len(found) < 2
    return found[0] if found else None


@lru_cache(maxsize=100_000)
def _inputs(world: World, node: Node) -> tuple[Node, ...]:
    rule = world.rule(node)
    return () if rule is None else tuple(form.at(world.bindings(node)) for form in rule.inputs)


@lru_cache(maxsize=100_000)
def _ancestors(world: World, node: Node) -> tuple[Node, ...]:
    found: dict[Node, None] = {}
    for each in world.inputs(node):
        found |= dict.fromkeys((*world.ancestors(each), each))
    return tuple(found)


@lru_cache(maxsize=1_000)
def _nodes(world: World) -> tuple[Node, ...]:
    made = [node for rule in world.rules for node in rule.output.instances()]
    return tuple(dict.fromkeys([*((name, ()) for name in world.sources), *made]))


# -- what computors compute ---------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two values are one to the codec: ``1``, ``True`` and ``1.0`` are three."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def behave(rule: Rule, inputs: Sequence[Any], bindings: Mapping[str, Constant]) -> Any:
    """The value of a node, from scratch."""
    seen: list[Any] = [rule.output.text(), rule.version, sorted(bindings.items())]
    if rule.habit != "fixed":
        seen.append(list(inputs))
    number = zlib.crc32(json.dumps(seen).encode())
    match rule.habit:
        case "plain":
            return number % 1000
        case "coarse" | "honest":
            return number % 2
        case "nothing":
            return None
        case "mixed":
            return [1, True, 1.0][number % 3]
        case "editor":
            return {"edited": number % 3}
        case _:
            return f"fixed {number}"


# -- making worlds ------------------------------------------------------------------------------------------

FRESH: tuple[Constant, ...] = (7, 8, "p", "q")  # not used elsewhere: enough to distinguish variables


def overlap(a: Form, b: Form) -> bool:
    """Whether some node is an instance of both: by trying them all."""
    return any(b.match(node) is not None for node in a.instances((*CONSTANTS, *FRESH)))


def a_world(choose: Choose[Any]) -> World:
    """Some schemas over some sources; each reads only what comes before it, so there is no cycle."""
    sources = ["s0", "s1", "s2"][: choose([1, 2, 3])]
    rules: list[Rule] = []
    for index in range(choose([1, 2, 3, 4, 5, 6])):
        name, arity = f"n{index}", choose([0, 0, 1, 1, 2])
        below = list(rules)
        for _ in range(choose([1, 1, 2, 3]) if arity else 1):
            output = Form(name, tuple(_argument(choose) for _ in range(arity)))
            if any(overlap(output, rule.output) for rule in rules):
                continue
            readable = [Form(each) for each in sources] + [rule.output for rule in below]
            inputs = tuple(
                _input(choose, choose(readable), output) for _ in range(choose([0, 1, 1, 2, 2, 3]))
            )
            if all(_can_match(form, below, sources) for form in inputs):
                rules.append(Rule(output, inputs, choose(HABITS if inputs else (*HABITS, "given", "given"))))
    used = {form.name for rule in rules for form in rule.inputs}
    return World(tuple(rules), tuple(name for name in sources if name in used))


def _argument(choose: Choose[Any]) -> Variable | Constant:
    given: Variable | Constant = choose([Variable("x"), Variable("x"), Variable("y"), *CONSTANTS[:3]])
    return given


def _input(choose: Choose[Any], read: Form, reader: Form) -> Form:
    """An input: what is read, at the reader's own variables and at constants."""
    offered = [Variable(name) for name in reader.variables] * 2 + list(CONSTANTS)
    return Form(read.name, tuple(choose(offered) for _ in read.args))


def _can_match(form: Form, rules: Sequence[Rule], sources: Sequence[str]) -> bool:
    return form.name in sources or any(overlap(form, rule.output) for rule in rules)
