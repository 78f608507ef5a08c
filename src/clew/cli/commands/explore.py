"""``clew explore``: explore every state that a system can reach."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from clew.cli.declarations import argument, flag, option
from clew.cli.kept_checks import keep_result
from clew.cli.options import JsonOption, duration_of
from clew.cli.output import CommandError, note, report_error, say, say_json
from clew.errors import ExplorationAborted


def explore(
    target: Annotated[
        str | None, argument("MODULE:AGENT", "Agent to run: shop:agent is `agent` in shop.py.")
    ] = None,
    app: Annotated[
        str | None,
        option("--app", "MODULE:APP", "Explore this ASGI or WSGI application instead of an agent."),
    ] = None,
    url: Annotated[
        str | None, option("--url", "URL", "Explore the service that runs at this address.")
    ] = None,
    openapi: Annotated[
        str | None,
        option(
            "--openapi",
            "FILE",
            "OpenAPI document: a file, or a path of the service. [default: the service's own]",
        ),
    ] = None,
    databases: Annotated[
        list[str] | None,
        option(
            "--db",
            "ADDRESS",
            "Database of the service, to roll back between actions: postgresql://, redis://, a SQLite file or "
            "a folder. Can be repeated.",
        ),
    ] = None,
    logins: Annotated[
        list[str] | None,
        option(
            "--login",
            "NAME:PASSWORD",
            "Sign in as this user, or send this API key or token. Repeat it for a second user. "
            "[default: a sign-up operation]",
        ),
    ] = None,
    within: Annotated[
        str | None, option("--within", "TIME", "Time limit, such as 60s or 5m. [default: 60s for a service]")
    ] = None,
    max_requests: Annotated[
        int | None,
        option("--max-requests", "N", "Stop after about N requests instead of a time limit.", min=1),
    ] = None,
    resources: Annotated[
        int, option("--resources", "N", "Create at most N resources per operation on a path.", min=1)
    ] = 2,
    actors: Annotated[int, option("--actors", "N", "Number of users that call the service.", min=1)] = 2,
    skip: Annotated[
        list[str] | None,
        option("--skip", "OPERATION", 'Do not call this operation: "POST /mails". Can be repeated.'),
    ] = None,
    migrate: Annotated[
        bool,
        flag(
            "--migrate",
            "First apply the Django or Alembic migrations of this folder. They are not rolled back.",
        ),
    ] = False,
    allow_remote: Annotated[
        bool, flag("--allow-remote", "Permit a service or a database on another machine.")
    ] = False,
    allow_stale: Annotated[
        bool, flag("--allow-stale", "Explore a service even if some of its state is not rolled back.")
    ] = False,
    scripts: Annotated[
        str | None,
        option("--scripts", "FOLDER", "Write confirmed violations as pytest functions and curl scripts."),
    ] = None,
    reports: Annotated[
        list[str] | None,
        option(
            "--report", "FILE", "Write a report: .html, .json, .xml (JUnit), .md or .dot. Can be repeated."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, option("--max-steps", "N", "Run at most N actions. [default: no limit]", min=0)
    ] = None,
    store: Annotated[
        str | None,
        option(
            "--store",
            "STORE",
            "Record progress in this store, continue an interrupted exploration, and keep the result for "
            "`clew serve`. [default: none]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explore every state that a system can reach.

    Run every action in every state and check the invariants.

    The actions and invariants come from a clew.explore.Agent or, with --app or --url, from the OpenAPI document of a
    service. The exit code is 0 without violations, 1 with violations or if the exploration was aborted,
    and 2 if the service is refused.

    \b
    Examples:
      clew explore --app shop.main:app --db shop.db --login alice:secret --within 60s
      clew explore shop:agent
      clew explore shop:agent --report shop.html --report shop.xml
      clew explore shop:agent --max-steps 5000 --store explore.db
    """
    from clew.explore.agent import Agent
    from clew.explore.reports import check_report_path
    from clew.runtime.loader import load_target
    from clew.views.checks import exploration_document

    for report in reports or ():
        check_report_path(report)  # before the exploration, which may take hours
    if app is not None or url is not None:
        from clew.explore.api.explorer import explore_api

        found = explore_api(
            app,
            url=url,
            openapi=openapi,
            systems=databases,
            login=logins or (),
            within=duration_of(within or "60s", "--within"),
            max_requests=max_requests,
            resources=resources,
            actors=actors,
            skip=skip or (),
            migrate=migrate,
            allow_remote=allow_remote,
            allow_stale=allow_stale,
            store=store,
        )
        keep_result(store, lambda: exploration_document(app or url or "", found))
        return _print(found, reports, as_json, scripts)
    if target is None:
        raise CommandError("explore needs MODULE:AGENT, --app or --url", "see `clew explore --help`")
    agent = load_target(target, Agent, "agent", "shop")
    given = {
        "within": None if within is None else duration_of(within, "--within"),
        "max_steps": max_steps,
        "store": store,
    }
    for name, value in given.items():
        if value is not None:
            setattr(agent, name, value)
    result, aborted = _explored(agent)
    command = shlex.join(["clew", "explore", target, *(["--store", store] if store else [])])
    keep_result(store, lambda: exploration_document(target, result, command=command))
    code = _print(result, reports, as_json)
    if aborted is None:
        return code
    report_error(str(aborted), "the results so far are above")
    return 1


def _explored(agent: Any) -> tuple[Any, ExplorationAborted | None]:
    """Explore, and return the result so far with the error if it was aborted."""
    try:
        result = agent.explore()
    except ExplorationAborted as error:
        if error.result is None:
            raise
        return error.result, error
    except KeyboardInterrupt:
        report_error(*_interrupted(agent))
        raise
    _close_systems(agent.world)
    return result, None


def _print(result: Any, reports: list[str] | None, as_json: bool, scripts: str | None = None) -> int:
    """Write the reports and print the result. Return the exit code."""
    for report in reports or ():
        result.save(report)
    written = [] if scripts is None else result.save_reproductions(scripts)
    if as_json:
        say_json(result.to_dict())
    else:
        say(result)
    for file in [*(reports or ()), *written]:
        note(f"wrote {file}")
    return 1 if result.violations else 0


def _close_systems(world: Any) -> None:
    """Close the systems, which removes triggers and the like from them."""
    for name, system in world.systems.items():
        close = getattr(system, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:
                note(f"system {name!r} could not be closed: {error}")


def _interrupted(agent: Any) -> tuple[str, str]:
    """Return the message and the hint after Ctrl-C."""
    world = "could not be restored" if agent.world.poisoned else "is in its initial state"
    hint = (
        "run it with --store FILE to make it resumable"
        if agent.store is None
        else "run the command again to resume"
    )
    return f"interrupted; the world {world}", hint
