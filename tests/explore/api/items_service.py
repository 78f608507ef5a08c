"""A service of items on SQLite, as a WSGI application without a framework. It imports nothing of the tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "maxLength": 20, "pattern": "^[a-z0-9]+$"}},
}
FULL = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
}


def answer(schema: dict[str, Any] | None, *statuses: int) -> dict[str, Any]:
    found: dict[str, Any] = {str(each): {"description": ""} for each in (400, 401, 404, *statuses[1:])}
    content = {} if schema is None else {"content": {"application/json": {"schema": schema}}}
    return found | {str(statuses[0]): {"description": "", **content}}


ID = [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}]
BODY = {"required": True, "content": {"application/json": {"schema": ITEM}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "items", "version": "1"},
    "paths": {
        "/items": {
            "get": {"responses": answer({"type": "array", "items": FULL}, 200)},
            "post": {"requestBody": BODY, "responses": answer(FULL, 201)},
        },
        "/items/{id}": {
            "parameters": ID,
            "get": {"responses": answer(FULL, 200)},
            "delete": {"responses": answer(None, 204)},
        },
    },
}

CHANGING: dict[str, Any] = {"put": {"requestBody": BODY, "responses": answer(FULL, 200)}}
WITH_PUT: dict[str, Any] = {
    **DOCUMENT,
    "paths": {
        "/items": DOCUMENT["paths"]["/items"],
        "/items/{id}": {**DOCUMENT["paths"]["/items/{id}"], **CHANGING},
    },
}

KEYS = {
    "reused": "INTEGER PRIMARY KEY",  # SQLite gives the key of the last row, once it is deleted, to the next one
    "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "uuid": "TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16))))",
}


def items(path: str, *, broken: bool = False, key: str = "reused") -> Callable[..., Iterable[bytes]]:
    """A WSGI application, without a framework."""

    def run(sql: str, *values: Any) -> list[Any]:
        connection = sqlite3.connect(path)
        try:
            with connection:
                return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    run(f"CREATE TABLE IF NOT EXISTS items (id {KEYS[key]}, name TEXT NOT NULL)")

    def respond(environ: dict[str, Any]) -> tuple[int, Any]:
        method, parts = environ["REQUEST_METHOD"], environ["PATH_INFO"].strip("/").split("/")
        if parts == ["openapi.json"]:
            return 200, DOCUMENT
        if parts == ["items"] and method == "GET":
            return 200, [{"id": number, "name": name} for number, name in run("SELECT id, name FROM items")]
        name: Any = None
        if method in ("POST", "PUT"):
            size = int(environ.get("CONTENT_LENGTH") or 0)
            name = json.loads(environ["wsgi.input"].read(size)).get("name")
            if not isinstance(name, str) or not name.isalnum():
                return 400, {"detail": "name"}
        if parts == ["items"]:
            ((number,),) = run("INSERT INTO items (name) VALUES (?) RETURNING id", name)
            return 201, {"id": number, "name": name}
        number = parts[1] if key == "uuid" else int(parts[1])
        if key != "uuid" and abs(number) >= 2**63:
            return 404, {"detail": "no such item"}
        found = run("SELECT id, name FROM items WHERE id = ?", number)
        if not found:
            return 404, {"detail": "no such item"}
        if method == "DELETE":
            if not broken:
                run("DELETE FROM items WHERE id = ?", number)
            return 204, None
        if method == "PUT":
            found = run("UPDATE items SET name = ? WHERE id = ? RETURNING id, name", name, number)
        return 200, {"id": found[0][0], "name": found[0][1]}

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        status, body = respond(environ)
        start_response(f"{status} X", [("Content-Type", "application/json")])
        return [b"" if body is None else json.dumps(body).encode()]

    return application
