"""Blobs (large values) of a SQLite file, each stored once while a run or a cached result uses it.

The table `blobs` has a row for each blob, with its digest and the run 0. It also has a row without a body for each run
that uses the blob, and for each cached result, under its negated number. A blob of more than 1 MiB is a file in a
folder next to the database, named by its digest; its row has no body. SQLite would write it twice, in small pages with
checksums, which takes several times as long.

Rules:

- A file is complete and on the disk before the transaction that refers to it commits. So a kill or a power failure
  leaves at most a file without a row, which no reader opens. It is written again when it is needed.
- Files are written and removed only inside a write transaction, which only one process can have. A file is removed
  after the deletion of its row is on the disk, unless a row refers to it again. This also removes files without a row.
- The folder also has the files of key-value tables, whose names start with ``kv-``; `kv.py` writes and removes them.

The caller opens the transactions.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

from clew.errors import StoreUnavailableError

LARGEST = 1 << 20
"""The size of the largest blob inside the database."""

KEY_VALUE = "kv-"
"""The names of files of key-value tables start with it."""

_PUT = "INSERT INTO blobs (digest, run, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_LAST_USER = "SELECT max(run) FROM blobs WHERE digest = ?"
_EXISTS = "SELECT 1 FROM blobs WHERE digest = ? AND run = 0"
_IS_USED = "SELECT 1 FROM blobs WHERE digest = ? AND run <> 0 LIMIT 1"
_NAME = re.compile("[0-9a-f]{64}|kv-[0-9a-f]{32}", re.ASCII)
_PART = 1 << 20  # of a write: larger ones take longer


class BlobFolder:
    """The folder of the blobs that are files. It is created with the first one."""

    def __init__(self, database: Path, *, syncs: bool) -> None:
        self._database = os.path.realpath(database)
        self.path = Path(f"{self._database}-blobs")
        self.place = f"{database} and its folder {self.path.name}"
        self._syncs = syncs

    def has(self, digest: str, size: int) -> bool:
        """Return whether there is a file of this size."""
        try:
            return os.stat(self.path / digest).st_size == size
        except OSError:
            return False

    def write(self, digest: str, *parts: bytes) -> None:
        """Write a blob, given in parts, to the disk."""
        file = self.path / digest
        try:
            mode = S_IMODE(os.stat(self._database).st_mode)
            if not self.path.exists():
                self.path.mkdir(mode | (mode & 0o444) >> 2)
                self._sync(self.path.parent)
            descriptor = os.open(file, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, mode & 0o666)
            with open(descriptor, "wb", buffering=0) as out:
                for part in parts:
                    view = memoryview(part)
                    while view:
                        view = view[out.write(view[:_PART]) :]
                if self._syncs:
                    os.fsync(out.fileno())
            self._sync(self.path)
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot write {file}: {error}; nothing is lost, free disk space or make the folder writable, then "
                "resume"
            ) from error

    def read(self, digest: str) -> bytes | None:
        """Return a blob without verifying it, or None if it does not exist."""
        try:
            return (self.path / digest).read_bytes() if _NAME.fullmatch(digest) else None
        except OSError:
            return None

    def sweep(self, db: sqlite3.Connection) -> None:
        """Remove the files without a row, except those of key-value tables."""
        files = {name for name in self.names() if not name.startswith(KEY_VALUE)}
        rows = db.execute("SELECT digest FROM blobs WHERE run = 0 AND body IS NULL")
        self.remove(files.difference(digest for (digest,) in rows))

    def names(self) -> list[str]:
        """Return the names of the files."""
        try:
            return os.listdir(self.path)
        except OSError:
            return []

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, after the deletion of their rows is on the disk.

        Other names are ignored: a hostile row could name a file elsewhere.
        """
        names = [name for name in names if _NAME.fullmatch(name)]
        if not names:
            return
        with suppress(OSError):  # a file that stays has no row, and is removed later
            self._sync(Path(f"{self._database}-wal"))
            for name in names:
                (self.path / name).unlink(missing_ok=True)

    def _sync(self, path: Path) -> None:
        """Wait until a file, or the names in a folder, are on the disk."""
        if not self._syncs or not path.exists() or (os.name == "nt" and path.is_dir()):
            return
        descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def put_blobs(db: sqlite3.Connection, folder: BlobFolder, number: int, blobs: Mapping[str, bytes]) -> None:
    """Store blobs for a run."""
    for digest, content in blobs.items():
        is_file = len(content) > LARGEST
        if is_file and not (db.execute(_EXISTS, (digest,)).fetchone() and folder.has(digest, len(content))):
            folder.write(digest, content)
        (last_user,) = db.execute(_LAST_USER, (digest,)).fetchone()
        if not last_user:  # else a run uses it; SQLite would read and copy the content to find that out
            db.execute(_PUT, (digest, 0, None if is_file else content))
        db.execute(_PUT, (digest, number, None))


def read_blob(db: sqlite3.Connection, folder: BlobFolder, digest: str) -> bytes | None:
    """Return a blob without verifying it, or None if it does not exist."""
    found = db.execute("SELECT body FROM blobs WHERE digest = ? AND run = 0", (digest,)).fetchone()
    if found is None or found[0] is None:
        return None if found is None else folder.read(digest)
    return found[0] if type(found[0]) is bytes else b""  # a damaged value, whose digest does not match


def drop_blobs(db: sqlite3.Connection, number: int) -> bool:
    """Delete the blobs of a run that nothing else uses; return whether one of them is a file."""
    used = db.execute("SELECT digest FROM blobs WHERE run = ? AND run > 0", (number,)).fetchall()
    return release_blobs(db, number, [digest for (digest,) in used])


def release_blobs(db: sqlite3.Connection, number: int, digests: Iterable[str]) -> bool:
    """Stop using blobs, and delete those that nothing else uses; return whether one of them is a file."""
    used = [(digest,) for digest in digests]
    db.executemany("DELETE FROM blobs WHERE digest = ? AND run = ?", [(*key, number) for key in used])
    unused = [key for key in used if db.execute(_IS_USED, key).fetchone() is None]
    bodies = [
        db.execute("SELECT body IS NULL FROM blobs WHERE digest = ? AND run = 0", key).fetchone()
        for key in unused
    ]
    db.executemany("DELETE FROM blobs WHERE digest = ? AND run = 0", unused)
    return (1,) in bodies
