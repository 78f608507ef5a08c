"""The stored form: what is kept apart, what it costs, and how the canonical form follows from stored bytes."""

from __future__ import annotations

import hashlib
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from clew.errors import DecodeError
from clew.state import (
    LARGE,
    StoredObject,
    canonical,
    decode,
    encode,
    register_type,
    stored_value,
    stored_values,
)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def store(value: Any) -> tuple[Any, dict[str, bytes]]:
    """The tree of the stored form, and the contents; every law that holds for all values is checked."""
    blobs: dict[str, bytes] = {}
    stored = stored_value(value, at="value", blobs=blobs)
    assert decode(stored, blob=blobs.__getitem__) == value
    again: dict[str, bytes] = {}
    plain = decode(stored, blob=blobs.__getitem__, classes=False)
    assert stored_value(plain, at="value", blobs=again) == stored
    assert again == blobs
    assert all(sha(content) == name for name, content in blobs.items())
    update, canonical_update = stored_values({"name": value}, at="state", blobs={})
    assert update == b'{"name":' + stored + b"}"
    assert canonical(update) == canonical_update == b'{"name":' + canonical(stored) + b"}"
    return msgspec.json.decode(stored), blobs


BIG = bytes(range(256)) * 257
TEXT = "x" * (LARGE + 1)


@dataclass(frozen=True)
class Scan:
    data: bytes


