"""Execute the programs for other tools on the pages of ``docs/compare``: each prints what its page says.

``python -m benchmarks.side_by_side`` in an environment with the tools, such as ``.venv-bench``. A tool that is not
installed is reported and skipped; ``--all`` makes that an error. The tests execute Clew's half of the pages.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.markdown import Block, read_blocks

PAGES = Path(__file__).resolve().parents[1] / "docs" / "compare"
SECONDS = 600  # Prefect starts a server first
ENVIRONMENT = {
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
}


def programs(page: Path) -> list[tuple[Block, list[Block], str]]:
    """Return the programs of a page, the files that they need, and what they print."""
    blocks = read_blocks(page.read_text("utf-8"))
    found = []
    for number, block in enumerate(blocks):
        if block.peer is not None:
            files = [each for each in blocks[:number] if each.file is not None]
            printed = next(each.code for each in blocks[number:] if each.is_output)
            found.append((block, files, printed))
    return found


def printed_by(block: Block, files: list[Block]) -> str:
    """Run a program in an empty folder, and return what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            (Path(folder) / str(file.file)).write_text(file.code, "utf-8")
        program = Path(folder) / "program.py"
        program.write_text(block.code, "utf-8")
        done = subprocess.run(
            [sys.executable, program.name],
            cwd=folder,
            env={**os.environ, **ENVIRONMENT, "PREFECT_HOME": f"{folder}/prefect"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    """Run all programs whose tool is installed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__)
    parser.add_argument("--all", action="store_true", help="a tool that is not installed is an error")
    needs_all = parser.parse_args().all
    bad = 0
    for page in sorted(PAGES.glob("*.md")):
        for block, files, expected in programs(page):
            where = f"{page.name}:{block.line} {block.peer}"
            if importlib.util.find_spec(str(block.peer)) is None:
                print(f"{where}: not installed")
                bad += needs_all
                continue
            printed = printed_by(block, files)
            print(f"{where}: {'as on the page' if printed == expected else 'prints something else'}")
            if printed != expected:
                print(printed)
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
