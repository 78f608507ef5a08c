"""A service whose login takes HTTP basic and gives out a token. It counts how often it hashes a password."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from pydantic import BaseModel, Field


class NewUser(BaseModel):
    username: str = Field(min_length=3, max_length=20, pattern="^[a-z0-9]+$")
    password: str = Field(min_length=8, max_length=50, pattern="^[!-~]+$")


class NewNote(BaseModel):
    text: str = Field(min_length=1, max_length=50, pattern="^[a-z0-9 ]+$")


def accounts(path: str, *, has_login: bool = True) -> FastAPI:
    """Return the service; without a login no token can be had."""

    def run(statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    run("CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, username TEXT UNIQUE, password TEXT)")
    run("CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, user INTEGER REFERENCES users(id))")
    run("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, user INTEGER, text TEXT NOT NULL)")
    app = FastAPI()
    app.state.hashed = 0

    def user_of(given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> int:
        rows = run("SELECT user FROM tokens WHERE token = ?", given.credentials)
        if not rows:
            raise HTTPException(401)
        return int(rows[0][0])

    signed_in = Depends(user_of)

    @app.post("/users", status_code=201)
    def sign_up(new: NewUser) -> dict[str, str]:
        app.state.hashed += 1
        try:
            run("INSERT INTO users (username, password) VALUES (?, ?)", new.username, new.password)
        except sqlite3.IntegrityError:
            raise HTTPException(409) from None
        return {"username": new.username}

    if has_login:

        @app.post("/tokens", status_code=201)
        def log_in(given: Annotated[HTTPBasicCredentials, Depends(HTTPBasic())]) -> dict[str, str]:
            app.state.hashed += 1
            rows = run("SELECT id, password FROM users WHERE username = ?", given.username)
            if not rows or rows[0][1] != given.password:
                raise HTTPException(401)
            token = secrets.token_hex(8)
            run("INSERT INTO tokens VALUES (?, ?)", token, rows[0][0])
            return {"access_token": token}

    @app.get("/notes")
    def every(user: int = signed_in) -> list[dict[str, Any]]:
        return [
            {"id": row[0], "text": row[1]} for row in run("SELECT id, text FROM notes WHERE user = ?", user)
        ]

    @app.post("/notes", status_code=201)
    def add(new: NewNote, user: int = signed_in) -> dict[str, Any]:
        ((number,),) = run("INSERT INTO notes (user, text) VALUES (?, ?) RETURNING id", user, new.text)
        return {"id": number, "text": new.text}

    @app.delete("/notes/{note_id}", status_code=204)
    def delete(note_id: int, user: int = signed_in) -> None:
        if note_id >= 2**63 or not run(
            "DELETE FROM notes WHERE id = ? AND user = ? RETURNING id", note_id, user
        ):
            raise HTTPException(404)

    return app
