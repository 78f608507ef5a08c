"""Projects and tasks on FastAPI and SQLite. Users have UUIDs and sign up; tokens are signed, and not stored."""

import base64
import hashlib
import hmac
import json
import logging
import sqlite3
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

SECRET = b"not a secret"
SCHEMA = """
CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, password TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS projects (id TEXT PRIMARY KEY, title TEXT NOT NULL, created_at TEXT NOT NULL,
                                     owner TEXT NOT NULL REFERENCES users (id));
CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, name TEXT NOT NULL, priority INTEGER NOT NULL,
                                  project TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE);
"""


class Credentials(BaseModel):
    username: str = Field(max_length=40, pattern=r"^[\w.@+-]+$")
    password: str = Field(min_length=8, max_length=100)


class User(BaseModel):
    id: uuid.UUID
    username: str


class Token(BaseModel):
    access_token: str


class NewProject(BaseModel):
    title: str = Field(min_length=1, max_length=100)


class Project(NewProject):
    id: uuid.UUID


class NewTask(BaseModel):
    name: str = Field(min_length=1, max_length=100)
    priority: int = Field(default=1, ge=0, le=5)


class Task(NewTask):
    id: int


def signed(user: str) -> str:
    """Return a token that says who somebody is."""
    body = base64.urlsafe_b64encode(json.dumps({"sub": user, "salt": uuid.uuid4().hex}).encode()).decode()
    return body + "." + hmac.new(SECRET, body.encode(), hashlib.sha256).hexdigest()


def read(token: str) -> str | None:
    body, _, mark = token.partition(".")
    if not hmac.compare_digest(mark, hmac.new(SECRET, body.encode(), hashlib.sha256).hexdigest()):
        return None
    return str(json.loads(base64.urlsafe_b64decode(body))["sub"])


def tasks(path: str, *, open_patch: bool = False) -> FastAPI:
    """Return the application. With `open_patch` everybody can change every task."""
    app = FastAPI()
    log = logging.getLogger("tasks")

    def connect() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = OFF")
        try:
            yield connection
            connection.commit()
        finally:
            connection.close()

    for connection in connect():
        connection.executescript(SCHEMA)

    # By default FastAPI ends a dependency after the response is sent: the next request could miss these rows.
    Database = Annotated[sqlite3.Connection, Depends(connect, scope="function")]

    def current(
        db: Database, found: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]
    ) -> tuple[str, str]:
        user = read(found.credentials)
        row = db.execute("SELECT id, username FROM users WHERE id = ?", (user,)).fetchone()
        if row is None:
            log.error("nobody has this token")
            raise HTTPException(401, "who are you?")
        return row

    Me = Annotated[tuple[str, str], Depends(current)]

    @app.post("/signup", status_code=201)
    def sign_up(new: Credentials, db: Database) -> User:
        key = str(uuid.uuid4())
        try:
            db.execute("INSERT INTO users VALUES (?, ?, ?)", (key, new.username, new.password))
        except sqlite3.IntegrityError:
            raise HTTPException(409, "taken") from None
        return User(id=uuid.UUID(key), username=new.username)

    @app.post("/login")
    def login(given: Credentials, db: Database) -> Token:
        row = db.execute(
            "SELECT id FROM users WHERE username = ? AND password = ?", (given.username, given.password)
        ).fetchone()
        if row is None:
            raise HTTPException(401, "wrong")
        return Token(access_token=signed(row[0]))

    @app.get("/me")
    def me(user: Me) -> User:
        return User(id=uuid.UUID(user[0]), username=user[1])

    def own(db: sqlite3.Connection, user: tuple[str, str], project: str) -> dict[str, Any]:
        row = db.execute("SELECT id, title, owner FROM projects WHERE id = ?", (project,)).fetchone()
        if row is None or row[2] != user[0]:
            raise HTTPException(404, "no such project")
        return {"id": row[0], "title": row[1]}

    def task_of(db: sqlite3.Connection, user: tuple[str, str], number: int, *, check: bool = True) -> Task:
        row = None
        if abs(number) < 2**63:
            row = db.execute(
                "SELECT id, name, priority, project FROM tasks WHERE id = ?", (number,)
            ).fetchone()
        if row is None:
            raise HTTPException(404, "no such task")
        if check:
            own(db, user, row[3])
        return Task(id=row[0], name=row[1], priority=row[2])

    @app.get("/projects")
    def projects(user: Me, db: Database) -> list[Project]:
        rows = db.execute("SELECT id, title FROM projects WHERE owner = ? ORDER BY title", (user[0],))
        return [Project(id=uuid.UUID(row[0]), title=row[1]) for row in rows]

    @app.post("/projects", status_code=201)
    def add_project(new: NewProject, user: Me, db: Database) -> Project:
        key = str(uuid.uuid4())
        db.execute("INSERT INTO projects VALUES (?, ?, datetime('now'), ?)", (key, new.title, user[0]))
        return Project(id=uuid.UUID(key), title=new.title)

    @app.delete("/projects/{project_id}", status_code=204)
    def delete_project(project_id: uuid.UUID, user: Me, db: Database) -> Response:
        own(db, user, str(project_id))
        db.execute("DELETE FROM projects WHERE id = ?", (str(project_id),))
        return Response(status_code=204)

    @app.post("/projects/{project_id}/tasks", status_code=201)
    def add_task(project_id: uuid.UUID, new: NewTask, user: Me, db: Database) -> Task:
        own(db, user, str(project_id))
        cursor = db.execute(
            "INSERT INTO tasks (name, priority, project) VALUES (?, ?, ?)",
            (new.name, new.priority, str(project_id)),
        )
        return Task(id=cursor.lastrowid or 0, **new.model_dump())

    @app.get("/tasks/{task_id}")
    def read_task(task_id: int, user: Me, db: Database) -> Task:
        return task_of(db, user, task_id)

    @app.patch("/tasks/{task_id}")
    def patch_task(task_id: int, new: NewTask, user: Me, db: Database) -> Task:
        task_of(db, user, task_id, check=not open_patch)
        db.execute("UPDATE tasks SET name = ?, priority = ? WHERE id = ?", (new.name, new.priority, task_id))
        return Task(id=task_id, **new.model_dump())

    return app
