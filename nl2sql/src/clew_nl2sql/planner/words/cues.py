"""Cues: words that ask for an operation and do not name a thing.

Cues are counting ("how many"), aggregates ("average"), superlatives ("the oldest"), comparisons with a number
("at least 3", "2010 or later") and numbers. A cue only names the operation; its operand is decided later,
from the whole question.
"""

from __future__ import annotations

from typing import NamedTuple

from clew_nl2sql.planner.words.lexicon import DEGREES, STOP, word_set
from clew_nl2sql.planner.words.tokens import Token


class Cue(NamedTuple):
    """Tokens `start` to `end` that ask for `what`: a function's name, or desc/asc for a superlative."""

    kind: str  # count, agg, super
    what: str
    start: int
    end: int
    degree: str = ""  # the adjective, if it implies a column
    limit: int = 1


class Amount(NamedTuple):
    """A number of the question, with its comparison."""

    start: int
    end: int
    op: str
    values: tuple[float | int | str, ...]
    cue_start: int  # start of the comparison, or `start`
    cue_end: int
    degree: str = ""
    explicit: bool = False  # the question states a comparison


_AGGREGATES = {
    "average": "avg", "averaged": "avg", "avg": "avg", "mean": "avg", "averages": "avg", "total": "sum", "sum": "sum",
    "summation": "sum", "combined": "sum", "overall": "sum", "maximum": "max", "max": "max", "maximal": "max",
    "minimum": "min", "min": "min", "minimal": "min", "totals": "sum", "maximums": "max", "minimums": "min",
}  # fmt: skip

_COUNTING: dict[tuple[str, ...], str] = {
    ("how", "many"): "count", ("how", "often"): "count", ("count",): "count", ("counting",): "count",
    ("counts",): "count",
    **{(word, "of"): word for word in ("number", "numbers", "count", "counts", "amount", "quantity")},
    **{("total", word, "of"): f"total{word}" for word in ("number", "count", "numbers", "amount")},
}  # fmt: skip
_COMMON = word_set("common popular frequent frequently often commonly")
_DESC = word_set("""
    most highest largest biggest greatest longest oldest tallest heaviest latest newest best top fastest richest
    deepest widest strongest farthest furthest hottest warmest eldest maximum max
""")
_ASC = word_set("""
    least fewest lowest smallest shortest youngest lightest earliest cheapest worst slowest nearest closest coldest
    minimum min poorest
""")
_COMPARATIVE_UP = word_set(
    "more greater larger higher bigger older longer taller heavier later above over exceeding faster farther better"
)
_COMPARATIVE_DOWN = word_set(
    "less fewer lower smaller younger shorter lighter earlier below under cheaper slower worse"
)


def find_cues(tokens: list[Token]) -> list[Cue]:
    """Return counting, aggregate and superlative cues, in order."""
    cues: list[Cue] = []
    at = 0
    low = [t.low for t in tokens]
    while at < len(tokens):
        cue = (
            _count(tokens, low, at)
            or _aggregate(low, at)
            or _superlative(tokens, low, at)
            or _compared(tokens, low, at)
        )
        if cue:
            cues.append(cue)
            at = cue.end
        else:
            at += 1
    return cues


def _compared(tokens: list[Token], low: list[str], at: int) -> Cue | None:
    """Return a comparison with something that is neither a number nor an average: "longer than that of …"."""
    found = comparative(low, at)
    if not found:
        return None
    than: int | None = at
    if low[at] not in ("exceeds", "exceed", "above", "below"):
        than = _find(low, range(at + 1, min(at + 5, len(low))), ("than",))
    if than is None:
        return None
    near = range(than + 1, min(than + 4, len(low)))
    if any(tokens[t].kind in ("number", "date") or low[t] in ("average", "mean", "one") for t in near):
        return None
    return Cue("cmp", found[0], at, than + 1, degree=found[1])


def _at(low: list[str], at: int) -> str:
    return low[at] if 0 <= at < len(low) else ""


def _count(tokens: list[Token], low: list[str], at: int) -> Cue | None:
    word, before, after = low[at], _at(low, at - 1), _at(low, at + 1)
    if word == "how" and after in DEGREES:
        return Cue("deg", "how", at, at + 2, degree=after)
    for length in (3, 2, 1):
        words = tuple(low[at : at + length])
        if words in _COUNTING:
            total = words[1:] == ("of",) and before == "total"
            return Cue("count", _COUNTING[words], at - total, at + len(words))
    if word == "number" and after and before in ("the", "total"):
        given = tokens[at + 1].kind in ("quoted", "number")  # "the number 00041" is a number of one thing
        return None if given or _is_compound(tokens, at) else Cue("count", "number", at, at + 1)
    return None


