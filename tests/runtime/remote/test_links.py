"""Links: messages of any size, both ends proven, with and without TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from clew.runtime.remote.frames import End, Ping
from clew.runtime.remote.links import Address, LinkClosedError, WorkerLink, accept, connect
from tests.runtime.remote.certificates import contexts

SIZES = [0, 1, 1 << 16, (1 << 16) + 1, 3_000_000]


def pair(driver: ssl.SSLContext | None, worker: ssl.SSLContext | None, key: bytes = b"k") -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(lambda: accept(server.accept()[0], b"k", driver))
        address = Address("127.0.0.1", server.getsockname()[1], key)
        try:
            mine = connect(address, worker)
        except BaseException:
            with pytest.raises((OSError, EOFError)):
                accepted.result(300)
            raise
        return mine, accepted.result(300)


@pytest.fixture(params=["plain", "tls"])
def links(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[WorkerLink, WorkerLink]]:
    made = contexts(tmp_path) if request.param == "tls" else (None, None)
    mine, theirs = pair(*made)
    yield mine, theirs
    for link in (mine, theirs):
        link.release()


def test_messages_of_all_sizes_cross_in_both_directions_at_once(
    links: tuple[WorkerLink, WorkerLink],
) -> None:
    def send(link: WorkerLink) -> None:
        for number, size in enumerate(SIZES):
            link.send(End(str(number), "value"), bytes([number]) * size)

    def receive(link: WorkerLink) -> list[Any]:
        return [link.receive() for _ in SIZES]

    with ThreadPoolExecutor(4) as threads:
        sent = [threads.submit(send, link) for link in links]
        got = [threads.submit(receive, link) for link in links]
        for each in sent:
            each.result(60)
        for each in got:
            expected = [
                (End(str(number), "value"), bytes([number]) * size) for number, size in enumerate(SIZES)
            ]
            assert each.result(60) == expected


def test_a_link_that_is_closed_ends_the_other(links: tuple[WorkerLink, WorkerLink]) -> None:
    mine, theirs = links
    waiting = threading.Thread(target=mine.close)
    waiting.start()
    with pytest.raises(LinkClosedError):
        theirs.receive()
    waiting.join()
    with pytest.raises(LinkClosedError):
        mine.send(Ping())


def test_a_worker_without_the_key_is_refused() -> None:
    with pytest.raises((EOFError, OSError)):
        pair(None, None, key=b"other")


def test_a_worker_without_a_certificate_of_the_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    driver, _ = contexts(tmp_path / "a")
    _, stranger = contexts(tmp_path / "b")
    with pytest.raises((ssl.SSLError, EOFError, OSError)):
        pair(driver, stranger)


def test_what_does_not_speak_the_protocol_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as threads:
        accepted = threads.submit(lambda: accept(server.accept()[0], b"k", None))
        with closing(socket.create_connection(server.getsockname())) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: a.example.org\r\nAccept: */*\r\n\r\n" * 2)
            with pytest.raises(EOFError):
                accepted.result(300)