class TestWhatIsKeptApart:
    @pytest.mark.parametrize("kind", [bytes, bytearray])
    def test_bytes(self, kind):
        tree, blobs = store(kind(BIG))
        assert tree == {"$blob": [kind.__name__, sha(BIG)]}
        assert blobs == {sha(BIG): BIG}

    def test_bytes_are_not_copied(self):
        _, blobs = store(BIG)
        assert blobs[sha(BIG)] is BIG
        assert decode(stored_value(BIG, at="v", blobs={}), blob=blobs.__getitem__) is BIG

    def test_a_bytearray_that_changes_later_does_not_change_what_was_stored(self):
        data, blobs = bytearray(BIG), dict[str, bytes]()
        stored_value(data, at="v", blobs=blobs)
        data[0] = 99
        assert blobs == {sha(BIG): BIG}

    def test_text(self):
        assert store(TEXT) == ({"$blob": ["str", sha(TEXT.encode())]}, {sha(TEXT.encode()): TEXT.encode()})

    def test_text_is_measured_in_utf8(self):
        text = "é" * (LARGE // 2)
        assert store(text + "é")[0] == {"$blob": ["str", sha((text + "é").encode())]}
        assert (
            store({"a": text})[0]["$blob"][0] == "json"
        )  # with its quotes the value is larger than its leaf

    def test_exactly_the_limit_is_not_large(self):
        assert store(["x" * (LARGE - 4)]) == (["x" * (LARGE - 4)], {})
        tree, _ = store(["x" * (LARGE - 3)])
        assert tree["$blob"][0] == "json"
        assert store(b"x" * LARGE)[0]["$blob"][0] == "json"  # as Base64 it is large, and still a part of JSON
        assert store(b"x" * (LARGE + 1))[0]["$blob"][0] == "bytes"

    def test_large_text_with_lone_surrogates(self):
        text = "a\ud800" * 20_000
        tree, blobs = store({"deep": [text]})
        ((_, content),) = blobs.items()
        assert tree == {"deep": [{"$blob": ["json", sha(content)]}]}
        assert content == encode(text)

    def test_a_large_value_of_small_parts(self):
        value = {"z": list(range(20_000)), "a": 1}
        tree, blobs = store(value)
        content = encode(value, ordered=True)
        assert tree == {"$blob": ["json", sha(content)]}
        assert blobs == {sha(content): content}

    def test_content_within_content(self):
        value = [*range(20_000), BIG, bytearray(BIG), TEXT]
        tree, blobs = store(value)
        assert tree["$blob"][0] == "json"
        assert set(blobs) == {tree["$blob"][1], sha(BIG), sha(TEXT.encode())}

    @pytest.mark.parametrize(
        "value, tree",
        [
            ({BIG}, {"$set": [{"$blob": ["bytes", sha(BIG)]}]}),
            ({BIG: 1}, {"$dict": [[{"$blob": ["bytes", sha(BIG)]}, 1]]}),
            ({"a": 1, BIG: TEXT}, None),
            ((BIG, {"a": {"b": BIG}}), None),
            ([TEXT] * 20, [{"$blob": ["str", sha(TEXT.encode())]}] * 20),
            (["x"] * 20 + [TEXT], ["x"] * 20 + [{"$blob": ["str", sha(TEXT.encode())]}]),
            ({"$blob": ["bytes", sha(BIG)]}, {"$dict": [["$blob", ["bytes", sha(BIG)]]]}),
            ({"$blob": BIG}, {"$dict": [["$blob", {"$blob": ["bytes", sha(BIG)]}]]}),
            ({frozenset({BIG}), frozenset({BIG[1:]})}, None),
            ({TEXT: 1}, None),
            ({TEXT: 1, 2: 3}, {"$dict": [[{"$blob": ["str", sha(TEXT.encode())]}, 1], [2, 3]]}),
        ],
        ids=(
            "set",
            "key",
            "key after text",
            "tuple",
            "texts",
            "text after texts",
            "tag",
            "tag of bytes",
            "frozensets",
        )
        + ("large name", "large name in pairs"),
    )
    def test_wherever_it_is_nested(self, value, tree):
        found, blobs = store(value)
        assert tree is None or found == tree
        assert "$blob" in str(found)
        assert blobs or "$blob" in value
        assert len(str(found)) < LARGE

    def test_inside_a_dataclass(self):
        register_type(Scan, name="scan")
        blobs: dict[str, bytes] = {}
        stored = stored_value({Scan(BIG)}, at="v", blobs=blobs)
        assert (
            stored == b'{"$set":[{"$object":["scan",{"data":{"$blob":["bytes","%s"]}}]}]}' % sha(BIG).encode()
        )
        assert decode(stored, blob=blobs.__getitem__) == {Scan(BIG)}
        assert decode(stored, blob=blobs.__getitem__, classes=False) == {StoredObject("scan", {"data": BIG})}

    def test_only_the_large_values_of_an_update(self):
        blobs: dict[str, bytes] = {}
        stored, form = stored_values({"b": list(range(20_000)), "a": [1]}, at="state", blobs=blobs)
        assert stored == b'{"b":{"$blob":["json","%s"]},"a":[1]}' % next(iter(blobs)).encode()
        assert form == b'{"a":[1],"b":{"$blob":["json","%s"]}}' % next(iter(blobs)).encode()

    def test_an_update_with_odd_names(self):
        for values in ({"$a": list(range(20_000))}, {"\ud800": list(range(20_000)), "b": 1}):
            blobs: dict[str, bytes] = {}
            stored, form = stored_values(values, at="state", blobs=blobs)
            assert len(stored) < 200
            assert canonical(stored) == form
            assert decode(stored, blob=blobs.__getitem__) == values

    def test_many_small_values_stay(self):
        blobs: dict[str, bytes] = {}
        values = {f"name{i}": "x" * 100 for i in range(1_000)}
        stored, _ = stored_values(values, at="state", blobs=blobs)
        assert not blobs
        assert decode(stored) == values


class TestCosts:
    def test_fifty_megabytes_cost_about_their_digest(self):
        data = b"x" * 50_000_000
        hashing = min(_seconds(lambda: hashlib.sha256(data)) for _ in range(5))
        storing = min(_seconds(lambda: stored_values({"a": {"b": data}}, at="s", blobs={})) for _ in range(5))
        assert storing < 2 * hashing + 0.01

    @pytest.mark.parametrize(
        "value, copies",
        [
            (b"x" * 20_000_000, 0),
            ([{"a": b"x" * 20_000_000}], 0),
            (bytearray(20_000_000), 1),
            ("x" * 20_000_000, 1),
            ([{"a": "x" * 20_000_000}], 1),
            (["x" * 1_000] * 20_000, 2),
        ],
        ids=["bytes", "nested bytes", "bytearray", "text", "nested text", "many texts"],
    )
    def test_copies_in_memory(self, value, copies):
        blobs: dict[str, bytes] = {}
        tracemalloc.start()
        try:
            stored_values({"a": value}, at="s", blobs=blobs)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < (copies + 0.6) * 20_000_000

    def test_content_is_asked_for_once(self):
        asked: list[str] = []
        blobs: dict[str, bytes] = {}
        stored = stored_value([BIG] * 100 + [TEXT] * 100, at="v", blobs=blobs)

        def lookup(digest: str) -> bytes:
            asked.append(digest)
            return blobs[digest]

        assert decode(stored, blob=lookup) == [BIG] * 100 + [TEXT] * 100
        assert len(asked) == len(set(asked)) == len(blobs)


def _seconds(call: Any) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


class TestCanonical:
    def test_the_order_of_dicts_does_not_count(self):
        one, other = (
            {"b": {2: 1, 1: [{"y": 1, "x": 2}]}, "a": 1},
            {"a": 1, "b": {1: [{"x": 2, "y": 1}], 2: 1}},
        )
        stored, form = stored_values(one, at="s", blobs={})
        assert stored != form == canonical(stored) == stored_values(other, at="s", blobs={})[1] == encode(one)

    def test_a_set_whose_members_hold_dicts(self):
        """Its order is that of the canonical encodings, in which the dicts are sorted."""

        class Holder(Scan):
            def __hash__(self) -> int:
                return 1

        register_type(Holder, name="holder", encode=lambda held: held.data, decode=Holder)
        members = {Holder({2: 0, 1: 0}), Holder({1: 5})}
        stored, form = stored_values({"a": members}, at="s", blobs={})
        assert form == canonical(stored) == encode(decode(stored))
        assert stored.index(b"[2,0]") < stored.index(b"[1,5]")

    def test_text_that_looks_like_a_form(self):
        for value in ({"a": ['"$dict"'], "b": 1}, {"b": "$dict", "a": {"$dict": 1, "$a": 2}}):
            stored, form = stored_values(value, at="s", blobs={})
            assert canonical(stored) == form == encode(value)

    def test_it_is_its_own_canonical_form(self):
        form = stored_values({"b": {2: {3, 1}, 1: ()}, "a": 1}, at="s", blobs={})[1]
        assert canonical(form) == form
        assert canonical(memoryview(form)) == form

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "nul",
            '{"$dict":5}',
            '{"$dict":null}',
            '{"a":{"$dict":1.5}}',
            "[" * 100_000,
            '{"$dict":[' * 5000,
        ]
        + ['{"$dict":[[' * 600 + "1" + "]]}" * 600],
    )
    def test_what_is_not_a_stored_form(self, text):
        with pytest.raises(DecodeError):
            canonical(text.encode())

    def test_an_escaped_tag_is_the_same_form(self):
        """Otherwise bytes with one digest could be read as two values."""
        stored = b'{"\\u0024tuple":[1,{"\\u0024dict":[[2,0],[1,0]]}]}'
        assert canonical(stored) == encode((1, {2: 0, 1: 0}))
        assert decode(stored) == (1, {2: 0, 1: 0})


