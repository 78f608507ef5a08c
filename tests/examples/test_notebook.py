"""The notebook in ``examples`` runs in a real kernel, and shows what it should."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("pandas")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/notebook.ipynb"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The code cells after the notebook ran."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    folder = tmp_path_factory.mktemp("notebook")
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=_environment(folder))
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _environment(folder: Path) -> dict[str, str]:
    import os

    return {
        **os.environ,
        "IPYTHONDIR": str(folder),
        "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "src")),
    }


pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries of Jupyter warn about is theirs


def shown(cells: list[Any], source: str, kind: str) -> str:
    """What the cell that contains `source` shows, in one format."""
    cell = next(cell for cell in cells if source in cell.source)
    found = [output["data"][kind] for output in cell.outputs if kind in output.get("data", {})]
    return "\n".join(found)


def printed(cells: list[Any], source: str) -> str:
    cell = next(cell for cell in cells if source in cell.source)
    return "".join(output.get("text", "") for output in cell.outputs)


def test_the_first_cell_is_that_of_the_tutorial(cells: list[Any]) -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text("utf-8")
    first = re.search(r"```python\n(.*?)```", tutorial, re.S)
    assert first is not None
    assert cells[0].source.strip() == first[1].strip()
    assert printed(cells, "def count") == "4\n"


def test_no_cell_warns_or_fails(cells: list[Any]) -> None:
    streams = [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert streams == []


def test_a_graph_is_drawn_and_results_are_tables(cells: list[Any]) -> None:
    assert "<svg" in shown([cells[1]], "graph", "text/html")
    assert "<table" in shown([cells[2]], "result", "text/html")
    assert shown([cells[2]], "result", "text/plain").startswith("<RunResult")


def test_progress_of_an_async_graph_is_shown(cells: list[Any]) -> None:
    html = shown(cells, "progress=True", "text/html")
    assert "shout" in html
    assert "completed" in html
    assert "✓ done" in html


def test_history_why_and_diff_are_shown(cells: list[Any]) -> None:
    assert "shout#0" in shown(cells, "engine.history", "text/html")
    assert "because" in shown(cells, "engine.why", "text/html")
    assert "other words" in shown(cells, "engine.diff", "text/html")


def test_a_data_frame_is_shown_as_a_table(cells: list[Any]) -> None:
    html = shown(cells, "pd.DataFrame", "text/html")
    assert 'class="dataframe' in html
    assert "letters" in html


def test_a_class_cell_that_is_run_again_changes_the_class(cells: list[Any]) -> None:
    assert "waiting" in shown(cells, 'run_id="order-1"', "text/html")
    assert printed(cells, "orders.resume") == "Order(item='thread', count=1)\n"
