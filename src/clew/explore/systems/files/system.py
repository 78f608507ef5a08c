"""`FileSystem`: a directory that can be restored to any of its checkpoints in any order.

- Files, symbolic links, directories (including empty ones) and their permissions are part of a state. Each content is
  stored once, under its hash, in a temporary directory. Names are bytes, so any name works.
- A file is read again only if its status suggests a change (`scan`). A restore writes only what differs.
- A file is rewritten in place, so a process that has it open sees the restored content. Modification times are
  restored, but they and owners are not part of the identity of a state.
- Links are never followed, and nothing outside of the directory is written or removed. Sockets, pipes and devices are
  ignored. Hard links to the same file become separate files.
"""

from __future__ import annotations

import os
import shutil
import stat
import weakref
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
from immutables import Map

from clew.errors import CheckpointError, RollbackError, SystemSetupError
from clew.explore.model.system import Observation
from clew.explore.process_mark import MidwayMark, new_folder
from clew.explore.systems.files.scan import DirectoryScan, FileEntry, Tree, is_directory, is_file, is_link
from clew.explore.systems.version_tokens import MarkedSystem, TokenSystem, VersionTokens

try:
    import fcntl
except ImportError:  # pragma: no cover - a platform without POSIX locks
    fcntl = None  # type: ignore[assignment]

SHOWN = 100
_PIECE = 1 << 20
_EMPTY = blake2b(digest_size=32).hexdigest()


