"""Describe a query in plain words, for a person who does not read SQL.

The description names everything that decides about the rows: what is shown, from where, under which conditions, and how
it is grouped, sorted and limited. Joins over keys follow from the tables and are left out. The rest is shown as SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

_COMPARISONS = {
    exp.EQ: "is", exp.NEQ: "is not", exp.GT: "is more than", exp.GTE: "is at least", exp.LT: "is less than",
    exp.LTE: "is at most",
}  # fmt: skip
_DATED = {exp.GT: "is after", exp.GTE: "is on or after", exp.LT: "is before", exp.LTE: "is on or before"}
_PERIODS = {"4": "year", "7": "month", "10": "day"}
_SETS = {exp.Union: "together with", exp.Except: "but not", exp.Intersect: "that are also in"}

Phrases = dict[type, Callable[[Any], str]]


def in_words(tree: Any) -> str:
    """Return what a query asks for."""
    if isinstance(tree, exp.Subquery):
        return in_words(tree.this)
    if isinstance(tree, exp.SetOperation):
        return f"{in_words(tree.this)}, {_SETS.get(type(tree), tree.key)}: {in_words(tree.expression)}"
    if not isinstance(tree, exp.Select):
        return str(tree.sql())
    clauses = [(phrase, tree.args.get(name)) for name, phrase in _CLAUSES.items()]
    return ", ".join([_selected(tree), *(phrase(clause) for phrase, clause in clauses if clause is not None)])


_CLAUSES: dict[str, Callable[[Any], str]] = {
    "where": lambda clause: f"where {_condition(clause.this)}",
    "group": lambda clause: f"for each {_values(clause.expressions).removeprefix('the ')}",
    "having": lambda clause: f"if {_condition(clause.this)}",
    "order": lambda clause: f"sorted by {_listed([_ordered(one) for one in clause.expressions])}",
    "limit": lambda clause: _limited(clause.expression.sql()),
}


def _limited(count: str) -> str:
    return "only the first one" if count == "1" else f"only the first {count}"


def _phrase(phrases: Phrases, node: Any) -> Callable[[Any], str] | None:
    return next((phrases[kind] for kind in type(node).__mro__ if kind in phrases), None)


def _selected(tree: exp.Select) -> str:
    tables = list(dict.fromkeys(_name(f"{table.db} {table.name}".strip()) for table in _tables(tree)))
    chosen = [_value(one) for one in tree.expressions]
    if chosen == ["the number of rows"]:
        return f"the number of {' and their '.join(tables)}"
    kind = "different " if tree.args.get("distinct") else ""
    return f"{kind}{_listed(chosen)} of {' and their '.join(tables)}" if tables else _listed(chosen)


def _tables(tree: exp.Select) -> list[exp.Table]:
    joined = [join.this for join in tree.args.get("joins") or ()]
    source = tree.args.get("from_") or tree.args.get("from")
    found = [source.this, *joined] if source is not None else joined
    return [table for table in found if isinstance(table, exp.Table)]


def _value(node: Any) -> str:
    phrase = _phrase(_VALUES, node)
    return phrase(node) if phrase is not None else str(node.sql())


def _values(nodes: list[Any]) -> str:
    return _listed([_value(node) for node in nodes])


def _counted(node: Any) -> str:
    if isinstance(node, exp.Star):
        return "rows"
    return f"different {_values(node.expressions)}" if isinstance(node, exp.Distinct) else _value(node)


def _averaged(node: Any) -> str:
    """Return the words for an average; that of 100 for some rows and 0 for the others is their percentage."""
    ifs: list[Any] = list(node.args.get("ifs") or ()) if isinstance(node, exp.Case) else []
    if len(ifs) == 1 and ifs[0].args["true"].sql() == "100.0" and node.args["default"].sql() == "0":
        return f"the percentage of rows where {_condition(ifs[0].this)}"
    return f"the average {_value(node)}"


_VALUES: Phrases = {
    **dict.fromkeys((exp.Alias, exp.Paren, exp.Cast, exp.TsOrDsToDate), lambda node: _value(node.this)),
    exp.Substring: lambda node: _part(node),
    exp.Star: lambda node: "all columns",
    exp.Column: lambda node: _name(node.name),
    exp.Count: lambda node: f"the number of {_counted(node.this)}",
    exp.Sum: lambda node: f"the total {_value(node.this)}",
    exp.Avg: lambda node: _averaged(node.this),
    exp.Min: lambda node: f"the smallest {_value(node.this)}",
    exp.Max: lambda node: f"the largest {_value(node.this)}",
    exp.Literal: lambda node: repr(node.name) if node.is_string else str(node.sql()),
    exp.Query: lambda node: f"({in_words(node)})",
}


def _part(node: Any) -> str:
    """Return the year, month or day of a date."""
    length = node.args.get("length")
    unit = _PERIODS.get(length.name if isinstance(length, exp.Literal) else "")
    return f"the {unit} of {_value(node.this)}" if unit else str(node.sql())


def _condition(node: Any) -> str:
    return (_phrase(_CONDITIONS, node) or _value)(node)


def _side(node: Any) -> str:
    return f"({_condition(node)})" if isinstance(node.unnest(), exp.Or) else _condition(node)


def _compared(node: Any) -> str:
    words = {**_COMPARISONS, **(_DATED if _is_date(node.expression) else {})}
    return f"{_value(node.this)} {words[type(node)]} {_value(node.expression)}"


def _between(node: Any) -> str:
    return f"{_value(node.this)} is between {_value(node.args['low'])} and {_value(node.args['high'])}"


def _is(node: Any) -> str:
    return f"{_value(node.this)} is missing" if isinstance(node.expression, exp.Null) else _value(node)


_CONDITIONS: Phrases = {
    exp.Paren: lambda node: _condition(node.this),
    exp.And: lambda node: f"{_side(node.this)} and {_side(node.expression)}",
    exp.Or: lambda node: f"{_condition(node.this)} or {_condition(node.expression)}",
    exp.Not: lambda node: _denied(node.this),
    exp.Between: _between,
    exp.Is: _is,
    **dict.fromkeys((exp.Like, exp.ILike), lambda node: f"{_value(node.this)} {_pattern(node.expression)}"),
    exp.In: lambda node: f"{_value(node.this)} is one of {_members(node)}",
    exp.Exists: lambda node: f"there is {_value(node.this)}",
    **dict.fromkeys(_COMPARISONS, _compared),
}


def _denied(node: Any) -> str:
    node = node.unnest()
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return f"{_value(node.this)} is known"
    if isinstance(node, exp.In):
        return f"{_value(node.this)} is not one of {_members(node)}"
    return f"not ({_condition(node)})"


def _members(node: exp.In) -> str:
    query = node.args.get("query")
    return _value(query) if query is not None else _values(node.expressions)


def _pattern(node: Any) -> str:
    text = node.name if isinstance(node, exp.Literal) else ""
    inner = text.strip("%")
    if not inner or "%" in inner or "_" in inner:
        return f"is like {_value(node)}"
    if text.startswith("%"):
        return f"{'contains' if text.endswith('%') else 'ends with'} {inner!r}"
    return f"{'begins with' if text.endswith('%') else 'is'} {inner!r}"


def _is_date(node: Any) -> bool:
    literal = node.find(exp.Literal) if isinstance(node, exp.Expression) else None
    text = literal.name if literal is not None and literal.is_string else ""
    return len(text) >= 10 and text[:4].isdigit() and text[4] == text[7] == "-"


def _ordered(node: Any) -> str:
    return f"{_value(node.this)}{', largest first' if node.args.get('desc') else ''}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"


def _name(name: str) -> str:
    return name.replace("_", " ")