def _is_compound(tokens: list[Token], at: int) -> bool:
    """Return whether "the number plate of" is the plate of one thing: a single noun follows, and nothing is counted."""
    noun = tokens[at + 1]
    alone = noun.kind == "word" and noun.low == noun.lemma and noun.low not in STOP
    return (
        alone and at + 2 < len(tokens) and tokens[at + 2].low in ("of", "for") and tokens[at - 1].low == "the"
    )


def _aggregate(low: list[str], at: int) -> Cue | None:
    return Cue("agg", _AGGREGATES[low[at]], at, at + 1) if low[at] in _AGGREGATES else None


def _superlative(tokens: list[Token], low: list[str], at: int) -> Cue | None:
    word = low[at]
    if word in ("top", "first", "last", "bottom"):
        return _first_rows(tokens, at)
    if word not in _DESC | _ASC or (word in ("most", "least") and _at(low, at - 1) == "at"):
        return None
    degree, end = _degree(low, at)
    limit, ahead = _whole(tokens, at - 1), _whole(tokens, end)
    if limit is None and ahead is not None:
        limit, end = ahead, end + 1
    what = "desc" if word in _DESC else "asc"
    return Cue("super", what, at, end, degree=degree, limit=1 if limit is None else limit)


def _first_rows(tokens: list[Token], at: int) -> Cue | None:
    """Return the cue of "the top 3" and "the last 5"; "top" alone is a superlative."""
    word, after = tokens[at].low, tokens[at + 1] if at + 1 < len(tokens) else None
    if after is not None and after.kind == "number" and after.value is not None and after.value % 1 == 0:
        what = "desc" if word in ("top", "first") else "asc"
        return Cue("super", what, at, at + 2, degree=word, limit=int(after.value))
    return Cue("super", "desc", at, at + 1, degree="top") if word == "top" else None


def _degree(low: list[str], at: int) -> tuple[str, int]:
    """Return the adjective of a superlative, and the end of its words: "most expensive", "most common"."""
    word, after = low[at], _at(low, at + 1)
    if word in ("most", "least") and (after in DEGREES or after in _COMMON):
        return after if after in DEGREES else "common", at + 2
    return word if word in DEGREES else "", at + 1


def _whole(tokens: list[Token], at: int) -> int | None:
    """Return the integer at a position, if any."""
    if not 0 <= at < len(tokens) or tokens[at].kind != "number":
        return None
    value = tokens[at].value
    return value if isinstance(value, int) else None


