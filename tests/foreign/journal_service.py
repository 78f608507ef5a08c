"""A blog in Flask on SQLite, with session cookies and a CSRF token. `bugs` are planted."""

from __future__ import annotations

import secrets
import sqlite3
from typing import Any

from flask import Flask, abort, g, jsonify, request, session

TABLES = """
CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS posts (id INTEGER PRIMARY KEY, author INTEGER NOT NULL REFERENCES users (id),
    slug TEXT UNIQUE NOT NULL, title TEXT NOT NULL, views INTEGER NOT NULL DEFAULT 0,
    created TEXT DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS comments (id INTEGER PRIMARY KEY, post INTEGER NOT NULL, author INTEGER NOT NULL,
    text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS likes (user INTEGER, post INTEGER, PRIMARY KEY (user, post));
INSERT OR IGNORE INTO users VALUES (1, 'ann', 'secret1'), (2, 'ben', 'secret2');
"""
TEXT = {"type": "string", "minLength": 1, "maxLength": 60, "pattern": "^[a-zA-Z0-9 ]+$"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


POST = _object(id={"type": "integer"}, slug={"type": "string"}, title={"type": "string"})
COMMENT = _object(id={"type": "integer"}, text={"type": "string"})


def _operation(
    status: str, answer: Any = None, body: Any = None, is_open: bool = False, **path: str
) -> dict[str, Any]:
    content = {} if answer is None else {"content": {"application/json": {"schema": answer}}}
    found: dict[str, Any] = {"responses": {status: {"description": "", **content}}}
    if body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if not is_open:
        found["security"] = [{"cookie": []}]
    found["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": kind}}
        for name, kind in path.items()
    ]
    return found


DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": "Journal", "version": "1"},
    "components": {"securitySchemes": {"cookie": {"type": "apiKey", "in": "cookie", "name": "session"}}},
    "paths": {
        "/login": {"post": _operation("200", None, _object(name=TEXT, password=TEXT), True)},
        "/logout": {"post": _operation("204")},
        "/me": {"get": _operation("200", _object(name=TEXT))},
        "/posts": {
            "get": _operation("200", {"type": "array", "items": POST}, None, True),
            "post": _operation("201", POST, _object(title=TEXT)),
        },
        "/posts/{slug}": {
            "get": _operation("200", POST, None, True, slug="string"),
            "put": _operation("200", POST, _object(title=TEXT), slug="string"),
            "delete": _operation("204", slug="string"),
        },
        "/likes/{post_slug}": {
            "put": _operation("204", post_slug="string"),
            "delete": _operation("204", post_slug="string"),
        },
        "/posts/{slug}/comments": {
            "get": _operation("200", {"type": "array", "items": COMMENT}, None, True, slug="string"),
            "post": _operation("201", COMMENT, _object(text=TEXT), slug="string"),
        },
        "/posts/{slug}/comments/{comment_id}": {
            "delete": _operation(
                "204", comment_id="integer", slug="string"
            )  # in another order than in the path
        },
    },
}


