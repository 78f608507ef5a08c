"""RedisSystem on real servers, Redis and Valkey, that an application uses through its own client."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from clew.errors import ExplorationWarning, RollbackError, SystemSetupError, UnknownCheckpointError
from clew.explore.model.system import System
from clew.explore.systems import RedisSystem
from clew.explore.systems.redis.system import KeyEntry
from tests.explore.systems.servers import RedisServer

Step = Callable[[Any], object]


@pytest.fixture(scope="module")
def server(redis_server: RedisServer) -> RedisServer:
    return redis_server


@pytest.fixture
def app(server: RedisServer) -> Iterator[Any]:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
        yield client


@pytest.fixture
def system(server: RedisServer, app: Any) -> Iterator[RedisSystem]:
    with RedisSystem(server.url) as made:
        yield made


def contents(app: Any) -> dict[bytes, tuple[Any, bool]]:
    """What every key holds, as commands show it, and whether it expires."""
    read = {
        b"string": app.get,
        b"list": lambda key: app.lrange(key, 0, -1),
        b"set": app.smembers,
        b"hash": app.hgetall,
        b"zset": lambda key: app.zrange(key, 0, -1, withscores=True),
        b"stream": lambda key: (app.xrange(key), app.xinfo_groups(key)),
    }
    return {key: (read[app.type(key)](key), app.pttl(key) >= 0) for key in app.scan_iter()}


def restores_all(app: Any, system: RedisSystem, *steps: Step) -> None:
    """Checkpoints before the first step and after each; then every one from every other."""
    found = [(system.checkpoint("initial"), contents(app), system.observe())]
    for step in steps:
        step(app)
        found.append((system.checkpoint("step"), contents(app), system.observe()))
    for start, _, _ in found:
        for token, keys, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(app) == keys
            assert system.observe() == observation


CASES: dict[str, tuple[Step, ...]] = {
    "strings": (
        lambda app: app.set("a", "1"),
        lambda app: app.mset({"a": "2", "b": "3"}),
        lambda app: app.delete("a"),
        lambda app: app.incr("b"),
    ),
    "binary keys and values": (
        lambda app: app.set(b"\xff\x00:\r\n", b"\x00\xfe"),
        lambda app: app.append(b"\xff\x00:\r\n", b"\x80"),
        lambda app: app.set("a:b:c {x} 🧵", "🐘"),
        lambda app: app.set("", "the empty key"),
    ),
    "every type": (
        lambda app: (app.rpush("l", "a", "b"), app.sadd("s", "x", "y"), app.hset("h", "f", "v")),
        lambda app: (app.zadd("z", {"m": 1.5, "n": -2}), app.xadd("st", {"k": "v"}, id="1-1")),
        lambda app: (app.lpop("l"), app.srem("s", "x"), app.hdel("h", "f"), app.zincrby("z", 3, "n")),
        lambda app: app.setrange("l2", 5, "x"),
        lambda app: (app.delete("s"), app.set("s", "now a string")),
    ),
    "streams with groups": (
        lambda app: [app.xadd("st", {"n": n}, id=f"{n}-0") for n in range(1, 5)],
        lambda app: app.xgroup_create("st", "g", id="0"),
        lambda app: app.xreadgroup("g", "me", {"st": ">"}, count=2),
        lambda app: app.xack("st", "g", "1-0"),
        lambda app: app.xtrim("st", maxlen=1),
    ),
    "renaming, moving, copying": (
        lambda app: app.mset({"a": "1", "b": "2"}),
        lambda app: app.rename("a", "c"),
        lambda app: app.rename("c", "b"),
        lambda app: app.move("b", 3),
        lambda app: (app.set("x", "1"), app.copy("x", "y")),
    ),
    "flushing": (
        lambda app: app.mset({"a": "1", "b": "2"}),
        lambda app: app.flushdb(),
        lambda app: app.mset({"a": "1", "c": "2"}),
        lambda app: (app.flushdb(), app.mset({"d": "1", "e": "2"})),
        lambda app: (app.flushall(), app.set("a", "1")),
    ),
    "swapping databases": (
        lambda app: app.mset({"a": "1", "b": "2"}),
        lambda app: app.execute_command("SWAPDB", 0, 5),
        lambda app: app.mset({"p": "1", "q": "2"}),
        lambda app: app.execute_command("SWAPDB", 0, 5),
    ),
    "times to live": (
        lambda app: app.set("a", "1", ex=1000),
        lambda app: app.persist("a"),
        lambda app: app.pexpire("a", 500_000),
        lambda app: app.set("a", "2"),
    ),
    "scripts and transactions": (
        lambda app: app.eval("redis.call('SET', 'a', 1); redis.call('SADD', 's', 1, 2)", 0),
        lambda app: app.eval("redis.call('FLUSHDB'); redis.call('SET', 'z', 1)", 0),
        lambda app: app.pipeline().set("p", 1).delete("z").execute(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_any_state_is_restored_from_any_other(case: str, app: Any, system: RedisSystem) -> None:
    app.set("there from the beginning", "x")
    restores_all(app, system, *CASES[case])


def test_other_databases_are_not_touched(server: RedisServer, app: Any) -> None:
    with redis.Redis.from_url(f"{server.url}?db=2") as second, RedisSystem(second) as system:
        app.set("a", "of the first")
        second.set("a", "of the second")
        token, start = system.checkpoint("start"), system.observe()
        app.set("b", "of the first")
        assert system.observe() == start
        second.set("b", "x")
        second.flushdb()
        system.rollback(token)
        assert (second.keys(), second.get("a")) == ([b"a"], b"of the second")
        assert sorted(app.keys()) == [b"a", b"b"]


def test_a_time_to_live_is_what_it_was_at_the_checkpoint(app: Any, system: RedisSystem) -> None:
    app.set("soon", "1", px=60_000_000)
    app.set("never", "1")
    token = system.checkpoint("start")
    app.pexpire("soon", 5_000_000)
    app.expire("never", 1)
    system.rollback(token)
    assert 50_000_000 < app.pttl("soon") <= 60_000_000
    assert app.pttl("never") == -1


def test_only_whether_a_key_expires_counts_for_the_state(app: Any, system: RedisSystem) -> None:
    app.set("a", "1", ex=100)
    start = system.observe()
    app.expire("a", 5_000)
    assert system.observe() == start
    app.persist("a")
    assert system.observe() != start


def test_a_key_that_expired_comes_back(app: Any, system: RedisSystem) -> None:
    app.set("a", "1", ex=1000)
    token, start = system.checkpoint("start"), system.observe()
    for _ in range(2):
        app.pexpire("a", 1)
        while app.exists("a"):
            time.sleep(0.001)
        assert system.observe().data == {}
        system.rollback(token)
        assert app.ttl("a") > 900
        assert system.observe() == start


def test_a_key_that_was_not_touched_does_not_age_either(app: Any, system: RedisSystem) -> None:
    app.set("a", "1", px=60_000_000)
    token = system.checkpoint("start")
    left = app.pttl("a")
    while app.pttl("a") > left - 400:
        time.sleep(0.01)
    began = time.monotonic()
    system.rollback(token)
    again = app.pttl("a")
    assert (
        again + 1000 * (time.monotonic() - began) > left - 100
    )  # it ages from the rollback on, not from before


def test_the_encoding_inside_the_server_does_not_count(app: Any, system: RedisSystem) -> None:
    app.sadd("s", *range(5))
    app.hset("h", mapping={str(n): n for n in range(5)})
    app.rpush("l", "x")
    app.zadd("z", {"a": 1})
    start, dump = system.observe(), app.dump("s")
    app.delete("s", "h")
    app.sadd("s", *map(str, range(4, -1, -1)), "a text, so that the set is no set of integers any more")
    app.srem("s", "a text, so that the set is no set of integers any more")
    app.hset("h", mapping={str(n): n for n in range(4, -1, -1)})
    app.rpush("l", *["y" * 100] * 2000)
    app.ltrim("l", 0, 0)
    app.zadd("z", {f"{n}": n for n in range(1000)})
    app.zrem("z", *range(1000))
    assert app.dump("s") != dump
    assert system.observe() == start


def test_what_an_observation_shows(app: Any, system: RedisSystem) -> None:
    app.set("a", "1")
    app.sadd("s", "y", "x")
    app.set(b"\xff", b"\xfe", ex=100)
    assert system.observe().data == {
        "a": {"type": "string", "value": "1", "expires": False},
        "s": {"type": "set", "value": {"members": ["x", "y"]}, "expires": False},
        b"\xff": {"type": "string", "value": b"\xfe", "expires": True},
    }
    app.mset({f"{n}": n for n in range(100)})
    assert system.observe().data["keys"] == 103


def test_only_touched_keys_are_read_and_written(app: Any, system: RedisSystem) -> None:
    app.mset({f"{n}": n for n in range(2000)})
    token = system.checkpoint("start")

    def counts() -> dict[str, int]:
        asked = ("restore", "dump", "scan", "get")
        return {
            name: app.info("commandstats").get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in asked
        }

    before = counts()
    app.set("7", "changed")
    system.checkpoint("changed")
    system.rollback(token)
    system.observe()
    after = counts()
    assert {name: after[name] - before[name] for name in after} == {
        "restore": 1,
        "dump": 2,
        "scan": 0,
        "get": 1,
    }


def test_writers_that_go_on_between_restores(server: RedisServer, app: Any, system: RedisSystem) -> None:
    app.mset({f"{n}": n for n in range(50)})
    found = [(system.checkpoint("initial"), contents(app), system.observe())]
    for step in (lambda: app.delete("1", "2"), lambda: app.sadd("s", 1, 2, 3)):
        step()
        found.append((system.checkpoint("step"), contents(app), system.observe()))
    done = threading.Event()
    writes = [0, 0, 0]

    def write(number: int) -> None:
        with redis.Redis.from_url(server.url) as client:
            while not done.is_set():
                key = (writes[number] * 3 + number) % 60
                client.pipeline().set(f"{key}", number).rpush(f"l{key}", number).delete("s").execute()
                writes[number] += 1

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for turn in range(60):
        system.rollback(found[turn % 3][0])
    while min(writes) == 0:
        done.wait(0.001)
    done.set()
    for writer in writers:
        writer.join()
    for start, _, _ in found:
        for token, keys, observation in found:
            system.rollback(start)
            system.rollback(token)
            assert contents(app) == keys
            assert system.observe() == observation


@pytest.mark.parametrize("loss", ["killed connection", "switched off"])
def test_lost_notifications_lead_to_a_full_comparison(loss: str, app: Any, system: RedisSystem) -> None:
    app.mset({"a": "1", "b": "2"})
    token, start = system.checkpoint("start"), system.observe()
    if loss == "killed connection":
        app.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    else:
        app.config_set("notify-keyspace-events", "")
    app.set("a", "changed, and nobody heard of it")
    assert system.observe() != start
    app.set("b", "changed")
    system.rollback(token)
    assert (app.get("a"), app.get("b")) == (b"1", b"2")
    app.set("a", "again")
    assert system.observe() != start


def test_a_server_without_config_is_compared_as_a_whole() -> None:
    server = RedisServer("redis", "--rename-command", "CONFIG", "")
    server.start()
    try:
        with redis.Redis.from_url(server.url) as app, RedisSystem(app) as system:
            app.set("a", "1")
            with pytest.warns(ExplorationWarning, match="notify-keyspace-events"):
                token = system.checkpoint("start")
            app.mset({"a": "2", "b": "3"})
            system.checkpoint("changed")
            system.rollback(token)
            assert (app.keys(), app.get("a")) == ([b"a"], b"1")
    finally:
        server.remove()


def test_a_server_that_is_gone_is_an_error_and_one_that_comes_back_is_restored() -> None:
    server = RedisServer("valkey")
    server.start()
    try:
        with redis.Redis.from_url(server.url) as app, RedisSystem(server.url) as system:
            app.set("a", "1")
            token = system.checkpoint("start")
            server.stop()
            with pytest.raises(RollbackError):
                system.rollback(token)
            server.start()
            system.rollback(token)
            assert app.get("a") == b"1"
    finally:
        server.remove()


def test_the_setting_of_the_server_is_left_as_it_was(server: RedisServer, app: Any) -> None:
    app.config_set("notify-keyspace-events", "Ex")
    with RedisSystem(server.url) as system:
        system.checkpoint("start")
        assert "K" in app.config_get("notify-keyspace-events")["notify-keyspace-events"]
    assert set(app.config_get("notify-keyspace-events")["notify-keyspace-events"]) == {"E", "x"}
    app.config_set("notify-keyspace-events", "")


@pytest.mark.parametrize("options", [{}, {"decode_responses": True, "protocol": 3}])
def test_clients_of_all_kinds(options: dict[str, Any], server: RedisServer, app: Any) -> None:
    with redis.Redis.from_url(server.url, **options) as client, RedisSystem(client) as system:
        token = system.checkpoint("start")
        app.set("a", b"\xff")
        assert system.observe().data["a"]["value"] == b"\xff"
        system.rollback(token)
        assert app.keys() == []


def test_what_is_no_server() -> None:
    with pytest.raises(SystemSetupError, match="expected a URL"):
        RedisSystem(object())


def test_tokens(app: Any, system: RedisSystem) -> None:
    assert isinstance(system, System)
    with pytest.raises(UnknownCheckpointError, match="Checkpoint not found: 1"):
        system.rollback(1)
    first, same = system.checkpoint("a"), system.checkpoint("a")
    assert first != same
    system.release(first)
    system.release(first)
    assert (system.is_valid(first), system.is_valid(same), system.is_valid("x")) == (False, True, False)
    app.set("a", "1")
    system.rollback(same)
    assert app.keys() == []


def test_what_released_checkpoints_held_is_freed(app: Any, system: RedisSystem) -> None:
    """Each value is large; only those that a checkpoint holds, or that are there now, stay in memory."""
    before = system.checkpoint("before")
    for number in range(30):
        app.set("key", f"{number}" * 10_000)
        token = system.checkpoint("large")
        assert 10_000 < system.size(token) < 30_000
        system.rollback(before)
        system.release(token)
    held = [each for each in gc.get_objects() if isinstance(each, KeyEntry) and each.key == b"key"]
    assert len(held) <= 1
    assert system.size(before) == 0


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(SystemSetupError, match="invalid URL 'http://x'"):
        RedisSystem("http://x")


def test_keys_that_vanished_while_nobody_was_told_are_missed(app: Any, system: RedisSystem) -> None:
    """Notifications were off for a moment and are on again; the number of keys does not fit."""
    app.mset({"a": "1", "b": "2"})
    token, start = system.checkpoint("start"), system.observe()
    flags = app.config_get("notify-keyspace-events")["notify-keyspace-events"]
    app.config_set("notify-keyspace-events", "")
    app.delete("a")
    app.config_set("notify-keyspace-events", flags)
    assert system.observe() != start
    system.rollback(token)
    assert app.get("a") == b"1"
