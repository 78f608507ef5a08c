"""A script of a stranger on a cluster that runs already: closures, classes of the script, errors, Ctrl-C."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew import Graph
from clew.errors import DefinitionError
from tests.runtime.remote.clusters import dask_cluster, ray_cluster

SCRIPT = Path(__file__).with_name("cluster_script.py")


def run_script(kind: str, address: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), kind, address], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


EXPECTED = {
    "scaled": 6,
    "length": 5,
    "fetched": [3, 4, 5],
    "kid": 6,
    "lambda": 12,
    "method": 10,
    "array": True,
    "asked": ["waiting", "yes"],
    "error": ["PaymentError", "payment failed with 402", 402, True],
    "missing": "ModuleNotFoundError",
    "slow": "NodeTimeoutError",
    "interrupted": True,
    "after": 3,
}


def test_a_script_on_dask() -> None:
    pytest.importorskip("distributed", reason="Dask has no wheel for this version of Python")
    with dask_cluster(2) as client:
        assert run_script("dask", client.scheduler.address) == EXPECTED
        for given in (client, client.get_executor()):
            with pytest.raises(DefinitionError):
                Graph([lambda a: a]).run({"a": 1}, executor=given)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray leaves files and sockets to the garbage collector
def test_a_script_on_ray() -> None:
    pytest.importorskip("ray", reason="Ray has no wheel for this version of Python")
    with ray_cluster(2) as module:
        assert run_script("ray", module.get_runtime_context().gcs_address) == EXPECTED
