"""Rooms and bookings in Flask on SQLite, with signed session cookies and a document by hand. `bugs` are planted:

open      a booking needs no credentials
orphans   a room with bookings can be deleted, and the list of bookings fails
receipts  a booking that is confirmed twice is rejected, but a receipt is written
"""

from __future__ import annotations

import sqlite3
from typing import Any

from flask import Flask, abort, g, jsonify, request, session

SCHEMA = """
CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, username TEXT UNIQUE NOT NULL, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rooms (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, owner INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bookings (id INTEGER PRIMARY KEY, room_id INTEGER NOT NULL, user INTEGER NOT NULL,
    note TEXT NOT NULL, confirmed INTEGER NOT NULL DEFAULT 0, created TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS receipts (id INTEGER PRIMARY KEY, booking INTEGER NOT NULL);
INSERT OR IGNORE INTO users VALUES (1, 'alice', 'secret'), (2, 'bob', 'secret');
"""
TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 40}
NUMBER: dict[str, Any] = {"type": "integer"}


def _operation(status: int, body: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = {"responses": {str(each): {"description": ""} for each in (status, 400, 401, 403, 404, 409)}}
    if body is not None:
        schema = {"type": "object", "required": list(body), "properties": body}
        more["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return {**found, **more}


def _at(name: str) -> list[Any]:
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}]


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Rooms", "version": "1"},
    "components": {"securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": "session"}}},
    "security": [{"session": []}],
    "paths": {
        "/login": {"post": _operation(200, {"username": TEXT, "password": TEXT}, security=[])},
        "/logout": {"post": _operation(204)},
        "/rooms": {"get": _operation(200), "post": _operation(201, {"name": TEXT})},
        "/rooms/{room_id}": {
            "parameters": _at("room_id"),
            "get": _operation(200),
            "delete": _operation(204),
        },
        "/bookings": {"get": _operation(200), "post": _operation(201, {"room_id": NUMBER, "note": TEXT})},
        "/bookings/{booking_id}": {
            "parameters": _at("booking_id"),
            "get": _operation(200),
            "delete": _operation(204),
        },
        "/bookings/{booking_id}/confirm": {"parameters": _at("booking_id"), "post": _operation(200)},
    },
}


def rooms(path: str, *bugs: str) -> Flask:
    """Return the application on a database."""
    app = Flask("rooms")
    app.secret_key = "dev"
    with sqlite3.connect(path) as first:
        first.executescript(SCHEMA)
    first.close()

    def db() -> sqlite3.Connection:
        if "db" not in g:
            g.db = sqlite3.connect(path)
            g.db.row_factory = sqlite3.Row
        connection: sqlite3.Connection = g.db
        return connection

    @app.teardown_appcontext
    def close(_: Any) -> None:
        if "db" in g:
            g.pop("db").close()

    def one(sql: str, *values: Any) -> Any:
        return db().execute(sql, values).fetchone()

    def user() -> int:
        if "user" not in session:
            abort(401)
        return int(session["user"])

    def given(name: str, kind: type = str) -> Any:
        data = request.get_json(silent=True)
        value = data.get(name) if isinstance(data, dict) else None
        if not isinstance(value, kind) or (kind is str and not (1 <= len(value) <= 40 and "\0" not in value)):
            abort(400)
        return value

    def room_of(number: int) -> Any:
        row = one("SELECT * FROM rooms WHERE id = ?", number) if abs(number) < 2**63 else None
        return row or abort(404)

    def booking_of(number: int) -> Any:
        who = user()
        row = None
        if abs(number) < 2**63:
            row = one("SELECT * FROM bookings WHERE id = ? AND user = ?", number, who)
        return row or abort(404)

    @app.post("/login")
    def login() -> Any:
        row = one(
            "SELECT id FROM users WHERE username = ? AND password = ?", given("username"), given("password")
        )
        if row is None:
            abort(401)
        session["user"] = row["id"]
        return jsonify(id=row["id"])

    @app.post("/logout")
    def logout() -> Any:
        user()
        session.clear()
        return "", 204

    @app.get("/rooms")
    def all_rooms() -> Any:
        user()
        return jsonify([dict(row) for row in db().execute("SELECT id, name FROM rooms ORDER BY id")])

    @app.post("/rooms")
    def add_room() -> Any:
        who, name = user(), given("name")
        if one("SELECT 1 FROM rooms WHERE name = ?", name):
            abort(409)
        number = db().execute("INSERT INTO rooms (name, owner) VALUES (?, ?)", (name, who)).lastrowid
        db().commit()
        return jsonify(id=number, name=name), 201

    @app.get("/rooms/<int:room_id>")
    def room(room_id: int) -> Any:
        user()
        return jsonify(id=room_of(room_id)["id"], name=room_of(room_id)["name"])

    @app.delete("/rooms/<int:room_id>")
    def delete_room(room_id: int) -> Any:
        who, row = user(), room_of(room_id)
        if row["owner"] != who:
            abort(403)
        if "orphans" not in bugs and one("SELECT 1 FROM bookings WHERE room_id = ?", room_id):
            abort(409)
        db().execute("DELETE FROM rooms WHERE id = ?", (room_id,))
        db().commit()
        return "", 204

    @app.get("/bookings")
    def bookings() -> Any:
        rows = db().execute("SELECT * FROM bookings WHERE user = ?", (user(),)).fetchall()
        names = [one("SELECT name FROM rooms WHERE id = ?", row["room_id"])["name"] for row in rows]
        return jsonify([{"id": row["id"], "room": name} for row, name in zip(rows, names)])

    @app.post("/bookings")
    def book() -> Any:
        who = session.get("user", 1) if "open" in bugs else user()
        number, note = given("room_id", int), given("note")
        room_of(number)
        key = db().execute("INSERT INTO bookings (room_id, user, note) VALUES (?, ?, ?)", (number, who, note))
        db().commit()
        return jsonify(id=key.lastrowid, room_id=number, note=note), 201

    @app.get("/bookings/<int:booking_id>")
    def booking(booking_id: int) -> Any:
        row = booking_of(booking_id)
        return jsonify(id=row["id"], room_id=row["room_id"], note=row["note"])

    @app.post("/bookings/<int:booking_id>/confirm")
    def confirm(booking_id: int) -> Any:
        row = booking_of(booking_id)
        if row["confirmed"] and "receipts" not in bugs:
            abort(409)
        db().execute("INSERT INTO receipts (booking) VALUES (?)", (booking_id,))
        db().execute("UPDATE bookings SET confirmed = 1 WHERE id = ?", (booking_id,))
        db().commit()
        if row["confirmed"]:
            abort(409)
        return jsonify(id=row["id"])

    @app.delete("/bookings/<int:booking_id>")
    def cancel(booking_id: int) -> Any:
        booking_of(booking_id)
        db().execute("DELETE FROM receipts WHERE booking = ?", (booking_id,))
        db().execute("DELETE FROM bookings WHERE id = ?", (booking_id,))
        db().commit()
        return "", 204

    return app
