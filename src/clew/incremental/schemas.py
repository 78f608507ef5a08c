"""Schemas: which nodes can exist, their inputs, and their computors.

`schema` returns plain data without checks. A `SchemaRegistry` reads a list of schemas when a graph is built and rejects
invalid ones, with one error class per problem:

- every variable of an input must occur in the output (`InvalidSchemaError`);
- no node may match two schemas (`SchemaOverlapError`); a repeated variable means equal arguments;
- schemas must not form a cycle (`SchemaCycleError`), so each has a *rank* above those of its inputs;
- a name must have the same number of arguments everywhere (`SchemaArityError`);
- an input without a schema must be an atom, which becomes a source (otherwise `InvalidSchemaError`).

This module does not know values, revisions or nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from clew.errors import (
    InvalidNodeError,
    InvalidSchemaError,
    SchemaArityError,
    SchemaCycleError,
    SchemaOverlapError,
)
from clew.incremental.expressions import (
    Constant,
    Expression,
    Variable,
    match,
    pattern_text,
    read_pattern,
    spelled,
    unifies,
)

Computor = Callable[[list[Any], Any, dict[str, Constant]], Any]


class NodeSchema(msgspec.Struct, frozen=True):
    """How the nodes of one pattern are computed. Created by `schema`."""

    output: str
    inputs: Any = ()
    computor: Computor | None = None
    version: str | int | None = None
    stateful: bool = False


def schema(
    output: str,
    inputs: Iterable[str] = (),
    computor: Computor | None = None,
    *,
    version: str | int | None = None,
    stateful: bool = False,
) -> NodeSchema:
    """Return a schema: how the nodes of one pattern are computed.

    Args:
        output: The pattern of the nodes, such as ``"photo(p)"``. A bare word among the arguments is a variable.
        inputs: The patterns of their inputs. Their variables must occur in the output.
        computor: ``(inputs, old_value, bindings) -> value``, or `Unchanged`; sync or async. Without a computor and
            inputs, the nodes are sources, which get their value by `set`.
        version: Change it when the computor changes: stored values of the schema are then computed again.
        stateful: Declares that the result depends on `old_value`. Only informative; `explain` shows it.
    """
    return NodeSchema(output, inputs, computor, version, stateful)


class SchemaSignature(msgspec.Struct, frozen=True, array_like=True):
    """What is stored of a schema: it changes with the schema."""

    inputs: tuple[str, ...]
    version: str
    has_computor: bool


class CompiledSchema:
    """A parsed schema, and its state in a graph."""

    __slots__ = (
        "computor",
        "has_fixed_inputs",
        "inputs",
        "inputs_at",
        "is_pattern",
        "is_promoted",
        "is_source",
        "key",
        "output",
        "rank",
        "schema",
        "stateful",
        "touched_at",
        "version",
    )

    def __init__(self, output: Expression, inputs: tuple[Expression, ...], given: NodeSchema) -> None:
        self.schema = given
        self.output = output
        self.inputs = inputs
        self.computor = given.computor
        self.version = given.version
        self.stateful = given.stateful
        self.key = pattern_text(output)
        self.is_source = not inputs
        self.is_pattern = any(True for _ in output.variables())
        self.has_fixed_inputs = self.is_pattern and not any(True for each in inputs for _ in each.variables())
        self.rank = 0
        self.is_promoted = False  # one of its nodes was pinned or invalidated, or the schema changed
        self.touched_at = 0  # the revision at which the schema changed
        self.inputs_at = 0  # the revision at which it got inputs

    def __repr__(self) -> str:
        return f"Rule({self.key})"

    def signature(self) -> SchemaSignature:
        """Return what changes with the schema. Changes of computors cannot be detected reliably."""
        inputs = tuple(map(pattern_text, self.inputs))
        return SchemaSignature(inputs, repr(self.version), self.computor is not None)


class _RulesByName:
    """The rules of one name."""

    __slots__ = ("arity", "ground", "patterns", "where")

    def __init__(self, arity: int, where: str) -> None:
        self.arity = arity
        self.where = where  # where the arity occurred first
        self.ground: dict[tuple[Any, ...], CompiledSchema] = {}
        self.patterns: list[CompiledSchema] = []

    def rules(self) -> Iterator[CompiledSchema]:
        yield from self.ground.values()
        yield from self.patterns

    def matching(self, pattern: Expression) -> Iterator[CompiledSchema]:
        """Yield the rules that some instance of a pattern matches."""
        if any(True for _ in pattern.variables()):
            yield from (rule for rule in self.rules() if unifies(pattern, rule.output))
            return
        if pattern.arguments in self.ground:
            yield self.ground[pattern.arguments]
        yield from (
            rule for rule in self.patterns if match(rule.output.arguments, pattern.arguments) is not None
        )


class SchemaRegistry:
    """All schemas of a graph, parsed and validated."""

    def __init__(self, schemas: Iterable[NodeSchema]) -> None:
        self.rules: list[CompiledSchema] = []
        self._named: dict[str, _RulesByName] = {}
        if not isinstance(schemas, Iterable):
            raise InvalidSchemaError(f"schemas: expected a list of clew.schema(...), got {schemas!r}")
        for given in schemas:
            self._add(_rule(given))
        for rule in self.rules:
            for pattern in rule.inputs:
                self._count(pattern, f"an input of {rule.key!r}")
        self._rank()

    def _add(self, rule: CompiledSchema) -> None:
        named = self._count(rule.output, f"the output {rule.key!r}")
        rival = next(named.matching(rule.output), None)
        if rival is not None:
            raise SchemaOverlapError(
                f"the schemas {rival.key!r} and {rule.key!r} match the same node; use another name or a constant in "
                "one output, or remove one schema"
            )
        if rule.is_pattern:
            named.patterns.append(rule)
        else:
            named.ground[rule.output.arguments] = rule
        self.rules.append(rule)

    def _count(self, pattern: Expression, where: str) -> _RulesByName:
        arity = len(pattern.arguments)
        named = self._named.get(pattern.name)
        if named is None:
            named = self._named[pattern.name] = _RulesByName(arity, where)
        elif named.arity != arity:
            raise SchemaArityError(
                f"{pattern.name!r} has {_arguments(arity)} in {where}, and {_arguments(named.arity)} in {named.where}; "
                "rename one of them"
            )
        return named

    # -- the order ---------------------------------------------------------------------------------------

    def _rank(self) -> None:
        """Give each rule a rank above those of its inputs, without recursion."""
        state: dict[CompiledSchema, int] = {}  # 1: in progress, 2: done
        rank = 0
        for root in self.rules:
            if root in state:
                continue
            state[root] = 1
            path = [(root, self._below(root))]
            while path:
                rule, below = path[-1]
                lower = next(below, None)
                if lower is None:
                    path.pop()
                    state[rule] = 2
                    rank += 1
                    rule.rank = rank
                elif lower not in state:
                    state[lower] = 1
                    path.append((lower, self._below(lower)))
                elif state[lower] == 1:
                    raise SchemaCycleError(_cycle_message([rule for rule, _ in path], lower))

    def _below(self, rule: CompiledSchema) -> Iterator[CompiledSchema]:
        for pattern in rule.inputs:
            found = False
            for lower in self._named[pattern.name].matching(pattern):
                found = True
                yield lower
            if not found and pattern.arguments:
                raise InvalidSchemaError(
                    f"{rule.key!r} has the input {pattern_text(pattern)!r}, which no schema produces; add a schema "
                    f"for it (without a computor if you set it){_nearest(pattern.name, self._made())}"
                )

    def _made(self) -> Iterator[str]:
        return (name for name, named in self._named.items() if next(named.rules(), None) is not None)

    # -- asking ------------------------------------------------------------------------------------------

    def find(
        self, name: str, arguments: tuple[Any, ...]
    ) -> tuple[CompiledSchema, dict[str, Constant]] | None:
        """Return the rule of a node and its bindings, or None."""
        named = self._named.get(name)
        if named is None or named.arity != len(arguments):
            return None
        rule = named.ground.get(arguments)
        if rule is not None:
            return rule, {}
        for rule in named.patterns:
            bindings = match(rule.output.arguments, arguments)
            if bindings is not None:
                return rule, bindings
        return None

    def has(self, name: str, arity: int) -> bool:
        """Return whether a name occurs in the schemas with this number of arguments."""
        named = self._named.get(name)
        return named is not None and named.arity == arity

    def arity(self, name: str) -> int | None:
        """Return the number of arguments of a name, or None if it does not occur in the schemas."""
        named = self._named.get(name)
        return None if named is None else named.arity

    def unknown(self, name: str, arguments: tuple[Any, ...], known: Iterable[str] = ()) -> InvalidNodeError:
        """Return the error for a node that no rule matches."""
        key = spelled(name, arguments)
        named = self._named.get(name)
        if named is None:
            return InvalidNodeError(f"no schema matches {key!r}{_nearest(name, [*self._named, *known])}")
        if named.arity != len(arguments):
            return InvalidNodeError(
                f"no schema matches {key!r}: {name!r} has {_arguments(named.arity)}, not {len(arguments)}"
            )
        similar = ", ".join(repr(rule.key) for rule in list(named.rules())[:3])
        return InvalidNodeError(f"no schema matches {key!r}; schemas of that name: {similar}")


def _rule(given: Any) -> CompiledSchema:
    if type(given) is not NodeSchema:
        raise InvalidSchemaError(f"schemas: expected clew.schema(...), got {given!r}")
    output = read_pattern(given.output)
    where = f"schema {given.output!r}"
    if isinstance(given.inputs, str) or not isinstance(given.inputs, Iterable):
        raise InvalidSchemaError(f"{where}: inputs: expected a list of names, got {given.inputs!r}")
    inputs = tuple(map(read_pattern, given.inputs))
    if given.computor is None and inputs:
        raise InvalidSchemaError(f"{where} has inputs but no computor; add computor=")
    if given.computor is not None and not callable(given.computor):
        raise InvalidSchemaError(f"{where}: computor: expected a function, got {given.computor!r}")
    if not (given.version is None or type(given.version) in (str, int)):
        raise InvalidSchemaError(f"{where}: version: expected a str or an int, got {given.version!r}")
    covered = set(output.variables())
    for pattern in inputs:
        for name in pattern.variables():
            if name not in covered:
                raise InvalidSchemaError(
                    f"{where}: the input {pattern_text(pattern)!r} has the variable {name!r}, which the output does "
                    f"not have; add it to the output, or quote it if it is a string"
                )
    return CompiledSchema(output, inputs, given)


def source_rule(name: str) -> CompiledSchema:
    """Return the rule of an atom without a schema: a source."""
    return CompiledSchema(Expression(name), (), NodeSchema(name))


def is_own_pattern(rule: CompiledSchema, asked: Expression) -> bool:
    """Return whether a request, read as a pattern, equals the output of a rule, variable by variable."""
    return rule.is_pattern and asked.arguments == tuple(
        part if type(part) is Variable else asked.arguments[n] for n, part in enumerate(rule.output.arguments)
    )


def _arguments(count: int) -> str:
    return "one argument" if count == 1 else f"{count or 'no'} arguments"


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(set(names)), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _cycle_message(path: list[CompiledSchema], lower: CompiledSchema) -> str:
    keys = [rule.key for rule in path[path.index(lower) :]] + [lower.key]
    if len(keys) > 12:
        keys[6:-5] = ["…"]
    return f"schemas form a cycle: {' needs '.join(keys)}; remove one of these inputs"
