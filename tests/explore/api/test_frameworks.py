"""Real frameworks: Django with sessions and CSRF and its migrations, Flask with Alembic's, Litestar."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.errors import DefinitionError, RefusedServiceError, SystemSetupError
from clew.explore import explore_api
from clew.explore.api.opening import run_migrations

MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
SECRET_KEY = "of a test"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "notes"]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
ROOT_URLCONF = "notes.urls"
ALLOWED_HOSTS = ["*"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "notes.db"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
"""
MODELS = """
from django.contrib.auth.models import User
from django.db import models

class Note(models.Model):
    owner = models.ForeignKey(User, on_delete=models.CASCADE)
    text = models.CharField(max_length=20)
"""
MIGRATION = """
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import migrations, models

def people(apps, schema_editor):
    for name in ("alice", "bob"):
        apps.get_model("auth", "User").objects.create(username=name, password=make_password("secret"))

class Migration(migrations.Migration):
    dependencies = [("auth", "0012_alter_user_first_name_max_length"), ("sessions", "0001_initial")]
    operations = [
        migrations.CreateModel("Note", [
            ("id", models.AutoField(primary_key=True)),
            ("text", models.CharField(max_length=20)),
            ("owner", models.ForeignKey(to=settings.AUTH_USER_MODEL, on_delete=models.CASCADE)),
        ]),
        migrations.RunPython(people),
    ]
"""
URLS = """
import json
from django.contrib.auth import authenticate, login
from django.http import HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from notes.models import Note

@csrf_exempt
@ensure_csrf_cookie
def sign_in(request):
    given = json.loads(request.body)
    if not isinstance(given.get("username"), str) or not isinstance(given.get("password"), str):
        return JsonResponse({}, status=400)
    user = authenticate(username=given["username"], password=given["password"])
    if user is None:
        return JsonResponse({}, status=401)
    login(request, user)
    return JsonResponse({})

def shown(note):
    return {"id": note.id, "text": note.text}

def notes(request):
    if not request.user.is_authenticated:
        return JsonResponse({}, status=401)
    if request.method == "GET":
        return JsonResponse([shown(each) for each in Note.objects.filter(owner=request.user)], safe=False)
    text = json.loads(request.body).get("text")
    if not isinstance(text, str) or not text.isalnum() or len(text) > 20:
        return JsonResponse({}, status=400)
    return JsonResponse(shown(Note.objects.create(owner=request.user, text=text)), status=201)

def note(request, number):
    if not request.user.is_authenticated:
        return JsonResponse({}, status=401)
    found = Note.objects.filter(id=number) if abs(number) < 2**63 else Note.objects.none()
    if request.method == "GET":
        found = found.filter(owner=request.user)
    if not found.exists():
        return JsonResponse({}, status=404)
    if request.method == "DELETE":
        found.delete()  # a note of anybody
        return HttpResponse(status=204)
    return JsonResponse(shown(found.get()))

urlpatterns = [path("login", sign_in), path("notes", notes), path("notes/<int:number>", note)]
"""
DJANGO = {
    "manage.py": MANAGE,
    "settings.py": SETTINGS,
    "notes/__init__.py": "",
    "notes/models.py": MODELS,
    "notes/urls.py": URLS,
    "notes/migrations/__init__.py": "",
    "notes/migrations/0001_initial.py": MIGRATION,
}

NOTE = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "maxLength": 20, "pattern": "^[a-z0-9]+$"}},
}
STORED = {
    "type": "object",
    "required": ["id", "text"],
    "properties": {"id": {"type": "integer"}, "text": {"type": "string"}},
}


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def statuses(good: int, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    others = {str(each): {"description": ""} for each in (400, 401, 403, 404)}
    return others | {str(good): {"description": "", **(body(schema) if schema else {})}}


SECURED: dict[str, Any] = {"security": [{"session": []}]}
CREDENTIALS = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {"username": {"type": "string"}, "password": {"type": "string"}},
}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "notes", "version": "1"},
    "components": {"securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": "sessionid"}}},
    "paths": {
        "/login": {"post": {"requestBody": body(CREDENTIALS), "responses": statuses(200)}},
        "/notes": {
            "get": {"responses": statuses(200, {"type": "array", "items": STORED}), **SECURED},
            "post": {"requestBody": body(NOTE), "responses": statuses(201, STORED), **SECURED},
        },
        "/notes/{number}": {
            "parameters": [
                {
                    "name": "number",
                    "in": "path",
                    "required": True,
                    "schema": {"type": "integer", "minimum": 0},
                }
            ],
            "get": {"responses": statuses(200, STORED), **SECURED},
            "delete": {"responses": statuses(204), **SECURED},
        },
    },
}
EXPLORE = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
sys.path.insert(0, "")
from clew.explore import explore_api

