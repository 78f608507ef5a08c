"""Schemas: plain data; problems are reported when a graph is built, each with its own error class."""

from __future__ import annotations

from typing import Any

import pytest

from clew import DependencyGraph, schema
from clew.errors import (
    DefinitionError,
    InvalidExpressionError,
    InvalidNodeError,
    InvalidSchemaError,
    SchemaArityError,
    SchemaCycleError,
    SchemaOverlapError,
)
from clew.incremental import NodeSchema


def compute(inputs: list[Any], old: Any, bindings: dict[str, Any]) -> Any:
    return 0


def refused(error: type[Exception], *schemas: Any) -> str:
    """What is said about schemas that no graph can be built from."""
    with pytest.raises(error) as caught:
        DependencyGraph(schemas)
    assert type(caught.value) is error
    return str(caught.value)


class TestPlainData:
    def test_a_schema_is_what_it_was_given(self) -> None:
        made = schema("f(x)", ["g(x)"], compute, version="2", stateful=True)
        assert made == NodeSchema("f(x)", ["g(x)"], compute, "2", True)

    @pytest.mark.parametrize(
        "made",
        [
            lambda: schema("f(((", ["g("], 5, version=1.5),
            lambda: schema(5, 5),
            lambda: schema("f", ["f(x)"]),
        ],
    )
    def test_nothing_is_checked_before_a_graph_is_built(self, made: Any) -> None:
        given = made()
        with pytest.raises((InvalidExpressionError, InvalidSchemaError)):
            DependencyGraph([given])

    def test_a_graph_tells_its_schemas(self) -> None:
        given = [schema("a", ["b"], compute), schema("c(x)")]
        assert DependencyGraph(given).schemas == tuple(given)


class TestMistakes:
    def test_something_else_than_a_schema(self) -> None:
        assert "got 'a'" in refused(InvalidSchemaError, "a")

    def test_inputs_that_are_one_text(self) -> None:
        assert "inputs" in refused(InvalidSchemaError, schema("a", "bc", compute))

    def test_inputs_without_a_computor(self) -> None:
        assert "no computor" in refused(InvalidSchemaError, schema("a", ["b"]))

    def test_a_computor_that_cannot_be_called(self) -> None:
        assert "got 5" in refused(InvalidSchemaError, schema("a", (), 5))

    def test_a_version_that_is_no_text(self) -> None:
        assert "version" in refused(InvalidSchemaError, schema("a", version=1.5))

    def test_a_name_that_does_not_parse(self) -> None:
        assert "'a(' , position 2" not in refused(InvalidExpressionError, schema("a("))
        assert "'b(x', position 3" in refused(InvalidExpressionError, schema("a(x)", ["b(x"], compute))

    @pytest.mark.parametrize("output", ["derived_event", "derived_event()", "derived_event(x)"])
    def test_a_variable_that_the_output_does_not_have(self, output: str) -> None:
        said = refused(
            InvalidSchemaError,
            schema("event_context(e)"),
            schema(output, ["event_context(e)"], compute),
        )
        assert "the input 'event_context(e)' has the variable 'e'" in said

    @pytest.mark.parametrize(
        "one, other",
        [
            ("node(x)", "node(y)"),
            ("node", "node"),
            ("node(x)", 'node("a")'),
            ("node(5)", "node(5)"),
            ("pair(x, x)", 'pair("a", y)'),
        ],
    )
    def test_two_schemas_that_match_one_node(self, one: str, other: str) -> None:
        for first, second in ((one, other), (other, one)):
            said = refused(SchemaOverlapError, schema(first, ["a"], compute), schema(second, ["b"], compute))
            assert "match the same node" in said

    def test_schemas_that_no_node_matches_twice(self) -> None:
        DependencyGraph(
            [
                schema("pair(x, x)", ["a"], compute),
                schema('pair("a", "b")', ["a"], compute),
                schema("node(5)", ["a"], compute),
                schema('node("5")', ["a"], compute),
            ]
        )

    def test_a_schema_that_needs_itself(self) -> None:
        assert "a needs a;" in refused(SchemaCycleError, schema("a", ["a"], compute))

    def test_schemas_in_a_circle(self) -> None:
        said = refused(
            SchemaCycleError,
            schema("start", ["a(1)"], compute),
            schema("a(x)", ["b(x)"], compute),
            schema("b(x)", ["c(x)"], compute),
            schema("c(x)", ["a(x)", "s"], compute),
        )
        assert "a(x) needs b(x) needs c(x) needs a(x);" in said

    def test_a_long_cycle_has_a_short_message(self) -> None:
        said = refused(
            SchemaCycleError, *(schema(f"n{n}", [f"n{(n + 1) % 1000}"], compute) for n in range(1000))
        )
        assert "…" in said
        assert len(said) < 300

    def test_a_constant_can_break_a_circle(self) -> None:
        graph = DependencyGraph([schema("f(x, 1)", ["f(x, 0)"], compute), schema("f(x, 0)", ["s"], compute)])
        graph.set("s", 1)
        assert graph.pull("f(a, 1)") == 0

    @pytest.mark.parametrize(
        "schemas",
        [
            [schema("f(x)", ["a"], compute), schema("f(x, y)", ["a"], compute)],
            [schema("f(x)", ["a"], compute), schema("g", ["f"], compute)],
            [schema("g(x)", ["f(x)", "f(x, x)"], compute), schema("f(x)")],
        ],
    )
    def test_an_arity_that_is_used_two_ways(self, schemas: list[NodeSchema]) -> None:
        said = refused(SchemaArityError, *schemas)
        assert "'f' has " in said
        assert "arguments in" in said

    def test_a_compound_input_that_no_schema_makes(self) -> None:
        said = refused(InvalidSchemaError, schema("photo(p)"), schema("view(p)", ["foto(p)"], compute))
        assert said.startswith("'view(p)' has the input 'foto(p)'")
        assert "did you mean 'photo'?" in said

    def test_all_are_errors_of_definitions(self) -> None:
        assert issubclass(SchemaCycleError, DefinitionError)


class TestUnknownNodes:
    @pytest.fixture
    def graph(self) -> DependencyGraph:
        return DependencyGraph(
            [
                schema("event_context(e)", ["all_events"], compute),
                schema('only("a")', ["all_events"], compute),
                schema("needs(x)", ["only(x)"], compute),
            ]
        )

    @pytest.mark.parametrize(
        "node, said",
        [
            ("event_contxt(id1)", "no schema matches 'event_contxt(id1)'; did you mean 'event_context'?"),
            ("al_events", "did you mean 'all_events'?"),
            ("event_context(a, b)", "'event_context' has one argument, not 2"),
            ("event_context", "'event_context' has one argument, not 0"),
            ("only(b)", "schemas of that name: 'only(\"a\")'"),
            ("zzz", "no schema matches 'zzz'"),
        ],
    )
    def test_a_pull_of_what_no_schema_matches(self, graph: DependencyGraph, node: str, said: str) -> None:
        for verb in (graph.pull, graph.invalidate, graph.explain):
            with pytest.raises(InvalidNodeError) as caught:
                verb(node)
            assert said in str(caught.value)
        assert isinstance(caught.value, KeyError)

    def test_an_input_that_no_schema_matches_for_these_bindings(self, graph: DependencyGraph) -> None:
        graph.set("all_events", 1)
        assert graph.pull("needs(a)") == 0
        with pytest.raises(InvalidNodeError, match=r"'only\(b\)'.*it is an input of 'needs\(b\)'"):
            graph.pull("needs(b)")
