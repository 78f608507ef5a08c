"""Notes on FastAPI and SQLite or PostgreSQL, committed at the end of a dependency: after the response was sent.

`let_commit` is called before the commit of a request that wrote something; a test uses it to delay the commit until
something has happened. A background task counts the notes that were made, also after the response.

With `broken` a deletion deletes nothing, and a change appends. With `secured` users sign up and in before they write.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated, Any

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

SCHEMA = """
CREATE TABLE IF NOT EXISTS notes (id {key}, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, number INTEGER NOT NULL);
INSERT INTO counts VALUES ('notes', 0) ON CONFLICT DO NOTHING;
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


class Connection:
    """A connection to a SQLite file, or to PostgreSQL for an address. It knows whether it wrote."""

    def __init__(self, address: str) -> None:
        self.is_postgres = "dbname=" in address
        self.has_written = False
        if self.is_postgres:
            import psycopg

            self._connection: Any = psycopg.connect(address)
        else:
            self._connection = sqlite3.connect(address, check_same_thread=False)

    def run(self, sql: str, *values: Any) -> list[Any]:
        self.has_written |= not sql.startswith("SELECT")
        cursor = self._connection.execute(sql.replace("?", "%s") if self.is_postgres else sql, values)
        return list(cursor.fetchall()) if cursor.description else []

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()


def notes(
    address: str, let_commit: Callable[[], None], *, broken: bool = False, secured: bool = False
) -> FastAPI:
    """Return the application on a database."""
    app = FastAPI(title="Notes")
    with closing(Connection(address)) as setup:
        if not setup.is_postgres:
            setup.run("PRAGMA journal_mode = WAL")
        key = "SERIAL PRIMARY KEY" if setup.is_postgres else "INTEGER PRIMARY KEY"
        for statement in filter(str.strip, SCHEMA.format(key=key).split(";")):
            setup.run(statement)
        setup.commit()

    def connected() -> Iterator[Connection]:
        with closing(Connection(address)) as connection:
            yield connection
            if connection.has_written:
                let_commit()
            connection.commit()

    Database = Annotated[Connection, Depends(connected)]

    def current(
        database: Database, given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]
    ) -> None:
        if not database.run("SELECT 1 FROM tokens WHERE token = ?", given.credentials):
            raise HTTPException(401, "who are you?")

    if secured:

        @app.post("/users", status_code=201)
        def sign_up(user: User, database: Database) -> None:
            sql = "INSERT INTO users VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING name"
            if not database.run(sql, user.username, user.password):
                raise HTTPException(409, "taken")

        @app.post("/login")
        def login(user: User, database: Database) -> dict[str, str]:
            sql = "SELECT 1 FROM users WHERE name = ? AND password = ?"
            if not database.run(sql, user.username, user.password):
                raise HTTPException(401, "no")
            token = secrets.token_hex(16)
            database.run("INSERT INTO tokens VALUES (?, ?)", token, user.username)
            return {"token": token}

    users_only = [Depends(current)] if secured else []

    def find(database: Connection, number: int) -> Note:
        found = database.run("SELECT id, text FROM notes WHERE id = ?", number) if number < 2**31 else []
        if not found:
            raise HTTPException(404, "no such note")
        return Note(id=found[0][0], text=found[0][1])

    def insert(database: Connection, text: str) -> Note:
        ((number,),) = database.run("INSERT INTO notes (text) VALUES (?) RETURNING id", text)
        return Note(id=number, text=text)

    def count() -> None:
        let_commit()
        with closing(Connection(address)) as connection:
            connection.run("UPDATE counts SET number = number + 1 WHERE name = 'notes'")
            connection.commit()

    @app.get("/notes")
    def all_notes(database: Database) -> list[Note]:
        rows = database.run("SELECT id, text FROM notes ORDER BY id")
        return [Note(id=number, text=text) for number, text in rows]

    @app.post("/notes", status_code=201, dependencies=users_only)
    def add(new: NewNote, database: Database) -> Note:
        return insert(database, new.text)

    @app.get("/notes/{note_id}")
    def read(note_id: int, database: Database) -> Note:
        return find(database, note_id)

    @app.post("/notes/{note_id}/copies", status_code=201, dependencies=users_only)
    def copy(note_id: int, tasks: BackgroundTasks) -> Note:
        with closing(Connection(address)) as connection:
            made = insert(connection, find(connection, note_id).text)
            connection.commit()
        tasks.add_task(count)
        return made

    @app.put("/notes/{note_id}", dependencies=users_only)
    def change(note_id: int, new: NewNote, database: Database) -> Note:
        text = (find(database, note_id).text + new.text)[-20:] if broken else new.text
        database.run("UPDATE notes SET text = ? WHERE id = ?", text, note_id)
        return Note(id=note_id, text=text)

    @app.delete("/notes/{note_id}", status_code=204, dependencies=users_only)
    def delete(note_id: int, database: Database) -> None:
        find(database, note_id)
        if not broken:
            database.run("DELETE FROM notes WHERE id = ?", note_id)

    return app
