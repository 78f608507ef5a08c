"""The commands about graphs and systems without runs: ``graph``, ``explore`` and ``check``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

import typer

from clew.cli.options import JsonOption
from clew.cli.output import CommandError, note, report_error, say, say_as, say_json
from clew.cli.values import ValuesArgument, ValuesFile, read_values
from clew.errors import ExplorationAborted
from clew.runtime.loader import load_graph


def graph(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:GRAPH", help="Graph to show: flow:graph is `graph` in flow.py.")
    ],
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Output format: text, mermaid, dot or svg.")
    ] = "text",
    as_json: JsonOption = False,
) -> int:
    """Describe or draw a graph.

    \b
    Examples:
      clew graph flow:graph
      clew graph flow:graph --format svg > flow.svg
    """
    loaded = load_graph(target)
    if as_json:
        say_json(loaded.describe(json=True))
    elif form == "text":
        say(loaded.describe())
    elif form in ("mermaid", "dot", "svg"):
        say(loaded.draw(cast(Literal["mermaid", "dot", "svg"], form)))
    else:
        raise CommandError(f"unknown format {form!r}", "use text, mermaid, dot or svg")
    return 0


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
    say_as(as_json, result.to_dict(), result)
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


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:GRAPH", help="A graph, or a clew.explore.Check with systems and invariants."
        ),
    ],
    values: ValuesArgument = None,
    file: ValuesFile = None,
    invariants: Annotated[
        list[str] | None,
        typer.Option(
            "--invariant",
            metavar="NAME",
            help="Check this guarantee (repeatable): schedule_independent, resume_equivalent, exactly_once_effects, "
            "stable_idempotency_key, terminates or completes. [default: all]",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            metavar="KINDS",
            help="Inject these faults: some of crash,fail,timeout,store, or none. [default: crash,fail,timeout]",
        ),
    ] = None,
    max_faults: Annotated[
        int | None,
        typer.Option(
            "--max-faults", metavar="N", help="Inject at most N faults on a path. [default: 1]", min=0
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", metavar="N", help="Try at most N choices. [default: 100000]", min=0),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a report to FILE; the suffix selects the format. A .json file works with --replay.",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="FILE", help="Replay the counterexamples saved in FILE."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explore every schedule and every fault of a graph.

    Verify the built-in guarantees and your own invariants in every state.

    The exit code is 0 if every state was explored and no invariant is violated, and 1 otherwise.

    \b
    Examples:
      clew check shop:graph order=o1
      clew check shop:check --report found.json
      clew check shop:check --replay found.json
      clew check flow:graph --faults crash,store --max-faults 2
    """
    options: dict[str, Any] = {}
    if faults is not None:
        options["faults"] = (
            [] if faults == "none" else [kind.strip() for kind in faults.split(",") if kind.strip()]
        )
    if max_faults is not None:
        options["max_faults"] = max_faults
    if max_steps is not None:
        options["max_steps"] = max_steps
    made = _loaded(target, read_values(values, file), invariants, options)
    if replay is not None:
        return _replay(made, replay, as_json)
    from clew.explore.checking.counterexample_files import REPORT_SUFFIXES
    from clew.explore.reports import check_report_path

    for name in report or ():
        check_report_path(name, REPORT_SUFFIXES)
    result = made.run()
    for name in report or ():
        result.save(name)
    say_as(as_json, result.to_dict(), result)
    for name in report or ():
        note(f"wrote {name}")
    return 0 if result.ok else 1


def _loaded(
    target: str, values: dict[str, Any], invariants: list[str] | None, options: dict[str, Any]
) -> Any:
    from clew.explore.checking.check import Check
    from clew.graph import Graph
    from clew.runtime.loader import load_target

    found: Any = load_target(target, (Graph, Check), "graph", "flow")
    if isinstance(found, Graph):
        if invariants:
            options["invariants"] = invariants
        return Check(found, values, **options)
    if values or invariants:
        raise CommandError(
            f"{target} is a Check, which has its own values and invariants",
            "leave them out, or name its graph",
        )
    return found.replace(**options)


def _replay(made: Any, path: str, as_json: bool) -> int:
    from clew.explore.checking.counterexample_files import counterexamples

    found = counterexamples(path)
    if not found:
        note(f"{path} has no counterexamples; the check found no violations")
    for each in found:
        if each["invariant"] not in (*made.names, *each["choices"]):
            raise CommandError(
                f"{path} has a counterexample to {each['invariant']!r}, which is not an invariant of this check",
                f"replay it with the check that found it; this one has {', '.join(made.names)}",
            )
    replayed = []
    for each in found:
        narrative = made.replay(each["choices"]).named(each["invariant"])
        replayed.append((narrative, any(name == narrative.name for name, _ in narrative.violated)))
    if as_json:
        say_json(
            [
                {"invariant": narrative.name, "choices": list(narrative.choices), "violated": violated}
                for narrative, violated in replayed
            ]
        )
    else:
        for narrative, violated in replayed:
            say(f"{narrative.name}: {'still violated' if violated else 'no longer violated'}")
            say(narrative, end="\n\n")
    return 1 if any(violated for _, violated in replayed) else 0
