"""Ray with TLS, and drivers that are connected by Ray Client. Drivers are processes: Ray reads its settings once."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from clew import Graph
from clew.errors import DefinitionError, DriverUnreachableError
from clew.runtime.executors import ray
from tests.runtime.remote import certificates, checks, faults, flow
from tests.runtime.remote.clusters import ROOT, call_in_process, free_port, ray_head

pytest.importorskip("ray", reason="Ray has no wheel for this version of Python")
pytest.importorskip("grpc", reason="Ray Client needs the extra ray[client]")


def environment(folder: Path) -> dict[str, str]:
    """Return settings that do not depend on those of the user: a token, and a certificate of the cluster."""
    import ray as module

    (folder / "token").write_text(secrets.token_hex(32))
    mine = module.util.get_node_ip_address()
    cert, key = map(str, certificates.write(folder, ("127.0.0.1", mine)))
    tls = {"RAY_TLS_SERVER_CERT": cert, "RAY_TLS_SERVER_KEY": key, "RAY_TLS_CA_CERT": cert}
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    return {**os.environ, "RAY_USE_TLS": "1", **tls, **token}


def with_tls(address: str, path: str) -> None:
    folder = Path(path)
    with ray(address, listen="0.0.0.0", advertise="127.0.0.1") as on:
        assert on.backend._address.tls == "ray"
        for check in checks.CORE:
            (folder / check.__name__).mkdir()
            check(on, folder / check.__name__)
    cert, os.environ["RAY_TLS_SERVER_CERT"] = os.environ["RAY_TLS_SERVER_CERT"], "/nowhere"
    with pytest.raises(DefinitionError):
        ray()
    os.environ["RAY_TLS_SERVER_CERT"] = cert


def through_ray_client(address: str, path: str) -> None:
    import ray as module

    # through a client, Ray does not pass on where the driver imports from
    module.init(address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}})
    folder = Path(path)
    with ray() as on:  # it finds its own address
        pid = Graph([flow.pid]).run({"a": 1}, executor=on)["pid"]
        assert pid != os.getpid()
        for check in checks.CORE:
            (folder / check.__name__).mkdir()
            check(on, folder / check.__name__)
    with pytest.raises(DriverUnreachableError):
        ray(advertise="127.0.0.1:1")


@pytest.mark.slow
def test_links_use_the_tls_of_ray_and_ray_client_reaches_the_driver(tmp_path: Path) -> None:
    env, port = environment(tmp_path), free_port()
    with ray_head(tmp_path, env=env, client_port=port) as address:
        host = address.split(":")[0]
        log = tmp_path / "ray.log"
        faults.until(lambda: "Ray runtime started" in log.read_text(), 120)
        for function, where in ((with_tls, address), (through_ray_client, f"ray://{host}:{port}")):
            folder = tmp_path / function.__name__
            folder.mkdir()
            call_in_process(function, where, str(folder), env=env)
