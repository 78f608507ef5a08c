"""Two connections to a Redis server: one for commands, in pipelines, and one that listens for changed keys.

Keyspace notifications are sent once and not stored. So they are trusted only while none can have been missed:

- The reply to a PING on the listening connection comes after all earlier notifications, so waiting for it is enough.
- After a lost connection, a restart of the server, or a change of its notification setting, any key may have changed.
- FLUSHDB, FLUSHALL and SWAPDB send no notifications, but the server counts them.

In the last two cases `changed` returns None, and all keys must be compared.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable
from typing import Any

from clew.errors import SystemSetupError

try:
    import redis
except ImportError:
    raise SystemSetupError("RedisSystem needs the package redis: pip install redis") from None

Command = tuple[Any, ...]
_SILENT = re.compile(rb"cmdstat_(?:flushdb|flushall|swapdb):calls=(\d+)")
_PIECE = 10_000  # commands in one pipeline
_CLAIM_TIMEOUT = 10.0  # seconds in which a busy server ends the connection of a killed process
_BROKEN = (redis.ConnectionError, redis.TimeoutError)
_FLAGS = frozenset("g$lshzxetd")  # the meaning of "A"


class RedisConnection:
    """The connections of a system, made from a URL or like those of a client."""

    def __init__(self, server: Any) -> None:
        pool = _pool_of(server)
        self._make = pool.connection_class
        # RESP2: notifications arrive as ordinary replies. Bytes: keys and values need not be text.
        self._options = {**pool.connection_kwargs, "decode_responses": False, "protocol": 2}
        self._options.pop("maint_notifications_config", None)
        self.database = int(self._options.get("db") or 0)
        where = [str(self._options.get(name) or "") for name in ("host", "port", "path")]
        self.identity = "/".join([*where, str(self.database)])
        self._commands: Any = None
        self._listener: Any = None
        self._counted = 0
        self.flags: str | None = None  # the original setting, if it was changed
        self.can_listen = True

    # ---------------------------------------------------------------- commands

    def send(self, commands: Iterable[Command]) -> list[Any]:
        """Send commands in pipelines, and return the replies; an error reply is returned as an exception."""
        listed = list(commands)
        if not listed:
            return []
        try:
            return self._exchange(listed)
        except _BROKEN:
            self._commands.disconnect()  # it may have been idle for too long; these commands can be repeated
            return self._exchange(listed)

    def _exchange(self, commands: list[Command]) -> list[Any]:
        if self._commands is None:
            self._commands = self._make(**self._options)
            self._commands.connect()
        replies: list[Any] = []
        for start in range(0, len(commands), _PIECE):
            piece = commands[start : start + _PIECE]
            self._commands.send_packed_command(self._commands.pack_commands(piece))
            replies += [self._reply(self._commands) for _ in piece]
        return replies

    def _reply(self, connection: Any) -> Any:
        try:
            return connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error

    # ---------------------------------------------------------------- ownership

    def claim(self) -> str | None:
        """Claim the database for this process; return the other client if one has already claimed it.

        The claim is the name of the connection, which ends with the process. If the server does not list clients, the
        claim always succeeds.
        """
        name = f"clew-explore-{self.database}"
        mine, listed = self.send([("CLIENT", "ID"), ("CLIENT", "LIST")])
        deadline = time.monotonic() + _CLAIM_TIMEOUT
        while isinstance(listed, bytes):
            others = [
                line for line in listed.decode(errors="replace").splitlines()
                if f" name={name} " in line and not line.startswith(f"id={mine} ")
            ]  # fmt: skip
            if not others:
                break
            if time.monotonic() > deadline:
                return f"client {others[0].split()[0]}"
            time.sleep(0.01)  # the connection of a killed process ends soon
            (listed,) = self.send([("CLIENT", "LIST")])
        self.send([("CLIENT", "SETNAME", name)])
        return None

    def unclaim(self) -> None:
        """Give up the claim."""
        if self._commands is not None:
            self.send([("CLIENT", "SETNAME", "")])

    # ---------------------------------------------------------------- listening

    def changed(self) -> set[bytes] | None:
        """Return the keys that changed since the last call; None if any key may have changed."""
        is_complete = self._is_complete()
        keys = self._notified()
        return keys if is_complete else None

    def _is_complete(self) -> bool:
        """Return whether notifications are on, and no command without notifications was executed."""
        commands = [("INFO", "commandstats"), ("CONFIG", "GET", "notify-keyspace-events")]
        statistics, setting = self.send(commands if self.can_listen else commands[:1] + [("PING",)])
        counted = sum(map(int, _SILENT.findall(_bytes(statistics))))
        is_complete, self._counted = counted == self._counted, counted
        if self.can_listen and isinstance(setting, Exception):
            self.can_listen = False  # some services forbid CONFIG
        if self.can_listen and not _is_sufficient(setting[1].decode()):
            self.can_listen = self._enable_notifications(setting[1].decode())
            return False
        return is_complete and self.can_listen

    def _enable_notifications(self, flags: str) -> bool:
        wanted = "".join(sorted({*flags, "K", "A"}))
        (answer,) = self.send([("CONFIG", "SET", "notify-keyspace-events", wanted)])
        if isinstance(answer, Exception):
            return False
        self.flags = flags if self.flags is None else self.flags
        return True

    def _notified(self) -> set[bytes] | None:
        if not self.can_listen:
            return None
        try:
            if self._listener is None:
                self._listener = self._make(**{**self._options, "socket_timeout": 30.0})
                self._listener.connect()
                self._listener.send_command("PSUBSCRIBE", f"__keyspace@{self.database}__:*")
                self._until(b"psubscribe", None)
                return None  # earlier notifications were missed
            nonce = uuid.uuid4().hex
            self._listener.send_command("PING", nonce)
            return self._until(b"pong", nonce.encode())
        except (*_BROKEN, OSError):
            if self._listener is not None:
                self._listener.disconnect()
            self._listener = None
            return None

    def _until(self, kind: bytes, nonce: bytes | None) -> set[bytes]:
        keys: set[bytes] = set()
        while True:
            message = self._listener.read_response(disable_decoding=True)
            if message[0] == b"pmessage":
                keys.add(message[2].split(b":", 1)[1])
            elif message[0] == kind and (nonce is None or message[1] == nonce):
                return keys

    def close(self) -> None:
        """Close both connections, and restore the server's setting."""
        try:
            if self.flags is not None:
                self.send([("CONFIG", "SET", "notify-keyspace-events", self.flags)])
        except _BROKEN:
            pass  # the server has stopped, and its setting is lost anyway
        for connection in (self._commands, self._listener):
            if connection is not None:
                connection.disconnect()
        self._commands = self._listener = None


def _pool_of(server: Any) -> Any:
    if isinstance(server, str):
        try:
            return redis.ConnectionPool.from_url(re.sub("^valkey", "redis", server))
        except ValueError as error:
            raise SystemSetupError(
                f"server: invalid URL {server!r} ({error}); use redis://host:port/db or unix://path"
            ) from error
    if isinstance(server, redis.Redis):
        return server.connection_pool
    raise SystemSetupError(f"server: expected a URL or a redis.Redis, got {type(server).__name__}")


def _is_sufficient(flags: str) -> bool:
    return "K" in flags and ("A" in flags or set(flags) >= _FLAGS)


def _bytes(answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else b""
