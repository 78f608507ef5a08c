"""``clew graph``: describe or draw a graph."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from clew.cli.declarations import argument, option
from clew.cli.options import JsonOption
from clew.cli.output import CommandError, say, say_json
from clew.runtime.loader import load_graph


def graph(
    target: Annotated[str, argument("MODULE:GRAPH", "Graph to show: flow:graph is `graph` in flow.py.")],
    form: Annotated[str, option("--format", "FORMAT", "Output format: text, mermaid, dot or svg.")] = "text",
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
