"""Checking a workflow: every schedule and every fault of a graph, on the machine that runs it.

::

    disk        the store of the run under check, which outlives the process and may fail
    process     one life of the program: the real session, driven choice by choice
    choices     what may be chosen, by name: faults, and where they may happen
    commuting   which orders cannot differ
    promises    what can be asked for by name: the run ends, effects happen once, ...
    checks      check_graph: the exploration, and what it found
    story       a counterexample, told
    files       counterexamples on disk

The run as a system of a world is ``clew.explore.checking.run_system``.
"""

from __future__ import annotations

__all__: list[str] = []
