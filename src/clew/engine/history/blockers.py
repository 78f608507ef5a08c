"""What keeps a node from running: the failures and the open questions before it.

A confined failure blocks the nodes after its node. A rescued failure blocks nothing. Any other failure stops the run,
so it blocks every node that has not run; of several, those before the node are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clew.display import brief
from clew.engine.program import Program
from clew.engine.records import Failure, Question
from clew.error_text import line_of

Blocker = Failure | Question


def blockers(
    program: Program, nodes: Sequence[str], found: Sequence[Blocker], confined: frozenset[int]
) -> Mapping[str, tuple[Blocker, ...]]:
    """Return what blocks each of these nodes, which have not run; without those that nothing blocks.

    `confined` are the nodes whose failures were confined.
    """
    blocked: dict[str, tuple[Blocker, ...]] = {}
    found = [b for b in found if not (isinstance(b, Failure) and b.rescued)]
    for name in nodes:
        node = program.index[name]
        before = [
            b for b in found if (of := _root(program, b)) is not None and node in program.downstream(of)
        ]
        stopping = [b for b in found if isinstance(b, Failure) and _root(program, b) not in confined]
        if chosen := before or stopping:
            blocked[name] = tuple(chosen)
    return blocked


def of_node(program: Program, name: str, found: Sequence[Blocker]) -> list[Blocker]:
    """Return the failures and questions of one node of the root frame."""
    return [blocker for blocker in found if _root(program, blocker) == program.index[name]]


def _root(program: Program, blocker: Blocker) -> int | None:
    """Return the node of the root frame that contains a failure or a question; None if it is of no node."""
    return program.index.get(blocker.path.partition("/")[0].partition("#")[0])


def explanation(
    run_id: str,
    program: Program,
    name: str,
    lacking: Sequence[str] | None,
    found: Sequence[Blocker],
    confined: frozenset[str],
) -> str:
    """Return why a node has not run and, after a semicolon, what to do. `lacking` is None if its step has begun."""
    if found:
        first, more = found[0], f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        if isinstance(first, Question):
            return f"{first.path} asks {brief(first.question)}{more}; answer with engine.resume({run_id!r}, answer=...)"
        where = first.path or f"step {first.step}"
        verb = "rerun" if confined else "resume"  # after confined failures the run continued until its end
        return (
            f"{where} failed with {line_of(first.error)}{more}; fix it, then call engine.{verb}({run_id!r})"
        )
    if lacking is None:
        return f"its step is not committed yet; see engine.result({run_id!r})"
    if lacking:
        inputs = ", ".join(map(repr, lacking))
        return f"nothing has written {inputs}; explain it with engine.why({run_id!r}, {lacking[0]!r})"
    gates = [gate for gate in program.nodes if name in gate.targets]
    if gates:
        what = f"no gate has selected it; see the decisions of {', '.join(gate.name for gate in gates)}"
        return f"{what} with engine.history({run_id!r})"
    return f"nothing has woken it; see engine.history({run_id!r})"
