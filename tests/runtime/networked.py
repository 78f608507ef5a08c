"""A run that asks a server, and its replay in a process that has no network at all.

``python -m tests.runtime.networked FILE PORT`` replays every run of a file, and says what came of it as JSON.
"""

from __future__ import annotations

import json
import socket
import sys

from clew import Context, Engine, Graph, SQLiteStore, node

port = 0


def ask(question: str) -> str:
    """What the server says."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(question.encode())
        line.shutdown(socket.SHUT_WR)
        return line.makefile().read()


@node(output="answer")
def talk(question: str, ctx: Context) -> str:
    first = ctx.record("ask", ask, question)
    return str(ctx.record("ask", ask, first))


GRAPH = Graph([talk])


def main(file: str, where: str) -> None:
    global port
    port = int(where)
    try:
        ask("anybody there?")
        reached = True
    except OSError:
        reached = False
    engine = Engine(GRAPH, store=SQLiteStore(file))
    reports = [engine.replay(row.run_id) for row in engine.runs()]
    print(
        json.dumps({"reached": reached, "ok": [r.ok for r in reports], "calls": [r.calls for r in reports]})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
