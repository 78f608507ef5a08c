"""Command lines that people can copy: quoted for a shell, on one line."""

from __future__ import annotations

import shlex

from clew.display import inline


def run_command(verb: str, run_id: str, *more: str, address: str = "") -> str:
    """Return a command about a run. `address` is that of the store, "" for the default one."""
    store = ["--store", shlex.quote(inline(address))] if address else []
    quoted = shlex.quote(inline(run_id))
    given = ["--", quoted] if run_id.startswith("-") else [quoted]
    if run_id.startswith("-"):
        return " ".join(["clew", verb, *store, *more, *given])
    return " ".join(["clew", verb, *given, *store, *more])


def worker_command(target: str, *, queue: str = "", address: str = "") -> str:
    """Return the command that starts a worker for a graph."""
    parts = ["clew worker", shlex.quote(inline(target)) if target else "MODULE:GRAPH"]
    if queue and queue != "default":
        parts += ["--queue", shlex.quote(inline(queue))]
    if address:
        parts += ["--store", shlex.quote(inline(address))]
    return " ".join(parts)


def command(verb: str, *words: str, address: str = "") -> str:
    """Return a command about the store."""
    store = ["--store", address] if address else []
    return " ".join(["clew", verb, *(shlex.quote(inline(word)) for word in (*words, *store))])
