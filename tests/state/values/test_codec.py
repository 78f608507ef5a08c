"""The canonical codec: what each value looks like, what cannot be written, and what cannot be read."""

from __future__ import annotations

import hashlib
import math
import sys
from collections import OrderedDict
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Any, ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from clew.errors import DecodeError, EncodeError
from clew.state import (
    canonical,
    decode,
    digest,
    encode,
    from_tree,
    stored_value,
    stored_values,
    to_tree,
)
from clew.state.values.encoding import MAX_DEPTH

PARIS = ZoneInfo("Europe/Paris")
CET = timezone(timedelta(hours=1), "CET")

FORMS = [
    (None, "null"),
    (True, "true"),
    (1, "1"),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (1e16, "1e16"),
    ("é\n", '"é\\n"'),
    ([1, [2]], "[1,[2]]"),
    ({"b": 1, "a": {}}, '{"a":{},"b":1}'),
    ({"é": 1}, '{"é":1}'),
    ({"$a": 1, "$b": 2}, '{"$a":1,"$b":2}'),
    ({"$tuple": [1]}, '{"$dict":[["$tuple",[1]]]}'),
    ({2: "b", "1": "a", None: (3,)}, '{"$dict":[["1","a"],[2,"b"],[null,{"$tuple":[3]}]]}'),
    ((), '{"$tuple":[]}'),
    ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
    ({10, 9, "a"}, '{"$set":["a",10,9]}'),
    (frozenset({True}), '{"$frozenset":[true]}'),
    (b"\x00\xff", '{"$bytes":"AP8="}'),
    (bytearray(b"a"), '{"$bytearray":"YQ=="}'),
    (2**63 - 1, "9223372036854775807"),
    (2**63, '{"$int":"0x8000000000000000"}'),
    (-(2**63) - 1, '{"$int":"-0x8000000000000001"}'),
    (math.inf, '{"$float":"inf"}'),
    (-math.inf, '{"$float":"-inf"}'),
    (1 - 2j, '{"$complex":["1.0","-2.0"]}'),
    ("a\ud800é", '{"$str":"a\\\\ud800\\\\xe9"}'),
    ("\ud83d\ude00", '{"$str":"\\\\ud83d\\\\ude00"}'),
    ({"\udc00": 1}, '{"$dict":[[{"$str":"\\\\udc00"},1]]}'),
    (Decimal("1.50"), '{"$decimal":"1.50"}'),
    (Decimal("-Infinity"), '{"$decimal":"-Infinity"}'),
    (UUID(int=1), '{"$uuid":"00000000-0000-0000-0000-000000000001"}'),
    (date(2024, 2, 29), '{"$date":"2024-02-29"}'),
    (datetime(2024, 2, 29, 1, 2, 3), '{"$datetime":"2024-02-29T01:02:03"}'),
    (datetime(2024, 2, 29, 1, 2, 3, 4, UTC), '{"$datetime":"2024-02-29T01:02:03.000004+00:00"}'),
    (
        datetime(2024, 10, 27, 2, 30, tzinfo=PARIS, fold=1),
        '{"$datetime":["2024-10-27T02:30:00",{"$zoneinfo":"Europe/Paris"},1]}',
    ),
    (datetime(2024, 1, 1, fold=1), '{"$datetime":["2024-01-01T00:00:00",null,1]}'),
    (
        datetime(2024, 1, 1, tzinfo=CET),
        '{"$datetime":["2024-01-01T00:00:00",{"$timezone":[[0,3600,0],"CET"]},0]}',
    ),
    (time(1, 2), '{"$time":"01:02:00"}'),
    (time(1, 2, tzinfo=PARIS), '{"$time":["01:02:00",{"$zoneinfo":"Europe/Paris"},0]}'),
    (timedelta(days=-1, microseconds=5), '{"$timedelta":[-1,0,5]}'),
    (timezone(timedelta(hours=-5)), '{"$timezone":[[-1,68400,0]]}'),
    (PARIS, '{"$zoneinfo":"Europe/Paris"}'),
    (Path("a") / "b", '{"$path":"a/b"}'),
    (Path("a\udcff"), '{"$path":{"$str":"a\\\\udcff"}}'),
    (PurePosixPath("/a"), '{"$pure_posix_path":"/a"}'),
    (PureWindowsPath("C:\\a"), '{"$pure_windows_path":"C:/a"}'),
    (msgspec.UNSET, '{"$unset":null}'),
    (["x"] * 20, "[" + ",".join(['"x"'] * 20) + "]"),
    ((1.5,) * 20, '{"$tuple":[' + ",".join(["1.5"] * 20) + "]}"),
]


