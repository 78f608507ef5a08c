"""Links: sockets that carry frames between a driver and its workers.

A message is the lengths of frame and data, the frame, and the data. Any number of threads may send; one thread
receives. Both ends prove first that they know the key: each signs the random numbers of both. With TLS, one lock
protects the TLS object, because it cannot be read and written at once; the socket itself is used outside that lock.
"""

from __future__ import annotations

import hmac
import io
import secrets
import socket
import ssl
import struct
from threading import Lock
from time import monotonic
from typing import Any

import msgspec

from clew.runtime.remote.frames import Frame, decode, encode

_LENGTHS = struct.Struct("!IQ")
_HELLO = b"clew-link-1\0"
_NONCE = 32
_SMALL = 1 << 16  # data up to this size goes into one write with its frame
_BUFFER = 1 << 17
_HANDSHAKE = 10.0  # seconds
_ERRORS = (OSError, EOFError, ValueError)  # ValueError: the socket was closed by another thread


class LinkClosedError(Exception):
    """The other end is gone, or this end was closed."""


class Address(msgspec.Struct, frozen=True):
    """Where a driver listens, what proves that it is the driver, and which cluster's TLS to use."""

    host: str
    port: int
    key: bytes
    tls: str = ""  # "dask" or "ray"


class WorkerLink:
    """One end of a connection."""

    def __init__(self, sock: socket.socket, tls: _TLS | None = None) -> None:
        self._sock = sock
        self._write: Any = sock.sendall if tls is None else tls.sendall
        raw = socket.SocketIO(sock, "r") if tls is None else tls
        self._reader = io.BufferedReader(raw, _BUFFER)
        self._sending = Lock()
        self.heard = monotonic()
        self.is_closed = False

    def send(self, frame: Frame, data: bytes | bytearray | memoryview = b"") -> None:
        """Send a frame and its data, from any thread."""
        head = encode(frame)
        prefix = _LENGTHS.pack(len(head), len(data)) + head
        try:
            with self._sending:
                if len(data) <= _SMALL:
                    self._write(prefix + data if data else prefix)
                else:
                    self._write(prefix)
                    self._write(data)
        except _ERRORS as error:
            raise LinkClosedError(str(error)) from None

    def receive(self) -> tuple[Frame, bytes]:
        """Return the next frame and its data."""
        try:
            head, size = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
            frame, data = decode(self._exactly(head)), self._exactly(size)
        except _ERRORS as error:
            raise LinkClosedError(str(error)) from None
        self.heard = monotonic()
        return frame, data

    def _exactly(self, size: int) -> bytes:
        data = self._reader.read(size) if size else b""
        if len(data) < size:
            raise EOFError("the other end closed the link")
        return data

    def close(self) -> None:
        """Close the link, from any thread; a thread that receives gets an error."""
        self.is_closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end was faster
        self._sock.close()

    def release(self) -> None:
        """Close the file of the socket, in the thread that receives."""
        self.close()
        try:
            self._reader.close()
        except OSError:
            pass


class _TLS(io.RawIOBase):
    """A TLS connection whose two directions can be used by two threads."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._lock = Lock()

    def handshake(self) -> None:
        """Agree on keys and check the certificates."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                data = self._sock.recv(_BUFFER)
                if not data:
                    raise EOFError("the other end closed the connection during the TLS handshake") from None
                self._incoming.write(data)
            else:
                self._flush()
                return

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._sock.sendall(self._outgoing.read())

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return 0 at the end."""
        while True:
            with self._lock:
                try:
                    ssl_object: Any = self._ssl
                    return int(ssl_object.read(len(buffer), buffer))
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return 0
            data = self._sock.recv(_BUFFER)
            if not data:
                return 0
            with self._lock:
                self._incoming.write(data)

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all data; the caller sends from one thread at a time."""
        rest = memoryview(data)
        while rest:
            with self._lock:
                written = self._ssl.write(rest[:_BUFFER])
                encrypted = self._outgoing.read()
            rest = rest[written:]
            self._sock.sendall(encrypted)


def connect(address: Address, context: ssl.SSLContext | None) -> WorkerLink:
    """Connect a worker to a driver; raise OSError or EOFError if that fails."""
    sock = socket.create_connection((address.host, address.port), timeout=_HANDSHAKE)
    return _greet(sock, address.key, context, is_driver=False)


def accept(sock: socket.socket, key: bytes, context: ssl.SSLContext | None) -> WorkerLink:
    """Take the connection of a worker; raise OSError or EOFError if it is not one."""
    sock.settimeout(_HANDSHAKE)
    return _greet(sock, key, context, is_driver=True)


def _greet(sock: socket.socket, key: bytes, context: ssl.SSLContext | None, *, is_driver: bool) -> WorkerLink:
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tls = None
        if context is not None:
            tls = _TLS(sock, context, is_server=is_driver)
            tls.handshake()
        link = WorkerLink(sock, tls)
        mine = secrets.token_bytes(_NONCE)
        link._write(_HELLO + mine)
        hello = link._exactly(len(_HELLO) + _NONCE)
        if not hello.startswith(_HELLO):
            raise EOFError("the other end does not speak Clew's protocol")
        both = hello[len(_HELLO) :] + mine if is_driver else mine + hello[len(_HELLO) :]
        link._write(_signed(key, both, is_driver=is_driver))
        if not hmac.compare_digest(link._exactly(_NONCE), _signed(key, both, is_driver=not is_driver)):
            raise EOFError("the other end does not know the key of this executor")
        sock.settimeout(None)
        return link
    except BaseException:
        sock.close()
        raise


def _signed(key: bytes, numbers: bytes, *, is_driver: bool) -> bytes:
    return hmac.digest(key, (b"driver" if is_driver else b"worker") + numbers, "sha256")
