"""The recipes of the page about clusters, on Ray: unchanged except for ``executor=``."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew import Engine
from clew.runtime import executors
from tests.docs.markdown import read_blocks
from tests.runtime.remote.checks import digests
from tests.runtime.remote.clusters import ROOT, ray_cluster

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
pytest.importorskip("ray", reason="Ray has no wheel for this version of Python")

MODULES = ("files", "library")


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The modules of the page, where workers find them: Ray gives them the folder of the driver."""
    page = (ROOT / "docs" / "how-to" / "clusters.md").read_text()
    for block in read_blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        del sys.modules[name]


def test_the_recipes(recipes: dict[str, Any], tmp_path: Path) -> None:
    files, library = (recipes[name] for name in MODULES)
    names = []
    for number in range(500):
        path = tmp_path / f"{number:03}.json"
        path.write_text("{broken" if number % 100 == 7 else json.dumps({"amount": number}))
        names.append(str(path))
    asked = {"question": "why do ships float?", "pages": library.PAGES}
    with ray_cluster(2), executors.ray() as executor:
        for graph, values in ((files.graph, {"files": names}), (library.graph, asked)):
            with (
                Engine(graph, store=tmp_path / f"{graph.name}-there.db", seed=1, executor=executor) as there,
                Engine(graph, store=tmp_path / f"{graph.name}-here.db", seed=1) as here,
            ):
                result = there.run(values, run_id="r")
                here.run(values, run_id="r")
                assert digests(there, "r") == digests(here, "r")
                assert there.replay("r").ok
                if graph is files.graph:
                    assert (result["report"]["total"], len(result.failures)) == (123715, 5)
                else:
                    again = there.run({**asked, "question": "how hot is tea?"}, run_id="s")
                    assert (again["sources"], again.metrics.total_cache_hits) == (["tea"], 1)
