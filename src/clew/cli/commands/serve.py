"""``clew serve``: show and operate the runs of a store in a browser."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from clew.cli.declarations import argument, flag, option
from clew.cli.options import StoreOption, store_at
from clew.cli.output import CommandError, say_line
from clew.stores.factory import without_password

DEFAULT_PORT = 8790


def serve(
    target: Annotated[
        str | None,
        argument(
            "MODULE:GRAPH", "Graph whose code may run: the server starts a worker for it.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None,
        option(
            "--port",
            "N",
            f"Port to listen on; 0 for a free one. [default: {DEFAULT_PORT}]",
            min=0,
            max=65_535,
        ),
    ] = None,
    host: Annotated[
        str, option("--host", "ADDRESS", "Address to listen on. Addresses other than loopback need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        option(
            "--token",
            "TEXT",
            'Secret that every request needs; "new" generates one. [default: $CLEW_TOKEN]',
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        option(
            "--allow-host", "NAME", "Host name that browsers may use to reach the server. Can be repeated."
        ),
    ] = None,
    values: Annotated[
        str | None,
        option(
            "--values",
            "MODULE:GRAPH",
            "Dependency graph whose code may run: to pull, set and invalidate its values.",
            show_default=False,
        ),
    ] = None,
    read_only: Annotated[bool, flag("--read-only", "Refuse every change.")] = False,
    store: StoreOption = None,
) -> None:
    """Show and operate the runs of a store in a browser.

    \b
    Examples:
      clew serve
      clew serve flow:graph --values events:graph
      clew serve --host 0.0.0.0 --token new --allow-host runs.example.org

    The server reads runs without importing any code. Answers and resumed runs are put into queues, for `clew worker`.
    With MODULE:GRAPH, the server starts a worker for that graph, and can also fork with values, rerun and replay.
    """
    serve_store(
        store,
        target=target,
        values=values,
        host=host,
        port=port,
        token=token,
        allow_host=allow_host or (),
        read_only=read_only,
    )


def serve_store(
    store: str | None,
    *,
    target: str | None = None,
    values: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    allow_host: Sequence[str] = (),
    read_only: bool = False,
    pages: Sequence[tuple[str, str]] = (),
) -> None:
    """Serve the page of a store until Ctrl-C. Print its address, and those of `pages`: what they show, and a path."""
    try:
        import uvicorn

        from clew.web.access import is_loopback
        from clew.web.processes import ServerProcesses
        from clew.web.server import create_app
        from clew.web.verbs import Verbs
    except ModuleNotFoundError as error:
        raise CommandError(f"the page needs {error.name!r}", "pip install 'clew[web]'") from error
    secret = _secret(token)
    if not is_loopback(host) and secret is None:
        raise CommandError(
            f"{host} can be reached from other machines, so the page needs a token",
            "add --token new, or leave out --host",
        )
    with store_at(store, create=True) as opened, _listening(host, port) as listener:
        address = store or os.environ.get("CLEW_STORE") or ""
        processes = None
        if target is not None or values is not None:
            processes = ServerProcesses(target or "", address, values=values or "")
        app = create_app(
            opened,
            address=without_password(address),
            hosts=[*allow_host, *([] if host in ("0.0.0.0", "::") else [host])],
            token=secret,
            read_only=read_only,
            verbs=Verbs(opened, without_password(address), processes=processes),
        )
        place = _place(host, listener.getsockname()[1])
        shown = without_password(address) or "clew.db"
        say_line(f"Clew shows {shown} at {place}{f'?token={secret}' if secret else ''}")
        for what, path in pages:
            say_line(f"  {what}: {place}{path}")
        say_line("stop it with Ctrl-C")
        sys.stdout.flush()
        if processes is not None and target is not None and not read_only:
            processes.start_worker()
        try:
            config: Any = uvicorn.Config(
                app, log_level="warning", timeout_graceful_shutdown=1, server_header=False, ws="none"
            )
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            if processes is not None:
                processes.close()


def _secret(token: str | None) -> str | None:
    secret = token or os.environ.get("CLEW_TOKEN") or None
    if secret == "new":
        return secrets.token_urlsafe(24)
    if secret is not None and len(secret) < 12:
        raise CommandError(
            "--token is too short to be a secret", "give at least 12 characters, or --token new"
        )
    return secret


def _listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens. Without a given port, the next free one after the default is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for number in (port,) if port is not None else range(DEFAULT_PORT, DEFAULT_PORT + 20):
        # asyncio sets TCP_NODELAY only if the socket names its protocol. Without it, an answer may wait for 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host.strip("[]"), number))
            listener.listen(128)
            return listener
        except OSError as error:
            listener.close()
            problem = error
    raise CommandError(
        f"cannot listen on {host}: {problem and (problem.strerror or problem)}",
        "give another --port or --host",
    ) from problem


def _place(host: str, port: int) -> str:
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"
