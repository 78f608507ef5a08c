"""``clew show``: show the steps of a run, or one of its states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from clew import Checkpoint, Engine
from clew.cli.commands.lists import lost_remark, row_json
from clew.cli.commands.new_runs import step_of
from clew.cli.declarations import flag, option
from clew.cli.options import JsonOption, PathOption, RunArgument, StoreOption, find_run, inspector, store_at
from clew.cli.output import count, local_time, one_line, say_json, say_line, say_table, say_values
from clew.cli.run_output import say_failures
from clew.error_text import line_of
from clew.errors import UnknownRunError
from clew.runtime.log.run_rows import opened_row
from clew.runtime.review.json_documents import checkpoint_json

_ITEMS = 40  # columns for the items of a step


def show(
    run: RunArgument,
    step: Annotated[
        str | None,
        option("--step", "N|LABEL", "Show the state after this step: values, calls and next items."),
    ] = None,
    nested: Annotated[bool, flag("--nested", "Also show the steps of subgraphs.")] = False,
    path: PathOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a run, or one of its states.

    \b
    Examples:
      clew show flow-1a2b3c
      clew show flow-1a2b3c --step 3
      clew show flow-1a2b3c --path 'ask#0!0'
      clew show flow-1a2b3c --json
    """
    with store_at(store) as opened:
        row = find_run(opened, run)
        engine = inspector(opened)
        chain = engine.history(row.run_id, nested=nested, path=path)
        about = row_json(opened, row)
        if step is not None:
            chain = [_find(row.run_id, chain, step_of(step))]
        if as_json:
            say_json({"run": about, "checkpoints": [checkpoint_json(each) for each in chain]})
            return
        if step is not None:
            _say_state(chain[0])
            return
        if path is not None:
            say_line(f"{path} in run {row.run_id}: {count(chain[-1].step_id, 'step')}")
            say_table(_TITLES, _collected(chain))
            return
        of = f" of {about['target'] or about['graph']}" if about["target"] or about["graph"] else ""
        came = f", forked from {row.parent} at step {row.parent_step}" if row.parent is not None else ""
        say_line(f"run {row.run_id}{of}: {row.status} after {count(about['steps'], 'step')}{came}")
        if remark := lost_remark(opened, row):
            say_line(remark)
        say_table(_TITLES, _collected(chain))
        failures = opened_row(row).failures
        say_failures(failures)
        if about["error"] is not None and not failures:  # the row is damaged
            say_line(f"failed: {about['error']['type'].rpartition(':')[2]}: {about['error']['message']}")
        for question in engine.result(row.run_id).questions if row.status in ("waiting", "paused") else ():
            say_line(f"{question.path} asks: {one_line(question.question, 200)}")
        if row.status == "paused":
            following = list(_standing(engine, row.run_id, chain[-1]))
            say_line(f"paused before: {items_text(following) or 'the end'}")


_TITLES = ("step", "time", "label", "items", "values")


def _collected(chain: list[Checkpoint]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    _collect(chain, rows, "")
    return rows


def _standing(engine: Engine, run_id: str, last: Checkpoint) -> Iterator[str]:
    """Yield the items before which a run is paused: those inside open subgraphs instead of the subgraphs."""
    for item in last.frontier:
        try:
            inside = engine.history(run_id, path=item.path)
        except UnknownRunError:
            yield item.path
        else:
            yield from list(_standing(engine, run_id, inside[-1])) or [item.path]


def _find(run_id: str, chain: list[Checkpoint], step: int | str | None) -> Checkpoint:
    for checkpoint in chain:
        if step in (checkpoint.step_id, checkpoint.label):
            return checkpoint
    labels = ", ".join(repr(checkpoint.label) for checkpoint in chain if checkpoint.label) or "none"
    raise UnknownRunError(
        f"run {run_id!r} has no step or label {step!r}; it has steps {chain[0].step_id} to {chain[-1].step_id}, and "
        f"labels: {labels}"
    )


def _collect(
    chain: list[Checkpoint] | tuple[Checkpoint, ...], rows: list[tuple[str, ...]], indent: str
) -> None:
    before: dict[str, int] = {}
    for checkpoint in chain:
        for path, inner in checkpoint.nested.items():
            rows.append(("", "", "", f"{indent}{path}", ""))
            _collect(inner, rows, indent + "  ")
        versions = dict(checkpoint.state.versions)
        changed = [name for name, version in versions.items() if before.get(name) != version]
        values = "  ".join(f"{name}={one_line(checkpoint.values[name], 40)}" for name in changed)
        rows.append(
            (
                f"{indent}{checkpoint.step_id}",
                local_time(checkpoint.timestamp)[11:],
                checkpoint.label or "",
                indent + _items(checkpoint),
                values,
            )
        )
        before = versions


def items_text(paths: Sequence[str], cached: Sequence[str] = ()) -> str:
    """Return the items of a step in a few words: a batch of more than three is one word with its number of items."""
    hits = set(cached)
    batches: dict[str, list[str]] = {}
    for path in paths:
        batches.setdefault(path[: path.rindex("[")] if path.endswith("]") else path, []).append(path)
    words: list[tuple[str, int]] = []
    for batch, items in batches.items():
        if len(items) > 3:
            number = len(hits.intersection(items))
            words.append((f"{batch} ×{len(items)}{f' ({number} cached)' if number else ''}", len(items)))
        else:
            words += [(f"{path} (cached)" if path in hits else path, 1) for path in items]
    shown, rest = words[0][0] if words else "", len(paths) - (words[0][1] if words else 0)
    for word, number in words[1:]:
        if len(shown) + len(word) >= _ITEMS:
            break
        shown, rest = f"{shown} {word}", rest - number
    return f"{shown} (and {rest} more)" if rest else shown


def _items(checkpoint: Checkpoint) -> str:
    """Return the items of a step; a step by hand that stands for no node has none."""
    named = items_text([path for path in checkpoint.items if not path.startswith("#")], checkpoint.cached)
    if checkpoint.by_hand:
        return f"{named} (by hand)".strip()
    return named or "-"


def _say_state(checkpoint: Checkpoint) -> None:
    label = f" ({checkpoint.label})" if checkpoint.label else ""
    say_line(
        f"step {checkpoint.step_id}{label} of run {checkpoint.run_id}, {local_time(checkpoint.timestamp)}"
    )
    say_line(f"digest {checkpoint.digest}")
    if checkpoint.items:
        say_line(f"items: {_items(checkpoint)}")
    say_values(checkpoint.values)
    for call in checkpoint.recorded_ios:
        args, kwargs = call.request
        came = one_line(call.response, 60) if call.error is None else line_of(call.error)
        asked = ", ".join(
            [*(one_line(a, 40) for a in args), *(f"{k}={one_line(v, 40)}" for k, v in kwargs.items())]
        )
        say_line(f"{call.path} called {call.name}({asked}) -> {came}")
    following = [item.path for item in checkpoint.frontier]
    say_line(f"next: {items_text(following) or 'nothing'}")
