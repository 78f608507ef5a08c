"""Read a directory again, but only the files that may have changed.

A file counts as unchanged if its size, its inode, its modification time and its status change time (which no program
can set) are the same. Times have a resolution: a file that is written twice within one tick looks unchanged after the
second write. So a status is trusted only if it was older than a tick when the file was read. A younger file is read
again.
"""

from __future__ import annotations

import os
import stat
import time
from hashlib import blake2b

import msgspec
from immutables import Map

_FINE_TICK = 50_000_000  # nanoseconds; kernel ticks take up to 10 ms
_COARSE_TICK = 2_100_000_000  # some file systems store whole seconds, or two seconds
_PIECE = 1 << 20
_KINDS = frozenset({stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR})


class FileEntry(msgspec.Struct, frozen=True):
    """A file, link or directory. `content` is the hash of a file, or the target of a link."""

    mode: int
    content: bytes = b""
    size: int = 0
    modified: int = 0


Tree = Map[bytes, FileEntry]
Status = tuple[int, int, int, int]


def is_directory(entry: FileEntry) -> bool:
    return stat.S_ISDIR(entry.mode)


def is_link(entry: FileEntry) -> bool:
    return stat.S_ISLNK(entry.mode)


def is_file(entry: FileEntry) -> bool:
    return stat.S_ISREG(entry.mode)


class DirectoryScan:
    """A directory that is scanned repeatedly. `unstored` has the hashes of changed files; the caller empties it."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._tree: Tree = Map()
        self._last: dict[bytes, FileEntry] = {}  # the same content as the tree
        self._statuses: dict[bytes, Status] = {}  # the trusted statuses of files
        self.unstored: dict[bytes, bytes] = {}

    def scan(self) -> Tree:
        """Return the current content; the same object as before if nothing changed."""
        found: dict[bytes, FileEntry] = {}
        self._walk(self._root, b"", found)
        last = self._last
        changed = [(path, entry) for path, entry in found.items() if last.get(path) != entry]
        gone = [path for path in last if path not in found]
        if changed or gone:
            with self._tree.mutate() as tree:
                tree.update(changed)
                for path in gone:
                    del tree[path]
                    self._statuses.pop(path, None)
                self._tree = tree.finish()
            self._last = found
        return self._tree

    def _walk(self, folder: bytes, prefix: bytes, found: dict[bytes, FileEntry]) -> None:
        with os.scandir(folder) as listed:
            entries = list(listed)
        for each in entries:
            path = prefix + each.name
            try:
                status = each.stat(follow_symlinks=False)
                kind = stat.S_IFMT(status.st_mode)
                if kind in _KINDS:
                    found[path] = self._entry(path, each.path, status)
            except FileNotFoundError:
                continue  # removed during the scan
            if kind == stat.S_IFDIR:
                self._walk(each.path, path + b"/", found)

    def _entry(self, path: bytes, place: bytes, status: os.stat_result) -> FileEntry:
        mode, modified = status.st_mode, status.st_mtime_ns
        if stat.S_ISDIR(mode):
            return FileEntry(mode, modified=modified)
        if stat.S_ISLNK(mode):
            return FileEntry(mode, os.readlink(place), modified=modified)
        now = (status.st_size, modified, status.st_ctime_ns, status.st_ino)
        known = self._last.get(path)
        if known is not None and is_file(known) and self._statuses.get(path) == now:
            return known if known.mode == mode else msgspec.structs.replace(known, mode=mode)
        began = time.time_ns()
        content, size = _read(place)
        entry = FileEntry(mode, content, size, modified)
        # Times without a fraction of a second suggest a file system with a resolution of seconds.
        tick = _FINE_TICK if modified % 1_000_000_000 and status.st_ctime_ns % 1_000_000_000 else _COARSE_TICK
        if max(modified, status.st_ctime_ns) < began - tick:
            self._statuses[path] = now
        else:
            self._statuses.pop(path, None)
        if known is None or known.content != content or not is_file(known):
            self.unstored[path] = content
        return entry


def _read(place: bytes) -> tuple[bytes, int]:
    digest, size = blake2b(digest_size=32), 0
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return digest.digest(), size