@pytest.mark.parametrize("value, text", FORMS, ids=[form[1][:30] for form in FORMS])
class TestForms:
    """The format, pinned: what is stored today is read for good."""

    def test_written(self, value, text):
        assert encode(value).decode() == text

    def test_read(self, value, text):
        back = decode(text.encode())
        assert back == value
        assert type(back) is type(value)
        assert repr(back) == repr(value) or isinstance(value, set | frozenset | dict)

    def test_through_a_tree_in_the_order_of_dicts(self, value, text):
        back = from_tree(msgspec.json.decode(msgspec.json.encode(to_tree(value))))
        assert back == value
        if isinstance(value, dict):
            assert list(back) == list(value)


class TestDistinctions:
    NEAR_COLLISIONS: ClassVar = [
        [1, 1.0, True, "1", b"1", Decimal(1), 1 + 0j, [1], (1,), {1}, frozenset({1}), {1: 1}, {"1": 1}],
        [0, 0.0, -0.0, False, None, "", b"", [], (), {}, set(), frozenset(), "0", "null", "None"],
        [bytearray(b"a"), b"a", "a", ["a"], {"$bytes": "YQ=="}, {"$bytearray": "YQ=="}, "YQ=="],
        [{"$dict": [["a", 1]]}, {"a": 1}, {"$tuple": [1]}, (1,), [["a", 1]], {"$set": [1]}],
        [{"$str": "a"}, "a", {"$str": "\\ud800"}, "\ud800", "\\ud800"],
        [[[]], [[], []], [], [[[]]], [["a"], "b"], ["a", ["b"]], ["a", "b"], ["ab"]],
        [math.nan, math.inf, -math.inf, "nan", Decimal("nan"), "inf", {"$float": "nan"}],
        [2**64, float(2**64), str(2**64), hex(2**64), {"$int": hex(2**64)}],
        [datetime(2024, 1, 1), date(2024, 1, 1), datetime(2024, 1, 1, fold=1), "2024-01-01"],
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))],
        [Decimal("1.0"), Decimal("1.00"), Decimal("10E-1")],
        [PurePosixPath("a"), PureWindowsPath("a"), Path("a"), "a"],
        [{1: 2, 3: 4}, {1: 4, 3: 2}, [[1, 2], [3, 4]]],
        [{None: 1}, {"null": 1}, {"None": 1}, {False: 1}, {0: 1}, {0.0: 1}],
    ]

    @pytest.mark.parametrize("values", NEAR_COLLISIONS)
    def test_different_values_have_different_bytes(self, values):
        assert len({encode(value) for value in values}) == len(set(map(repr, values)))

    def test_digest_has_the_length_of_each_part_before_it(self):
        assert digest(b"ab", b"") == hashlib.sha256(b"\0" * 7 + b"\2ab" + b"\0" * 8).hexdigest()
        cuts = [(b"ab",), (b"a", b"b"), (b"", b"ab"), (b"ab", b""), (), (b"",)]
        assert len({digest(*parts) for parts in cuts}) == len(cuts)


class TestOrder:
    def test_canonical_bytes_ignore_the_order_of_dicts(self):
        assert encode({"b": 1, "a": 2}) == encode({"a": 2, "b": 1})
        assert encode({2: {"b": 1, "a": 2}, 1: 0}) == encode({1: 0, 2: {"a": 2, "b": 1}})

    def test_ordered_bytes_keep_it(self):
        value = {"b": 1, "a": {3: 1, 2: {"d": 1, "c": ()}}}
        back = decode(encode(value, ordered=True))
        assert back == value
        assert repr(back) == repr(value)
        assert repr(decode(encode(value))) != repr(value)

    def test_a_set_has_one_order_in_both(self):
        value = {("b", frozenset({9, 10})), ("a",)}
        assert encode(value) == encode(value, ordered=True)
        assert decode(encode(value, ordered=True)) == value


