"""The queue in PostgreSQL: methods of `PostgresStore`, and parts of its statements.

The rules are in `clew.stores.queue`. An index holds the entries of runs without an owner, by queue, structure, priority
and due time. A take is one statement. It jumps in the index from priority to priority, and reads the first entries of
each; within a priority, entries are ordered by due time. (To use the index, the server needs the value of the clock and
not the function, hence the SELECT around it.) A take skips entries that another take has locked. It has a token, so
that a repeated statement is one take. Its places are written out instead of passed as arrays: the server cannot
estimate the length of an array, and would plan the statement again each time, which takes longer than executing it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from clew.errors import OwnerDeadError, StoreCorruptError
from clew.stores.messages import declared_dead
from clew.stores.postgres.migrations import key_of
from clew.stores.postgres.ownership import RELEASED
from clew.stores.postgres.qualified import ROW
from clew.stores.postgres.workers import NOW, enroll, enrolling
from clew.stores.protocol import QueueCount, QueueEntry, TakenRun
from clew.stores.queue import FINAL, PARKED, RISE, SUSPICIOUS, WAKES
from clew.stores.sql_rows import read_row

if TYPE_CHECKING:
    from clew.stores.postgres.connection import Cursor
    from clew.stores.postgres.store import PostgresStore

PUT = f"""
    INSERT INTO @.queue (run, queue, structure, priority, due)
    SELECT made.id, given.queue, given.structure, given.priority, coalesce(given.due, {NOW})
    FROM made, (VALUES (%s::text, %s::text, %s::integer, %s::double precision))
        AS given (queue, structure, priority, due)
    WHERE given.queue IS NOT NULL
"""
"""Adds the entry of a new run in the table `made`; `entered` returns its values."""

_ENDED = ", ended AS (DELETE FROM @.queue USING changed WHERE queue.run = changed.id)"
_WHEN = f"""
    CASE WHEN changed.status IN ({", ".join(map(repr, WAKES))})
        AND EXISTS (SELECT FROM @.inbox WHERE inbox.run = changed.id AND body IS NOT NULL)
    THEN least(%s::double precision, {NOW}) ELSE %s::double precision END
"""
_PARKED = f"""
    , parked AS (
        UPDATE @.queue SET taken = false, tries = 0, due = {_WHEN} FROM changed WHERE queue.run = changed.id
    )
"""
_DUE = f"""
    , entered AS (
        INSERT INTO @.queue (run, queue, structure, priority, due)
        SELECT id, '{QueueEntry().queue}', structure, {QueueEntry().priority}, {_WHEN} FROM changed
        ON CONFLICT (run) DO UPDATE SET due = excluded.due, taken = false, tries = 0
    )
