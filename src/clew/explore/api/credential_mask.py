"""Credentials in reports are masked, wherever they occur: in rows, in the context, in messages, in scripts.

What is masked:

- what actors send to authenticate: tokens, cookies, API keys, passwords. It is masked as a whole value, and as a part
  of a longer text. A word that is short, or that is the name of an actor, may mean something else; it stays.
- texts in fields and columns whose name says that they hold a credential: `password_hash`, `refresh_token`

`***1` is the first credential that a report shows. Equal ones have the same number, so a report still shows that a
login replaced a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from clew.explore.systems.http.session import ActorCredentials

_SHORTEST = 6  # characters of a word that is a credential wherever it occurs
_NAMES = re.compile(
    r"(^|[^a-z]|(?<=[a-z])(?=[A-Z]))"
    r"(?i:(password|passwd|passphrase|pwd|pass|secret|token|jwt|authorization|cookie|otp|salt"
    r"|(api|secret|private|access|auth)[_-]?key)s?([_-]?(hash|hashed|digest|salt|value))?)$"
)
# words of a text, first with what only some credentials contain
_WORDS = tuple(re.compile(rf"[^\s\"'`;,&()\[\]{{}}<>{more}]+") for more in ("", "=:?/"))


def holds_credential(name: str) -> bool:
    """Return whether the name of a field, a column or a parameter says that it holds a credential."""
    return bool(_NAMES.search(name))


class CredentialMask:
    """The credentials of an exploration, and how a report shows them. `public` are texts that are never masked."""

    def __init__(self, public: Iterable[str] = ()) -> None:
        self._public = frozenset(public)
        self._known: set[str] = set()
        self._given: list[re.Pattern[str]] = []
        self._numbers: dict[str, int] = {}

    def add_given(self, *texts: str) -> None:
        """Remember credentials that a user gave; they may contain any character."""
        for text in texts:
            if self._add(text):
                self._given.append(re.compile(rf"(?<!\w){re.escape(text)}(?!\w)"))

    def add(self, credentials: ActorCredentials) -> None:
        """Remember what an actor sends."""
        for _, text in (*credentials.headers, *credentials.query, *credentials.cookies):
            self._add(text.rsplit(" ", 1)[-1])

    def _add(self, text: str) -> bool:
        is_new = len(text) >= _SHORTEST and text not in self._public and text not in self._known
        if is_new:
            self._known.add(text)
        return is_new

    def text(self, text: str) -> str:
        """Return a text in which each credential is masked."""
        if text in self._known:
            return self._masked(text)
        for pattern in self._given:
            text = pattern.sub(lambda found: self._masked(found[0]), text)
        for words in _WORDS:
            text = words.sub(
                lambda found: self._masked(found[0]) if found[0] in self._known else found[0], text
            )
        return text

    def data(self, value: Any, *, is_credential: bool = False) -> Any:
        """Return JSON data in which each credential is masked."""
        if isinstance(value, str):
            masked = self.text(value)
            return self._masked(value) if is_credential and value and masked == value else masked
        if isinstance(value, Mapping):
            is_scalar = len(value) == 1 and next(iter(value)).startswith("$")  # such as bytes
            return {
                name: self.data(part, is_credential=is_credential if is_scalar else holds_credential(name))
                for name, part in value.items()
            }
        if isinstance(value, list):
            return [self.data(part, is_credential=is_credential) for part in value]
        return value

    def session(self, value: Any) -> Any:
        """Return what `HTTPSession` shows: all values of headers, cookies and queries are credentials."""
        if isinstance(value, Mapping):
            return {name: self.session(part) for name, part in value.items()}
        return self.data(value, is_credential=True)

    def _masked(self, text: str) -> str:
        return f"***{self._numbers.setdefault(text, len(self._numbers) + 1)}"
