"""Two hosts with a cable between them: network namespaces of Linux."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

DRIVER, WORKER = "10.77.0.1", "10.77.0.2"


class Hosts:
    """The host of the driver, and the host of the workers."""

    def __init__(self) -> None:
        suffix = secrets.token_hex(3)
        self._names = {DRIVER: f"clew-a-{suffix}", WORKER: f"clew-b-{suffix}"}

    def on(self, host: str) -> tuple[str, ...]:
        """Return how a command begins that runs on a host."""
        return ("ip", "netns", "exec", self._names[host])

    def open(self) -> None:
        """Create both; raise CalledProcessError if that is not permitted."""
        for name in self._names.values():
            _ip("netns", "add", name)
        near, far = self._names.values()
        _ip("-n", near, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", far)
        for address, name in self._names.items():
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")

    def partition(self, is_cut: bool) -> None:
        """Pull the cable, or plug it in again."""
        _ip("-n", self._names[WORKER], "link", "set", "eth0", "down" if is_cut else "up")

    def close(self) -> None:
        """Remove both."""
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)


@contextmanager
def two_hosts() -> Iterator[Hosts]:
    """Yield two hosts, or skip the test."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need ip, of iproute2")
    hosts = Hosts()
    try:
        hosts.open()
    except subprocess.CalledProcessError as error:
        hosts.close()
        pytest.skip(f"network namespaces are not permitted here: {error.stderr.decode().strip()}")
    try:
        yield hosts
    finally:
        hosts.close()
