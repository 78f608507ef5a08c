"""Another process that executes runs, at the pace of the test.

Words go over pipes, one line of JSON each way. A node that is paced says "paced" and waits for a line, so no test ever
waits for a time to pass.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from clew import END, Context, Engine, Graph, ifelse, interrupt, node
from tests.stores.processes import opened


class Pace:
    """What a node does before it works. An object, because a changed function would be changed code."""

    pause: Callable[[], None] = staticmethod(lambda: None)


PACE = Pace()


@node(output="n")
def work(n: int, ctx: Context) -> int:
    PACE.pause()
    ctx.emit("at", {"n": n})
    return n + 1


@ifelse(when_true="work", when_false=END)
def more(n: int) -> bool:
    return n < 3


@interrupt(output="approved")
def approve(n: int) -> str:
    return f"accept {n}?"


@node(output="done")
def finish(n: int, approved: bool) -> str:
    return f"{n}: {approved}"


@node(output="n")
def fail(n: int) -> int:
    PACE.pause()
    raise ValueError(f"no {n}")


GRAPHS = {
    "loop": Graph([work, more], name="loop"),
    "ask": Graph([approve, finish], name="ask"),
    "fail": Graph([fail], name="fail"),
}
STEPS = [1, 2, 3, 4, 5, 6, 7]  # of "loop", from n=0


class Worker:
    """A process with an engine on `address`."""

    def __init__(self, address: str, graph: str = "loop", **options: Any) -> None:
        code = "from tests.runtime.handles.worker import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, address, graph, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def tell(self, *words: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def go(self, count: int = 1) -> None:
        """Let it pass the next pauses."""
        for _ in range(count):
            assert self.hear() == "paced"
            self.tell("go")

    def finish(self) -> Any:
        """Let it pass all pauses; return its answer."""
        while (answer := self.hear()) == "paced":
            self.tell("go")
        return answer

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def main() -> None:
    """The other process."""

    def say(word: Any) -> None:
        print(json.dumps(word), flush=True)

    def paced() -> None:
        say("paced")
        sys.stdin.readline()

    PACE.pause = paced
    address, graph, options = sys.argv[1:]
    engine = Engine(GRAPHS[graph], store=opened(address), check=False, **json.loads(options))
    for line in sys.stdin:
        verb, *values = json.loads(line)
        try:
            if verb == "run":
                result = engine.run(values[1], run_id=values[0])
            elif verb == "resume":
                result = engine.resume(values[0])
            else:
                result = engine.handle(values[0]).answer(values[1]).result()
            say(result.status)
        except Exception as error:
            say(type(error).__name__)
