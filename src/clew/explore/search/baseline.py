"""The baseline: a copy of the initial state of all systems, stored next to the journal of an exploration.

A killed process leaves a real database in the middle of a path, and its checkpoints are lost. The next process
restores the systems from the baseline and resumes. The baseline is written once, before the first action, so steps cost
nothing extra.

Rules:

- The baseline is written after the initial checkpoint and before the first action. It is complete when its last record
  is written.
- It is deleted when the exploration ends with the world in its initial state. A baseline that exists at the start
  therefore means that a process was killed. The systems are then restored even if they show the initial state, because
  parts that are not observed (a sequence, an ignored column) may have changed. Afterwards the world must show the
  initial state.
- Restoring can be interrupted and repeated any number of times.
- Data of one database is never written to another. A system that refers to a different one is left unchanged.

A system takes part if it has two methods: `save_baseline(token)` returns byte strings, and `restore_baseline(pieces)`
restores them, or returns False and changes nothing if they belong to another database. An optional
`release_baseline()` frees what these methods hold. The context values that are part of the identity are stored too. Any
other system must show its initial state by itself.

Marks in the systems say that an exploration has left the initial state. A killed exploration leaves a real database in
the middle of a path. If the store with its baseline is gone, or another one is used, nothing can restore it, and the
next exploration would take the middle of a path for its initial state. The mark says so before it begins. A system
takes part if it has `mark_midway(is_midway)`, which stores the mark, and `left_midway`, which tells whether the mark of
an ended process was found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec

from clew.error_text import line_of
from clew.errors import (
    CheckpointError,
    ClewError,
    ExplorationWarning,
    JournalMismatchError,
    RollbackError,
    SystemSetupError,
)
from clew.explore.model.identity import WorldObservation
from clew.explore.model.states import ID_LENGTH
from clew.explore.model.world import StoredCheckpoint, World
from clew.state.values.codec import decode, encode

Pieces = Iterable[bytes]


class Baseline(msgspec.Struct, frozen=True):
    """The last record of a baseline: the initial state, the systems that were saved, and the context."""

    initial: bytes
    saved: tuple[str, ...]
    observations: dict[str, bytes]  # a hash of what each system showed
    context: bytes


def save(world: World, initial: StoredCheckpoint) -> Iterator[tuple[int, bytes]]:
    """Yield the byte strings to store, each with the number of its system. The world is in its initial state."""
    for number, (name, token) in enumerate(zip(sorted(world.systems), initial.tokens)):
        if not _takes_part(world.systems[name]):
            continue
        try:
            for piece in world.systems[name].save_baseline(token):
                yield number, piece
        except SystemSetupError:  # another process explores this system
            raise
        except Exception as error:
            raise CheckpointError(
                f"system {name!r} cannot be restored if this process is killed: {line_of(error)}"
            ) from error


def describe(world: World, initial: StoredCheckpoint, observed: WorldObservation) -> Baseline:
    """Return the record that completes a baseline."""
    assert initial.digest is not None
    names = sorted(world.systems)
    saved = tuple(name for name in names if _takes_part(world.systems[name]))
    context = encode(initial.context.values(), ordered=True)
    return Baseline(initial.digest, saved, _hashes(names, observed), context)


def restore(world: World, baseline: Baseline, read: Callable[[int], Pieces]) -> bool:
    """Restore and verify the initial state. Return False if a system refers to another database."""
    names, foreign = sorted(world.systems), []
    for number, name in enumerate(names):
        if name not in baseline.saved or not _takes_part(world.systems[name]):
            continue
        try:
            if world.systems[name].restore_baseline(read(number)) is False:
                foreign.append(name)
        except Exception as error:
            raise RollbackError(
                f"the previous exploration was killed, and its system {name!r} cannot be restored to the initial "
                f"state: {line_of(error)}; fix the cause and explore again, or restore the system yourself and use a "
                "new store"
            ) from error
    world._restore_context(decode(baseline.context))
    observed = world._observe_restored()
    if observed.digest != baseline.initial:
        raise _mismatch(names, baseline, observed, foreign)
    world._clear_poison()
    return not foreign


def release(world: World) -> None:
    """Release what systems hold for a baseline."""
    for system in world.systems.values():
        release_baseline = getattr(system, "release_baseline", None)
        if callable(release_baseline):
            try:
                release_baseline()
            except Exception:  # the next baseline replaces what this one leaves behind
                continue


def _takes_part(system: Any) -> bool:
    return all(callable(getattr(system, name, None)) for name in ("save_baseline", "restore_baseline"))


def _hashes(names: list[str], observed: WorldObservation) -> dict[str, bytes]:
    """Return a hash of what each system shows."""
    found = {}
    for name, observation, data in zip(names, observed.observations, observed.encoded):
        shown = observation.digest if data is None else data
        found[name] = sha256(shown or b"").digest()
    return found


def _mismatch(
    names: list[str], baseline: Baseline, observed: WorldObservation, foreign: list[str]
) -> JournalMismatchError:
    now = _hashes(names, observed)
    differing = [name for name in names if baseline.observations.get(name) != now[name]]
    if unsaved := [name for name in differing if name not in baseline.saved]:
        cause = f"system {unsaved[0]!r} changed, and has no save_baseline and restore_baseline to restore it"
    elif others := [name for name in differing if name in foreign]:
        cause = f"system {others[0]!r} refers to another database, which was left unchanged"
    elif differing:
        cause = f"system {differing[0]!r} was restored, but differs from its initial state"
    else:
        cause = "the context has other values"
    return JournalMismatchError(
        f"the exploration in the store began in state {baseline.initial.hex()[:ID_LENGTH]} and was killed; the world "
        f"is now in state {observed.digest.hex()[:ID_LENGTH]}: {cause}; restore the initial state yourself, or use a "
        "new store"
    )


def warn_of_midway(world: World) -> None:
    """Warn about systems that a killed exploration left, and that were not restored."""
    left = [name for name, system in sorted(world.systems.items()) if getattr(system, "left_midway", False)]
    if left:
        warnings.warn(
            f"an earlier exploration was killed and left {', '.join(map(repr, left))} in the middle of a path; nothing "
            "restores it, because this exploration does not use its store; stop, and restore the original data or use "
            "that store, unless this state is the one that you want to start from",
            ExplorationWarning,
            stacklevel=2,
        )


def mark_midway(world: World, is_midway: bool) -> None:
    """Store the mark in each system that has one; a system that cannot store it is explored without it."""
    for system in world.systems.values():
        mark = getattr(system, "mark_midway", None)
        if callable(mark):
            with suppress(ClewError):
                mark(is_midway)