_BEFORE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("greater", "than", "or", "equal", "to"), ">="), (("more", "than", "or", "equal", "to"), ">="),
    (("larger", "than", "or", "equal", "to"), ">="), (("higher", "than", "or", "equal", "to"), ">="),
    (("less", "than", "or", "equal", "to"), "<="), (("smaller", "than", "or", "equal", "to"), "<="),
    (("lower", "than", "or", "equal", "to"), "<="), (("fewer", "than", "or", "equal", "to"), "<="),
    (("not", "more", "than"), "<="), (("no", "more", "than"), "<="), (("not", "less", "than"), ">="),
    (("no", "less", "than"), ">="), (("no", "fewer", "than"), ">="), (("not", "fewer", "than"), ">="),
    (("no", "later", "than"), "<="), (("no", "earlier", "than"), ">="), (("not", "equal", "to"), "!="),
    (("not", "equal"), "!="), (("other", "than"), "!="), (("different", "from"), "!="),
    (("in", "or", "after"), ">="), (("on", "or", "after"), ">="), (("in", "or", "before"), "<="),
    (("on", "or", "before"), "<="), (("or", "after"), ">="), (("or", "before"), "<="), (("or", "later", "than"), ">="),
    (("at", "least"), ">="), (("at", "most"), "<="), (("up", "to"), "<="), (("as", "many", "as"), ">="),
    (("a", "minimum", "of"), ">="), (("minimum", "of"), ">="), (("maximum", "of"), "<="), (("starting", "from"), ">="),
    (("just",), "="), (("only",), "="), (("a", "total", "of"), "="),
    (("equal", "to"), "="), (("equals", "to"), "="), (("equals",), "="), (("exactly",), "="), (("equal",), "="),
    (("since",), ">="), (("after",), ">"), (("before",), "<"), (("above",), ">"), (("over",), ">"), (("exceeds",), ">"),
    (("exceed",), ">"), (("exceeding",), ">"), (("below",), "<"), (("under",), "<"), (("beyond",), ">"),
    (("past",), ">"), (("until",), "<="), (("within",), "<="),
    (("surpass",), ">"), (("surpasses",), ">"), (("not",), "!="), ((">",), ">"), (("<",), "<"), (("=",), "="),
    ((">", "="), ">="), (("<", "="), "<="), (("older", "or", "equal", "to"), ">="),
    (("greater",), ">"), (("larger",), ">"), (("higher",), ">"), (("less",), "<"), (("fewer",), "<"),
    (("lower",), "<"), (("smaller",), "<"),
)  # fmt: skip
_AFTER: tuple[tuple[tuple[str, ...], str], ...] = (
    (("or", "more"), ">="), (("or", "greater"), ">="), (("or", "higher"), ">="), (("or", "above"), ">="),
    (("or", "later"), ">="), (("or", "after"), ">="), (("or", "older"), ">="), (("or", "over"), ">="),
    (("or", "larger"), ">="), (("or", "longer"), ">="), (("and", "above"), ">="), (("or", "less"), "<="),
    (("or", "fewer"), "<="), (("or", "lower"), "<="), (("or", "below"), "<="), (("or", "before"), "<="),
    (("or", "earlier"), "<="), (("or", "younger"), "<="), (("or", "under"), "<="), (("or", "smaller"), "<="),
    (("and", "below"), "<="), (("or", "newer"), ">="), (("or", "better"), ">="), (("or", "worse"), "<="),
    (("or", "bigger"), ">="), (("or", "cheaper"), "<="), (("or", "shorter"), "<="),
)  # fmt: skip
_SKIPPED = word_set("the year a an of number value than to $ in total or")


def find_amounts(tokens: list[Token]) -> list[Amount]:
    """Return numbers with their comparisons. "between 3 and 5" is one amount of two values, "3, 5 and 8" one
    of three.
    """
    low = [t.low for t in tokens]
    amounts: list[Amount] = []
    at = 0
    while at < len(tokens):
        if tokens[at].value is None and tokens[at].kind != "date":
            at += 1
            continue
        amount = _between(tokens, low, at) or _listed(tokens, low, at) or _amount(tokens, low, at)
        if amount:
            amounts.append(amount)
            at = max(amount.end, at + 1)
        else:
            at += 1
    return amounts


def _between(tokens: list[Token], low: list[str], at: int) -> Amount | None:
    opens = _find(low, range(at - 1, max(-1, at - 4), -1), ("between", "from", "range"))
    joins = _find(low, range(at + 1, min(len(tokens), at + 5)), ("and", "to", "through"))
    if opens is None or joins is None or (low[opens] == "from" and low[joins] == "and"):
        return None
    places = range(joins + 1, min(len(tokens), joins + 4))
    second = next((place for place in places if _number(tokens[place]) is not None), None)
    if second is None:
        return None
    low_end, high_end = _number(tokens[at]), _number(tokens[second])
    if low_end is None or high_end is None:
        return None
    return Amount(at, second + 1, "between", (low_end, high_end), opens, second + 1, "", True)


def _find(low: list[str], places: range, words: tuple[str, ...]) -> int | None:
    return next((place for place in places if low[place] in words), None)


def _listed(tokens: list[Token], low: list[str], at: int) -> Amount | None:
    """Return an enumeration of three or more numbers, which matches any of them."""
    if tokens[at].kind != "number":
        return None
    places = [at]
    while (following := _next_listed(tokens, low, places[-1] + 1)) is not None:
        places.append(following)
    values = tuple(value for place in places if (value := tokens[place].value) is not None)
    end = places[-1] + 1
    return Amount(at, end, "in", values, at, end) if len(values) > 2 else None


def _next_listed(tokens: list[Token], low: list[str], end: int) -> int | None:
    after = end
    while after < len(tokens) and low[after] in (",", "and", "or"):
        after += 1
    if after in (end, len(tokens)) or tokens[after].kind != "number" or tokens[after].value is None:
        return None
    return after


