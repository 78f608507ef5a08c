"""Run an application on a free loopback port, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

import uvicorn
from starlette.applications import Starlette


class Serving:
    """An application that serves until it is closed."""

    def __init__(self, app: Starlette) -> None:
        # asyncio disables Nagle's algorithm only for sockets that declare TCP
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._ready = threading.Event()
        self._server = _Server(uvicorn.Config(app, log_level="warning"), self._ready)
        self._thread = threading.Thread(target=self._run, name="shop", daemon=True)
        self._thread.start()
        self._ready.wait(30)
        if not self._server.started:
            raise RuntimeError("the service did not start; see its log above")

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._ready.set()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(uvicorn.Server):
    """A server that signals when it accepts connections."""

    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()
