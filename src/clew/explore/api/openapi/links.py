"""Links between operations: which operation creates what a parameter names.

A path parameter names a resource: in `/items/{id}` that is what `POST /items` creates. If no operation has exactly that
path, one below it that registers or creates counts, then one with the noun of the parameter (`user_id`: `POST
/users`). A property of a body that ends in `id` is linked by its noun alone. So is one whose value is an id and whose
name is the noun (`product`: `POST /products`), and one that is in another path (`isbn`: `/books/{isbn}`).

A path can also name a resource without being its own: `DELETE /likes/{product_id}` deletes no product. What is said
about a resource itself (it was deleted, it belongs to another actor) holds only for its own paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clew.explore.api.openapi.document import ApiDocument, Operation
from clew.state.number_checks import is_int

_CREATING = re.compile(r"/(sign-?up|register|registration|new|create|add)/?$")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SUFFIX = re.compile(r"[_-]?(id|uuid|pk|slug|name|key|code|number)$", re.IGNORECASE)


def head_of(path: str, parameter: str) -> str:
    """Return the part of a path before a parameter, without a slash at the end."""
    return path.split("{" + parameter + "}")[0].rstrip("/")


def label_of(operation: str) -> str:
    """Return the last word of the path of an operation, as what it creates appears in the names of calls."""
    words = [word for word in operation.split("/")[1:] if word and not word.startswith("{")]
    return words[-1] if words else "resource"


def noun_of(name: str) -> str:
    """Return the noun of a parameter: `user_id` and `userId` give `user`."""
    return _SUFFIX.sub("", name).rstrip("_-").lower()


def makers_of(document: ApiDocument, operation: Operation) -> dict[str, tuple[Operation, ...]]:
    """Return, for each path parameter, the operations that create what it names."""
    return {
        parameter.name: tuple(_makers(document, operation.path, parameter.name))
        for parameter in operation.inside("path")
    }


def _makers(document: ApiDocument, path: str, name: str) -> list[Operation]:
    head = head_of(path, name)
    posts = [each for each in document.operations if each.method == "post"]
    exact = [each for each in posts if each.path.rstrip("/") == head]
    if exact:
        return exact
    below = [
        each for each in posts if each.path.startswith(head + "/") and _CREATING.match(each.path[len(head) :])
    ]
    if below:
        return below
    last = head.rsplit("/", 1)[-1].lower()
    nouns = {noun_of(name), last, last.removesuffix("s")} - {""}
    return [each for each in posts if each.body and noun_of_path(each.path) in nouns]


def is_own_path(maker: Operation, path: str, parameter: str) -> bool:
    """Return whether a path is the one of what an operation creates, and not of something that refers to it."""
    head, created = head_of(path, parameter), maker.path.rstrip("/")
    if created == head or (created.startswith(head + "/") and _CREATING.match(created[len(head) :])):
        return True
    return noun_of_path(head) == noun_of_path(created)


def noun_of_path(path: str) -> str:
    """Return the noun of the last word of a path: `/users` gives `user`."""
    words = [word for word in _CREATING.sub("", path).split("/") if word and not word.startswith("{")]
    word = words[-1].lower() if words else ""
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word.removesuffix("s")


def body_links(document: ApiDocument, operation: Operation, body: Mapping[str, Any]) -> dict[str, Operation]:
    """Return, for each property of a body that refers to another resource, the operation that creates it."""
    found = {}
    for name, value in body.items():
        noun = noun_of(name)
        makers: list[Operation] = []
        if noun and (re.search(r"id$", name, re.IGNORECASE) or _may_be_id(value)):
            makers = [
                each
                for each in document.operations
                if each.method == "post" and each.body and noun_of_path(each.path) == noun
            ]
        elif noun:
            makers = [
                maker
                for each in document.operations
                if any(parameter.name == name for parameter in each.inside("path"))
                for maker in _makers(document, each.path, name)
                if not operation.path.startswith(maker.path.rstrip("/"))
            ]
        if makers:
            found[name] = makers[0]
    return found


def _may_be_id(value: Any) -> bool:
    return is_int(value) or (isinstance(value, str) and bool(_UUID.fullmatch(value)))


def readers_of(document: ApiDocument, maker: Operation) -> list[Operation]:
    """Return the operations that read one resource which an operation creates, by its own path."""
    found = []
    for each in document.operations:
        inside = each.inside("path")
        if each.method != "get" or not inside or not each.path.rstrip("/").endswith("}"):
            continue
        name = inside[-1].name
        if maker in makers_of(document, each)[name] and is_own_path(maker, each.path, name):
            found.append(each)
    return found


def field_for(parameter: str, fields: Mapping[str, Any]) -> str | None:
    """Return the field of a resource that a parameter stands for."""
    lower = {name.lower(): name for name in reversed(list(fields))}
    name = parameter.lower()
    stem = re.sub(r"^[a-z]+[_-]", "", name)
    ending = _SUFFIX.search(parameter)
    candidates = [name, stem, name.replace("_", "")]
    if ending:
        candidates.append(ending[1].lower())
    # A slug or a name is not an id.
    if ending is None or ending[1].lower() in ("id", "uuid", "pk", "number"):
        candidates += ["id", "pk", "uuid"]
    return next((lower[each] for each in candidates if each in lower), None)
