"""Where the driver of a cluster listens, and which connections it accepts.

- The default is the loopback interface if every worker is on this machine, else the interface of the cluster.
- On any other interface than loopback, links use the TLS of the cluster. Without it, the executor is rejected, unless
  it is `insecure`.
- `advertise` is the address that workers connect to, if it differs from the one that the driver listens on.
- If workers may be unable to connect, some of them try it before the first task (`probe`), so an unreachable driver is
  an error at the start. If the cluster is too busy to answer in time, the first task reports the error instead.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import ssl
from collections.abc import Iterable
from threading import Thread
from typing import Any, NamedTuple

from clew.errors import DefinitionError, DriverUnreachableError
from clew.held_interrupts import start_thread
from clew.runtime.remote.desk import Desk
from clew.runtime.remote.links import Address, accept, connect

Place = tuple[str, int]

PROBED = 16  # workers
PROBE_TIME = 20.0  # seconds


def place_of(text: Any, option: str) -> Place:
    """Return host and port of "host" or "host:port"; port 0 is any free one."""
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if isinstance(text, str) and text and not colon:
        return text, 0
    if host and port.isdecimal() and int(port) < 65536:
        return host.strip("[]"), int(port)
    raise DefinitionError(f'{option} must be "host" or "host:port", got {text!r}')


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ListenOptions(NamedTuple):
    """The options of an executor about its driver's socket."""

    listen: str | None
    advertise: str | None
    insecure: bool


class Listening:
    """A socket that workers connect to."""

    def __init__(
        self, desk: Desk, options: ListenOptions, *, default: str, tls: tuple[str, ssl.SSLContext] | None
    ) -> None:
        listen, advertise, insecure = options
        host, port = (default, 0) if listen is None else place_of(listen, "listen=")
        known = None if advertise is None else place_of(advertise, "advertise=")
        self._context: ssl.SSLContext | None = None
        if not is_loopback(host):
            if tls is None and not insecure:
                raise DefinitionError(
                    f"the driver would listen on {host} without TLS; configure TLS for the cluster, listen on loopback "
                    f'with listen="127.0.0.1", or give insecure=True in a network that you trust'
                )
            self._context = None if tls is None else tls[1]
        self._desk = desk
        self._key = secrets.token_bytes(32)
        try:
            self._socket = socket.create_server((host, port), backlog=128)
        except OSError as error:
            raise DefinitionError(
                f"the driver cannot listen on {host}:{port}: {error}; give listen="
            ) from None
        port = self._socket.getsockname()[1]
        name, shown = (default if host in ("0.0.0.0", "::") else host, 0) if known is None else known
        kind = tls[0] if tls is not None and self._context is not None else ""
        self.address = Address(name, shown or port, self._key, kind)
        # one machine finds its own loopback; everything else can fail
        self.needs_probe = known is not None or not is_loopback(host)
        start_thread(Thread(target=self._accept, name="clew-listen", daemon=True))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            start_thread(Thread(target=self._greet, args=(sock,), name="clew-desk", daemon=True))

    def _greet(self, sock: socket.socket) -> None:
        try:
            link = accept(sock, self._key, self._context)
        except (OSError, EOFError):
            return  # not a worker of this executor
        self._desk.serve(link)

    def close(self) -> None:
        """Accept no more workers."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # ends `accept` in the other thread
        except OSError:
            pass
        self._socket.close()


def source_address(host: str) -> str:
    """Return the address of this machine on the way to a host."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.connect((host, 9))  # sends nothing
        mine: str = sock.getsockname()[0]
        return mine


def probe(address: Address, context: ssl.SSLContext | None) -> str:
    """Connect to the driver, on a worker; return an error text, or an empty one."""
    try:
        connect(address, context).release()
    except (OSError, EOFError) as error:
        return unreachable(address, error)
    return ""


def check_probes(found: Iterable[str]) -> None:
    """Raise DriverUnreachableError if a worker could not connect."""
    for text in found:
        if text:
            raise DriverUnreachableError(text)


def unreachable(address: Address, error: BaseException) -> str:
    """Return what a worker reports that cannot connect."""
    return (
        f"a worker on {socket.gethostname()} cannot connect to the driver at {address.host}:{address.port}: {error}; "
        f"give the executor an address that workers reach, with listen= and advertise="
    )