"""
_LEVEL = """(
    SELECT min(priority) FROM @.queue
    WHERE NOT taken AND queue.queue = {0}.queue AND queue.structure = {0}.structure"""
_DEAD = "SELECT owner FROM @.workers WHERE dead UNION SELECT owner FROM expired"
_MARK = """
    concat_ws('/', (SELECT max(n) FROM @.steps WHERE run = claimed.id), (
        SELECT concat(count(*), ':', sum(hashtextextended(concat(kind, ' ', key), n))) FROM @.log WHERE run = claimed.id
    ))
"""
_NEW = "0:"  # the mark of a run with an empty log
_HAS_LOG = """
    SELECT EXISTS (SELECT FROM @.steps WHERE run = %(run)s) OR EXISTS (SELECT FROM @.log WHERE run = %(run)s)
"""
_CLAIMS = (1 << 32) - 1  # the part of a fence that counts claims
_ROW = ROW.replace("SELECT ", "SELECT claimed.fence, marked.tries, marked.mark, ").replace(
    "FROM @.runs", "FROM claimed JOIN marked ON marked.run = claimed.id JOIN @.runs ON runs.id = claimed.id"
)
_IS_DEAD = "EXISTS (SELECT FROM @.workers WHERE owner = %(owner)s AND dead)"
_NAMES = ("owner", "host", "pid", "slot", "lease")
_ENROLL = enroll("EXISTS (SELECT FROM claimed)")
for _name in _NAMES:
    _ENROLL = _ENROLL.replace("%s", f"%({_name})s", 1)
_TAKE = f"""
    WITH RECURSIVE expired AS (
        UPDATE @.workers SET dead = true WHERE NOT dead AND until <= {NOW} AND owner <> %(owner)s RETURNING owner
    ), places (queue, structure) AS (
        VALUES PLACES
    ), levels AS (
        SELECT queue, structure, {_LEVEL.format("places")}) AS priority FROM places
        UNION ALL
        SELECT queue, structure, {_LEVEL.format("levels")} AND queue.priority > levels.priority) FROM levels
        WHERE priority IS NOT NULL
    ), ready AS MATERIALIZED (
        SELECT first.* FROM levels, LATERAL (
            SELECT run, priority, due, tries FROM @.queue
            WHERE NOT taken AND queue.queue = levels.queue AND queue.structure = levels.structure
            AND queue.priority = levels.priority AND due <= (SELECT {NOW})
            ORDER BY due, run LIMIT %(limit)s FOR UPDATE SKIP LOCKED
        ) AS first
    ), lost AS MATERIALIZED (
        SELECT queue.run, queue.priority, queue.due, queue.tries FROM @.runs JOIN @.queue ON queue.run = runs.id
        WHERE runs.owner <> '' AND runs.owner IN ({_DEAD})
        AND (queue.queue, queue.structure) IN (SELECT queue, structure FROM places)
        FOR UPDATE OF queue SKIP LOCKED
    ), chosen AS MATERIALIZED (
        SELECT run, tries, row_number() OVER (
            ORDER BY priority - floor(greatest(0, {NOW} - due) / {RISE}), due, run
        ) AS turn
        FROM (SELECT * FROM ready UNION ALL SELECT * FROM lost) AS found
        WHERE NOT {_IS_DEAD}
        ORDER BY turn LIMIT %(limit)s
    ), apart AS (
        SELECT run, turn FROM chosen
        WHERE CASE WHEN (SELECT tries FROM chosen WHERE turn = 1) >= {SUSPICIOUS} THEN turn = 1
            ELSE tries < {SUSPICIOUS} END
    ), claimed AS (
        UPDATE @.runs SET fence = CASE fence WHEN 0 THEN id << 32 ELSE fence END + 1, status = 'running',
            owner = %(owner)s, token = %(token)s
        FROM apart WHERE runs.id = apart.run AND (runs.owner = '' OR runs.owner IN ({_DEAD}))
        RETURNING runs.id, runs.fence, apart.turn
    ), marked AS (
        UPDATE @.queue SET taken = true, tries = CASE queue.mark WHEN latest.mark THEN queue.tries + 1 ELSE 1 END,
            mark = latest.mark
        FROM (SELECT claimed.id, {_MARK} AS mark FROM claimed) AS latest WHERE queue.run = latest.id
        RETURNING queue.run, queue.tries, queue.mark
    ), enrolled AS (
        {_ENROLL}
    )
    SELECT dead, taken.* FROM (SELECT {_IS_DEAD} AS dead) AS mine
    LEFT JOIN ({_ROW.replace("SELECT ", "SELECT claimed.turn, ")}) AS taken ON true ORDER BY taken.turn
"""
_AGAIN = f"""
    WITH claimed AS (SELECT id, fence FROM @.runs WHERE owner = %(owner)s AND token = %(token)s),
    marked AS (SELECT run, tries, mark FROM @.queue WHERE run IN (SELECT id FROM claimed))
    {_ROW.replace("SELECT ", "SELECT false, 0, ")} ORDER BY claimed.id
"""
_ENQUEUE = f"""
    WITH given (queue, priority, due) AS (
        VALUES (nullif(%s::text, ''), %s::integer, coalesce(%s::double precision, {NOW}))
    ), changed AS (
        UPDATE @.runs SET {RELEASED}, status = %s, last_queue = coalesce(
            (SELECT queue FROM given), (SELECT queue FROM @.queue WHERE run = runs.id), '{QueueEntry().queue}'
        )
        WHERE key = %s AND fence = %s RETURNING id, structure
    ), entered AS (
        INSERT INTO @.queue (run, queue, structure, priority, due)
        SELECT id, coalesce(given.queue, '{QueueEntry().queue}'), structure,
            coalesce(given.priority, {QueueEntry().priority}), given.due
        FROM changed, given
        ON CONFLICT (run) DO UPDATE SET taken = false, due = excluded.due, structure = excluded.structure,
            queue = coalesce((SELECT given.queue FROM given), queue.queue),
            priority = coalesce((SELECT given.priority FROM given), queue.priority)
    )
    SELECT id FROM changed
