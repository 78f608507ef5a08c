"""Random walks compared with the oracle on PostgreSQL, reopened and opened twice."""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest

from tests.incremental.oracle_pair import KINDS, Pair, an_operation
from tests.incremental.oracle_worlds import a_world
from tests.stores.servers import PostgresServer


def address(server: PostgresServer) -> str:
    """As users write it."""
    parts = dict(part.split("=") for part in server.dsn.split())
    return f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(parts['host'], safe='')}"


def walk_on(server: PostgresServer, seed: int, length: int, handles: int) -> None:
    choose = random.Random(seed).choice
    pair = Pair(a_world(choose), address(server), handles=handles, name=f"walk {seed}")
    try:
        for _ in range(length):
            pair.do(an_operation(choose, pair.model.world, KINDS))
            pair.take_turns()
            pair.check()
    except BaseException as error:
        error.add_note(f"seed {seed}, world {pair.model.world}")
        raise
    finally:
        pair.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_walk(seed: int, server: PostgresServer) -> None:
    walk_on(server, seed, 25, handles=1 + seed % 2)


@pytest.mark.slow
def test_many_walks(server: PostgresServer) -> None:
    for seed in range(100, 150):
        walk_on(server, seed, 40, handles=1 + seed % 2)
