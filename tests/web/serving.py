"""A real server on a free port of loopback, in a thread, for tests that need connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from clew.stores import Store
from clew.web.server import create_app


@contextmanager
def served(store: Store, **options: Any) -> Iterator[int]:
    """Serve a store; yield the port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    app = create_app(store, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(300)
        listener.close()
        assert not thread.is_alive()