"""
_ENTRY = """
    SELECT queue.queue, queue.priority, queue.due
    FROM @.runs LEFT JOIN @.queue ON queue.run = runs.id WHERE runs.key = %s
"""
_COUNT = f"""
    SELECT queue, count(*) FILTER (WHERE NOT taken AND due <= {NOW}),
        count(*) FILTER (WHERE NOT taken AND due > {NOW} AND due < 'infinity'), count(*) FILTER (WHERE taken),
        {NOW} - min(due) FILTER (WHERE NOT taken AND due <= {NOW})
    FROM @.queue GROUP BY queue ORDER BY queue COLLATE "C"
"""
_WHAT = "the queue"


def entered(entry: QueueEntry | None, structure: str) -> tuple[Any, ...]:
    """Return the values of `PUT`."""
    return (None, None, None, None) if entry is None else (entry.queue, structure, entry.priority, entry.due)


def settled(status: str, due: float | None, *, release: bool) -> tuple[str, tuple[Any, ...]]:
    """Return what happens to the entry of a run in the table `changed` that gets a status, and the values."""
    if status in FINAL:
        return _ENDED, ()
    if not release:
        return "", ()
    return (_PARKED, (PARKED, PARKED)) if due is None else (_DUE, (due, due))


def entry(store: PostgresStore, run_id: str) -> QueueEntry | None:
    (found,) = store._of_run(run_id, _ENTRY, (key_of(run_id),))
    return None if found[0] is None else QueueEntry(*found)


def now(store: PostgresStore) -> float:
    """Return the time of the server."""
    return float(store._link.fetch(_WHAT, f"SELECT {NOW}")[0][0])


def take(
    store: PostgresStore,
    owner: str,
    *,
    structures: Collection[str],
    queues: Collection[str],
    limit: int,
    lease: float,
    token: str = "",
) -> list[TakenRun]:
    """Claim ready runs, in one statement."""
    link, places = store._link, sorted({(queue, each) for queue in queues for each in structures})
    values = {
        **dict(zip(_NAMES, enrolling(owner, link.slot, lease))),
        **{f"queue{n}": queue for n, (queue, _) in enumerate(places)},
        **{f"structure{n}": structure for n, (_, structure) in enumerate(places)},
        "token": token or token_hex(8),
        "limit": limit,
    }
    statement = _take_from(len(places))

    def work(cursor: Cursor, again: bool) -> list[tuple[Any, ...]]:
        if again and (found := cursor.execute(_AGAIN, values).fetchall()):
            return found
        return cursor.execute(statement, values, prepare=link.prepares).fetchall()

    taken: list[TakenRun] = []
    for is_dead, turn, *found in link.run(_WHAT, work):
        if is_dead:
            raise OwnerDeadError(declared_dead(owner))
        if turn is not None:
            taken.append(_taken(*found))
    for place, each in enumerate(taken):
        # A commit of the previous owner may have come while the statement waited, and the mark does not show it.
        if each.is_new and each.fence & _CLAIMS > 1:
            is_new = link.fetch(_WHAT, _HAS_LOG, {"run": each.fence >> 32}) == [(False,)]
            taken[place] = replace(each, is_new=is_new)
    return taken


@lru_cache
def _take_from(count: int) -> str:
    """Return the statement that takes from a number of places; from 0 places, it takes nothing."""
    places = [f"(%(queue{n})s::text, %(structure{n})s::text)" for n in range(count)]
    return _TAKE.replace("PLACES", ", ".join(places) or "(NULL::text, NULL::text)")


def _taken(fence: int, tries: int, mark: str, *columns: Any) -> TakenRun:
    row = read_row(columns)
    if row.damage:
        raise StoreCorruptError(row.damage)
    row.status = "running"  # the statement selects the row as it was
    return TakenRun(row, fence, tries, mark == _NEW)


def enqueue(
    store: PostgresStore,
    run_id: str,
    fence: int,
    *,
    status: str,
    due: float | None = None,
    queue: str = "",
    priority: int | None = None,
) -> None:
    values = (queue, priority, due, status, key_of(run_id), fence)
    if not store._link.change(f"run {run_id!r}", _ENQUEUE, values):
        store._check_fence(run_id, fence)
    if due is None:
        store._bell.ring()


def queues(store: PostgresStore) -> list[QueueCount]:
    return [QueueCount(*found) for found in store._link.fetch(_WHAT, _COUNT)]
