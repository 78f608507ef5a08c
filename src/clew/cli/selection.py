"""Choose runs on the command line: by id, or by what they have in common."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Annotated, Any, cast

from clew import Engine
from clew.cli.declarations import argument, flag, option
from clew.cli.options import attributes_of, find_run, time_of
from clew.cli.output import CommandError, count, report_error, say_json, say_line
from clew.errors import ClewError
from clew.runtime.log.run_rows import STATUSES
from clew.runtime.run_pages import RunFilter
from clew.stores import RunRow, Store

_PAGE = 500  # runs that are read at a time

RunsArgument = Annotated[
    list[str] | None, argument("RUN", "Ids of runs, or the beginnings of ids.", show_default=False)
]
_StatusOption = Annotated[
    str | None, option("--status", "STATUS", f"Only runs with this status: {', '.join(STATUSES)}.")
]
_NameOption = Annotated[str | None, option("--name", "NAME", "Only runs of the graph with this name.")]
_WithOption = Annotated[
    list[str] | None, option("--attribute", "NAME=TEXT", "Only runs with this attribute. Can be repeated.")
]
_TextOption = Annotated[str, option("--text", "TEXT", "Only runs with this text in id, graph or attributes.")]
_AfterOption = Annotated[
    str | None, option("--after", "TIME", "Only runs created then or later: 2030-01-31T08:00:00Z.")
]
_BeforeOption = Annotated[str | None, option("--before", "TIME", "Only runs created earlier.")]
DryRunOption = Annotated[bool, flag("--dry-run", "Only list the runs.")]


def selecting(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the options that choose runs by what they have in common, in place of its parameter `chosen`."""
    options = inspect.signature(_filter_of, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)
    parameters = [
        each
        for name, parameter in own.parameters.items()
        for each in (options.values() if name == "chosen" else [parameter])
    ]

    @wraps(command)
    def call(**given: Any) -> int | None:
        chosen = _filter_of(**{name: given.pop(name) for name in options})
        return command(chosen=chosen, **given)

    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _filter_of(
    status: _StatusOption = None,
    name: _NameOption = None,
    attribute: _WithOption = None,
    text: _TextOption = "",
    after: _AfterOption = None,
    before: _BeforeOption = None,
) -> RunFilter:
    """Return the filter that options describe, without what is not given."""
    if status is not None and status not in STATUSES:
        raise CommandError(f"unknown status {status!r}", f"use one of {', '.join(STATUSES)}")
    given: dict[str, Any] = {
        "status": status,
        "graph": name,
        "attributes": attributes_of(attribute) or None,
        "text": text or None,
        "after": time_of(after, "--after"),
        "before": time_of(before, "--before"),
    }
    return cast(RunFilter, {option: value for option, value in given.items() if value is not None})


def chosen_runs(store: Store, runs: Sequence[str] | None, chosen: RunFilter) -> list[RunRow]:
    """Return the runs with these ids, or all that a filter chooses, newest first."""
    if runs and chosen:
        raise CommandError("RUN and options that select runs were both given", "give one of the two")
    if runs:
        return [find_run(store, text) for text in runs]
    if not chosen:
        raise CommandError("no runs are selected", "give RUN, or an option such as --status or --attribute")
    return list(_matching(Engine(store=store), chosen))


def _matching(engine: Engine, chosen: RunFilter) -> Iterator[RunRow]:
    cursor = None
    while True:
        page = engine.runs(limit=_PAGE, cursor=cursor, **chosen)
        yield from reversed(page)
        cursor = page.cursor
        if cursor is None:
            return


def change_runs(
    rows: Sequence[RunRow],
    change: Callable[[RunRow], str],
    done: str,
    *,
    dry_run: bool,
    as_json: bool,
    allowed: Sequence[str] | None = None,
    finish: Callable[[dict[str, str]], None] | None = None,
) -> int:
    """Change runs one by one, and report what happened to each; the exit code is 1 if one could not be changed.

    `change` returns a word for what it did, such as `done`, or "" if there was nothing to do. `finish` may change these
    words. Runs with another status than those `allowed` are left out.
    """
    rows = [row for row in rows if allowed is None or row.status in allowed]
    changed, failed = dict[str, str](), dict[str, str]()
    for row in rows:
        try:
            if outcome := done if dry_run else change(row):
                changed[row.run_id] = outcome
        except ClewError as error:
            failed[row.run_id] = str(error)
            if not as_json:
                report_error(str(error))
    if finish is not None and not dry_run:
        finish(changed)
    if as_json:
        say_json({"dry_run": dry_run, "runs": list(changed), "outcomes": changed, "errors": failed})
    else:
        would = "would be " if dry_run else ""
        for run_id, outcome in changed.items():
            say_line(f"{would}{outcome}: {run_id}")
        numbers = Counter(changed.values()) or Counter({done: 0})
        say_line(", ".join(f"{count(number, 'run')} {would}{outcome}" for outcome, number in numbers.items()))
    return 1 if failed else 0
