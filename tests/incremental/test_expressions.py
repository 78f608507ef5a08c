"""Names of nodes: parsing, canonical spelling, matching, unification."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import InvalidExpressionError
from clew.incremental.expressions import (
    Expression,
    Variable,
    match,
    node_of,
    pattern_text,
    read_node,
    read_pattern,
    substitute,
    unifies,
)

V = Variable


class TestReading:
    @pytest.mark.parametrize(
        "text, pattern",
        [
            ("all_events", Expression("all_events")),
            ("all_events()", Expression("all_events")),
            ("event_context(e)", Expression("event_context", (V("e"),))),
            (" enhanced_event ( e , p ) ", Expression("enhanced_event", (V("e"), V("p")))),
            ('status(e, "active")', Expression("status", (V("e"), "active"))),
            ("status(e, 'active')", Expression("status", (V("e"), "active"))),
            ("f(5, 007)", Expression("f", (5, 7))),
            ("f(5a)", Expression("f", (V("5a"),))),
            ("größe(ж)", Expression("größe", (V("ж"),))),
        ],
    )
    def test_in_a_schema_a_bare_word_is_a_variable(self, text: str, pattern: Expression) -> None:
        assert read_pattern(text) == pattern

    @pytest.mark.parametrize(
        "text, node",
        [
            ("f(id123)", Expression("f", ("id123",))),
            ("f(5)", Expression("f", (5,))),
            ('f("5")', Expression("f", ("5",))),
            ("f(\t'a b' ,\n\"c\" )", Expression("f", ("a b", "c"))),
            (r'f("\n\r\t\\\"\'\x41\u0042\U00000043")', Expression("f", ("\n\r\t\\\"'ABC",))),
            ("f('\"')", Expression("f", ('"',))),
            ("f('')", Expression("f", ("",))),
            ("f(\u0665)", Expression("f", ("\u0665",))),  # a digit, but none of ours
        ],
    )
    def test_in_a_request_a_bare_word_is_a_text(self, text: str, node: Expression) -> None:
        assert read_node(text) == node

    @pytest.mark.parametrize(
        "text, position, what",
        [
            ("", 0, "the text ends"),
            ("  ", 2, "the text ends"),
            ("(a)", 0, "found '\\('"),
            ("f(", 2, "the text ends"),
            ("f(a", 3, "',' or '\\)'; the text ends"),
            ("f(a b)", 4, "',' or '\\)'; found 'b'"),
            ("f(a,)", 4, "found '\\)'"),
            ("f(,a)", 2, "found ','"),
            ("f(a)b", 4, "end of the text; found 'b'"),
            ("f(a)(b)", 4, "end of the text"),
            ("a b", 2, "end of the text; found 'b'"),
            ("f(-5)", 2, "natural number.*found '-'"),
            ("f(1.5)", 3, "found '.'"),
            ("f(g(x))", 3, "found '\\('"),
            ("f('a)", 2, "not closed"),
            (r"f('\q')", 3, "unknown escape"),
            (r"f('\x4')", 3, "unknown escape"),
            (r"f('\u12')", 3, "unknown escape"),
            (r"f('\U00110000')", 3, "unknown escape"),
            ("f('\\", 3, "unknown escape"),
            (f"f({'9' * 5000})", 2, "too long"),
        ],
    )
    def test_what_does_not_parse_is_refused_with_its_position(
        self, text: str, position: int, what: str
    ) -> None:
        for read in (read_pattern, read_node):
            with pytest.raises(InvalidExpressionError, match=f"position {position}: .*{what}"):
                read(text)

    def test_what_is_no_text(self) -> None:
        with pytest.raises(InvalidExpressionError, match="node name"):
            read_node(5)


class TestStructured:
    def test_any_text_and_any_natural_number(self) -> None:
        assert node_of("f", ("a b", 0, "")) == Expression("f", ("a b", 0, ""))
        assert str(node_of(" f ", ("e",))) == "f(e)"

    @pytest.mark.parametrize("argument", [-1, 1.5, True, None, b"x"])
    def test_nothing_else(self, argument: Any) -> None:
        with pytest.raises(InvalidExpressionError, match="natural numbers"):
            node_of("f", (argument,))

    def test_the_name_alone(self) -> None:
        with pytest.raises(InvalidExpressionError, match=r"position 1: .*name"):
            node_of("f(a)", ("b",))

    def test_a_number_that_python_does_not_spell(self) -> None:
        with pytest.raises(InvalidExpressionError, match="too many digits"):
            str(node_of("f", (10**5000,)))


class TestSpelling:
    @pytest.mark.parametrize(
        "arguments, key",
        [
            ((), "f"),
            (("id123", "photo5"), "f(id123,photo5)"),
            ((5, "5"), 'f(5,"5")'),
            (("a b",), 'f("a b")'),
            (("",), 'f("")'),
            (('say "hi"\\',), r'f("say \"hi\"\\")'),
            (("\n\t\r\x00\x7f",), r'f("\n\t\r\u0000\u007f")'),
            (("\ud800", "\U000e0001"), r'f("\ud800","\U000e0001")'),
            (("größe", "naïve café"), 'f(größe,"naïve café")'),
        ],
    )
    def test_a_key_has_no_spaces_and_quotes_what_is_no_plain_word(self, arguments: Any, key: str) -> None:
        assert str(Expression("f", arguments)) == key

    def test_a_pattern_quotes_all_texts(self) -> None:
        assert pattern_text(read_pattern("f( e, 'active', 5 )")) == 'f(e,"active",5)'
        assert pattern_text(read_pattern("f()")) == "f"

    arguments = st.lists(
        st.text(st.characters(), max_size=6) | st.integers(min_value=0, max_value=10**30), max_size=4
    )

    @settings(derandomize=True, max_examples=300)
    @given(arguments)
    def test_reading_a_key_gives_the_node_again(self, arguments: list[Any]) -> None:
        node = Expression("f", tuple(arguments))
        key = str(node)
        again = read_node(key)
        assert again == node
        assert [type(part) for part in again.arguments] == [type(part) for part in node.arguments]
        assert str(again) == key
        key.encode()  # a database can keep it
        assert "\0" not in key

    @settings(derandomize=True, max_examples=200)
    @given(arguments, arguments)
    def test_two_nodes_have_two_keys(self, one: list[Any], other: list[Any]) -> None:
        assert (str(Expression("f", tuple(one))) == str(Expression("f", tuple(other)))) == (one == other)


class TestMatching:
    @pytest.mark.parametrize(
        "pattern, node, bindings",
        [
            ("f(e)", "f(a)", {"e": "a"}),
            ("f(e, p)", "f(a, 5)", {"e": "a", "p": 5}),
            ("f(x, x)", "f(a, a)", {"x": "a"}),
            ("f(x, x)", "f(a, b)", None),
            ("f(x, x)", 'f(5, "5")', None),
            ('f(e, "active")', "f(a, active)", {"e": "a"}),
            ('f(e, "active")', "f(a, passive)", None),
            ("f(5)", "f(5)", {}),
            ("f(5)", 'f("5")', None),
        ],
    )
    def test_variables_stand_for_constants(self, pattern: str, node: str, bindings: Any) -> None:
        wanted = read_pattern(pattern)
        found = match(wanted.arguments, read_node(node).arguments)
        assert found == bindings
        if found is not None:
            assert substitute(wanted, found) == read_node(node).arguments

    @pytest.mark.parametrize(
        "one, other, fits",
        [
            ("f(x)", "f(y)", True),
            ("f(x)", "g(x)", False),
            ("f(x)", "f(x, y)", False),
            ("f", "f", True),
            ('f("a")', "f(x)", True),
            ('f("a")', 'f("b")', False),
            ("f(5)", 'f("5")', False),
            ("f(x, x)", 'f("a", "b")', False),
            ("f(x, x)", 'f("a", "a")', True),
            ("f(x, x, 1)", "f(1, y, y)", True),
            ("f(x, x, 2)", "f(1, y, y)", False),
            ("f(x, y, x)", "f(z, z, 3)", True),
            ("f(x, 1)", "f(2, x)", True),  # the variables have nothing to do with each other
        ],
    )
    def test_overlap_is_decided_by_unification(self, one: str, other: str, fits: bool) -> None:
        assert unifies(read_pattern(one), read_pattern(other)) is fits
        assert unifies(read_pattern(other), read_pattern(one)) is fits

    parts = st.lists(st.sampled_from([V("x"), V("y"), 1, 2, "a"]), min_size=3, max_size=3).map(tuple)

    @settings(derandomize=True, max_examples=200)
    @given(parts, parts)
    def test_unification_is_having_an_instance_in_common(self, one: Any, other: Any) -> None:
        # With two variables each, five constants are more than any equality needs.
        common = any(
            match(one, node) is not None and match(other, node) is not None
            for node in product([1, 2, "a", "b", "c"], repeat=3)
        )
        assert unifies(Expression("f", one), Expression("f", other)) is common
