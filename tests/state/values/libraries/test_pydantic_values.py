"""What pydantic puts into the fields of its models: URLs, fixed offsets, and secrets, which are refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pydantic
import pytest

from clew.errors import DecodeError, EncodeError
from clew.state import decode, encode
from clew.state.registry import register_type


@register_type
class Visit(pydantic.BaseModel):
    at: dt.datetime
    clock: dt.time | None = None
    url: pydantic.HttpUrl | None = None


@pytest.mark.parametrize(
    "text", ["2024-01-01T00:00:00+02:00", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00-05:30"]
)
def test_a_datetime_that_pydantic_parsed(text: str) -> None:
    visit = Visit.model_validate({"at": text, "clock": "10:00:00+01:00"})
    found: Any = decode(encode(visit))
    assert (found, type(found.at.tzinfo)) == (visit, dt.timezone)
    assert found.at.utcoffset() == visit.at.utcoffset()
    assert encode(found) == encode(visit)  # a value has one digest, before and after it is stored


def test_an_offset_alone() -> None:
    zone = Visit.model_validate({"at": "2024-01-01T00:00:00+02:00"}).at.tzinfo
    assert decode(encode(zone)) == dt.timezone(dt.timedelta(hours=2))


URLS = [
    pydantic.AnyUrl("custom://a.b/c?d=1#e"),
    pydantic.HttpUrl("http://exämple.com"),
    pydantic.PostgresDsn("postgres://u:p@h1,h2/db"),
    pydantic.RedisDsn("redis://localhost:6379/1"),
]


@pytest.mark.parametrize("url", URLS, ids=str)
def test_a_url(url: Any) -> None:
    found = decode(encode([url]))
    assert (found, type(found[0])) == ([url], type(url))
    assert encode(found) == encode([url])


def test_a_url_in_a_model() -> None:
    visit = Visit.model_validate({"at": "2024-01-01T00:00:00Z", "url": "http://a.b/c"})
    assert decode(encode(visit)) == visit


@pytest.mark.parametrize(
    "tree", ['["BaseModel","a"]', '["HttpUrl",1]', '["HttpUrl","a b"]', '["HttpUrl"]', "1"]
)
def test_what_is_not_a_url(tree: str) -> None:
    with pytest.raises(DecodeError):
        decode(b'{"$pydantic_url":%s}' % tree.encode())


def test_a_url_whose_text_gives_another_is_refused() -> None:
    class Exact(pydantic.BaseModel):
        model_config = {"url_preserve_empty_path": True}
        url: pydantic.HttpUrl

    url = Exact.model_validate({"url": "http://a.b"}).url
    if pydantic.HttpUrl(str(url)) == url:
        pytest.skip("this pydantic does not preserve empty paths")
    with pytest.raises(EncodeError, match="does not return an equal URL"):
        encode(url)


class Own(pydantic.HttpUrl):
    pass


def test_a_subclass_of_a_url_is_no_url_of_pydantic() -> None:
    with pytest.raises(EncodeError, match="an Own cannot be stored"):
        encode(Own("http://a.b"))


@pytest.mark.parametrize("secret", [pydantic.SecretStr("s"), pydantic.SecretBytes(b"s")])
def test_a_secret_is_refused(secret: Any) -> None:
    with pytest.raises(EncodeError, match=r"Graph\.bind, or store a name"):
        encode({"key": secret})