class TestLargeNumbersAndLists:
    def test_integers_of_any_size(self):
        assert decode(encode(7**20_000)) == 7**20_000
        assert decode(encode(-(7**20_000))) == -(7**20_000)

    @pytest.mark.parametrize(
        "odd", [1.5, math.nan, 2**64, -(2**64), "é", "\ud800", True, None, (1,)], ids=repr
    )
    @pytest.mark.parametrize("plain", ["x", 7, 1.5, None])
    def test_one_odd_item_among_many_plain_ones(self, odd, plain):
        value = [plain] * 20 + [odd]
        assert repr(decode(encode(value))) == repr(value)
        assert repr(decode(encode(tuple(value)))) == repr(tuple(value))

    @pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
    def test_any_bytes_like_object_is_read(self, form):
        assert decode(form(encode({"a": (1, 2)}))) == {"a": (1, 2)}

    def test_a_tree_may_share_lists_but_nothing_is_changed(self):
        value = {"a": list(range(100))}
        assert to_tree(value) == value
        assert value == {"a": list(range(100))}


class Socket:
    pass


class Text(str):
    pass


class Zone(tzinfo):
    def utcoffset(self, moment):
        return timedelta(0)


class TestRefusals:
    def test_the_message_has_the_path_and_what_to_do(self):
        docs = [{}, {}, {}, {"client": Socket()}]
        with pytest.raises(EncodeError) as caught:
            encode({"docs": docs}, at="state")
        assert str(caught.value) == (
            "state.docs[3].client: a Socket cannot be stored; register it with clew.register_type, "
            "or keep it out of the state with Graph.bind"
        )

    @pytest.mark.parametrize(
        "value, path",
        [
            (Socket(), "value"),
            ([1, (2, Socket())], "value[1][1]"),
            ({"not a name": Socket()}, "value['not a name']"),
            ({1: {"a": Socket()}}, "value[1].a"),
            ({Socket(): 1}, "value.keys()"),
            ({"a": {Socket()}}, "value.a"),
            ([0] * 20 + [Socket()], "value[20]"),
        ],
        ids=lambda case: case if isinstance(case, str) else "",
    )
    def test_paths(self, value, path):
        for write in (encode, to_tree):
            with pytest.raises(EncodeError) as caught:
                write(value)
            assert str(caught.value).startswith(f"{path}: a Socket cannot be stored;")

    @pytest.mark.parametrize(
        "value, message",
        [
            (Text("a"), "a Text cannot be stored as the str that it extends; convert it to str"),
            (OrderedDict(a=1), "an OrderedDict cannot be stored as the dict that it extends"),
            ({Text("a"): 1}, "value.keys(): a Text cannot be stored as the str"),
            (msgspec, "a module cannot be stored"),
            (Socket, "a type cannot be stored"),
            (len, "a builtin_function_or_method cannot be stored"),
            (datetime(2024, 1, 1, tzinfo=Zone()), "its time zone is a Zone; use datetime.timezone"),
        ],
        ids=lambda case: case[:30] if isinstance(case, str) else "",
    )
    def test_what_cannot_be_stored(self, value, message):
        with pytest.raises(EncodeError) as caught:
            encode(value)
        assert message in str(caught.value)

    def test_a_time_zone_without_a_key(self):
        with open(next(_zone_files()), "rb") as file:
            zone = ZoneInfo.from_file(file)
        with pytest.raises(EncodeError, match="has no key"):
            encode(zone)
        with pytest.raises(EncodeError, match="has no key"):
            encode(datetime(2024, 1, 1, tzinfo=zone))

    def test_modules_that_nobody_imported_need_not_be_there(self, monkeypatch):
        monkeypatch.delitem(sys.modules, "zoneinfo")
        monkeypatch.delitem(sys.modules, "pathlib")
        with pytest.raises(EncodeError, match="a Socket cannot be stored"):
            encode(Socket())
        with pytest.raises(EncodeError, match="its time zone is a Zone"):
            encode(datetime(2024, 1, 1, tzinfo=Zone()))


def _zone_files():
    import importlib.resources
    import zoneinfo

    for root in zoneinfo.TZPATH:
        if (Path(root) / "Europe/Paris").exists():
            yield Path(root) / "Europe/Paris"
    yield importlib.resources.files("tzdata") / "zoneinfo/Europe/Paris"