def journal(path: str, *bugs: str) -> Flask:
    """Return the service."""
    with sqlite3.connect(path) as made:
        made.executescript(TABLES)
    made.close()
    app = Flask(__name__)
    app.secret_key = "a key"

    def database() -> sqlite3.Connection:
        if "db" not in g:
            g.db = sqlite3.connect(path)
        return g.db

    @app.teardown_appcontext
    def close(_: Any) -> None:
        opened = g.pop("db", None)
        if opened is not None:
            opened.close()

    def run(statement: str, *values: object) -> list[Any]:
        rows = database().execute(statement, values).fetchall()
        database().commit()
        return rows

    def user() -> int:
        if "user" not in session:
            abort(401)
        if request.method != "GET" and request.headers.get("X-CSRFToken") != session.get("csrf"):
            abort(403)
        return int(session["user"])

    def text(name: str) -> str:
        given = request.get_json(silent=True)
        value = given.get(name) if isinstance(given, dict) else None
        if not isinstance(value, str) or not 1 <= len(value) <= 60 or "\0" in value:
            abort(400)
        return value

    def shown(row: Any) -> dict[str, Any]:
        return {"id": row[0], "slug": row[1], "title": row[2]}

    def find(slug: str) -> Any:
        rows = run("SELECT id, slug, title, author FROM posts WHERE slug = ?", slug)
        return rows[0] if rows else abort(404)

    @app.get("/openapi.json")
    def document() -> Any:
        return jsonify(DOCUMENT)

    @app.post("/login")
    def log_in() -> Any:
        rows = run("SELECT id FROM users WHERE name = ? AND password = ?", text("name"), text("password"))
        if not rows:
            abort(401)
        session["user"], session["csrf"] = rows[0][0], secrets.token_hex(8)
        response = jsonify({})
        response.set_cookie("csrftoken", session["csrf"])
        return response

    @app.post("/logout")
    def log_out() -> Any:
        user()
        session.clear()
        return "", 204

    @app.get("/me")
    def me() -> Any:
        return jsonify(name=run("SELECT name FROM users WHERE id = ?", user())[0][0])

    @app.get("/posts")
    def posts() -> Any:
        return jsonify([shown(row) for row in run("SELECT id, slug, title FROM posts ORDER BY id")])

    @app.post("/posts")
    def add() -> Any:
        author, title = user(), text("title")
        try:
            rows = run(
                "INSERT INTO posts (author, slug, title) VALUES (?, ?, ?) RETURNING id, slug, title",
                author,
                title.lower().replace(" ", "-"),
                title,
            )
        except sqlite3.IntegrityError:
            if "duplicate" in bugs:
                raise
            abort(409)
        return jsonify(shown(rows[0])), 201

    @app.get("/posts/<slug>")
    def read(slug: str) -> Any:
        found = find(slug)
        if "views" in bugs:
            run("UPDATE posts SET views = views + 1 WHERE id = ?", found[0])
        return jsonify(shown(found))

    @app.put("/posts/<slug>")
    def replace(slug: str) -> Any:
        author, found = user(), find(slug)
        if found[3] != author:
            abort(403)
        title = text("title")
        try:
            rows = run(
                "UPDATE posts SET slug = ?, title = ? WHERE id = ? RETURNING id, slug, title",
                title.lower().replace(" ", "-"),
                title,
                found[0],
            )
        except sqlite3.IntegrityError:
            abort(409)
        return jsonify(shown(rows[0]))

    @app.delete("/posts/<slug>")
    def delete(slug: str) -> Any:
        author, found = user(), find(slug)
        if found[3] != author and "anybody" not in bugs:
            abort(403)
        if "orphans" in bugs and run("SELECT id FROM comments WHERE post = ?", found[0]):
            raise RuntimeError("the post has comments")
        run("DELETE FROM comments WHERE post = ?", found[0])
        run("DELETE FROM likes WHERE post = ?", found[0])
        run("DELETE FROM posts WHERE id = ?", found[0])
        return "", 204

    @app.put("/likes/<slug>")
    def like(slug: str) -> Any:
        run("INSERT OR IGNORE INTO likes VALUES (?, ?)", user(), find(slug)[0])
        return "", 204

    @app.delete("/likes/<slug>")
    def unlike(slug: str) -> Any:
        run("DELETE FROM likes WHERE user = ? AND post = ?", user(), find(slug)[0])
        return "", 204

    @app.get("/posts/<slug>/comments")
    def comments(slug: str) -> Any:
        rows = run("SELECT id, text FROM comments WHERE post = ? ORDER BY id", find(slug)[0])
        return jsonify([{"id": row[0], "text": row[1]} for row in rows])

    @app.post("/posts/<slug>/comments")
    def comment(slug: str) -> Any:
        author = 1 if "anonymous" in bugs else user()
        rows = run(
            "INSERT INTO comments (post, author, text) VALUES (?, ?, ?) RETURNING id, text",
            find(slug)[0],
            author,
            text("text"),
        )
        return jsonify(id=rows[0][0], text=rows[0][1]), 201

    @app.delete("/posts/<slug>/comments/<int:number>")
    def delete_comment(slug: str, number: int) -> Any:
        author, found = user(), find(slug)
        wanted = number if "huge" in bugs else min(number, 2**62)
        rows = run("SELECT author FROM comments WHERE id = ? AND post = ?", wanted, found[0])
        if not rows:
            abort(404)
        if rows[0][0] != author:
            abort(403)
        run("DELETE FROM comments WHERE id = ?", number)
        return "", 204

    return app
