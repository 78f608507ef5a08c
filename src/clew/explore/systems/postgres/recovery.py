"""Save a PostgreSQL database as pieces of bytes, so that another process can restore it.

The images of all watched rows and the positions of the sequences are saved, with the definitions of the schema. To
restore them, the images are loaded into tables of the journal's schema, and the server computes the rows that differ;
only those are transferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from clew.errors import RollbackError
from clew.explore.systems.delta_tree import add
from clew.explore.systems.postgres.catalog import WatchedObjects, quoted
from clew.explore.systems.postgres.change_capture import CapturedChanges, ChangeCapture
from clew.explore.systems.postgres.connection import psycopg
from clew.explore.systems.postgres.epochs import read_definitions
from clew.explore.systems.postgres.restore import Delta, Sequences
from clew.explore.systems.postgres.triggers import image_sql

if TYPE_CHECKING:
    from clew.explore.systems.postgres.connection import Connection, Cursor

_PIECE = 1 << 20


class RecoveryHeader(msgspec.Struct, frozen=True):
    """The metadata of the saved rows."""

    definitions: dict[str, str | None]
    tables: list[str]
    sequences: dict[str, tuple[int, bool]]
    place: str  # identifies the database


def place(link: Connection) -> str:
    """Return the identity of the database: the cluster's identifier and the name."""
    try:
        ((cluster,),) = link.execute("SELECT system_identifier FROM pg_control_system()").fetchall()
    except psycopg.errors.InsufficientPrivilege:  # identify the cluster by its address
        cluster = f"{link.info.host}:{link.info.port}"
    return f"{cluster}/{link.info.dbname}"


def header_of(session: ChangeCapture, sequences: Sequences) -> RecoveryHeader:
    """Return the metadata of the current rows."""
    watched, link = session.watched, session.link
    at = {watched.sequences[oid].name: value for oid, value in sequences.items()}
    names = [table.name for table in watched.tables.values()]
    definitions = dict(read_definitions(link, session.schema))
    return RecoveryHeader(definitions, names, at, place(link))


def rows(cursor: Cursor, watched: WatchedObjects) -> Iterator[bytes]:
    """Return the images of all watched rows in pieces, each with the number of its table."""
    for number, table in enumerate(watched.tables.values()):
        every = f"SELECT {image_sql(table, 't')} FROM ONLY {table.name} t"
        waiting, size = [], 0
        with cursor.copy(f"COPY ({every}) TO STDOUT (ENCODING 'UTF8')".encode()) as copy:
            for block in copy:
                waiting.append(bytes(block))
                size += len(block)
                if size > _PIECE:
                    yield msgspec.msgpack.encode((number, b"".join(waiting)))
                    waiting, size = [], 0
        yield msgspec.msgpack.encode((number, b"".join(waiting)))


def restore_rows(session: ChangeCapture, header: RecoveryHeader, pieces: Iterable[bytes]) -> Delta:
    """Restore the saved rows; return the changes since the last read."""
    _check_watched(header, session.watched)
    _load(session.link, session.schema, header, pieces)
    change: Delta = {}

    def plan(found: CapturedChanges) -> tuple[Delta, Sequences]:
        change.clear()  # a restore may be planned more than once
        delta, sequences = _path_back(session.link, session.schema, header, session.watched)
        change.update(delta)
        return delta, sequences

    captured = session.restore(plan)
    if captured.changes:
        raise RollbackError(
            f"the schema changed during the restore ({', '.join(captured.changes)}); try again"
        )
    _unload(session.link, session.schema, header)
    add(change, captured.delta)
    return change


def _load(link: Connection, schema: str, header: RecoveryHeader, pieces: Iterable[bytes]) -> None:
    """Load the saved images into tables of the journal's schema."""
    for number in range(len(header.tables)):
        name = _table_name(schema, number)
        link.execute(f"DROP TABLE IF EXISTS {name}".encode(), prepare=False)
        link.execute(f"CREATE UNLOGGED TABLE {name} (i text)".encode(), prepare=False)
    decode = msgspec.msgpack.Decoder(tuple[int, bytes]).decode
    for number, images in map(decode, pieces):
        with link.cursor().copy(
            f"COPY {_table_name(schema, number)} FROM STDIN (ENCODING 'UTF8')".encode()
        ) as copy:
            copy.write(images)


def _unload(link: Connection, schema: str, header: RecoveryHeader) -> None:
    """Drop the tables of `_load`."""
    for number in range(len(header.tables)):
        link.execute(f"DROP TABLE IF EXISTS {_table_name(schema, number)}".encode(), prepare=False)


def _path_back(
    link: Connection, schema: str, header: RecoveryHeader, watched: WatchedObjects
) -> tuple[Delta, Sequences]:
    """Return the delta to the saved rows, and the saved sequences; call it inside the transaction that applies them."""
    by_name = {table.name: table for table in watched.tables.values()}
    change: Delta = {}
    for number, name in enumerate(header.tables):
        table = by_name[name]
        differing = (
            'SELECT i, sum(n)::int FROM (SELECT i COLLATE "C" AS i, 1 AS n '
            f"FROM {_table_name(schema, number)} UNION ALL "
            f'SELECT {image_sql(table, "t")} COLLATE "C", -1 FROM ONLY {name} t) u GROUP BY i HAVING sum(n) <> 0'
        )
        for image, more in link.execute(differing.encode(), prepare=False):
            change[table.oid, image] = more
    oids = {each.name: oid for oid, each in watched.sequences.items()}
    return change, {oids[name]: value for name, value in header.sequences.items() if name in oids}


def _check_watched(header: RecoveryHeader, watched: WatchedObjects) -> None:
    """Raise a RollbackError if other tables are watched than were saved."""
    now = {table.name for table in watched.tables.values()}
    differing = sorted(now.symmetric_difference(header.tables))
    if differing:
        raise RollbackError(
            f"the watched tables differ from the saved ones: {', '.join(differing)}; use the same tables=[...]"
        )


def _table_name(schema: str, number: int) -> str:
    return quoted(schema, f"saved_{number}")


def decode_header(piece: bytes) -> RecoveryHeader:
    """Return the metadata of the first piece."""
    try:
        return msgspec.json.decode(piece, type=RecoveryHeader)
    except msgspec.MsgspecError as error:
        raise RollbackError(f"cannot read the saved baseline ({error}); use a new store") from error