class TestDepth:
    def test_a_value_that_contains_itself(self):
        items: list[object] = []
        items.append(items)
        mapping: dict[object, object] = {}
        mapping["a"] = [mapping]
        pairs: dict[object, object] = {}
        pairs[1] = {"x": pairs}
        for value in (items, mapping, pairs, (items,)):
            for write in (encode, to_tree):
                with pytest.raises(EncodeError, match="contains itself, or is nested more than"):
                    write(value)

    def test_the_deepest_value_goes_and_comes_back(self):
        for wrap in (lambda v: [v], lambda v: {"a": v}, lambda v: (v,), lambda v: {1: v}):
            value: object = 0
            for _ in range(MAX_DEPTH):
                value = wrap(value)
            assert decode(encode(value)) == value
            with pytest.raises(EncodeError, match=f"more than {MAX_DEPTH} levels"):
                encode(wrap(value))

    def test_nested_sets(self):
        value: object = 0
        for _ in range(MAX_DEPTH):
            value = frozenset({value})
        assert decode(encode(value)) == value
        with pytest.raises(EncodeError):
            encode({value})

    def test_keys_that_are_not_text_at_every_level_take_no_longer(self):
        value: object = 0
        for _ in range(MAX_DEPTH):
            value = {"a": value, 1: 0}
        assert decode(encode(value)) == value

    @pytest.mark.parametrize(
        "wrap", [lambda v: [v], lambda v: (v,), lambda v: {1: v}], ids=["list", "tuple", "dict"]
    )
    def test_a_caller_that_is_nested_deep_itself(self, wrap):
        """Reading and writing succeed or fail with an error of Clew's, however little room there is."""
        value: object = 0
        for _ in range(MAX_DEPTH):
            value = wrap(value)
        data, tree = encode(value), to_tree(value)
        for call, error, expected in (
            (lambda: encode(value), EncodeError, data),
            (lambda: to_tree(value), EncodeError, tree),
            (lambda: from_tree(tree), DecodeError, value),
            (lambda: decode(data), DecodeError, value),
            (lambda: canonical(data), DecodeError, data),
            (lambda: stored_value(value, at="v", blobs={}), EncodeError, data),
            (lambda: stored_values({"a": value}, at="v", blobs={})[0], EncodeError, b'{"a":' + data + b"}"),
        ):
            for outcome in _at_every_depth(call, error):
                assert outcome is None or outcome == expected

    def test_an_update_that_the_caller_left_no_room_for(self):
        nested: dict[str, Any] = {"a": [{"b": {}}], "c": 1}
        assert None in _at_every_depth(lambda: stored_values(nested, at="here", blobs={}), EncodeError)

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"$tuple":[' * 500 + "]}" * 500])
    def test_hostile_nesting_is_an_error(self, text):
        with pytest.raises(DecodeError):
            decode(text.encode())
        tree: object = 0
        for _ in range(100_000):
            tree = [tree]
        with pytest.raises(DecodeError, match="nested too deep"):
            from_tree(tree)


def _at_every_depth(call, expected, below=500):
    """What ``call`` returns with few frames left, for each number of them; None where it raised as expected.

    With no room even to enter ``call``, the interpreter itself raises; that is left out.
    """
    outcomes: list[Any] = []

    def descend() -> None:
        try:
            descend()
        except RecursionError:
            pass
        if len(outcomes) < below:
            try:
                outcomes.append(call())
            except expected:
                outcomes.append(None)
            except RecursionError as error:
                # This function, the lambda, and what it calls. A tracer needs room of its own, in our handlers too.
                if _frames(error) > 3 and sys.gettrace() is None:
                    raise AssertionError("the codec let a RecursionError out") from error

    descend()
    assert len(outcomes) == below
    return outcomes


def _frames(error: BaseException) -> int:
    count, traceback = 0, error.__traceback__
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


class TestDamage:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "nul",
            "NaN",
            "[1] 2",
            '"\\ud800"',
            '{"$nothing":1}',
            '{"$":1}',
            '{"$object":["","ls"]}',
            '{"$object":["os:\\n","ls"]}',
            '{"$object":["os:system",{"$later":1}]}',
            '{"$blob":["bytes","' + "0" * 64 + '"]}',
            '{"$object":["os:system"]}',
            '{"$object":[["os"],"ls"]}',
            '{"$object":[1,2]}',
            '{"$tuple":1}',
            '{"$tuple":{"a":1}}',
            '{"$tuple":"abc"}',
            '{"$set":[[1]]}',
            '{"$set":null}',
            '{"$dict":[[[1],2]]}',
            '{"$dict":[[1]]}',
            '{"$dict":5}',
            '{"$bytes":"!"}',
            '{"$bytes":5}',
            '{"$bytearray":"a"}',
            '{"$int":"zz"}',
            '{"$int":5}',
            '{"$float":"1.5"}',
            '{"$float":[]}',
            '{"$complex":["1"  , "2", "3"]}',
            '{"$complex":[1,2]}',
            '{"$str":"\\\\q"}',
            '{"$str":"\\\\u12"}',
            '{"$str":"é"}',
            '{"$decimal":"x"}',
            '{"$decimal":1.5}',
            '{"$uuid":"x"}',
            '{"$uuid":null}',
            '{"$date":"2024-13-01"}',
            '{"$date":5}',
            '{"$datetime":"x"}',
            '{"$datetime":[1]}',
            '{"$datetime":["2024-01-01",{"$object":["a","b"]},0]}',
            '{"$datetime":["2024-01-01",{},0]}',
            '{"$datetime":["2024-01-01",null,7]}',
            '{"$time":"x"}',
            '{"$timedelta":[1]}',
            '{"$timedelta":[1e300,0,0]}',
            '{"$timezone":[[9,0,0]]}',
            '{"$timezone":[[0,0,0],{"$tuple":[]}]}',
            '{"$zoneinfo":"No/Where"}',
            '{"$zoneinfo":"../../../etc/passwd"}',
            '{"$zoneinfo":"/etc/passwd"}',
            '{"$zoneinfo":5}',
            '{"$path":5}',
            '{"$path":{"a":1}}',
        ],
    )
    def test_whatever_is_wrong_is_a_decode_error(self, text):
        with pytest.raises(DecodeError):
            decode(text.encode())

    def test_bytes_that_are_not_utf8(self):
        with pytest.raises(DecodeError, match="not JSON"):
            decode(b'"\xff"')
        with pytest.raises(DecodeError, match="not JSON"):
            decode(None)

    @pytest.mark.parametrize("tree", [{1: 2}, {1: 2, 3: 4}, (1,), {1}, b"a", [object()], {"$tuple": (1,)}])
    def test_a_tree_that_is_not_plain(self, tree):
        with pytest.raises(DecodeError):
            from_tree(tree)

    def test_the_message_names_an_unknown_form(self):
        with pytest.raises(DecodeError, match=r"\$later is not a form"):
            decode(b'{"$later":1}')

    def test_text_that_looks_like_a_form_is_text(self):
        assert decode(encode('{"$tuple":[]}')) == '{"$tuple":[]}'
        assert decode(encode(["$tuple", "$"])) == ["$tuple", "$"]
        assert decode(b'{"$path":"a\\"$b"}') == Path('a"$b')


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": 1},
        {"a": True},
        {"a": None},
        {"a": "text"},
        {"a": "größe"},
        {"a": "\ud800"},
        {"a": 2**70},
        {"a": -(2**63) - 1},
        {"a": float("nan")},
        {"größe": 1},
        {"$a": 1},
        {"a b": 1},
        {1: 2},
        {"b": 1, "a": 2},
        {"b": {"d": 1, "c": 2}},
        {"b": {3, 1, 2}, "a": (1,)},
        {"b": {2: "x", 1: "y"}},
        {"b": b"x", "a": {"z": Decimal("1.5"), "y": None}},
    ],
    ids=repr,
)
def test_both_encodings_at_once_are_those_that_one_gets_one_by_one(value: dict[str, Any]) -> None:
    both = encode(value, ordered=True), encode(value)
    assert stored_values(value, at="value", blobs={}) == both
    assert stored_values(MappingProxyType(value), at="value", blobs={}) == both


def test_both_encodings_at_once_refuse_what_one_would() -> None:
    with pytest.raises(EncodeError, match=r"here\.a\[1\]: an object cannot be stored"):
        stored_values({"a": [1, object()]}, at="here", blobs={})
    with pytest.raises(EncodeError, match=r"here\[1\]: an object cannot be stored"):
        stored_value([1, object()], at="here", blobs={})