class FileSystem(TokenSystem[Tree], MarkedSystem):
    """A directory.

    Args:
        directory: The path of an existing directory.
    """

    ordering: Literal["any"] = "any"

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        if not isinstance(directory, str | os.PathLike):
            raise SystemSetupError(f"directory: expected a path, got {directory!r}")
        self._root = os.fsencode(os.path.realpath(directory))
        if not os.path.isdir(self._root):
            raise SystemSetupError(f"directory: {os.fspath(directory)!r} is not a directory")
        self._store, self._remove_store = new_folder(self, "files")
        if Path(os.fsdecode(self._root)) in self._store.parents:
            self._remove_store()
            raise SystemSetupError(
                f"directory: {os.fspath(directory)!r} contains the directory for temporary files; choose another one"
            )
        self._scan = DirectoryScan(self._root)
        super().__init__()
        self._observed: tuple[Tree, Observation] | None = None
        self._claimed: weakref.finalize[[int], FileSystem] | None = None
        status = os.stat(self._root)
        self._mark = MidwayMark(f"{os.fsdecode(self._root)} {status.st_dev} {status.st_ino}")

    def observe(self) -> Observation:
        tree = self._scanned("observe", CheckpointError)
        if self._observed is None or self._observed[0] is not tree:
            self._observed = (tree, _observation(tree, self._root))
        return self._observed[1]

    def checkpoint(self, name: str) -> int:
        tree = self._scanned(f"make the checkpoint {name!r}", CheckpointError)
        try:
            for path, content in self._scan.unstored.items():
                entry = tree.get(path)
                # its time or mode may have changed since it was read; only the content is stored
                if entry is not None and is_file(entry) and entry.content == content:
                    self._store_content(path, entry)
        except OSError as error:
            raise CheckpointError(f"{os.fsdecode(self._root)}: cannot store a file: {error}") from error
        self._scan.unstored.clear()
        return self._versions.keep(tree)

    def rollback(self, token: int) -> None:
        wanted = self._versions[token]
        now = self._scanned(f"restore the checkpoint {token}", RollbackError)
        if now is wanted:
            return
        try:
            self._restore(now, wanted)
        except OSError as error:
            raise RollbackError(
                f"{os.fsdecode(self._root)}: cannot restore the checkpoint {token}: {error}"
            ) from error

    def save_baseline(self, token: int) -> Iterator[bytes]:
        """Return the directory in pieces, from which another process can restore it."""
        self._claim()
        return self._packed(self._versions[token])

    def _packed(self, tree: Tree) -> Iterator[bytes]:
        yield msgspec.msgpack.encode((self._root,))
        for content in {entry.content for entry in tree.values() if is_file(entry)}:
            with (self._store / content.hex()).open("rb") as source:
                while piece := source.read(_PIECE):
                    yield msgspec.msgpack.encode((content, piece))
        for path, entry in tree.items():
            yield msgspec.msgpack.encode((path, entry.mode, entry.content, entry.size, entry.modified))

    def restore_baseline(self, pieces: Iterable[bytes]) -> bool:
        """Restore the saved directory; return False, and do nothing, if the pieces belong to another one."""
        decoded = map(msgspec.msgpack.decode, pieces)
        if next(decoded, None) != [self._root]:
            return False
        self._claim()
        wanted: dict[bytes, FileEntry] = {}
        arrived: set[bytes] = set()
        for piece in decoded:
            if len(piece) == 2:
                content, data = piece
                with (self._store / content.hex()).open("ab" if content in arrived else "wb") as target:
                    target.write(data)
                arrived.add(content)
            else:
                wanted[piece[0]] = FileEntry(*piece[1:])
        (self._store / _EMPTY).touch()
        now = self._scanned("scan", RollbackError)
        try:
            self._restore(now, Map(wanted))
        except OSError as error:
            raise RollbackError(f"{os.fsdecode(self._root)}: cannot restore the baseline: {error}") from error
        return True

    def _claim(self) -> None:
        """Lock the directory for this process; the lock ends with the process."""
        if self._claimed is not None or fcntl is None:
            return
        descriptor = os.open(self._root, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise SystemSetupError(
                f"{os.fsdecode(self._root)}: another FileSystem is exploring this directory; wait until it ends"
            ) from None
        except OSError:  # a file system without locks
            pass
        self._claimed = weakref.finalize(self, os.close, descriptor)

    def release_baseline(self) -> None:
        """Release the lock: no other process needs to restore the directory."""
        if self._claimed is not None:
            self._claimed()
            self._claimed = None

    def close(self) -> None:
        """Discard all checkpoints and their contents."""
        self.release_baseline()
        self._versions = VersionTokens()
        self._remove_store()

    def _scanned(self, doing: str, kind: type[Exception]) -> Tree:
        try:
            return self._scan.scan()
        except OSError as error:
            raise kind(f"{os.fsdecode(self._root)}: cannot {doing}: {error}") from error

    # ---------------------------------------------------------------- contents

    def _store_content(self, path: bytes, entry: FileEntry) -> None:
        """Store the content of a file, unless it is already stored."""
        stored = self._store / entry.content.hex()
        if stored.exists():
            return
        part = stored.with_suffix(".part")
        digest = blake2b(digest_size=32)
        with _opened(self._at(path), os.O_RDONLY) as source, part.open("wb") as target:
            while piece := source.read(_PIECE):
                digest.update(piece)
                target.write(piece)
        if digest.digest() != entry.content:
            raise CheckpointError(
                f"{os.fsdecode(path)!r} changed during the checkpoint; stop its writers first"
            )
        part.replace(stored)

    # ---------------------------------------------------------------- restoring

    def _restore(self, now: Tree, wanted: Tree) -> None:
        differing = {path for path in {*now, *wanted} if not _equal(now.get(path), wanted.get(path))}
        parents = {path.rpartition(b"/")[0] for path in differing} - {b""}
        for path in sorted(parents):  # make read-only directories writable
            if (entry := now.get(path)) and is_directory(entry) and entry.mode & 0o700 != 0o700:
                os.chmod(self._at(path), entry.mode & 0o7777 | 0o700)
        for path in sorted(differing, reverse=True):  # the content of a directory first
            if path in now and (
                path not in wanted or stat.S_IFMT(now[path].mode) != stat.S_IFMT(wanted[path].mode)
            ):
                self._remove(path, now[path])
        for path in sorted(filter(wanted.__contains__, differing)):
            self._make(path, now.get(path), wanted[path])
        for path in sorted(filter(wanted.__contains__, differing | parents), reverse=True):
            entry = wanted[path]
            if not is_link(entry):
                os.chmod(self._at(path), entry.mode & 0o7777)
            os.utime(self._at(path), ns=(entry.modified, entry.modified), follow_symlinks=False)

    def _remove(self, path: bytes, entry: FileEntry) -> None:
        if is_directory(entry):
            shutil.rmtree(self._at(path))  # only ignored files (sockets, pipes) can still be inside
        else:
            os.unlink(self._at(path))

    def _make(self, path: bytes, now: FileEntry | None, wanted: FileEntry) -> None:
        location = self._at(path)
        same_kind = now is not None and stat.S_IFMT(now.mode) == stat.S_IFMT(wanted.mode)
        if is_directory(wanted):
            if not same_kind:
                os.mkdir(location)
        elif is_link(wanted):
            if same_kind:
                os.unlink(location)
            os.symlink(wanted.content, location)
        elif not same_kind or now is None or now.content != wanted.content:
            self._write(location, wanted)

    def _write(self, location: bytes, wanted: FileEntry) -> None:
        try:
            alone = os.lstat(location).st_nlink == 1
        except FileNotFoundError:
            alone = True
        if not alone:  # its other hard links may be outside of the directory
            os.unlink(location)
        elif os.path.lexists(location) and not os.access(location, os.W_OK):
            os.chmod(location, 0o600)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with (self._store / wanted.content.hex()).open("rb") as source, _opened(location, flags) as target:
            shutil.copyfileobj(source, target, _PIECE)

    def _at(self, path: bytes) -> bytes:
        return os.path.join(self._root, path)


def _opened(path: bytes, flags: int) -> BinaryIO:
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "wb")


def _equal(one: FileEntry | None, other: FileEntry | None) -> bool:
    if one is None or other is None:
        return one is other
    # The time of a directory changes with its content; it is restored together with that.
    return (one.mode, one.content) == (other.mode, other.content) and (
        is_directory(one) or one.modified == other.modified
    )


def _observation(tree: Tree, root: bytes) -> Observation:
    digest = blake2b(digest_size=32)
    shown: dict[Any, Any] = {}
    for path in sorted(tree):
        entry = tree[path]
        part = msgspec.msgpack.encode((path, entry.mode, entry.content))
        digest.update(len(part).to_bytes(8, "big") + part)
        if len(tree) <= SHOWN:
            shown[_name(path)] = _shown(entry)
    data: Any = shown if len(tree) <= SHOWN else {"entries": len(tree), "digest": digest.hexdigest()}
    return Observation("files", data, {"directory": os.fsdecode(root)}, digest.digest())


def _name(path: bytes) -> str | bytes:
    try:
        return path.decode()
    except UnicodeDecodeError:
        return path


def _shown(entry: FileEntry) -> dict[str, Any]:
    mode = f"{entry.mode & 0o7777:o}"
    if is_directory(entry):
        return {"directory": mode}
    if is_link(entry):
        return {"link": _name(entry.content)}
    assert is_file(entry)
    return {"file": mode, "size": entry.size, "hash": entry.content.hex()[:16]}
