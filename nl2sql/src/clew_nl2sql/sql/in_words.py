"""Describe a query in plain words, for a person who does not read SQL.

The description names everything that decides about the rows: what is shown, from where, under which conditions, and how
it is grouped, sorted and limited. Joins over keys follow from the tables and are left out. The rest is shown as SQL.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

_AGGREGATES = {
    exp.Sum: "total",
    exp.Avg: "average",
    exp.Min: "smallest",
    exp.Max: "largest",
}
_COMPARISONS = {
    exp.EQ: "is",
    exp.NEQ: "is not",
    exp.GT: "is more than",
    exp.GTE: "is at least",
    exp.LT: "is less than",
    exp.LTE: "is at most",
}
_DATED = {exp.GT: "is after", exp.GTE: "is on or after", exp.LT: "is before", exp.LTE: "is on or before"}
_SETS = {exp.Union: "together with", exp.Except: "but not", exp.Intersect: "that are also in"}


def in_words(tree: Any) -> str:
    """Return what a query asks for."""
    if isinstance(tree, exp.Subquery):
        return in_words(tree.this)
    if isinstance(tree, exp.SetOperation):
        return f"{in_words(tree.this)}, {_SETS.get(type(tree), tree.key)}: {in_words(tree.expression)}"
    if not isinstance(tree, exp.Select):
        return str(tree.sql())
    parts = [_selected(tree)]
    where, having = tree.args.get("where"), tree.args.get("having")
    if where is not None:
        parts.append(f"where {_condition(where.this)}")
    group = tree.args.get("group")
    if group is not None:
        parts.append(f"for each {_listed([_value(one) for one in group.expressions])}")
    if having is not None:
        parts.append(f"if {_condition(having.this)}")
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if order is not None:
        parts.append(f"sorted by {_listed([_ordered(one) for one in order.expressions])}")
    if limit is not None:
        count = limit.expression.sql()
        parts.append("only the first one" if count == "1" else f"only the first {count}")
    return ", ".join(parts)


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
    if isinstance(node, exp.Alias | exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Star):
        return "all columns"
    if isinstance(node, exp.Column):
        return _name(node.name)
    if isinstance(node, exp.Count):
        if isinstance(node.this, exp.Star):
            return "the number of rows"
        if isinstance(node.this, exp.Distinct):
            return f"the number of different {_listed([_value(one) for one in node.this.expressions])}"
        return f"the number of {_value(node.this)}"
    for kind, word in _AGGREGATES.items():
        if isinstance(node, kind):
            return f"the {word} {_value(node.this)}"
    if isinstance(node, exp.Literal | exp.Boolean | exp.Neg):
        return repr(node.name) if isinstance(node, exp.Literal) and node.is_string else str(node.sql())
    if isinstance(node, exp.Subquery | exp.Query):
        return f"({in_words(node)})"
    if isinstance(node, exp.Cast | exp.TsOrDsToDate):
        return _value(node.this)
    return str(node.sql())


def _condition(node: Any) -> str:
    if isinstance(node, exp.Paren):
        return _condition(node.this)
    if isinstance(node, exp.And | exp.Or):
        word = "and" if isinstance(node, exp.And) else "or"
        sides = [_condition(side) for side in (node.this, node.expression)]
        if word == "and":
            sides = [
                f"({said})" if isinstance(side.unnest(), exp.Or) else said
                for side, said in zip((node.this, node.expression), sides)
            ]
        return f" {word} ".join(sides)
    if isinstance(node, exp.Not):
        return _denied(node.this)
    if isinstance(node, exp.Between):
        return f"{_value(node.this)} is between {_value(node.args['low'])} and {_value(node.args['high'])}"
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return f"{_value(node.this)} is missing"
    if isinstance(node, exp.Like | exp.ILike):
        return f"{_value(node.this)} {_pattern(node.expression)}"
    if isinstance(node, exp.In):
        return f"{_value(node.this)} is one of {_members(node)}"
    if isinstance(node, exp.Exists):
        return f"there is {_value(node.this)}"
    if type(node) in _COMPARISONS:
        words = {**_COMPARISONS, **(_DATED if _is_date(node.expression) else {})}
        return f"{_value(node.this)} {words[type(node)]} {_value(node.expression)}"
    return _value(node)


def _denied(node: Any) -> str:
    node = node.unnest()
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return f"{_value(node.this)} is known"
    if isinstance(node, exp.In):
        return f"{_value(node.this)} is not one of {_members(node)}"
    return f"not ({_condition(node)})"


def _members(node: exp.In) -> str:
    query = node.args.get("query")
    return _value(query) if query is not None else _listed([_value(one) for one in node.expressions])


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
