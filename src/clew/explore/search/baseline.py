"""The anchor: what the systems of a world held when an exploration began, kept in its store.

A process that is killed leaves a real database in the middle of a path, and its checkpoints die with it. The next one
puts the systems back by the anchor, and goes on. A step costs nothing for it: the anchor is made once, and not touched
until it is needed.

Rules:

- It is made after the initial checkpoint and before the first action, and is there once its last record is there.
- It is taken away when the exploration ends and the world is where it began. One that is there at the start means that
  a process died: the world is put back whatever it shows, because what it does not show (a sequence, an ignored column)
  went on too. Then it must show the initial state.
- Putting back may be cut short, and done again, any number of times.
- What was kept of one place is not written to another: a world that was built on another database is left as it is.

A system is kept if it has `keep(token) -> pieces of bytes` and `recover(pieces)`, which returns False if they are
of another place than its own, and does nothing then; it may have `let_go()`, which ends what `keep` or `recover`
began. One with `dump` and `load` (see `clew.explore.search.checkpoints`) is kept by these. The values of the
context that tell states apart are kept too. A system that has neither must show by itself what it showed at the
start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from clew.errors import CheckpointError, JournalMismatchError, RollbackError, SystemSetupError
from clew.explore.model.identity import WorldObservation
from clew.explore.model.invariants import told
from clew.explore.model.world import StoredCheckpoint, World
from clew.state.codec import decode, encode

Pieces = Iterable[bytes]


class Baseline(msgspec.Struct, frozen=True):
    """What was kept: of which systems, how each looked, and the context."""

    initial: bytes
    kept: tuple[str, ...]
    looks: dict[str, bytes]
    context: bytes


def pieces_of(world: World, initial: StoredCheckpoint) -> Iterator[tuple[int, bytes]]:
    """What the systems, by number, have to keep of a checkpoint that the world has not left yet."""
    for number, (name, token) in enumerate(zip(sorted(world.systems), initial.tokens)):
        try:
            for piece in _kept(world.systems[name], token):
                yield number, piece
        except SystemSetupError:  # somebody else explores it
            raise
        except Exception as error:
            raise CheckpointError(
                f"system {name!r} cannot be put back if this process is killed: {told(error)}"
            ) from error


def describe(world: World, initial: StoredCheckpoint, sight: WorldObservation) -> Baseline:
    """The record that makes an anchor complete."""
    assert initial.digest is not None
    names = sorted(world.systems)
    kept = tuple(name for name in names if _way_back(world.systems[name]) is not None)
    return Baseline(
        initial.digest, kept, _looks(names, sight), encode(initial.context.values(), ordered=True)
    )


def put_back(world: World, anchor: Baseline, read: Callable[[int], Pieces]) -> bool:
    """Be where the exploration began, and see that it is so; whether all that was kept is of these systems."""
    names, elsewhere = sorted(world.systems), []
    for number, name in enumerate(names):
        way = _way_back(world.systems[name])
        if name not in anchor.kept or way is None:
            continue
        try:
            if way(read(number)) is False:
                elsewhere.append(name)
        except Exception as error:
            raise RollbackError(
                f"a process was killed while it explored, and system {name!r} could not be put back to where it "
                f"began: {told(error)}; mend that and explore again, or bring the system back and explore into a new "
                "store"
            ) from error
    world.recover_context(decode(anchor.context))
    sight = world.look_again()
    if sight.digest != anchor.initial:
        _refuse(names, anchor, sight, elsewhere)
    world.sound_again()
    return not elsewhere


def let_go(world: World) -> None:
    """The anchor is not needed any more."""
    for system in world.systems.values():
        ending = getattr(system, "let_go", None)
        if callable(ending):
            try:
                ending()
            except Exception:  # what it leaves behind is replaced by the next one
                continue


def _kept(system: Any, token: Any) -> Pieces:
    if _has(system, "keep", "recover"):
        pieces: Pieces = system.keep(token)
        return pieces
    return [system.dump(token)] if _has(system, "dump", "load") else []


def _way_back(system: Any) -> Callable[[Pieces], bool | None] | None:
    if _has(system, "keep", "recover"):
        way: Callable[[Pieces], bool | None] = system.recover
        return way
    if not _has(system, "dump", "load"):
        return None

    def by_token(pieces: Pieces) -> None:
        token = system.load(b"".join(pieces))
        system.rollback(token)
        system.release(token)

    return by_token


def _has(system: Any, *methods: str) -> bool:
    return all(callable(getattr(system, method, None)) for method in methods)


def _looks(names: list[str], sight: WorldObservation) -> dict[str, bytes]:
    """How each system looks; short, because it only has to be told apart."""
    found = {}
    for name, seen, data in zip(names, sight.observations, sight.encoded):
        shown = seen.digest if data is None else data
        found[name] = sha256(shown or b"").digest()
    return found


def _refuse(names: list[str], anchor: Baseline, sight: WorldObservation, elsewhere: list[str]) -> None:
    now = _looks(names, sight)
    other = [name for name in names if anchor.looks.get(name) != now[name]]
    lacking = [name for name in other if name not in anchor.kept]
    if lacking:
        what = (
            f"system {lacking[0]!r} is somewhere else, and has no keep and recover, so it cannot be put back"
        )
    elif others := [name for name in other if name in elsewhere]:
        what = f"system {others[0]!r} is another one than then, and was left as it is"
    elif other:
        what = f"system {other[0]!r} was put back and shows something else than then"
    else:
        what = "the context holds other values"
    raise JournalMismatchError(
        f"the exploration in the store began in state {anchor.initial.hex()[:16]}, and the process that explored "
        f"was killed; the world is in {sight.digest.hex()[:16]}: {what}; bring it back to where it began, or explore "
        "into a new store"
    )
