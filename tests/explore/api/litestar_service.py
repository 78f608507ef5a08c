"""A service of notes with Litestar. It commits a note before it finds out that it has no text."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, get, post
from litestar.params import JSONBody


class NewNote(msgspec.Struct):
    text: str | None


def notes_service(path: Path) -> Litestar:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")

    @get("/notes", sync_to_thread=False)
    def all_notes() -> list[dict[str, Any]]:
        with closing(sqlite3.connect(path)) as connection:
            return [{"id": n, "text": text} for n, text in connection.execute("SELECT id, text FROM notes")]

    @post("/notes", sync_to_thread=False)
    def add(data: JSONBody[NewNote]) -> dict[str, Any]:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("INSERT INTO notes (text) VALUES (?)", (str(data.text),))
            connection.commit()
            if data.text is None:
                raise RuntimeError("no text")
            return {"id": found.lastrowid, "text": data.text}

    return Litestar([all_notes, add])
