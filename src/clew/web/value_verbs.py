"""What the page does to the values of a dependency graph: pull, set, invalidate.

All three load the code of the graph, so they are commands in a separate process, and only for the graph that the
user has named with ``clew serve --values MODULE:GRAPH``. Otherwise the answer has the command to type.
"""

from __future__ import annotations

import json
import shlex
import threading
from typing import Any

from clew.display import inline
from clew.web.answers import ApiError
from clew.web.processes import ServerProcesses

Json = dict[str, Any]

VERBS = ("pull", "set", "invalidate")


class ValueVerbs:
    """Changes the dependency graphs of one store."""

    def __init__(self, address: str, processes: ServerProcesses | None) -> None:
        self._address = address
        self._processes = processes
        self._name: str | None = None  # of the graph whose code may run
        self._lock = threading.Lock()

    def command(self, verb: str, node: str) -> str:
        """Return the command line of a verb."""
        target = self._processes.values if self._processes is not None else ""
        given = ["VALUE"] if verb == "set" else []
        store = ["--store", self._address] if self._address else []
        words = ["clew", verb, *store, "--", target or "MODULE:GRAPH", node, *given]
        if not node.startswith("-"):
            words = ["clew", verb, target or "MODULE:GRAPH", node, *given, *store]
        return shlex.join(inline(word) for word in words)

    def do(self, verb: str, name: str, body: Json) -> Json:
        """Do a verb to the value `node` of the graph `name`."""
        node = body.get("node")
        if not isinstance(node, str) or not node:
            raise ApiError(400, "InputError", "node has to be the name of a value")
        if verb == "set" and "value" not in body:
            raise ApiError(
                400, "InputError", "the body has no value", hint='send {"node": ..., "value": ...}'
            )
        processes = self._with_code(verb, name, node)
        given = json.dumps(body["value"]).encode() if verb == "set" else None
        found = processes.on_value(verb, node, given)
        return {"node": node, "revision": found.get("revision") if isinstance(found, dict) else None}

    def _with_code(self, verb: str, name: str, node: str) -> ServerProcesses:
        processes = self._processes
        if processes is not None and processes.values:
            with self._lock:
                if self._name is None:
                    found = processes.on_value("explain", node)
                    self._name = str(found.get("graph")) if isinstance(found, dict) else ""
            if self._name == name:
                return processes
        raise ApiError(
            409,
            "CodeNeeded",
            f"{verb} needs the code of the dependency graph {name!r}, and this server does not have it",
            hint="start the server with `clew serve --values MODULE:GRAPH`, or type the command",
            command=self.command(verb, node),
        )
