"""The two connections to a Redis server: one for commands, in pipelines, and one that hears of touched keys.

Keyspace notifications are sent once and forgotten, so what is heard is trusted only while nothing can have been
missed:

- a PING on the listening connection is answered after all notifications of what happened before, so waiting for the
  answer is waiting for them;
- a connection that was lost, a server that was restarted, notifications that somebody switched off: everything may
  have been touched;
- FLUSHDB, FLUSHALL and SWAPDB notify nobody, but the server counts them.

`touched` is then None: compare everything.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable
from typing import Any

from clew.errors import SystemSetupError

Command = tuple[Any, ...]
_SILENT = re.compile(rb"cmdstat_(?:flushdb|flushall|swapdb):calls=(\d+)")
_PIECE = 10_000  # commands that are under way at once
_LETS_GO = 2.0  # seconds
_FLAGS = frozenset("g$lshzxetd")  # what "A" stands for


class RedisConnection:
    """Connections of our own, made like those of a client or from a URL."""

    def __init__(self, server: Any) -> None:
        pool = _pool_of(server)
        self._make = pool.connection_class
        # RESP2: notifications arrive as plain answers. Bytes: keys and values may be anything.
        self._options = {**pool.connection_kwargs, "decode_responses": False, "protocol": 2}
        self._options.pop("maint_notifications_config", None)
        self.database = int(self._options.get("db") or 0)
        where = [str(self._options.get(name) or "") for name in ("host", "port", "path")]
        self.place = "/".join([*where, str(self.database)])  # which database it is
        self._errors = _errors_of(self._make)
        self._commands: Any = None
        self._ears: Any = None
        self._counted = 0
        self.flags: str | None = None  # as we found them, if we changed them
        self.can_listen = True

    # ---------------------------------------------------------------- commands

    def send(self, commands: Iterable[Command]) -> list[Any]:
        """The answers to commands sent together; an answer that is an error is returned as one."""
        listed = list(commands)
        if not listed:
            return []
        try:
            return self._exchange(listed)
        except self._errors.connection:
            self._commands.disconnect()  # it may have been idle too long; what is sent here can be sent twice
            return self._exchange(listed)

    def _exchange(self, commands: list[Command]) -> list[Any]:
        if self._commands is None:
            self._commands = self._make(**self._options)
            self._commands.connect()
        answers: list[Any] = []
        for start in range(0, len(commands), _PIECE):
            piece = commands[start : start + _PIECE]
            self._commands.send_packed_command(self._commands.pack_commands(piece))
            answers += [self._answer(self._commands) for _ in piece]
        return answers

    def _answer(self, connection: Any) -> Any:
        try:
            return connection.read_response(disable_decoding=True)
        except self._errors.response as error:
            return error

    # ---------------------------------------------------------------- one at a time

    def claim(self) -> str | None:
        """Say that this database is being explored; or who said so before, and lives.

        It is said by the name of our connection, which ends with the process. A server that keeps such names to itself
        is believed to have nobody else.
        """
        name = f"clew-explore-{self.database}"
        mine, listed = self.send([("CLIENT", "ID"), ("CLIENT", "LIST")])
        deadline = time.monotonic() + _LETS_GO
        while isinstance(listed, bytes):
            others = [
                line for line in listed.decode(errors="replace").splitlines()
                if f" name={name} " in line and not line.startswith(f"id={mine} ")
            ]  # fmt: skip
            if not others:
                break
            if time.monotonic() > deadline:
                return f"client {others[0].split()[0]}"
            time.sleep(0.01)  # a killed process lets go within a moment
            (listed,) = self.send([("CLIENT", "LIST")])
        self.send([("CLIENT", "SETNAME", name)])
        return None

    def unclaim(self) -> None:
        """Say nothing any more."""
        if self._commands is not None:
            self.send([("CLIENT", "SETNAME", "")])

    # ---------------------------------------------------------------- listening

    def touched(self) -> set[bytes] | None:
        """The keys that were touched since the last call; None if that may be all."""
        before = self._is_undisturbed()
        heard = self._hear()
        return heard if before else None

    def _is_undisturbed(self) -> bool:
        """Nothing happened that nobody is notified of, and notifications are on."""
        commands = [("INFO", "commandstats"), ("CONFIG", "GET", "notify-keyspace-events")]
        statistics, setting = self.send(commands if self.can_listen else commands[:1] + [("PING",)])
        counted = sum(map(int, _SILENT.findall(_bytes(statistics))))
        undisturbed, self._counted = counted == self._counted, counted
        if self.can_listen and isinstance(setting, Exception):
            self.can_listen = False  # some services forbid CONFIG
        if self.can_listen and not _complete(setting[1].decode()):
            self.can_listen = self._switch_on(setting[1].decode())
            return False
        return undisturbed and self.can_listen

    def _switch_on(self, flags: str) -> bool:
        wanted = "".join(sorted({*flags, "K", "A"}))
        (answer,) = self.send([("CONFIG", "SET", "notify-keyspace-events", wanted)])
        if isinstance(answer, Exception):
            return False
        self.flags = flags if self.flags is None else self.flags
        return True

    def _hear(self) -> set[bytes] | None:
        if not self.can_listen:
            return None
        try:
            if self._ears is None:
                self._ears = self._make(**{**self._options, "socket_timeout": 30.0})
                self._ears.connect()
                self._ears.send_command("PSUBSCRIBE", f"__keyspace@{self.database}__:*")
                self._until(b"psubscribe", None)
                return None  # whatever came before was not heard
            nonce = uuid.uuid4().hex
            self._ears.send_command("PING", nonce)
            return self._until(b"pong", nonce.encode())
        except (*self._errors.connection, OSError):
            if self._ears is not None:
                self._ears.disconnect()
            self._ears = None
            return None

    def _until(self, kind: bytes, nonce: bytes | None) -> set[bytes]:
        keys: set[bytes] = set()
        while True:
            message = self._ears.read_response(disable_decoding=True)
            if message[0] == b"pmessage":
                keys.add(message[2].split(b":", 1)[1])
            elif message[0] == kind and (nonce is None or message[1] == nonce):
                return keys

    def close(self) -> None:
        """Close both connections, and leave the server's setting as it was."""
        try:
            if self.flags is not None:
                self.send([("CONFIG", "SET", "notify-keyspace-events", self.flags)])
        except self._errors.connection:
            pass  # the server is gone, and its setting with it
        for connection in (self._commands, self._ears):
            if connection is not None:
                connection.disconnect()
        self._commands = self._ears = None


