"""``clew answer``: answer a question of a run that a worker or another process executes."""

from __future__ import annotations

from typing import Annotated

from clew import Engine
from clew.cli.declarations import argument, option
from clew.cli.options import GraphOption, JsonOption, RunArgument, StoreOption, engine_of, find_run, store_at
from clew.cli.output import say_json, say_line
from clew.cli.values import read_json
from clew.errors import DefinitionError, InputError
from clew.stores import RunRow, Store


def answer(
    run: RunArgument,
    value: Annotated[str, argument("JSON", "The answer.")],
    question: Annotated[
        str | None, option("--question", "PATH", "Path of the question. [default: the run's only question]")
    ] = None,
    graph: GraphOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer the question of a run; a worker continues the run.

    \b
    Examples:
      clew answer order-1 true
      clew answer order-1 '"yes"' --question approve#0

    A run that is in no queue is put into the queue "default". To continue it here, use `clew resume RUN --answer JSON`.
    """
    given = read_json(value, "the answer")
    with store_at(store) as opened:
        row = find_run(opened, run)
        _engine(opened, row, graph).answer(row.run_id, given, question)
    if as_json:
        say_json({"run_id": row.run_id, "question": question, "answer": given})
    else:
        say_line(f"the answer was sent to run {row.run_id}")
    return 0


def _engine(store: Store, row: RunRow, graph: str | None) -> Engine:
    """Return an engine with the graph of the run, which can check the answer; without it, the worker does."""
    try:
        return engine_of(store, row, graph)
    except (DefinitionError, InputError):
        if graph is not None:
            raise
        return Engine(store=store)
