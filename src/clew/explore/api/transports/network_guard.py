"""Blocks outgoing connections of an application that runs in this process.

An exploration repeats requests thousands of times, so a mail or a payment must not leave the machine. Connections of
Python sockets to other machines are refused and listed; the application sees a refused connection. Addresses of this
machine and Unix sockets are allowed. Libraries that connect in native code are not seen; they are named.

The check is an audit hook, which Python cannot remove: it is installed once, and does nothing outside of `guarded`.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NATIVE = (
    "grpc",
    "psycopg2",
    "psycopg_binary",
    "MySQLdb",
    "pyodbc",
    "oracledb",
    "pycurl",
    "confluent_kafka",
    "uvloop",
)

_active: list[BlockedConnections] = []
_installed = False


class BlockedConnections:
    """The addresses that were refused, with the number of attempts."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.counts: dict[str, int] = {}

    def refuse(self, address: str) -> None:
        """Count an attempt, and refuse it."""
        self.counts[address] = self.counts.get(address, 0) + 1
        raise ConnectionRefusedError(f"{address}: outgoing connections are blocked during an exploration")


def is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    if host in ("", "localhost", "testserver") or host.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(host.split("%", 1)[0].strip("[]"))
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[0], str):
            _check(address[0], f"{address[0]}:{address[1]}")
    elif event == "socket.getaddrinfo":
        host = arguments[0]
        if isinstance(host, bytes):
            host = host.decode("ascii", "replace")
        if isinstance(host, str):
            _check(host, f"{host}:{arguments[1]}" if arguments[1] else host)


def _check(host: str, address: str) -> None:
    guard = _active[-1]
    if not is_local(host) and host not in guard.allowed:
        guard.refuse(address)


@contextmanager
def guarded(allowed: frozenset[str] = frozenset()) -> Iterator[BlockedConnections]:
    """Block outgoing connections of this process, except to the allowed hosts."""
    global _installed
    if not _installed:
        sys.addaudithook(_hook)
        _installed = True
    guard = BlockedConnections(allowed)
    _active.append(guard)
    try:
        yield guard
    finally:
        _active.remove(guard)


def unguarded_libraries() -> list[str]:
    """Return the imported libraries that connect in native code."""
    return [name for name in NATIVE if name in sys.modules]
