"""A disk of one's own that fills up, or that may only be read from now on.

``python -m tests.crash.mounted full|read-only FOLDER POINT:COUNT``

It is started in namespaces of its own (``unshare``), where it may mount a small file system, and takes it along when it
ends. What it saw goes to standard output as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from clew import Engine, SQLiteStore
from clew.errors import StoreError
from clew.testing import crash_points
from tests.crash import program


def engine_on(disk: Path) -> Engine:
    return Engine(program.GRAPH, store=SQLiteStore(disk / "runs.db"), seed=7, max_concurrent_nodes=1)


def refusal(act: Any) -> list[str]:
    """What an act was refused with."""
    try:
        act()
    except StoreError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


def fill(disk: Path) -> None:
    """Write until there is no room for another byte."""
    ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
    try:
        for size in (65536, 1):
            while os.write(ballast, b"." * size):
                pass
    except OSError:
        pass
    finally:
        os.close(ballast)


def full(disk: Path, place: str) -> dict[str, Any]:
    """The disk is full when a run comes to a point, and then it is not."""
    name, _, count = place.partition(":")
    left = int(count)

    def on_reach(reached: str) -> None:
        nonlocal left
        left -= reached == name
        if not left and reached == name:
            fill(disk)

    engine = engine_on(disk)
    crash_points.watch(on_reach)
    told = refusal(lambda: engine.run(program.VALUES, run_id="killed"))
    crash_points.watch(None)
    free = os.statvfs(disk).f_bavail
    (disk / "ballast").unlink()
    status = engine.runs()[0].status
    result = engine.resume("killed")
    return {"told": told, "free": free, "status": status, "end": result.status, "digests": digests(engine)}


def read_only(disk: Path, place: str) -> dict[str, Any]:
    """A run is killed, and whoever wants to go on with it finds a disk that may only be read."""
    child = os.fork()
    if not child:
        crash_points.arm(place)
        engine_on(disk).run(program.VALUES, run_id="killed")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    engine = engine_on(disk)
    told = refusal(lambda: engine.resume("killed"))
    new = refusal(lambda: engine.run(program.VALUES, run_id="another"))
    seen = [row.run_id for row in engine.runs()], engine.state("killed").step
    engine.close()
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    engine = engine_on(disk)
    result = engine.resume("killed")
    return {"told": told, "new": new, "seen": seen, "end": result.status, "digests": digests(engine)}


def digests(engine: Engine) -> list[str]:
    return [checkpoint.digest for checkpoint in engine.history("killed")]


def main(case: str, folder: str, place: str) -> None:
    disk = Path(folder) / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    program.set_world(str(Path(folder) / "effects"))
    print(json.dumps({"full": full, "read-only": read_only}[case](disk, place)))


if __name__ == "__main__":
    main(*sys.argv[1:])
