"""JSON data is checked against a schema."""

from __future__ import annotations

import pytest

from clew.json_schema import problems


@pytest.mark.parametrize(
    "format_, good, bad",
    [
        ("date", "2026-11-30", "30.11.2026"),
        ("date-time", "2026-11-30T14:00:00+01:00", "2026-11-30 at noon"),
        ("date-time-local", "2026-11-30T14:00:00", "2026-13-30T14:00:00"),
        ("time", "14:00:00Z", "25:00"),
        ("time-local", "14:00:00", "noon"),
        ("partial-time", "14:00", "x"),
        ("decimal", "64.90", "64,90"),
        ("decimal", "1e999999999", ""),
        ("duration", "P1DT2H30M", "2 hours"),
        ("duration", "-PT0.5S", ""),
        ("uuid", "6f9619ff-8b86-d011-b42d-00c04fc964ff", "6f9619ff"),
    ],
)
def test_texts_are_checked_by_their_format(format_: str, good: str, bad: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": format_}}}
    assert not list(problems(schema, {"x": good}))
    assert [at for at, _ in problems(schema, {"x": bad})] == ["/x"]


@pytest.mark.parametrize("format_", ["iri", "constructor", 7, None, ["date"]])
def test_a_format_that_is_not_known_accepts_every_text(format_: object) -> None:
    assert not list(problems({"type": "string", "format": format_}, "x"))


@pytest.mark.parametrize(
    "schema, good, bad",
    [
        ({"type": "integer"}, 2.0, 2.5),
        ({"type": "string", "contentEncoding": "base64"}, "aGVsbG8=", "not base64!!"),
        ({"enum": [1, "a"]}, 1.0, True),
        ({"type": ["string", "null"]}, None, 1),
        ({"type": "string", "nullable": True}, None, 1),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [1, 2], [1, 2, 3]),
        ({"anyOf": [{"type": "integer"}, {"const": "x"}]}, "x", "y"),
        ({"allOf": [{"minimum": 1}, {"exclusiveMaximum": 3}]}, 2, 3),
        ({"properties": {"a": False}}, {"b": 1}, {"a": 1}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
        ({"required": ["a", "b"], "properties": {"b": {"writeOnly": True}}}, {"a": 1}, {"b": 1}),
        ({"patternProperties": {"x": {}}, "additionalProperties": False}, {"xy": 1}, None),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 1, "1"),
        ({"$ref": "#/nowhere"}, 1, None),
        ({"$ref": "#"}, 1, None),
    ],
)
def test_what_a_schema_says(schema: dict[str, object], good: object, bad: object) -> None:
    assert not list(problems(schema, good))
    assert bad is None or list(problems(schema, bad))


def test_a_problem_has_its_place() -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": "array", "items": {"type": "string"}}}}
    assert list(problems(schema, {"a/b": ["x", 1]})) == [("/a~1b/1", "a text is expected")]


def test_references_lead_into_the_document() -> None:
    document = {"components": {"schemas": {"Item": {"type": "object", "required": ["id"]}}}}
    found = problems({"$ref": "#/components/schemas/Item"}, {}, document)
    assert list(found) == [("/id", "a value is missing")]
