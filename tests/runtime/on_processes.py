"""Nodes at the top of a module, where another process finds them by name."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from clew import node


@node(output="here")
def here(a: int) -> int:
    return os.getpid()


@node(output="there")
def there(a: int) -> int:
    return os.getpid()


@node(output="fails")
def fails(a: int) -> int:
    raise ValueError(f"no {a}")


def bare(a: int) -> int:
    return os.getpid()


class Box:
    @staticmethod
    @node(output="boxed")
    def boxed(a: int) -> int:
        return os.getpid()


@node(output="stuck", timeout=2.0)
def stuck(a: str) -> None:
    """Says where it runs, and hangs."""
    Path(a).write_text(str(os.getpid()))
    time.sleep(600)


@node(output="hangs", timeout=600)
def hangs(a: str) -> None:
    """Says where it runs, and hangs for longer than its test takes."""
    Path(a).write_text(str(os.getpid()))
    time.sleep(600)


@node(output="beside", timeout=300)
def beside(a: str) -> int:
    """Goes on as long as the one that hangs has its process."""
    while not Path(a).is_file() or not (pid := Path(a).read_text()) or _is_alive(int(pid)):
        time.sleep(0.01)
    return os.getpid()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@node(output="dies")
def dies(a: int) -> None:
    os._exit(3)


@node(output="returns")
def returns_a_lock(a: int) -> object:
    return threading.Lock()


def instead(error: Exception, a: str) -> str:
    """Rescue a node."""
    return f"{type(error).__name__} {a}"


@node(output="d", cache=True)
def cached(a: int, log: str) -> int:
    with Path(log).open("a") as file:
        file.write("called\n")
    return a
