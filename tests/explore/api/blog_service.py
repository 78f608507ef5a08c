"""A blog with users, sessions and articles, on FastAPI and SQLite or PostgreSQL, as its author would write it.

Each bug can be planted by its name:

    null            a nullable field reaches a NOT NULL column
    commit          the row is committed before the request fails
    former_slug     a former slug still finds its article, but the deletion looks for the current one
    token           a login takes over all sessions
    append          PUT appends tags instead of replacing them
    open_write      creating an article needs no credentials
    any_actor       every user can delete every article
    still_there     deletion marks the row, and reading ignores the mark
    cache           articles are cached in the process
    rate_limit      the service answers 429 after some requests
    uuid            not a bug: articles have UUIDs instead of serial numbers
"""

import re
import secrets
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import OAuth2PasswordBearer, OAuth2PasswordRequestForm
from pydantic import BaseModel, Field

BUGS = ("null", "commit", "former_slug", "token", "append", "open_write", "any_actor", "still_there")

SCHEMA = """
CREATE TABLE IF NOT EXISTS users (id {serial}, name TEXT NOT NULL UNIQUE, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (token TEXT PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users (id),
                                     created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS articles (id {key}, slug TEXT NOT NULL UNIQUE, title TEXT NOT NULL, body TEXT NOT NULL,
                                     tags TEXT NOT NULL DEFAULT '', deleted INTEGER NOT NULL DEFAULT 0,
                                     author_id INTEGER NOT NULL REFERENCES users (id),
                                     updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS former_slugs (slug TEXT PRIMARY KEY, article_slug TEXT NOT NULL);
"""


class SignUp(BaseModel):
    username: str = Field(min_length=1, max_length=40, pattern="^[a-z0-9]+$")
    password: str = Field(min_length=8)


class User(BaseModel):
    id: int
    username: str


class Token(BaseModel):
    access_token: str
    token_type: str


class NewArticle(BaseModel):
    title: str = Field(min_length=1, max_length=60, pattern="^[A-Za-z0-9 ]+$")
    body: str | None = Field(default=None, max_length=1000, pattern="^[^\x00]*$")
    tags: list[Annotated[str, Field(pattern="^[a-z0-9]+$")]] = []


class Article(BaseModel):
    id: int | str
    slug: str
    title: str
    body: str
    tags: list[str]
    author: str


class Problem(BaseModel):
    detail: Any


ERRORS: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 401, 403, 404, 409)}