def application():
    from django.core.wsgi import get_wsgi_application
    return get_wsgi_application()

sys.modules["service"] = sys.modules["__main__"]
result = explore_api(
    "service:application()", openapi="document.json", systems="notes.db", migrate=True,
    login=["alice:secret", "bob:secret"], max_requests=400, settle=0, progress=False,
)
print(json.dumps({
    "found": [[each.severity.name, each.name] for each in result.violations],
    "never": result.service.never_succeeded,
}))
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_django_with_sessions_csrf_and_migrations(tmp_path: Path) -> None:
    pytest.importorskip("django")
    write(tmp_path, {**DJANGO, "document.json": json.dumps(DOCUMENT), "explore.py": EXPLORE})
    done = subprocess.run(
        [sys.executable, "explore.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["never"] == []  # each write has passed the CSRF check
    assert found["found"] == [["CRITICAL", "resource of another actor: DELETE /notes/{number}"]]
    with closing(sqlite3.connect(tmp_path / "notes.db")) as connection:
        assert connection.execute("SELECT count(*) FROM notes_note").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM auth_user").fetchone() == (2,)


ALEMBIC = """
[alembic]
script_location = migrations
sqlalchemy.url = sqlite:///notes.db
"""
ENVIRONMENT = """
from alembic import context
from sqlalchemy import create_engine
engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""
REVISION = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "1", None
def upgrade():
    op.create_table("notes", sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text, nullable=False))
"""


def flask_service(path: str) -> Any:
    flask = pytest.importorskip("flask")
    app = flask.Flask("notes")

    def run(sql: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(path)) as connection, connection:
            return connection.execute(sql, values).fetchall()

    @app.get("/notes")
    def all_notes() -> Any:
        return [{"id": number, "text": text} for number, text in run("SELECT id, text FROM notes")]

    @app.post("/notes")
    def add() -> Any:
        text = flask.request.get_json().get("text")
        if not isinstance(text, str) or not text.isalnum():
            return {}, 400
        ((number,),) = run("INSERT INTO notes (text) VALUES (?) RETURNING id", text)
        return {"id": number, "text": text}, 201

    @app.route("/notes/<int:number>", methods=["GET", "DELETE"])
    def one(number: int) -> Any:
        found = run("SELECT id, text FROM notes WHERE id = ?", number) if number < 2**63 else []
        if not found:
            return {}, 404
        if flask.request.method == "DELETE":
            run("DELETE FROM notes WHERE id = ?", number)
            return "", 204
        return {"id": found[0][0], "text": found[0][1]}

    return app


def without_security(document: dict[str, Any]) -> dict[str, Any]:
    paths = {name: dict(each) for name, each in document["paths"].items() if name != "/login"}
    for each in paths.values():
        for method in set(each) & {"get", "post", "delete"}:
            each[method] = {key: value for key, value in each[method].items() if key != "security"}
    return {**document, "components": {}, "paths": paths}


def test_flask_on_a_database_that_alembic_creates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("alembic")
    service = flask_service("notes.db")
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "alembic.ini": ALEMBIC,
            "migrations/env.py": ENVIRONMENT,
            "migrations/versions/1_notes.py": REVISION,
        },
    )
    options: dict[str, Any] = {"openapi": without_security(DOCUMENT), "systems": "notes.db", "settle": 0}
    with pytest.raises(SystemSetupError):  # the database does not exist yet
        explore_api(service, max_requests=100, progress=False, **options)
    result = explore_api(service, migrate=True, max_requests=1500, progress=False, **options)
    assert result.violations == []
    assert result.service.never_succeeded == ()
    assert not result.truncated


def test_litestar(tmp_path: Path) -> None:
    pytest.importorskip("litestar")
    from tests.explore.api.litestar_service import notes_service

    path = tmp_path / "notes.db"
    app = notes_service(path)
    result = explore_api(app, systems=str(path), max_requests=300, settle=0, progress=False)
    names = {each.name.partition(" (")[0] for each in result.violations}
    assert names >= {"server error: POST /notes", "rejected, yet written: POST /notes"}
    assert result.service.never_succeeded == ()


def test_migrations_that_cannot_run_say_why(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="neither"):
        run_migrations(tmp_path)
    (tmp_path / "manage.py").write_text("raise SystemExit('no such table: people')")
    with pytest.raises(SystemSetupError, match="no such table: people"):
        run_migrations(tmp_path)
    (tmp_path / "alembic.ini").touch()
    with pytest.raises(DefinitionError, match="both"):
        run_migrations(tmp_path)


def test_no_migration_runs_against_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "manage.py").write_text("open('ran', 'w').close()")
    with pytest.raises(RefusedServiceError):
        explore_api("shop:app", systems="postgresql://db.example.com/shop", migrate=True, progress=False)
    assert not os.path.exists("ran")
