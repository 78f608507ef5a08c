"""Normalize the words of questions and schemas.

`stem` is simple on purpose: it removes plurals and the most common endings on both sides, so that related
words become equal. `STOP` holds words of the question's form, which carry no content.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[A-Za-zÀ-ÿ0-9]+(?:['’][a-z]+)?")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

STOP = frozenset(
    """
    a about across after all also altogether among an and any are as at average be been before between both but
    by can combined compare compared could count did difference do does during each ever every everything find
    first for from fewest give greater greatest had has have having he her highest his how i if in into is it
    its last largest latest least less list lowest made make many maximum me mean minimum more most much my name
    named names no not number of on one only or order ordered other our out over per please said say says she
    show smallest so some sort sorted sources source such sum tell than that the their them then there these
    they this those three through to together top total totals two four five six seven eight nine ten under up
    us versus vs was we were what when where which who whose why will with within without year years month
    months day days you your earliest newest oldest between whole overall ago recent recently
    """.split()  # noqa: SIM905 - a list this long reads better as words
)


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case, without possessive endings."""
    return [re.sub(r"['’]s?$", "", word).lower() for word in _WORD.findall(text)]


def content(text: str) -> list[str]:
    """Return the words that carry content."""
    return [word for word in words(text) if word not in STOP and not word.isdigit()]


def name_words(name: str) -> list[str]:
    """Return the words of a table or column name: order_items, OrderItems."""
    return [part.lower() for part in re.split(r"[\W_]+", _CAMEL.sub("_", name)) if part]


def stem(word: str) -> str:
    """Return a word without its most common endings."""
    word = word.lower()
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    if inflected := re.fullmatch(r"(.{4,}?)(?:ing|ed)", word):
        return re.sub(r"(?<=..)([^ls])\1$", r"\1", inflected[1])
    return word[:-1] if word.endswith("e") and len(word) > 4 else word
