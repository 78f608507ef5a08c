"""Name the amounts of "How much did we take in cash?", "revenue from orders" and "the sum of all payments"."""

from __future__ import annotations

import re

from clew_nl2sql.decompose.named_things import NamedThings

_HOW_MUCH = re.compile(
    r"how much (?:money |revenue |income )?(?:did|do|have|has) (?:we|our \w+|they) "
    r"(?:receive|collect|make|made|take|taken|earn|get|got|received|collected|earned|charge|invoice|bill)"
    r"(?: (?:in|from|for|with|on|by|through))?\b(.*)$",
    re.I,
)
_REVENUE = re.compile(r"\b(?:our |the )?(?:total )?(?:revenue|income|turnover|takings|sales)\b", re.I)
_SUM = re.compile(
    r"\b(?:the )?(sum|total|total sum|total value)( of)? (?:all |the |our |all the )?(\w+)\b"
    r"(?! (?:amount|price|cost|fee|value))",
    re.I,
)
_PAID = frozenset(  # "the total bookings" may be their number; "the total payments" are an amount
    "payment donation invoice refund expense fee fine deposit contribution".split()  # noqa: SIM905
)


def amounts(text: str, things: NamedThings) -> str:
    """Name the amounts of "How much did we take in cash?", "revenue from orders" and "the sum of all payments"."""
    found = _HOW_MUCH.match(text)
    if found and (amount := things.amount_of(text)):
        return _how_much(text, found, amount, things)
    found = _REVENUE.search(text)
    if found and not things.knows(found[0].split()[-1]):
        return _revenue(text, found, things)
    found = _SUM.search(text)
    return _added_up(text, found, things) if found else text


def _added_up(text: str, found: re.Match[str], things: NamedThings) -> str:
    noun = found[3]
    table = things.table(noun)
    is_sum = found[1].lower() != "total" or things.singular(noun) in _PAID
    if table is None or not is_sum or not things.is_plural(noun) or things.has_column(table, "total"):
        return text
    amount = things.amount_in(table)
    return f"{text[: found.start()]}the total {amount} of {noun}{text[found.end() :]}" if amount else text


def _how_much(text: str, found: re.Match[str], amount: tuple[str, str], things: NamedThings) -> str:
    total = "sum of the total" if amount[0] == "total" else f"total {amount[0]}"
    if re.search(rf"\b{things.singular(amount[1])}s?\b", found[1], re.I):
        return f"What is the {total} of{found[1]}"
    joint = re.search(r"\b(in|from|for|with|on|by|through) *$", text[: found.start(1)])
    return f"What is the {total} of {amount[1]} {joint[1] if joint else ''}{found[1]}"


def _revenue(text: str, found: re.Match[str], things: NamedThings) -> str:
    amount = things.amount_of(text)
    if not amount:
        return text
    before = re.sub(rf"\b{things.singular(amount[1])}s?\s*$", "", text[: found.start()], flags=re.I)
    after = re.sub(r"^ (?:from|of|on|with) ", " of ", text[found.end() :])
    named = re.search(rf"\b{things.singular(amount[1])}s?\b", after, re.I)
    of = "" if named else f" of {amount[1]}"
    total = "sum of the total" if amount[0] == "total" else f"total {amount[0]}"
    return f"{before}the {total}{of}{after}"
