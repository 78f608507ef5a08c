"""Notes on FastAPI and SQLite, committed at the end of a dependency: after the response was sent.

`let_commit` is called before the commit of a request that wrote something; a test uses it to delay the commit until
something has happened. A background task counts the notes that were made, also after the response.

With `broken` a deletion deletes nothing, and a change appends. With `secured` users sign up and in before they write.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from typing import Annotated

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL);
INSERT OR IGNORE INTO counts VALUES ('notes', 0);
CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, name TEXT NOT NULL);
"""


class NewNote(BaseModel):
    text: str = Field(min_length=1, max_length=20, pattern="^[a-z0-9]+$")


class Note(NewNote):
    id: int


class User(BaseModel):
    username: str = Field(min_length=1, max_length=20, pattern="^[a-z0-9]+$")
    password: str = Field(min_length=8, max_length=20, pattern="^[^\x00]+$")


def notes(
    path: str, let_commit: Callable[[], None], *, broken: bool = False, secured: bool = False
) -> FastAPI:
    """Return the application on a SQLite file."""
    app = FastAPI(title="Notes")
    setup = sqlite3.connect(path)
    setup.executescript(SCHEMA)
    setup.close()

    def connected() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path, check_same_thread=False)
        try:
            yield connection
            if connection.in_transaction:
                let_commit()
            connection.commit()
        finally:
            connection.close()

    Database = Annotated[sqlite3.Connection, Depends(connected)]

    def current(
        database: Database, given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]
    ) -> None:
        sql = "SELECT 1 FROM tokens WHERE token = ?"
        if not database.execute(sql, (given.credentials,)).fetchone():
            raise HTTPException(401, "who are you?")

    if secured:

        @app.post("/users", status_code=201)
        def sign_up(user: User, database: Database) -> None:
            try:
                database.execute("INSERT INTO users VALUES (?, ?)", (user.username, user.password))
            except sqlite3.IntegrityError:
                raise HTTPException(409, "taken") from None

        @app.post("/login")
        def login(user: User, database: Database) -> dict[str, str]:
            sql = "SELECT 1 FROM users WHERE name = ? AND password = ?"
            if not database.execute(sql, (user.username, user.password)).fetchone():
                raise HTTPException(401, "no")
            token = secrets.token_hex(16)
            database.execute("INSERT INTO tokens VALUES (?, ?)", (token, user.username))
            return {"token": token}

    users_only = [Depends(current)] if secured else []

    def find(database: sqlite3.Connection, number: int) -> Note:
        found = (
            database.execute("SELECT id, text FROM notes WHERE id = ?", (number,)).fetchone()
            if number < 2**63
            else None
        )
        if found is None:
            raise HTTPException(404, "no such note")
        return Note(id=found[0], text=found[1])

    def count() -> None:
        let_commit()
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE counts SET number = number + 1 WHERE name = 'notes'")
        connection.close()

    @app.get("/notes")
    def all_notes(database: Database) -> list[Note]:
        rows = database.execute("SELECT id, text FROM notes ORDER BY id").fetchall()
        return [Note(id=number, text=text) for number, text in rows]

    @app.post("/notes", status_code=201, dependencies=users_only)
    def add(new: NewNote, database: Database) -> Note:
        cursor = database.execute("INSERT INTO notes (text) VALUES (?)", (new.text,))
        return Note(id=cursor.lastrowid or 0, text=new.text)

    @app.get("/notes/{note_id}")
    def read(note_id: int, database: Database) -> Note:
        return find(database, note_id)

    @app.post("/notes/{note_id}/copies", status_code=201, dependencies=users_only)
    def copy(note_id: int, tasks: BackgroundTasks) -> Note:
        connection = sqlite3.connect(path)
        try:
            with connection:
                found = find(connection, note_id)
                cursor = connection.execute("INSERT INTO notes (text) VALUES (?)", (found.text,))
        finally:
            connection.close()
        tasks.add_task(count)
        return Note(id=cursor.lastrowid or 0, text=found.text)

    @app.put("/notes/{note_id}", dependencies=users_only)
    def change(note_id: int, new: NewNote, database: Database) -> Note:
        text = (find(database, note_id).text + new.text)[-20:] if broken else new.text
        database.execute("UPDATE notes SET text = ? WHERE id = ?", (text, note_id))
        return Note(id=note_id, text=text)

    @app.delete("/notes/{note_id}", status_code=204, dependencies=users_only)
    def delete(note_id: int, database: Database) -> None:
        find(database, note_id)
        if not broken:
            database.execute("DELETE FROM notes WHERE id = ?", (note_id,))

    return app
