"""``clew explore``: every state that a system can reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from clew.cli.options import JsonOption
from clew.cli.output import CommandError, complain, note, say, say_json
from clew.errors import ExplorationAborted

FORMS = (".json", ".html", ".xml", ".md", ".dot")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explore")(explore)


def explore(
    target: Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="shop:agent is `agent` in shop.py.")],
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report", metavar="FILE", help="Write a report: .html, .json, .xml (JUnit), .md or .dot."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", metavar="N", help="Do at most N actions.", min=0)
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            "--store", metavar="STORE", help="Journal it there, and go on where a former one ended."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Find every state that a system can reach.

    Each action is done in each state, and the invariants are looked at.

    What may be done and what must hold is in an agent (clew.explore). The exit code is 0 if nothing is wrong, 1 if
    something is.

    \b
    Examples:
      clew explore shop:agent
      clew explore shop:agent --report shop.html --report shop.xml
      clew explore shop:agent --max-steps 5000 --store explore.db
    """
    from clew.explore.agent import Agent
    from clew.runtime.loader import load_target

    for report in reports or ():
        if Path(report).suffix.lower() not in FORMS:
            raise CommandError(f"there is no report {report!r}", f"end its name in {', '.join(FORMS)}")
        folder = Path(report).parent
        if not folder.is_dir():  # better now than after an hour of exploring
            raise CommandError(
                f"there is no folder {str(folder)!r} for the report {report!r}", "make it first"
            )
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
        complain(*_interrupted(agent))
        raise
    if aborted is None:
        _leave(agent.world)
    for report in reports or ():
        result.save(report)
    if as_json:
        say_json(result.to_json())
    else:
        say(result)
    for report in reports or ():
        note(f"wrote {report}")
    if aborted is not None:
        complain(str(aborted), "what was found so far is above")
    return 1 if result.violations or aborted is not None else 0


def _leave(world: Any) -> None:
    """Take out of the systems what watched them: nobody will go back to a state any more."""
    for name, system in world.systems.items():
        close = getattr(system, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:
                note(f"system {name!r} could not be closed: {error}")


def _interrupted(agent: Any) -> tuple[str, str]:
    """What Ctrl-C left, and how to go on."""
    left = "could not be taken back" if agent.world.poisoned else "was taken back to where it began"
    if agent.store is None:
        return f"interrupted; the world {left}", "with --store FILE the next one goes on where this one was"
    return f"interrupted; the world {left}", "the same command goes on where this one was"
