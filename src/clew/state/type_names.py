"""Names of types in messages."""

from __future__ import annotations

_SPOKEN_WITH_VOWEL = ("ndarray", "html", "http", "xml")
_SPOKEN_WITH_CONSONANT = ("union", "uniq", "unit", "univ", "use", "uuid")


def a(cls: type) -> str:
    """Return the name of a class with its article: ``an int``."""
    return with_article(cls.__name__)


def with_article(name: str) -> str:
    """Return a name with its article: ``an int``, ``an ndarray``, ``a UUID``."""
    spoken = name.lstrip("'$").lower()
    is_vowel = spoken.startswith(_SPOKEN_WITH_VOWEL) or (
        spoken.startswith(tuple("aeiou")) and not spoken.startswith(_SPOKEN_WITH_CONSONANT)
    )
    return f"{'an' if is_vowel else 'a'} {name}"
