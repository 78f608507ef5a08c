"""Name the amounts of "How much did we take in cash?", "revenue from orders" and "the sum of all payments"."""

from __future__ import annotations

import re

from clew_nl2sql.decompose.named_things import PAID, NamedThings

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
_GAVE = (
    r"(?:given?|gave|paid|pay|donated?|contributed?|spent|spend|raised?|collected?|received?|earned?|generated?|"
    r"brought in|bring in)"
)
_EACH = re.compile(
    rf"how much (?:money )?(?:has|have|did|does) (?P<each>each|every) (?P<thing>\w+) (?P<verb>{_GAVE})"
    r"(?: (?:in|through|with) (?P<named>\w+))?"
    r"(?P<rest>(?: (?:in|between|since|before|after|last|this) .+?)?)\s*[?.!]*$",
    re.I,
)
_PERSON = re.compile(
    rf"[Hh]ow much (?:money )?(?:has|have|did|does) (?P<thing>[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)+) (?P<verb>{_GAVE})"
    r"(?: (?:to )?us)?(?: in (?P<named>[a-z]+s)\b)?(?P<rest>.*?)\s*[?.!]*$"
)
_ONE_OF = re.compile(
    r"^(?P<lead>(?:what (?:is|was) |show )?(?:the |our )?)"
    r"(?P<figure>average|mean|largest|biggest|highest|smallest|lowest)"
    r" (?:single )?(?P<noun>\w+)(?P<rest>\s*(?:[?.!]|$)|\s+(?:of|in|to|for|from|by|per|between|since|last|this)\b.*)",
    re.I,
)
_PLAINER = {"largest": "highest", "biggest": "highest", "smallest": "lowest"}
_MOST_MONEY = re.compile(
    r"(?:(?:from|with|in|through) )?which (?P<thing>\w+) (?:did we (?:receive|get|collect|earn|make|take)|"
    r"(?:has |have )?(?:brought in|raised|paid|spent|donated|given|gave|generated|earned)(?: us)?) the "
    r"(?P<edge>most|least) money\b(?P<rest>.*)$",
    re.I,
)
_MOST_OF = re.compile(
    r"\b(?:(?P<has>has|have)|worked|logged|did|drove|used|sold|scored|spent|took) "
    r"the (?P<edge>most|fewest|least) (?P<what>\w+s)\b",
    re.I,
)
_WORTH = re.compile(r"\b(total|average) (?:value|worth) of (?=(?:all |the |our )?(?:\w+ )?(\w+)\b)", re.I)


def figures(text: str, things: NamedThings) -> str:
    """Name the amounts of "the average donation" and "How much has each campaign raised?"."""
    if found := _EACH.match(text) or _PERSON.match(text):
        return _given(text, found, things)
    if found := _MOST_MONEY.match(text):
        return _most_money(text, found, things)
    if found := _ONE_OF.match(text):
        return _one_of(text, found, things)
    if (found := _MOST_OF.search(text)) and things.is_figure(found["what"]):
        edge = "highest" if found["edge"].lower() == "most" else "lowest"
        return f"{text[: found.start()]}{found['has'] or 'have'} the {edge} total {found['what']}{text[found.end() :]}"
    found = _WORTH.search(text)
    amount = _paid_amount(found[2], things) if found else None
    return (
        f"{text[: found.start()]}{found[1]} {amount} of {text[found.end() :]}" if found and amount else text
    )


def _given(text: str, found: re.Match[str], things: NamedThings) -> str:
    is_each = "each" in found.re.groupindex
    thing = found["thing"] if is_each else ""
    if is_each and things.table(thing) is None:
        return text
    paid = things.paid_for(thing, found["verb"], found["named"] or "")
    if paid is None:
        return text
    whose = f"for each {thing}" if is_each else f"of {found['thing']}"
    total = "sum of the" if paid[0].startswith("total") else "total"
    return f"What is the {total} {paid[0]} of {paid[1]} {whose}{found['rest']}?"


def _most_money(text: str, found: re.Match[str], things: NamedThings) -> str:
    paid = things.paid_for("", "", "") if things.table(found["thing"]) else None
    if paid is None or paid[0].startswith("total"):
        return text
    edge = "highest" if found["edge"].lower() == "most" else "lowest"
    return f"Which {found['thing']} has the {edge} total {paid[0]} of {paid[1]}{found['rest']}"


def _one_of(text: str, found: re.Match[str], things: NamedThings) -> str:
    amount = _paid_amount(found["noun"], things)
    table = things.table(found["noun"])
    if not amount or not table or things.is_plural(found["noun"]):
        return text
    figure = _PLAINER.get(found["figure"].lower(), found["figure"])
    return f"{found['lead']}{figure} {amount} of {things.plural(table)}{found['rest']}"


def _paid_amount(noun: str, things: NamedThings) -> str | None:
    table = things.table(noun)
    return things.amount_in(table) if table is not None and things.singular(noun) in PAID else None


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
    is_sum = found[1].lower() != "total" or things.singular(noun) in PAID
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
