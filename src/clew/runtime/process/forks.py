"""Nodes that fork their process: the parent continues the run, and the child process must not.

`os.fork` in a node copies the run into another process. If the node then returned in both processes, both would call
the next nodes, write the same log and continue the caller's program. So in the child process, every run that was
executing is disowned:

- It starts no further nodes, and writes nothing: neither steps nor its end.
- When the node returns or raises an `Exception`, the method that runs the graph raises `RunOwnedError`. Other
  exceptions, such as the `SystemExit` of `sys.exit`, are passed on.
- If the node ran on a thread, that thread is the only one in the child process, and its caller does not exist there. On
  an event loop, the child process must not reach the end of the loop, because closing its copy would break the loop of
  the parent. In both cases, the child process ends at that point, with the error on standard error, or with the code of
  `sys.exit`.

Runs that the child process starts itself belong to it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn
from weakref import WeakSet

from clew.errors import RunOwnedError

_REASON = (
    "a node has forked its process, and only the parent continues the run; end the child inside the node, with "
    "os._exit(0), or use multiprocessing or subprocess"
)
_live: WeakSet[Any] = WeakSet()  # executions, with the sessions that they drive


def watch(execution: Any) -> None:
    """Disown the runs of an execution in processes that fork from this one."""
    _live.add(execution)


def _disown_all() -> None:
    for execution in list(_live):
        for session in list(execution.live.values()):
            _disown(session)


def _disown(session: Any) -> None:
    error = RunOwnedError(f"run {session.run_id!r}: {_REASON}")
    session.lost, session.is_disowned = error, True
    session.cancelled = session.is_stopping = session.is_released = True
    session.writer.disown(error)


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, a child whose node has ended on a thread or on an event loop."""
    code = 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    else:
        sys.stderr.write(f"clew: RunOwnedError: {_REASON}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_disown_all)