def _number(token: Token) -> float | int | str | None:
    if token.kind == "date":
        return token.text
    return token.value


def _amount(tokens: list[Token], low: list[str], at: int) -> Amount | None:
    number = _number(tokens[at])
    if number is None:
        return None
    if compared := _comparison(tokens, low, at):
        op, begin, end, degree = compared
        return Amount(at, at + 1, op, (number,), begin, end, degree, True)
    return None if low[at] in ("one", "once") else Amount(at, at + 1, "=", (number,), at, at + 1)


def _comparison(tokens: list[Token], low: list[str], at: int) -> tuple[str, int, int, str] | None:
    """Return operator, position and adjective of the comparison of a number, if the question states one."""
    if said := _said_after(tokens, low, at) or _said_before(tokens, low, at):
        return (*said, "")
    if low[at + 1 : at + 3] in (["years", "old"], ["year", "old"]) or low[at - 1 : at] == ["aged"]:
        return "=", at, at + 1, "old"
    if at >= 2 and low[at - 2] in ("after", "before") and tokens[at - 1].kind == "word":
        return ">" if low[at - 2] == "after" else "<", at - 2, at + 1, ""
    if compared := _than(low, at):
        return compared[0], compared[1], at + 1, compared[2]
    return None


def _said_after(tokens: list[Token], low: list[str], at: int) -> tuple[str, int, int] | None:
    """Return operator and position of a comparison after a number ("5 or more")."""
    for words, op in _AFTER:
        for skip in (1, 2, 3):
            stop = at + skip + len(words)
            another = _at(low, stop) in ("than", "then") or (
                stop < len(tokens) and _number(tokens[stop]) is not None
            )
            if tuple(low[at + skip : stop]) == words and not another:
                return op, at, stop
    return None


def _said_before(tokens: list[Token], low: list[str], at: int) -> tuple[str, int, int] | None:
    """Return operator and position of a comparison before a number ("at least 5")."""
    for end in range(at, _skipped_from(low, at) - 1, -1):
        for words, op in _BEFORE:
            begin = end - len(words)
            if words[0] == "or" and begin > 0 and tokens[begin - 1].value is not None:
                continue  # "after 1961 or before 1959" are two comparisons
            if begin >= 0 and tuple(low[begin:end]) == words:
                return op, begin, at + 1
    return None


def _skipped_from(low: list[str], at: int) -> int:
    """Return the start of the words between a comparison and its number: "the year"."""
    stop = at
    while stop > 0 and at - stop < 4 and low[stop - 1] in _SKIPPED and low[stop - 1] != "than":
        stop -= 1
    return stop


def _than(low: list[str], at: int) -> tuple[str, int, str] | None:
    """Return a comparative before `than`: "older than 5", "more expensive than 5", "more than that of 5"."""
    for than in range(at - 1, max(-1, at - 5), -1):
        if low[than].isdigit():
            return None  # the number belongs to another comparison: "lower than 160 and two beds"
        if low[than] not in ("than", "then"):
            continue
        for begin in (than - 1, than - 2, than - 3, than - 4):
            word = _at(low, begin)
            degree = _adjective(low, begin, ("more", "less"))
            if word in _COMPARATIVE_UP:
                return _not_before(low, begin, ">"), begin, degree
            if word in _COMPARATIVE_DOWN:
                return _not_before(low, begin, "<"), begin, degree
        return None
    return None


def _not_before(low: list[str], at: int, op: str) -> str:
    if _at(low, at - 1) in ("not", "no"):
        return "<=" if op == ">" else ">="
    return op


def comparative(low: list[str], at: int) -> tuple[str, str] | None:
    """Return direction (">" or "<") and adjective of the comparison that starts at a word, if any."""
    if low[at] in _COMPARATIVE_UP or low[at] in ("exceeds", "exceed"):
        return ">", _adjective(low, at, ("more",))
    return ("<", _adjective(low, at, ("less",))) if low[at] in _COMPARATIVE_DOWN else None


def _adjective(low: list[str], at: int, before: tuple[str, ...]) -> str:
    """Return the adjective of a comparative: "older", or "expensive" of "more expensive"."""
    word, after = _at(low, at), _at(low, at + 1)
    if word in DEGREES:
        return word
    return after if word in before and after in DEGREES else ""
