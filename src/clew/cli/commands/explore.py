"""``clew explore``: explore every state that a system can reach."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew.cli.options import JsonOption
from clew.cli.output import note, report_error, say, say_json
from clew.errors import ExplorationAborted


def register(app: typer.Typer) -> None:
    """Register the command."""
    app.command("explore")(explore)


def explore(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:AGENT", help="Agent to run: shop:agent is `agent` in shop.py.")
    ],
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a report: .html, .json, .xml (JUnit), .md or .dot. Can be repeated.",
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", metavar="N", help="Run at most N actions. [default: no limit]", min=0),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store",
            metavar="STORE",
            help="Record progress in this store and continue an interrupted exploration. [default: none]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explore every state that a system can reach.

    Run every action in every state and check the invariants.

    A clew.explore.Agent defines the actions and the invariants. The exit code is 0 without violations, and 1 with
    violations or if the exploration was aborted.

    \b
    Examples:
      clew explore shop:agent
      clew explore shop:agent --report shop.html --report shop.xml
      clew explore shop:agent --max-steps 5000 --store explore.db
    """
    from clew.explore.agent import Agent
    from clew.explore.reports import check_report_path
    from clew.runtime.loader import load_target

    for report in reports or ():
        check_report_path(report)  # before the exploration, which may take hours
    agent = load_target(target, Agent, "agent", "shop")
    if max_steps is not None:
        agent.max_steps = max_steps
    if store is not None:
        agent.store = store
    aborted: ExplorationAborted | None = None
    try:
        result: Any = agent.explore()
    except ExplorationAborted as error:
        aborted, result = error, error.result
        if result is None:
            raise
    except KeyboardInterrupt:
        report_error(*_interrupted(agent))
        raise
    if aborted is None:
        _close_systems(agent.world)
    for report in reports or ():
        result.save(report)
    if as_json:
        say_json(result.to_dict())
    else:
        say(result)
    for report in reports or ():
        note(f"wrote {report}")
    if aborted is not None:
        report_error(str(aborted), "the results so far are above")
    return 1 if result.violations or aborted is not None else 0


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
