"""Whether a process that left its mark still lives."""

from __future__ import annotations

import subprocess
import sys

from clew.explore.process_mark import lives_elsewhere, mark

SAYS = "from clew.explore.process_mark import mark; print(mark(), flush=True); input()"


def test_a_mark_is_of_one_process_as_long_as_it_lives() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAYS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        other = process.stdout.readline().strip()
        assert lives_elsewhere(other)
        assert lives_elsewhere(f"what somebody put before it/{other}")
        machine, number, started = other.split("/")
        assert not lives_elsewhere(f"{machine}/{number}/{started}0")  # the number was given away since
        assert not lives_elsewhere(f"another/{number}/{started}")
        process.kill()
        process.stdout.read()  # it has ended, and nobody has asked how
        while lives_elsewhere(other):
            pass
        process.wait()
        assert not lives_elsewhere(other)


def test_one_does_not_live_elsewhere() -> None:
    assert mark() == mark()
    assert not lives_elsewhere(mark())
    assert not lives_elsewhere("")
    assert not lives_elsewhere("5f4dcc3b5aa765d61d8327deb882cf99")
