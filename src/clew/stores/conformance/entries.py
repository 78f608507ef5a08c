"""Checks of log entries: stored exactly, once, in order, atomically."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from typing import Any

from clew.errors import CommitConflictError, RunExistsError, StoreCorruptError, StoreError, UnknownRunError
from clew.stores.conformance.harness import (
    LEASE,
    LONG,
    NAMES,
    StoreHarness,
    an_entry,
    check,
    expect,
    names,
    refuses,
)
from clew.stores.protocol import LogEntry, RunRow


@check
def entries_come_back_as_they_were_given(place: StoreHarness) -> None:
    store, fence = place.owned()
    entries = [
        an_entry(1, b""),
        an_entry(2, bytes(range(256)), digest=b""),
        an_entry(3, "🧵".encode(), digest=b"\x00\xff"),
        an_entry(1, b"{}", kind="call", path="a#1[2]/b"),
    ]
    for entry in entries:
        store.append("r", [entry], fence)
    again = place.open()
    expect(list(again.find("r", "step", "")), entries[:3], "the steps")
    expect(list(again.entries("r")), [entries[3], *entries[:3]], "the log")
    if not store.encodes:
        body = object()
        store.append("r", [LogEntry("label", "x", 0, body)], fence)
        expect(store.find("r", "label", "x")[0].body, body, "a body that is any object")


@check
def names_may_be_any_text(place: StoreHarness) -> None:
    store = place.open()
    for run_id in NAMES:
        store.create(RunRow(run_id, graph=run_id, parent=None, target=run_id))
    expect([row.run_id for row in store.rows()], list(NAMES), "the ids")
    for run_id in NAMES:
        fence = store.claim(run_id, f"owner {run_id[:20]}", lease=LEASE)
        one_by_one = [an_entry(1, kind="call", path=path) for path in NAMES]
        for entry in one_by_one:
            store.append(run_id, [entry], fence)
            store.append(run_id, [entry], fence)
        together = [an_entry(1, kind="label", path=path) for path in NAMES]
        store.append(run_id, together, fence)
        expect(
            sorted(names(store.entries(run_id))), sorted(names(one_by_one + together)), "the names in a log"
        )
        store.append(run_id, [], fence, drop=[entry.name for entry in together])
        for entry in one_by_one:
            expect(store.find(run_id, "call", entry.path), [entry], "what is found by path")
            expect(store.last(run_id, "call", entry.path, 9), entry, "what is found by path")
    store.create(RunRow("fork", parent=LONG))
    with refuses(StoreError):
        store.delete(LONG)


@check
def long_names_that_begin_alike_are_not_the_same(place: StoreHarness) -> None:
    store, fence = place.owned(LONG + "a")
    with refuses(UnknownRunError):
        store.row(LONG + "b")
    store.append(LONG + "a", [an_entry(kind="call", path=LONG + "x")], fence)
    store.append(LONG + "a", [an_entry(kind="call", path=LONG + "y", digest=b"other")], fence)
    expect([e.path[-1] for e in store.entries(LONG + "a")], ["x", "y"], "the ends of the paths")


@check
def text_that_cannot_be_stored_is_rejected(place: StoreHarness) -> None:
    store, fence = place.owned()
    for odd in ("nul\x00", "half \ud83e of a pair", "\ud83e" * 5_000):
        try:
            store.create(RunRow(odd))
        except StoreError:
            pass
        else:
            expect(store.row(odd).run_id, odd, "an id")
        entry = an_entry(kind="label", path=odd)
        for entries in ([entry], [entry, an_entry(2, kind="label", path=odd)]):
            try:
                store.append("r", entries, fence)
            except StoreError:
                pass
            else:
                expect(store.find("r", "label", odd)[0], entry, "an entry")
    expect([e for e in store.entries("r") if e.kind != "label"], [], "what else is in the log")


@check
def numbers_may_be_large(place: StoreHarness) -> None:
    store, fence = place.owned()
    numbers = [0, 1, 2**15, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 + 1, 2**62]
    for kind, path in (("step", ""), ("step", "inner"), ("call", "")):
        for n in reversed(numbers):
            store.append("r", [an_entry(n, kind=kind, path=path)], fence)
        expect([e.n for e in store.find("r", kind, path)], numbers, f"n of {kind} {path!r}")
        for below, n in pairwise(numbers):
            expect(store.last("r", kind, path, n).n, n, f"the last {kind} up to {n}")
            expect(
                store.last("r", kind, path, n - 1).n,
                max(below, min(n - 1, below)),
                f"the last {kind} up to {n - 1}",
            )
    steps = [e.n for e in store.entries("r", after=2**32) if e.kind == "step" and not e.path]
    expect(steps, numbers[6:], "steps after 2**32")


@check
def bodies_may_be_large(place: StoreHarness) -> None:
    store, fence = place.owned()
    for n, size in enumerate((1_000, 4_096, 65_536, 5_000_000)):
        body = bytes(i * 31 % 251 for i in range(1_000)) * (size // 1_000)
        store.append("r", [an_entry(n, body, kind="snapshot")], fence)
        assert store.last("r", "snapshot", "", n).body == body, (
            f"a body of {len(body)} bytes came back changed"
        )
    start: Any = b"s" * 5_000_000 if store.encodes else ["s"] * 5_000
    store.create(RunRow("large", start=start))
    assert store.row("large").start == start, "a start of 5 MB came back changed"


@check
def many_entries_are_one_append(place: StoreHarness) -> None:
    store, fence = place.owned()
    steps = [an_entry(n, b"%d" % n) for n in range(1, 5_001)]
    calls = [an_entry(n, b"c%d" % n, kind="call", path=f"p{n % 7}") for n in range(1_000)]
    store.append("r", [*steps, *calls], fence)
    expect(len(store.entries("r")), 6_000, "entries")
    expect(list(store.entries("r", after=4_990))[-10:], steps[-10:], "steps after 4,990")
    store.append("r", [*steps, *calls], fence)
    expect(len(store.entries("r")), 6_000, "entries after the same append again")


@check
def entries_are_in_the_order_of_kind_path_and_number(place: StoreHarness) -> None:
    store, fence = place.owned()
    paths = ["", "B", "a", "a/b", "a b", "b", "é", "ﬀ", "🧵"]
    named = [
        (kind, path, n)
        for kind in ("a", "answer", "step", "stepp", "z")
        for path in paths
        for n in (1, 2, 10)
    ]
    for i in range(len(named)):
        kind, path, n = named[i * 37 % len(named)]
        store.append("r", [an_entry(n, kind=kind, path=path)], fence)
    expect(names(store.entries("r")), sorted(named), "the order of the log")
    without = [name for name in sorted(named) if name not in (("step", "", 1), ("step", "", 2))]
    expect(names(store.entries("r", after=2)), without, "the log after step 2")
    between = [name for name in sorted(named) if name[:2] != ("step", "") or name[2] == 2]
    expect(names(store.entries("r", after=1, upto=2)), between, "the log with step 2 only")
    others = [name for name in sorted(named) if name[0] not in ("answer", "step")]
    expect(names(store.entries("r", skip=("step", "answer"))), others, "the log without some kinds")
    expect(names(store.find("r", "step", "a")), [("step", "a", n) for n in (1, 2, 10)], "what is found")


@check
def the_last_entry_up_to_a_number_is_found(place: StoreHarness) -> None:
    store, fence = place.owned()
    for kind, path in (("snapshot", ""), ("step", ""), ("step", "inner")):
        expect(store.last("r", kind, path, 99), None, "the last entry of an empty log")
        for n in (3, 10, 7):
            store.append("r", [an_entry(n, kind=kind, path=path)], fence)
        found = [getattr(store.last("r", kind, path, n), "n", None) for n in (0, 2, 3, 6, 7, 9, 10, 2**62)]
        expect(found, [None, None, 3, 3, 7, 7, 10, 10], f"the last {kind} up to 0, 2, 3, 6, 7, 9, 10, 2**62")
    expect(list(store.find("r", "step", "other")), [], "entries of an unused path")


@check
def returned_entries_do_not_change(place: StoreHarness) -> None:
    store, fence = place.owned()
    store.append("r", [an_entry(1)], fence)
    log, found = store.entries("r"), store.find("r", "step", "")
    store.append("r", [an_entry(2)], fence)
    store.append("r", [], fence, drop=[("step", "", 1)])
    expect((names(log), names(found)), ([("step", "", 1)],) * 2, "a log that was read before")


@check
def the_same_entry_again_changes_nothing(place: StoreHarness) -> None:
    store, fence = place.owned()
    for first in (
        an_entry(1, b"first", digest=b"same"),
        an_entry(1, b"first", kind="call", path="p", digest=b"same"),
    ):
        again = LogEntry(first.kind, first.path, 1, b"second", b"same")
        store.append("r", [first], fence)
        store.append("r", [again], fence)
        store.append("r", [again, again], fence)
        expect(store.find("r", first.kind, first.path), [first], "the entry")


@check
def different_content_under_the_same_name_is_a_conflict(place: StoreHarness) -> None:
    store, fence = place.owned()
    for first in (an_entry(1, b"first"), an_entry(1, b"first", kind="call", path="p")):
        other = an_entry(1, b"second", kind=first.kind, path=first.path)
        store.append("r", [first], fence)
        for entries in ([other], [first, other], [an_entry(2), other, an_entry(3)]):
            with refuses(CommitConflictError):
                store.append("r", entries, fence)
        expect(store.find("r", first.kind, first.path), [first], "the entry that existed")


@check
def an_append_is_all_or_nothing(place: StoreHarness) -> None:
    store, fence = place.owned()
    content = b"content"
    digest = sha256(content).hexdigest()
    kept = [an_entry(1, b"kept"), an_entry(1, b"kept", kind="journal", path="p")]
    store.append("r", kept, fence)
    fresh = [an_entry(n) for n in range(5, 105)]
    for clash in (
        an_entry(1, b"clash"),
        an_entry(1, b"clash", kind="journal", path="p"),
        an_entry(60, b"clash"),
    ):
        with refuses(CommitConflictError):
            store.append(
                "r",
                [*fresh[:50], an_entry(9, kind="call", path="q"), *fresh[50:], clash],
                fence,
                drop=[("journal", "p", 1) if clash.kind == "step" else ("step", "", 1)],
                blobs={digest: content},
            )
        expect(list(store.entries("r")), kept[::-1], "the log after a rejected append")
        with refuses(StoreCorruptError):
            store.blob(digest)
    store.append("r", fresh, fence)
    expect(len(store.entries("r")), 102, "entries after an append without a conflict")


@check
def dropped_entries_are_gone(place: StoreHarness) -> None:
    store, fence = place.owned()
    journal = [an_entry(0, b"%d" % i, kind="journal", path=f"p{i}") for i in range(5)]
    store.append("r", journal, fence)
    store.append("r", [an_entry(1)], fence, drop=[e.name for e in journal[:3]])
    expect(
        names(store.entries("r")), [("journal", "p3", 0), ("journal", "p4", 0), ("step", "", 1)], "the log"
    )
    store.append("r", [], fence, drop=[("journal", "p0", 0), ("nothing", "", 5), ("step", "", 1)])
    expect(names(store.entries("r")), [("journal", "p3", 0), ("journal", "p4", 0)], "the log")
    store.append("r", [an_entry(0, b"new", kind="journal", path="p0"), an_entry(1, b"other")], fence)
    expect(store.find("r", "journal", "p0")[0].body, b"new", "a new entry under the name of a dropped one")


@check
def an_entry_that_is_added_and_dropped_is_not_written(place: StoreHarness) -> None:
    store, fence = place.owned()
    first, second = (an_entry(0, body, kind="journal", path="p") for body in (b"first", b"second"))
    store.append("r", [first, an_entry(1)], fence, drop=[first.name])
    expect(names(store.entries("r")), [("step", "", 1)], "the log")
    store.append("r", [first], fence)
    store.append("r", [second], fence, drop=[first.name])
    expect(names(store.entries("r")), [("step", "", 1)], "the log")


@check
def large_contents_are_stored_while_runs_need_them(place: StoreHarness) -> None:
    store, fence = place.owned("a")
    contents = {sha256(content).hexdigest(): content for content in (b"", b"\x00\xff", b"x" * 5_000_000)}
    shared, other, large = contents
    store.append("a", [an_entry(1)], fence, blobs=contents)
    store.append("a", [], fence, blobs={shared: contents[shared]})
    store.create(RunRow("b"), {shared: contents[shared], large: contents[large]})
    for digest, content in contents.items():
        assert place.open().blob(digest) == content, "a content came back changed"
    store.delete("a")
    expect(
        (store.blob(shared), len(store.blob(large))),
        (b"", 5_000_000),
        "contents that another run also references",
    )
    for digest in (other, "0" * 64):
        with refuses(StoreCorruptError):
            store.blob(digest)
    store.delete("b")
    with refuses(StoreCorruptError):
        store.blob(shared)


@check
def a_run_that_cannot_be_created_stores_nothing(place: StoreHarness) -> None:
    store = place.open()
    store.create(RunRow("r"))
    digest = sha256(b"content").hexdigest()
    with refuses(RunExistsError):
        store.create(RunRow("r"), {digest: b"content"})
    with refuses(StoreCorruptError):
        store.blob(digest)


@check
def a_part_of_a_log_is_read_by_kinds_and_paths(place: StoreHarness) -> None:
    store, fence = place.owned()
    paths = ["a#1", "a#1/b#0", "a#1[2]", "a#10", "a#2", LONG, f"{LONG}2"]
    entries = [an_entry(0, kind=kind, path=path) for kind in ("start", "other") for path in paths]
    entries += [an_entry(n) for n in range(1, 6)]
    store.append("r", entries, fence)

    def read(kinds: tuple[str, ...], *spans: tuple[str, str], **more: Any) -> list[tuple[str, str, int]]:
        return names(store.within("r", kinds, spans or None, **more))

    starts = sorted(("start", path, 0) for path in paths)
    steps = [("step", "", n) for n in range(1, 6)]
    expect(read(("start",)), starts, "all of a kind")
    expect(read(("start", "step")), starts + steps, "all of two kinds")
    expect(read(("start", "step"), ("", "\x01"), after=2, upto=4), steps[2:4], "steps without a path")
    found = read(("start", "step"), ("a#1", "a#10"), ("a#1:", "a#1\x7f"))
    expect(found, [("start", path, 0) for path in ("a#1", "a#1/b#0", "a#1[2]")], "entries in two ranges")
    expect(read(("start",), (LONG, f"{LONG}2")), [("start", LONG, 0)], "a range of long paths")
    expect(read(("start",), (f"{LONG}2", f"{LONG}3")), [("start", f"{LONG}2", 0)], "another one")
    expect(read(("start",), ("x", "x")), [], "an empty range")
    expect(read((), ("a", "b")), [], "no kinds")
    with refuses(UnknownRunError):
        store.within("unknown", ("start",), [("a", "b")])


@check
def the_end_of_a_log_is_read_at_once(place: StoreHarness) -> None:
    store, fence = place.owned()
    large = 2**40  # a store may store such steps elsewhere

    def read(*kinds: str, base: str = "", most: int = 10) -> list[tuple[str, str, int]]:
        end = store.log_end("r", kinds, base=base, most=most)
        return [entry.name for entry in end.entries]

    empty = store.log_end("r", ("retry",), base="snapshot", most=3)
    expect((*empty.entries, *empty.messages), (), "the entries and messages of a new run")
    expect((empty.counts, empty.has_children), ({}, False), "the counts and children of a new run")
    with refuses(UnknownRunError):
        store.log_end("unknown", (), most=1)

    steps = [an_entry(n) for n in (1, 2, 3, 4, large)]
    others = [an_entry(1, path="a#0/"), an_entry(0, kind="call", path="a#0"), an_entry(2, kind="retry")]
    store.append("r", [*steps, *others, *(an_entry(n, kind="snapshot") for n in (1, 2))], fence)
    expect(read(most=2), [("step", "", 4), ("step", "", large)], "the last steps")
    expect(
        read("retry", "call", base="snapshot"),
        [("call", "a#0", 0), ("retry", "", 2), ("snapshot", "", 2)]
        + [("step", "", n) for n in (3, 4, large)],
        "the entries of some kinds, and the steps after the last snapshot",
    )
    end = store.log_end("r", (), most=1)
    expect(end.entries, [steps[-1]], "the last step, completely")
    counts = {("call", "a#0"): 1, ("retry", ""): 1, ("snapshot", ""): 2, ("step", "a#0/"): 1}
    expect(dict(end.counts), counts, "the counts")
    expect(dict(store.log_end("r", (), most=1, counts=False).counts), {}, "counts that were not requested")

    store.send("r", "m1", "signal", b"one")
    store.send("r", "m2", "signal", b"two")
    store.append("r", [], fence, received=[1])
    store.create(RunRow("c", child_of="r", place="a#0!0"))
    end = store.log_end("r", (), most=1)
    expect(list(end.messages), store.inbox("r"), "the messages")
    expect([each.id for each in end.messages], ["m2"], "the messages that were not received")
    expect(end.has_children, True, "whether the run has children")
    expect(store.log_end("c", (), most=1).has_children, False, "whether the child has children")
