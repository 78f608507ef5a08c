"""Draw ``notebook.png``: the first cells of ``examples/notebook.ipynb`` as a notebook shows them. Needs Chromium.

python docs/pictures/notebook.py
"""

from __future__ import annotations

import subprocess
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parents[2]
CELLS = 10  # of the notebook, from its beginning
STYLE = """
body{font:14px system-ui,sans-serif;margin:16px;width:820px;background:#fff}
pre.in{font:12px ui-monospace,monospace;background:#f5f6f8;border:1px solid #dfe3e8;padding:8px;margin:10px 0 4px}
.out{margin:0 0 0 16px}
"""


def html_of(cell: Any) -> str:
    """Return a cell and what it shows."""
    if cell.cell_type == "markdown":
        return "".join(f"<p>{escape(text.lstrip('# '))}</p>" for text in cell.source.split("\n\n"))
    shown = []
    for output in cell.outputs:
        data = output.get("data", {})
        text = (
            data.get("text/html") or f"<pre>{escape(data.get('text/plain') or output.get('text', ''))}</pre>"
        )
        shown.append(f'<div class="out">{text}</div>')
    return f'<pre class="in">{escape(cell.source)}</pre>{"".join(shown)}'


def main() -> None:
    """Execute the notebook and write the picture."""
    notebook = nbformat.read(ROOT / "examples/notebook.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(notebook, resources={"metadata": {"path": folder}}).execute()
        page = Path(folder, "page.html")
        body = "".join(map(html_of, notebook.cells[:CELLS]))
        page.write_text(f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{body}", "utf-8")
        chromium = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=860,1400"]
        picture = Path(__file__).with_suffix(".png")
        subprocess.run([*chromium, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
