"""``clew check``: explore every schedule and every fault of a graph."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from clew.cli.declarations import argument, option
from clew.cli.kept_checks import keep_result
from clew.cli.options import JsonOption, StoreOption
from clew.cli.output import CommandError, note, say, say_json
from clew.cli.values import ValuesArgument, ValuesFile, read_values


def check(
    target: Annotated[
        str, argument("MODULE:GRAPH", "A graph, or a clew.explore.Check with systems and invariants.")
    ],
    values: ValuesArgument = None,
    file: ValuesFile = None,
    invariants: Annotated[
        list[str] | None,
        option(
            "--invariant",
            "NAME",
            "Check this guarantee: schedule_independent, resume_equivalent, exactly_once_effects, "
            "stable_idempotency_key, terminates or completes. Can be repeated. [default: all]",
        ),
    ] = None,
    faults: Annotated[
        str | None,
        option(
            "--faults",
            "KINDS",
            "Faults to inject, separated by commas: crash, fail, timeout, store; or none. "
            "[default: crash,fail,timeout]",
        ),
    ] = None,
    max_faults: Annotated[
        int | None, option("--max-faults", "N", "Inject at most N faults on a path. [default: 1]", min=0)
    ] = None,
    max_steps: Annotated[
        int | None, option("--max-steps", "N", "Try at most N choices. [default: 100000]", min=0)
    ] = None,
    report: Annotated[
        list[str] | None,
        option(
            "--report",
            "FILE",
            "Write a report to FILE; the suffix selects the format. A .json file works with --replay.",
        ),
    ] = None,
    replay: Annotated[
        str | None, option("--replay", "FILE", "Replay the counterexamples saved in FILE.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explore every schedule and every fault of a graph.

    Verify the built-in guarantees and your own invariants in every state.

    With a store, the result is kept there for `clew serve`.

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
    from clew.explore.checking.narrative import REPORT_SUFFIXES
    from clew.explore.reports import check_report_path
    from clew.views.checks import check_document

    for name in report or ():
        check_report_path(name, REPORT_SUFFIXES)
    result = made.run()
    for name in report or ():
        result.save(name)
    given: list[tuple[str, Any]] = [
        ("--values", file),
        *(("--invariant", name) for name in invariants or ()),
        ("--faults", faults),
        ("--max-faults", max_faults),
        ("--max-steps", max_steps),
        ("--store", store),
    ]
    more = [word for name, value in given if value is not None for word in (name, str(value))]
    command = shlex.join(["clew", "check", target, *(values or ()), *more])
    keep_result(store, lambda: check_document(target, result, command=command))
    if as_json:
        say_json(result.to_dict())
    else:
        say(result)
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
    from clew.explore.checking.narrative import counterexamples

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
