"""Readings that a person chose, remembered for later questions.

A choice belongs to a user, a source and the exact wording of a question. It is an input of the runs that use it, so a
replay sees the same one. The file has one JSON object in each line. The last line about a question counts.
"""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec

from clew_nl2sql.access import UserContext
from clew_nl2sql.schemas import RememberedChoice


class StoredChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One line: who chose, for which question, and what."""

    tenant_id: str
    user_id: str
    question: str
    choice: RememberedChoice


class ChoiceFile:
    """The remembered choices, in a file or, without a path, in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stored: list[StoredChoice] = []
        self._lock = threading.Lock()

    def add(self, user: UserContext, question: str, choice: RememberedChoice) -> None:
        """Remember a choice."""
        line = StoredChoice(
            tenant_id=user.tenant_id, user_id=user.user_id, question=same_wording(question), choice=choice
        )
        with self._lock:
            if self._path is None:
                self._stored.append(line)
                return
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:  # one write: lines of two processes do not mix
                file.write(msgspec.json.encode(line) + b"\n")

    def find(self, user: UserContext, question: str) -> tuple[RememberedChoice, ...]:
        """Return what this user chose for this question, the last for each part of it."""
        wanted = (user.tenant_id, user.user_id, same_wording(question))
        found = {
            (line.choice.source, line.choice.intent): line.choice
            for line in self._lines()
            if (line.tenant_id, line.user_id, line.question) == wanted
        }
        return tuple(found.values())

    def _lines(self) -> list[StoredChoice]:
        if self._path is None:
            return list(self._stored)
        try:
            written = self._path.read_bytes()
        except FileNotFoundError:
            return []
        found = []
        for line in written.splitlines():
            try:
                found.append(msgspec.json.decode(line, type=StoredChoice))
            except msgspec.MsgspecError:  # a line that was cut off
                continue
        return found


def same_wording(question: str) -> str:
    """Return a question without its case and spaces."""
    return " ".join(question.casefold().split())