DIGEST = "0" * 64


class TestHostileContent:
    def read(self, form: Any, contents: dict[str, Any] | None = None) -> Any:
        lookup = None if contents is None else contents.__getitem__
        return decode(msgspec.json.encode({"$blob": form}), blob=lookup)

    @pytest.mark.parametrize(
        "form",
        [
            None,
            1,
            "bytes",
            [],
            ["bytes"],
            ["bytes", DIGEST, 1],
            {"bytes": DIGEST},
            ["object", DIGEST],
            [["bytes"], DIGEST],
        ]
        + [["bytes", 5], ["bytes", None], ["bytes", "0" * 63], ["bytes", "G" * 64], ["bytes", "٠" * 64]]
        + [["bytes", DIGEST + "\n"], ["bytes", DIGEST.replace("0", "A")], [None, DIGEST], ["tuple", DIGEST]],
        ids=str,
    )
    def test_forms(self, form):
        with pytest.raises(DecodeError):
            decode(msgspec.json.encode({"$blob": form}), blob=lambda digest: b"1")

    def test_no_lookup_and_no_content(self):
        with pytest.raises(DecodeError):
            self.read(["bytes", DIGEST])
        with pytest.raises(DecodeError) as caught:
            self.read(["bytes", DIGEST], {})
        assert DIGEST in str(caught.value)

    @pytest.mark.parametrize(
        "kind, content",
        [("str", b"\xff"), ("json", b"{"), ("json", b"\xff"), ("json", b'{"$later":1}')]
        + [
            (kind, content) for kind in ("bytes", "bytearray", "str", "json") for content in ("text", None, 5)
        ],
    )
    def test_contents(self, kind, content):
        with pytest.raises(DecodeError):
            self.read([kind, DIGEST], {DIGEST: content})

    @pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
    def test_any_bytes_like_object_is_content(self, form):
        assert self.read(["bytes", DIGEST], {DIGEST: form(b"12")}) == b"12"
        assert type(self.read(["bytes", DIGEST], {DIGEST: form(b"12")})) is bytes
        assert self.read(["bytearray", DIGEST], {DIGEST: form(b"12")}) == bytearray(b"12")
        assert self.read(["str", DIGEST], {DIGEST: form(b"12")}) == "12"
        assert self.read(["json", DIGEST], {DIGEST: form(b"12")}) == 12

    def test_content_that_names_itself(self):
        itself = msgspec.json.encode([{"$blob": ["json", DIGEST]}])
        asked = []

        def lookup(digest: str) -> bytes:
            asked.append(digest)
            return itself

        with pytest.raises(DecodeError):
            decode(itself, blob=lookup)
        assert len(asked) < 20

    def test_errors_of_a_store_are_its_own(self):
        from clew.errors import StoreUnavailableError, UnknownRunError

        for error in (StoreUnavailableError("gone"), UnknownRunError("gone")):

            def lookup(digest: str, error: Exception = error) -> bytes:
                raise error

            with pytest.raises(type(error)):
                decode(msgspec.json.encode({"$tuple": [{"$blob": ["bytes", DIGEST]}]}), blob=lookup)
