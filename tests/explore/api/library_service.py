"""A library on Starlette and SQLite: sessions in cookies, books that belong to everybody, and a document by hand."""

import logging
import secrets
import sqlite3
import weakref
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SCHEMA = """
CREATE TABLE IF NOT EXISTS readers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, reader_id INTEGER NOT NULL REFERENCES readers (id));
CREATE TABLE IF NOT EXISTS books (isbn TEXT PRIMARY KEY, title TEXT NOT NULL,
                                  copies INTEGER NOT NULL CHECK (copies >= 0));
CREATE TABLE IF NOT EXISTS loans (id INTEGER PRIMARY KEY, isbn TEXT NOT NULL REFERENCES books (isbn),
                                  reader_id INTEGER NOT NULL REFERENCES readers (id), since TEXT NOT NULL);
INSERT OR IGNORE INTO readers VALUES (1, 'ann', 'secret'), (2, 'ben', 'secret');
"""

TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 50}
ISBN: dict[str, Any] = {"type": "string", "pattern": r"^\d{3}-\d{3}$"}
BOOK = {"type": "object", "required": ["isbn", "title"], "properties": {"isbn": ISBN, "title": TEXT}}
LOAN = {"type": "object", "required": ["isbn"], "properties": {"isbn": {"type": "string"}}}
LOGIN = {
    "type": "object",
    "required": ["name", "password"],
    "properties": {"name": TEXT, "password": TEXT},
}


def operation(status: int, body: Any = None, **more: Any) -> dict[str, Any]:
    declared = {str(each): {"description": ""} for each in (status, 400, 401, 404, 409)}
    content = {} if body is None else {"requestBody": {"content": {"application/json": {"schema": body}}}}
    return {"responses": declared, **content, **more}


def at(name: str, schema: Any) -> list[Any]:
    return [{"name": name, "in": "path", "required": True, "schema": schema}]


DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Library", "version": "1"},
    "components": {"securitySchemes": {"cookie": {"type": "apiKey", "in": "cookie", "name": "session"}}},
    "security": [{"cookie": []}],
    "paths": {
        "/login": {"post": operation(200, LOGIN, security=[])},
        "/books": {"get": operation(200), "post": operation(201, BOOK)},
        "/books/{isbn}": {
            "parameters": at("isbn", ISBN),
            "get": operation(200),
            "put": operation(200, BOOK),
        },
        "/loans": {"get": operation(200), "post": operation(201, LOAN)},
        "/loans/{id}": {"parameters": at("id", {"type": "integer"}), "delete": operation(204)},
    },
}


def library(path: str, *, late: bool = False) -> Starlette:
    """Return the application. With `late` a loan is committed before it is known whether a copy is left."""
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.executescript(SCHEMA)
    log = logging.getLogger("library")

    def reader(request: Request) -> int | None:
        found = connection.execute(
            "SELECT reader_id FROM sessions WHERE id = ?", (request.cookies.get("session", ""),)
        ).fetchone()
        return found[0] if found else None

    def answer(status: int, **data: Any) -> JSONResponse:
        return JSONResponse(data, status)

    async def login(request: Request) -> Response:
        data = await request.json()
        found = connection.execute(
            "SELECT id FROM readers WHERE name = ? AND password = ?",
            (str(data.get("name")), str(data.get("password"))),
        ).fetchone()
        if found is None:
            return answer(401, error="wrong")
        key = secrets.token_urlsafe(16)
        connection.execute("INSERT INTO sessions VALUES (?, ?)", (key, found[0]))
        response = answer(200, id=found[0])
        response.set_cookie("session", key, httponly=True)
        return response

    async def books(request: Request) -> Response:
        if reader(request) is None:
            return answer(401, error="log in")
        if request.method == "GET":
            rows = connection.execute("SELECT isbn, title FROM books ORDER BY isbn").fetchall()
            return JSONResponse([{"isbn": isbn, "title": title} for isbn, title in rows])
        data = await request.json()
        try:
            connection.execute("INSERT INTO books VALUES (?, ?, 1)", (data.get("isbn"), data.get("title")))
        except sqlite3.IntegrityError as error:
            return answer(409, error=str(error))
        return answer(201, **data)

    async def book(request: Request) -> Response:
        if reader(request) is None:
            return answer(401, error="log in")
        isbn = request.path_params["isbn"]
        if request.method == "PUT":
            title = (await request.json()).get("title")
            connection.execute("UPDATE books SET title = ? WHERE isbn = ?", (title, isbn))
        row = connection.execute("SELECT isbn, title FROM books WHERE isbn = ?", (isbn,)).fetchone()
        return answer(404, error="no book") if row is None else answer(200, isbn=row[0], title=row[1])

    async def loans(request: Request) -> Response:
        who = reader(request)
        if who is None:
            return answer(401, error="log in")
        if request.method == "GET":
            rows = connection.execute("SELECT id, isbn FROM loans WHERE reader_id = ?", (who,)).fetchall()
            return JSONResponse([{"id": number, "isbn": isbn} for number, isbn in rows])
        isbn = (await request.json()).get("isbn")
        copies = connection.execute("SELECT copies FROM books WHERE isbn = ?", (isbn,)).fetchone()
        if copies is None or (not late and not copies[0]):
            return answer(409, error="no copy is left")
        cursor = connection.execute(
            "INSERT INTO loans (isbn, reader_id, since) VALUES (?, ?, datetime('now'))", (isbn, who)
        )
        try:
            connection.execute("UPDATE books SET copies = copies - 1 WHERE isbn = ?", (isbn,))
        except sqlite3.IntegrityError:
            log.exception("a loan failed")
            return answer(500, error="sorry")
        return answer(201, id=cursor.lastrowid, isbn=isbn)

    async def loan(request: Request) -> Response:
        who, number = reader(request), int(request.path_params["id"])
        if who is None:
            return answer(401, error="log in")
        row = None
        if number < 2**63:
            row = connection.execute(
                "SELECT isbn FROM loans WHERE id = ? AND reader_id = ?", (number, who)
            ).fetchone()
        if row is None:
            return answer(404, error="no loan")
        connection.execute("DELETE FROM loans WHERE id = ?", (number,))
        connection.execute("UPDATE books SET copies = copies + 1 WHERE isbn = ?", row)
        return Response(status_code=204)

    app = Starlette(
        routes=[
            Route("/login", login, methods=["POST"]),
            Route("/books", books, methods=["GET", "POST"]),
            Route("/books/{isbn}", book, methods=["GET", "PUT"]),
            Route("/loans", loans, methods=["GET", "POST"]),
            Route("/loans/{id}", loan, methods=["DELETE"]),
        ]
    )
    weakref.finalize(app, connection.close)
    return app