class _Errors:
    def __init__(self, library: Any) -> None:
        self.connection = (library.ConnectionError, library.TimeoutError)
        self.response = library.ResponseError


def _errors_of(connection_class: Any) -> _Errors:
    import importlib

    library = importlib.import_module(connection_class.__module__.split(".")[0] + ".exceptions")
    return _Errors(library)


def _pool_of(server: Any) -> Any:
    if not isinstance(server, str):
        pool = getattr(server, "connection_pool", None)
        if pool is None or not hasattr(pool, "connection_kwargs"):
            raise SystemSetupError(
                f"RedisSystem: {type(server).__name__} is neither a URL nor a client of one server "
                "(redis.Redis, valkey.Valkey)"
            )
        return _plain_pool(pool)
    try:
        import redis as library
    except ImportError:
        try:
            import valkey as library  # type: ignore[no-redef]
        except ImportError:
            raise SystemSetupError(
                "RedisSystem needs the package redis (or valkey): pip install redis"
            ) from None
    scheme, separator, rest = server.partition("://")
    known = {"valkey": "redis", "valkeys": "rediss"}
    try:
        return library.ConnectionPool.from_url(known.get(scheme, scheme) + separator + rest)
    except ValueError as error:
        raise SystemSetupError(
            f"RedisSystem: {server!r} is no address of a server ({error}); give redis://host:port/db or unix://path"
        ) from error


def _plain_pool(pool: Any) -> Any:
    """The pool itself or, for an asyncio client, one like it for blocking connections."""
    kind = pool.connection_class
    if ".asyncio" not in kind.__module__:
        return pool
    import importlib

    library = importlib.import_module(kind.__module__.replace(".asyncio", ""))
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if name not in ("retry", "retry_on_error")
    }
    return library.ConnectionPool(connection_class=getattr(library, kind.__name__), **options)


def _complete(flags: str) -> bool:
    return "K" in flags and ("A" in flags or set(flags) >= _FLAGS)


def _bytes(answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else b""
