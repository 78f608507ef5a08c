"""The article before the name of a type."""

from __future__ import annotations

import pytest

from clew.state.type_names import a, with_article


@pytest.mark.parametrize(
    "text",
    [
        "a str",
        "an int",
        "an Order",
        "an ndarray",
        "a DataFrame",
        "a UUID",
        "a User",
        "an UnknownOrder",
        "an HTTPError",
        "an Unset",
    ],
)
def test_the_article_follows_the_sound(text: str) -> None:
    name = text.partition(" ")[2]
    assert a(type(name, (), {})) == with_article(name) == text


def test_other_names_have_one_too() -> None:
    assert with_article("'interrupted'") == "an 'interrupted'"
    assert with_article("numpy.bool") == "a numpy.bool"
