"""Shelves on FastAPI and SQLite, for users with an API key, a bearer token or a password (HTTP basic).

Each bug can be planted by its name:

    missing      creating a second shelf answers 201, and nothing is stored
    shape        reading a shelf leaves a required property out
    unknown      changing a shelf that does not exist is accepted
    open_read    reading a shelf needs no credentials
    seen         reading a shelf sets a time column
    anybody      every user can delete every shelf
"""

import base64
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import APIKeyHeader, HTTPBasic, HTTPBearer
from pydantic import BaseModel, Field

SCHEMA = """
CREATE TABLE IF NOT EXISTS shelves (id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL,
                                    seen_at TIMESTAMP);
"""
USERS = ("ann", "ben")
SCHEMES: dict[str, Any] = {
    "key": APIKeyHeader(name="X-Key", auto_error=False),
    "bearer": HTTPBearer(auto_error=False),
    "basic": HTTPBasic(auto_error=False),
}


def header_of(scheme: str, name: str) -> tuple[str, str]:
    """Return the header that a user sends."""
    if scheme == "key":
        return "x-key", f"key-of-{name}"
    if scheme == "bearer":
        return "authorization", f"Bearer key-of-{name}"
    return "authorization", "Basic " + base64.b64encode(f"{name}:secret".encode()).decode()


def login_of(scheme: str, name: str) -> str:
    """Return what `login=` gets for a user."""
    return f"{name}:secret" if scheme == "basic" else f"key-of-{name}"


class NewShelf(BaseModel):
    name: str = Field(min_length=1, max_length=20, pattern="^[a-z0-9]+$")


class Shelf(NewShelf):
    id: int


def shelves(path: str, *bugs: str, scheme: str = "key") -> FastAPI:
    """Return the application on a SQLite file, with these bugs."""
    app = FastAPI(title="Shelves")

    @contextmanager
    def connected() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    with connected() as connection:
        connection.execute(SCHEMA)

    def user_of(request: Request) -> str | None:
        for name in USERS:
            header, value = header_of(scheme, name)
            if request.headers.get(header) == value:
                return name
        return None

    def current(request: Request, _: Annotated[Any, Depends(SCHEMES[scheme])]) -> str:
        name = user_of(request)
        if name is None:
            raise HTTPException(401, "who are you?")
        return name

    def reader(request: Request, _: Annotated[Any, Depends(SCHEMES[scheme])]) -> str:
        return user_of(request) or "anybody" if "open_read" in bugs else current(request, None)

    Me = Annotated[str, Depends(current)]

    def find(connection: sqlite3.Connection, number: int, owner: str | None = None) -> Shelf:
        sql = "SELECT id, name, owner FROM shelves WHERE id = ?"
        row = connection.execute(sql, (number,)).fetchone() if number < 2**63 else None
        if row is None or (owner is not None and row[2] != owner):
            raise HTTPException(404, "no such shelf")
        return Shelf(id=row[0], name=row[1])

    @app.post("/shelves", status_code=201)
    def add(new: NewShelf, me: Me) -> Shelf:
        with connected() as connection:
            sql = "INSERT INTO shelves (name, owner) VALUES (?, ?)"
            number = connection.execute(sql, (new.name, me)).lastrowid or 0
            if "missing" in bugs and number > 1:
                connection.rollback()
        return Shelf(id=number, name=new.name)

    @app.get("/shelves/{shelf_id}", response_model=Shelf)
    def read(shelf_id: int, me: Annotated[str, Depends(reader)]) -> Any:
        with connected() as connection:
            found = find(connection, shelf_id)
            if "seen" in bugs:
                sql = "UPDATE shelves SET seen_at = strftime('%Y-%m-%d %H:%M:%f') WHERE id = ?"
                connection.execute(sql, (shelf_id,))
        return JSONResponse({"id": found.id}) if "shape" in bugs else found

    @app.patch("/shelves/{shelf_id}")
    def rename(shelf_id: int, new: NewShelf, me: Me) -> Shelf:
        with connected() as connection:
            if "unknown" not in bugs:
                find(connection, shelf_id, me)
            sql = "UPDATE shelves SET name = ? WHERE id = ? AND owner = ?"
            connection.execute(sql, (new.name, min(shelf_id, 2**62), me))
        return Shelf(id=shelf_id, name=new.name)

    @app.delete("/shelves/{shelf_id}", status_code=204)
    def delete(shelf_id: int, me: Me) -> None:
        with connected() as connection:
            find(connection, shelf_id, None if "anybody" in bugs else me)
            connection.execute("DELETE FROM shelves WHERE id = ?", (shelf_id,))

    return app