class Database:
    """Connections of the application: SQLite for a path, PostgreSQL for an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_postgres = "dbname=" in address or "://" in address

    @contextmanager
    def connect(self) -> Iterator[Any]:
        if self.is_postgres:
            import psycopg

            connection: Any = psycopg.connect(self.address)
        else:
            connection = sqlite3.connect(self.address)
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    def sql(self, text: str) -> str:
        return text.replace("?", "%s") if self.is_postgres else text

    def create(self, key: str) -> None:
        serial = "SERIAL PRIMARY KEY" if self.is_postgres else "INTEGER PRIMARY KEY"
        with self.connect() as connection:
            if not self.is_postgres:
                connection.execute("PRAGMA journal_mode = WAL")
            for statement in SCHEMA.format(serial=serial, key=key or serial).split(";"):
                if statement.strip():
                    connection.execute(statement)


def blog(address: str, *bugs: str) -> FastAPI:
    """Return the application on a database, with these bugs."""
    app = FastAPI(title="Blog")
    database = Database(address)
    database.create("TEXT PRIMARY KEY" if "uuid" in bugs else "")
    bearer = OAuth2PasswordBearer(tokenUrl="login", auto_error="open_write" not in bugs)
    cache: dict[str, Any] = {}
    served = [0]

    if "rate_limit" in bugs:

        @app.middleware("http")
        async def limit(request: Any, call_next: Any) -> Any:
            from starlette.responses import JSONResponse

            served[0] += 1
            if served[0] > 20:
                return JSONResponse({"detail": "slow down"}, 429)
            return await call_next(request)

    def query(connection: Any, text: str, *values: Any) -> list[Any]:
        cursor = connection.execute(database.sql(text), values)
        return list(cursor.fetchall()) if cursor.description else []

    def user_of(token: str | None) -> tuple[int, str]:
        with database.connect() as connection:
            found = query(
                connection,
                "SELECT u.id, u.name FROM users u JOIN sessions s ON s.user_id = u.id WHERE s.token = ?",
                token or "",
            )
        if not found:
            raise HTTPException(401, "who are you?")
        return found[0][0], found[0][1]

    def current(token: Annotated[str, Depends(bearer)]) -> tuple[int, str]:
        return user_of(token)

    def writer(token: Annotated[str | None, Depends(bearer)]) -> tuple[int, str]:
        if token is None and "open_write" in bugs:
            return 1, ""
        return user_of(token)

    Me = Annotated[tuple[int, str], Depends(current)]

    def slug_of(title: str) -> str:
        return re.sub(r"\W+", "-", title.lower())

    def find(connection: Any, slug: str, *, former: bool = False) -> dict[str, Any]:
        sql = (
            "SELECT a.id, a.slug, a.title, a.body, a.tags, u.name, a.author_id, a.deleted FROM articles a "
            "JOIN users u ON u.id = a.author_id WHERE a.slug = ?"
        )
        found = query(connection, sql, slug)
        if not found and former:
            names = query(connection, "SELECT article_slug FROM former_slugs WHERE slug = ?", slug)
            found = query(connection, sql, names[0][0]) if names else []
        if not found or (found[0][7] and "still_there" not in bugs):
            raise HTTPException(404, "no such article")
        names = ("id", "slug", "title", "body", "tags", "author", "author_id", "deleted")
        row = dict(zip(names, found[0]))
        row["tags"] = row["tags"].split(",") if row["tags"] else []
        return row

    @app.post("/users", status_code=201, responses=ERRORS)
    def sign_up(new: SignUp) -> User:
        with database.connect() as connection:
            if query(connection, "SELECT 1 FROM users WHERE name = ?", new.username):
                raise HTTPException(409, "taken")
            query(connection, "INSERT INTO users (name, password) VALUES (?, ?)", new.username, new.password)
            ((number,),) = query(connection, "SELECT id FROM users WHERE name = ?", new.username)
        return User(id=number, username=new.username)

    @app.post("/login", responses=ERRORS)
    def login(form: Annotated[OAuth2PasswordRequestForm, Depends()]) -> Token:
        with database.connect() as connection:
            found = query(
                connection,
                "SELECT id FROM users WHERE name = ? AND password = ?",
                form.username.replace("\0", ""),
                form.password.replace("\0", ""),
            )
            if not found:
                raise HTTPException(401, "no")
            token = secrets.token_hex(16)
            query(connection, "INSERT INTO sessions (token, user_id) VALUES (?, ?)", token, found[0][0])
            if "token" in bugs:
                query(connection, "UPDATE sessions SET user_id = ?", found[0][0])
        return Token(access_token=token, token_type="bearer")

    @app.get("/me", responses=ERRORS)
    def me(user: Me) -> User:
        return User(id=user[0], username=user[1])

    @app.get("/articles", responses=ERRORS)
    def articles(limit: Annotated[int, Field(ge=1, le=100)] = 20) -> list[Article]:
        if "cache" in bugs and "articles" in cache:
            return cache["articles"]
        with database.connect() as connection:
            slugs = query(
                connection, "SELECT slug FROM articles WHERE deleted = 0 ORDER BY slug LIMIT ?", limit
            )
            cache["articles"] = [Article(**find(connection, slug)) for (slug,) in slugs]
        return cache["articles"]

    @app.post("/articles", status_code=201, responses=ERRORS)
    def write(new: NewArticle, user: Annotated[tuple[int, str], Depends(writer)]) -> Article:
        cache.clear()
        body = new.body if "null" in bugs else new.body or ""
        slug = slug_of(new.title)
        author = user[0]
        with database.connect() as connection:
            if query(connection, "SELECT 1 FROM articles WHERE slug = ?", slug):
                raise HTTPException(409, "taken")
            if "open_write" in bugs and not user[1]:
                ((author,),) = query(connection, "SELECT min(id) FROM users") or ((1,),)
                if author is None:
                    raise HTTPException(401, "who are you?")
            columns, values = (
                "slug, title, body, tags, author_id",
                [slug, new.title, body, ",".join(new.tags), author],
            )
            if "uuid" in bugs:
                columns, values = f"id, {columns}", [str(uuid.uuid4()), *values]
            marks = ", ".join("?" * len(values))
            query(connection, f"INSERT INTO articles ({columns}) VALUES ({marks})", *values)
            if "commit" in bugs:
                connection.commit()
                if not new.tags:
                    raise RuntimeError("no tags to index")
            return Article(**find(connection, slug))

    @app.get("/articles/{slug}", responses=ERRORS)
    def read(slug: str) -> Article:
        with database.connect() as connection:
            return Article(**find(connection, slug.replace("\0", "")))

    def own(connection: Any, slug: str, user: tuple[int, str], *, former: bool = False) -> dict[str, Any]:
        article = find(connection, slug.replace("\0", ""), former=former)
        if article["author_id"] != user[0] and "any_actor" not in bugs:
            raise HTTPException(403, "not yours")
        return article

    @app.put("/articles/{slug}", responses=ERRORS)
    def edit(slug: str, new: NewArticle, user: Me) -> Article:
        cache.clear()
        with database.connect() as connection:
            article = own(connection, slug, user)
            target = slug_of(new.title)
            if target != article["slug"] and query(
                connection, "SELECT 1 FROM articles WHERE slug = ?", target
            ):
                raise HTTPException(409, "taken")
            tags = [*article["tags"], *new.tags] if "append" in bugs else new.tags
            query(
                connection,
                "UPDATE articles SET slug = ?, title = ?, body = ?, tags = ?, updated_at = CURRENT_TIMESTAMP "
                "WHERE slug = ?",
                *(target, new.title, new.body or "", ",".join(tags), article["slug"]),
            )
            if "former_slug" in bugs and target != article["slug"]:
                query(connection, "DELETE FROM former_slugs WHERE slug = ?", article["slug"])
                query(connection, "INSERT INTO former_slugs VALUES (?, ?)", article["slug"], target)
            return Article(**find(connection, target))

    @app.delete("/articles/{slug}", status_code=204, responses=ERRORS)
    def delete(slug: str, user: Me) -> None:
        cache.clear()
        with database.connect() as connection:
            own(connection, slug, user, former="former_slug" in bugs)
            if "still_there" in bugs:
                query(connection, "UPDATE articles SET deleted = 1 WHERE slug = ?", slug)
            else:
                query(connection, "DELETE FROM articles WHERE slug = ?", slug)

    return app
