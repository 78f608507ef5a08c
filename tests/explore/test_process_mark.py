"""Process marks: whether the process that wrote a mark still runs."""

from __future__ import annotations

import subprocess
import sys

from clew.explore.process_mark import lives_elsewhere, mark

SAYS = "from clew.explore.process_mark import mark; print(mark(), flush=True); input()"


def test_a_mark_identifies_a_process_while_it_runs() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAYS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        other = process.stdout.readline().strip()
        assert lives_elsewhere(other)
        assert lives_elsewhere(f"prefix/{other}")
        machine, number, started = other.split("/")
        assert not lives_elsewhere(
            f"{machine}/{number}/{started}0"
        )  # the same pid, reused by a later process
        assert not lives_elsewhere(f"another/{number}/{started}")
        process.kill()
        process.stdout.read()  # a zombie: ended, but not waited for
        while lives_elsewhere(other):
            pass
        process.wait()
        assert not lives_elsewhere(other)


def test_this_process_and_invalid_marks_do_not_live_elsewhere() -> None:
    assert mark() == mark()
    assert not lives_elsewhere(mark())
    assert not lives_elsewhere("")
    assert not lives_elsewhere("5f4dcc3b5aa765d61d8327deb882cf99")
