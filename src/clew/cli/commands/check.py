"""``clew check``: every schedule and every fault of a graph."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from clew.cli.options import JsonOption
from clew.cli.output import CommandError, note, say, say_json
from clew.cli.values import ValuesArgument, read_values


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("check")(check)


def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:GRAPH", help="A graph, or a clew.explore.Check with systems and invariants."
        ),
    ],
    values: ValuesArgument = None,
    file: Annotated[
        str | None, typer.Option("--values", metavar="FILE", help="Values from a JSON file.")
    ] = None,
    invariants: Annotated[
        list[str] | None,
        typer.Option(
            "--invariant",
            metavar="NAME",
            help="schedule, resume, effects_once, same_key, ends or completes; all by default.",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults", metavar="KINDS", help="crash,fail,timeout,store or none; all but store by default."
        ),
    ] = None,
    max_faults: Annotated[
        int | None,
        typer.Option("--max-faults", metavar="N", help="At most N faults on a path; 1 by default.", min=0),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", metavar="N", help="Try at most N choices.", min=0)
    ] = None,
    save: Annotated[
        list[str] | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Write counterexamples (.json, for --replay), or a report (.html, .xml, ...).",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="FILE", help="Tell the counterexamples of a file once more."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Try every schedule and every fault of a graph.

    It is looked at whether its promises, and your own invariants, hold.

    The exit code is 0 if nothing is wrong, 1 if something is.

    \b
    Examples:
      clew check shop:graph order=o1
      clew check shop:check --save found.json
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
    from clew.explore.checking.counterexample_files import check_target

    for name in save or ():
        check_target(name)
    result = made.run()
    for name in save or ():
        result.save(name)
    if as_json:
        say_json(result.to_dict())
    else:
        say(result)
    for name in save or ():
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
            f"{target} is a check, which has its own values and invariants",
            "leave them out, or name its graph",
        )
    return found.but(**options)


def _replay(made: Any, path: str, as_json: bool) -> int:
    from clew.explore.checking.counterexample_files import counterexamples

    found = counterexamples(path)
    if not found:
        note(f"{path} has no counterexamples: nothing was wrong")
    for each in found:
        if each["invariant"] not in (*made.names, *each["choices"]):
            raise CommandError(
                f"{path} has a counterexample to {each['invariant']!r}, and this check has no such invariant",
                f"replay it with the check that found it; this one has {', '.join(made.names)}",
            )
    tales = [(each, made.replay(each["choices"]).named(each["invariant"])) for each in found]
    again = [any(name == each["invariant"] for name, _ in tale.wrong) for each, tale in tales]
    if as_json:
        say_json(
            [
                {"invariant": each["invariant"], "choices": each["choices"], "still_wrong": is_wrong}
                for (each, _), is_wrong in zip(tales, again, strict=True)
            ]
        )
    else:
        for (each, tale), is_wrong in zip(tales, again, strict=True):
            say(f"{each['invariant']}: {'still wrong' if is_wrong else 'not wrong any more'}")
            say(tale, end="\n\n")
    return 1 if any(again) else 0
