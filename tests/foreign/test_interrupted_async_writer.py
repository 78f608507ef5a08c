"""Ctrl-C inside `threading.Condition.__enter__`, after it has taken its lock: does anybody wait for ever?

A program in a process of its own interrupts each use of a condition by the main thread, one after the other. A
watchdog ends the process if it hangs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
import faulthandler
faulthandler.dump_traceback_later(300, exit=True)

import sys
import threading
import warnings

from clew import Context, Engine, Graph, SideEffectPolicy, SQLiteStore, node

warnings.simplefilter("ignore")
IS_OURS = {"ours": ("clew",), "all": ("clew", "threading")}[sys.argv[1]]


@node(output="y", side_effects=SideEffectPolicy(recordable=True))
def double(x: int, ctx: Context) -> int:
    return ctx.record("double", lambda: 2 * x)


@node(output="z")
def last(y: int) -> int:
    return y + 1


class Interrupt:
    """Raise KeyboardInterrupt when the n-th `Condition.__enter__` of this thread returns."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.hit = ""

    def call(self, frame, event, arg):
        if self.hit or frame.f_code is not threading.Condition.__enter__.__code__:
            return None
        caller = frame.f_back
        if caller.f_globals.get("__name__", "").split(".")[0] not in IS_OURS:
            return None
        self.left -= 1
        return None if self.left else self.returned

    def returned(self, frame, event, arg):
        if event == "return" and not self.hit:
            caller = frame.f_back.f_code
            self.hit = f"{caller.co_filename}:{caller.co_name}"
            sys.settrace(None)
            raise KeyboardInterrupt
        return self.returned


engine = Engine(Graph([double, last]), store=SQLiteStore("runs.db"), durability="async")
for n in range(1, 100):
    interrupt = Interrupt(n)
    sys.settrace(interrupt.call)
    try:
        engine.run({"x": 1}, run_id=f"r{n}")
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    if interrupt.hit:
        print(interrupt.hit)
    if f"r{n}" not in [row.run_id for row in engine.runs()]:
        continue
    result = engine.resume(f"r{n}")
    assert (result.status, result["z"]) == ("completed", 3), result
    if not interrupt.hit:
        break
engine.close()
print("done")
'''


@pytest.mark.parametrize("whose", ["ours", "all"])
def test_no_interrupt_inside_a_condition_makes_anybody_wait(tmp_path: Path, whose: str) -> None:
    """With "all", also those of the standard library, such as the one that waits for a thread to start."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, whose],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *hit, last = done.stdout.splitlines()
    assert last == "done"
    if whose == "ours":
        assert hit == []  # the main thread enters no condition of ours
