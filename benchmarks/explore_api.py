"""How many planted bugs of services are found in the same time: `python -m benchmarks.explore_api --seconds 60`.

The services are those of the tests, each with one bug at a time, and once without any. They run in a process of their
own, on a new SQLite file. Clew and Schemathesis (all phases, all checks) reach them at the same address. Schemathesis
gets the credentials of a user; Clew signs up or logs in by itself.

A bug is found if a tool reports something about one of its operations that it does not report about the correct
service, with any seed. Schemathesis does not name the operation of what its stateful phase finds; there the kind of the
report must be new. What a tool reports about a correct service is printed too.

`--services FOLDER --postgres URL` measures services of other people instead (`public_services.py`), whose bugs nobody
planted: the operations that answer 5xx count, and those that one tool missed are named.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from benchmarks.public_services import PublicService, read_services, started

Report = tuple[str, str]  # what is reported, and the operation
PASSWORD = "Secret-pass1"
FAILED = 500
STATEFUL = "Stateful tests"  # where Schemathesis names an operation otherwise


class PlantedBug(NamedTuple):
    """A bug of a service, and the operations where it shows."""

    service: str
    name: str
    operations: tuple[str, ...]


WRITE, EDIT, REMOVE, READ = (
    "POST /articles",
    "PUT /articles/{slug}",
    "DELETE /articles/{slug}",
    "GET /articles/{slug}",
)
BUGS = (
    PlantedBug("blog", "null", (WRITE,)),
    PlantedBug("blog", "commit", (WRITE,)),
    PlantedBug("blog", "former_slug", (REMOVE, READ)),
    PlantedBug("blog", "token", ("GET /me", "POST /login")),
    PlantedBug("blog", "append", (EDIT,)),
    PlantedBug("blog", "open_write", (WRITE,)),
    PlantedBug("blog", "any_actor", (EDIT, REMOVE)),
    PlantedBug("blog", "still_there", (REMOVE, READ)),
    PlantedBug("tasks", "open_patch", ("PATCH /tasks/{task_id}",)),
    PlantedBug("library", "late", ("POST /loans",)),
)
SERVICES = ("blog", "tasks", "library")


def application(service: str, bug: str, path: str) -> Any:
    """Return a service with a bug."""
    from tests.explore.api.blog_service import blog
    from tests.explore.api.library_service import DOCUMENT, library
    from tests.explore.api.tasks_service import tasks

    if service == "blog":
        return blog(path, *([bug] if bug else []))
    if service == "tasks":
        return tasks(path, open_patch=bool(bug))
    app = library(path, late=bool(bug))

    async def document(_: Any) -> Any:
        from starlette.responses import JSONResponse

        return JSONResponse(DOCUMENT)

    app.add_route("/openapi.json", document)
    return app


def serve(service: str, bug: str, path: str) -> None:
    """Run a service on a free port, and print the port."""
    import uvicorn

    # asyncio sends small parts of a response at once only if the socket says that it is TCP
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    app = application(service, bug, path)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


@contextmanager
def served(service: str, bug: str, path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.explore_api", "--serve", service, bug, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


class Target(NamedTuple):
    """A running service, and what the tools are given to explore it."""

    url: str
    document: str
    database: str
    logins: Sequence[str]
    header: str
    options: Sequence[str] = ()


def clew(target: Target, seconds: float, seed: int, folder: Path) -> set[Report]:
    words = ["explore", "--url", target.url, "--openapi", target.document, "--db", target.database, "--json"]
    words += [word for login in target.logins for word in ("--login", login)]
    command = [sys.executable, "-m", "clew", *words, "--within", f"{seconds:g}s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    found = set()
    for each in json.loads(done.stdout)["violations"]:
        if each["confirmed"]:
            what, _, where = each["name"].split(" (")[0].partition(": ")
            found.add((what, where))
    return found


def schemathesis(target: Target, seconds: float, seed: int, folder: Path) -> set[Report]:
    report = folder / "schemathesis.json"
    report.unlink(missing_ok=True)
    exchanges = folder / "schemathesis.har"
    words = ["run", target.document, "--url", target.url, "--max-time", f"{seconds:g}", "--seed", str(seed)]
    words += [
        "--checks",
        "all",
        "--continue-on-failure",
        "--report",
        "json,har",
        "--report-json-path",
        str(report),
    ]
    words += ["--report-har-path", str(exchanges)]
    words += [*(["-H", target.header] if target.header else []), *target.options]
    program = os.environ.get("SCHEMATHESIS") or str(Path(sys.executable).with_name("st"))
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, cwd=folder)
    if not report.exists():
        raise RuntimeError(done.stdout + done.stderr)
    failures = json.loads(report.read_text())["failures"]
    found = {(each["type"], operation) for each in failures for operation in each["operations"]}
    return found | failed_operations(target.document, exchanges)


def failed_operations(document: str, exchanges: Path) -> set[Report]:
    """Return the operations that answered 5xx in any phase: reports of the stateful phase do not name them."""
    with urlopen(document) as response:
        read = json.load(response)
    prefix = urlsplit((read.get("servers") or [{}])[0].get("url", "")).path.rstrip("/")
    found = set()
    for entry in json.loads(exchanges.read_text())["log"]["entries"]:
        if entry["response"]["status"] < FAILED:
            continue
        method, path = entry["request"]["method"], urlsplit(entry["request"]["url"]).path
        for template, operations in read["paths"].items():
            pattern = re.sub(r"\\\{[^/]*?\\\}", "[^/]+", re.escape(prefix + template))
            if method.lower() in operations and re.fullmatch(pattern, path):
                found.add(("ServerError", f"{method} {prefix}{template}"))
                break
    return found


def credentials(url: str, service: str) -> str:
    """Return the header of a user that exists or signs up."""
    if service == "library":
        _, headers = _post(f"{url}/login", {"name": "ann", "password": "secret"})
        return "Cookie: " + headers["set-cookie"].split(";")[0]
    user = {"username": "tester", "password": PASSWORD}
    _post(f"{url}/{'users' if service == 'blog' else 'signup'}", user)
    form = f"username=tester&password={PASSWORD}" if service == "blog" else user
    answer, _ = _post(f"{url}/login", form)
    return f"Authorization: Bearer {answer['access_token']}"


def _post(url: str, body: Any) -> tuple[Any, Any]:
    is_form = isinstance(body, str)
    kind = "application/x-www-form-urlencoded" if is_form else "application/json"
    data = body.encode() if is_form else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": kind}, method="POST")) as response:
        return json.loads(response.read()), response.headers


TOOLS = {"Clew": clew, "Schemathesis": schemathesis}


def measure(seconds: float, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """Return the seeds that found each bug, and what is reported about the correct services, by tool."""
    reports: dict[tuple[str, str, str, int], set[Report]] = {}
    variants = [(service, "") for service in SERVICES] + [(bug.service, bug.name) for bug in BUGS]
    for seed in seeds:
        for service, bug in variants:
            for tool, run in TOOLS.items():
                path = folder / f"{tool}-{service}-{bug}-{seed}.db"
                with served(service, bug, path) as url:
                    logins = ("ann:secret", "ben:secret") if service == "library" else ()
                    header = credentials(url, service) if tool == "Schemathesis" else ""
                    target = Target(url, f"{url}/openapi.json", str(path), logins, header)
                    reports[tool, service, bug, seed] = run(target, seconds, seed, folder)
                print(tool, service, bug or "correct", seed, reports[tool, service, bug, seed], flush=True)
    result: dict[str, Any] = {}
    for tool in TOOLS:
        usual = {
            service: set().union(*(reports[tool, service, "", seed] for seed in seeds))
            for service in SERVICES
        }
        found = {
            f"{bug.service} {bug.name}": [
                seed
                for seed in seeds
                if any(
                    operation in (*bug.operations, STATEFUL)
                    for _, operation in reports[tool, bug.service, bug.name, seed] - usual[bug.service]
                )
            ]
            for bug in BUGS
        }
        result[tool] = {"found": found, "correct": {name: sorted(each) for name, each in usual.items()}}
    return result


def table(result: dict[str, Any], seeds: int) -> str:
    """Return the result as Markdown."""
    lines = [f"| bug | {' | '.join(TOOLS)} |", f"|---|{'--:|' * len(TOOLS)}"]
    for bug in next(iter(result.values()))["found"]:
        lines.append(
            f"| {bug} | " + " | ".join(f"{len(result[tool]['found'][bug])}/{seeds}" for tool in TOOLS) + " |"
        )
    usual = [str(sum(map(len, result[tool]["correct"].values()))) for tool in TOOLS]
    return "\n".join([*lines, f"| reports about the correct services | {' | '.join(usual)} |"])


ERRORS = {"server error", "ServerError"}  # as the tools call 5xx


def measure_public(
    services: Sequence[PublicService],
    place: Path,
    server: str,
    seconds: float,
    seeds: Sequence[int],
    folder: Path,
) -> dict[str, Any]:
    """Return what each tool reports about each service, by seed."""
    result: dict[str, Any] = {}
    for seed in seeds:
        for service in services:
            for tool, run in TOOLS.items():
                with started(service, place, folder / f"{tool}-{service.name}-{seed}", server) as up:
                    header = up.header if tool == "Schemathesis" else ""
                    target = Target(up.url, up.document, up.database, service.logins, header, service.options)
                    found = sorted(run(target, seconds, seed, folder))
                result.setdefault(service.name, {}).setdefault(tool, {})[seed] = found
                print(tool, service.name, seed, found, flush=True)
    return result


def public_table(services: Sequence[PublicService], result: dict[str, Any]) -> str:
    """Return the operations that answer 5xx as Markdown, with those that only one tool found."""
    lines = [
        f"| service | revision | {' | '.join(TOOLS)} | only Clew | only Schemathesis |",
        "|---|---|--:|--:|---|---|",
    ]
    for service in services:
        failing = {
            tool: [
                {where for what, where in found if what in ERRORS and where != STATEFUL}
                for found in by_seed.values()
            ]
            for tool, by_seed in result[service.name].items()
        }
        union = {tool: set().union(*found) for tool, found in failing.items()}
        counts = [
            f"{len(union[tool])} ({', '.join(str(len(each)) for each in failing[tool])})" for tool in TOOLS
        ]
        only = [sorted(union[one] - union[other]) for one, other in zip(TOOLS, reversed(TOOLS))]
        lines.append(
            f"| {service.name} | {service.revision} | {' | '.join(counts)} | "
            + " | ".join(", ".join(each) or "none" for each in only)
            + " |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--services", type=Path, metavar="FOLDER", help="measure services of other people")
    parser.add_argument("--postgres", metavar="URL", default="", help="the server for their databases")
    parser.add_argument("--serve", nargs=3, metavar=("SERVICE", "BUG", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(*options.serve)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        seeds = range(options.first, options.first + options.seeds)
        if options.services is not None:
            services = read_services(options.services)
            result = measure_public(
                services, options.services, options.postgres, options.seconds, seeds, Path(folder)
            )
            text = public_table(services, result)
        else:
            result = measure(options.seconds, seeds, Path(folder))
            text = table(result, options.seeds)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
