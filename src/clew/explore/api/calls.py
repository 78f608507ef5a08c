"""Which calls a state offers. A call is symbolic: it names resources by who created them, never by their ids.

    PUT /items/{id} [items#0]              the first item that this path created
    PUT /items/{id} [items#0 formerly]     by an identifier that the item had before an update
    PUT /items/{id} [items#0 deleted]      a probe: by the identifier of an item that was deleted
    PUT /items/{id} [items#0, nulls]       a probe: null where the schema permits it
    PUT /items/{id} [items#0, as bob]      a probe: another actor
    POST /loans [#0, without books]        its body refers to a book, and no book exists

A *main* call may lead to a new state. All others are probes: reads, and requests that a careful service rejects.
Resources that were deleted remain candidates, for probes only: a database may have given their keys to others.

The *rank* of a call says what comes first. A check that may find a CRITICAL violation needs few calls, so it must not
wait until the others are done. A call that refers to nothing is rejected by most services, so it comes last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from clew.explore.api.logins import Authentication
from clew.explore.api.openapi.document import ApiDocument, Operation
from clew.explore.api.openapi.links import body_links, field_for, head_of, is_own_path, label_of, makers_of
from clew.explore.api.openapi.values import VARIANTS, kind_of, merged, value_of
from clew.explore.api.resources import Made, Resource, same_args

UPDATE_NUMBER = 7  # of the values of an update
PROBE_NUMBER = 9
COMBINATIONS = 6  # of path arguments of one operation
CRITICAL, LEADING, PROBING, UNLINKED = range(4)  # ranks


class Argument(msgspec.Struct, frozen=True):
    """A path argument: a field of a resource, a fixed value, an unknown id, or one that is too large."""

    kind: str  # "made", "fixed", "unknown" or "huge"
    operation: str = ""
    index: int = 0
    field: str = ""
    former: bool = False
    value: Any = None

    @property
    def label(self) -> str:
        """Return the argument as it appears in the name of a call."""
        if self.kind == "made":
            return f"{label_of(self.operation)}#{self.index}{' formerly' if self.former else ''}"
        return str(self.value) if self.kind == "fixed" else self.kind


Arguments = tuple[tuple[str, Argument], ...]


class Call(msgspec.Struct, frozen=True):
    """A request in symbolic form. `role` says what it is for."""

    operation: str
    args: Arguments = ()
    role: str = "main"
    variant: str = "full"
    number: int = 0
    actor: str | None = None
    probe: bool = True
    label: str = ""
    linked: bool = True  # each resource that the body must refer to exists
    others: tuple[tuple[str, int], ...] = ()  # resources that the body refers to, or that the call creates

    @property
    def rank(self) -> int:
        """Return what comes first: the calls of a lower rank."""
        if not self.linked:
            return UNLINKED
        without_credentials = self.role == "anonymous" and not self.operation.startswith("GET ")
        if without_credentials or self.role in ("login", "other"):
            return CRITICAL
        return PROBING if self.probe else LEADING

    @property
    def is_former(self) -> bool:
        """Return whether the call names a resource by an identifier that it had before an update."""
        return any(each.former for _, each in self.args)

    @property
    def resources(self) -> set[tuple[str, int]]:
        """Return the resources that the call is about, by who created them."""
        return {(each.operation, each.index) for _, each in self.args if each.kind == "made"} | {*self.others}

    @property
    def name(self) -> str:
        """Return the name of the action."""
        return f"{self.operation} [{self.label}]" if self.label else self.operation

    @property
    def last(self) -> Argument | None:
        """Return the argument of the last path parameter: the resource that the call is about."""
        return self.args[-1][1] if self.args else None


class CallTable:
    """Offers the calls of a state."""

    def __init__(self, document: ApiDocument, authentication: Authentication, resources: int) -> None:
        self.document = document
        self.authentication = authentication
        self.resources = resources
        self.makers = {each.name: makers_of(document, each) for each in document.operations}
        self.seeds: Made = {}  # resources that existed at the start, by the operation that listed them
        self.shift: dict[str, int] = {}  # added to the numbers of an operation whose first values are taken
        self.skipped: set[str] = set()
        self.independent: set[str] = set()  # operations that accept a body which refers to nothing
        self._differing: dict[str, list[str]] = {}  # the variants of each operation
        self._links: dict[str, dict[str, Operation]] = {}  # of the body of each operation

    def offered(self, made: Made, logins: Mapping[str, int]) -> Iterator[Call]:
        """Yield the calls of a state."""
        for operation in self.document.operations:
            if operation.name in self.skipped:
                continue
            if operation is self.authentication.login:
                yield from self._logins(operation, logins)
                continue
            for args in self._arguments(operation, made):
                yield from self._with(operation, args, made)
            yield from self._unknown(operation, made)

    # -- one operation ------------------------------------------------------------------------------------------

    def _logins(self, operation: Operation, logins: Mapping[str, int]) -> Iterator[Call]:
        for actor in self.authentication.actors:
            if not logins.get(actor.name) and not actor.secret:
                yield Call(
                    operation.name, (), "login", actor=actor.name, probe=False, label=f"as {actor.name}"
                )

    def _with(self, operation: Operation, args: Arguments, made: Made) -> Iterator[Call]:
        gone = [self._gone(each, made) for _, each in args]
        labels = [
            f"{each.label} deleted" if is_gone else each.label for (_, each), is_gone in zip(args, gone)
        ]
        actor = self._actor(operation)
        stale = any(gone) or any(each.former for _, each in args)
        missing = self._missing(operation, made)
        others = tuple(self._referred(operation, made))

        def call(role: str, *more: str, **options: Any) -> Call:
            parts = {
                "actor": actor,
                "number": PROBE_NUMBER,
                "linked": not missing,
                "others": others,
                **options,
            }
            return Call(operation.name, args, role, label=", ".join([*labels, *more, *missing]), **parts)

        if operation.method == "get":
            yield call("main")
        elif operation.method == "post":
            yield from self._posts(operation, args, made, call, any(gone))
        else:
            yield call("main", number=UPDATE_NUMBER, probe=any(gone))
        if operation.method in ("put", "patch") and not stale:
            for variant in self._variants(operation, UPDATE_NUMBER):
                yield call("variant", variant, variant=variant)
        if any(not each.required for each in operation.inside("query")):
            yield call("query", "least query", variant="least")
            yield call("query", "most query", variant="most")
        if operation.secured and not stale:
            yield call("anonymous", "anonymous", actor=None)
        if not stale:
            yield from self._of_others(operation, args, made, call, actor)

    def _posts(
        self, operation: Operation, args: Arguments, made: Made, call: Any, is_gone: bool
    ) -> Iterator[Call]:
        references = references_of(args)
        count = sum(same_args(each, references) for each in made.get(operation.name, ()))
        shift = self.shift.get(operation.name, 0)
        if operation.body is None:
            yield call("main", probe=is_gone)
            return
        if count < self.resources:
            creates = (operation.name, len(made.get(operation.name, ())))
            referred = self._referred(operation, made)
            yield call("main", f"#{count}", number=count + shift, probe=is_gone, others=(*referred, creates))
        if count:
            yield call("again", "again", number=shift)
        for variant in self._variants(operation, PROBE_NUMBER):
            yield call("variant", variant, variant=variant)

    def _of_others(
        self, operation: Operation, args: Arguments, made: Made, call: Any, actor: str | None
    ) -> Iterator[Call]:
        """Yield calls of another actor on a resource itself, not on something below it."""
        if operation.method not in ("put", "patch", "delete") or actor is None or not operation.secured:
            return
        last = args[-1][1] if args else None
        if last is None or not self.is_about(operation, last):
            return
        resource = self.resource(last, made)
        if resource is None:
            return
        for other in self.authentication.actors:
            if resource["actor"] is not None and other.name != resource["actor"]:
                yield call("other", f"as {other.name}", actor=other.name)

    def _unknown(self, operation: Operation, made: Made) -> Iterator[Call]:
        """Yield calls for an id that does not exist; below a resource that exists, if there is one."""
        inside = operation.inside("path")
        if not inside:
            return
        actor = self._actor(operation)
        for kind in ("unknown", "huge"):
            schema = merged(self.document, inside[-1].schema)
            if (kind == "huge" and kind_of(schema) != "integer") or schema.get("enum"):
                continue
            unknown = tuple((each.name, Argument(kind)) for each in inside[:-1])
            parents = next(self._parents(operation, made), unknown)
            labels = [each.label for _, each in parents if each.kind == "made"]
            args = (*parents, (inside[-1].name, Argument(kind)))
            label = ", ".join([*labels, kind])
            yield Call(operation.name, args, kind, number=PROBE_NUMBER, actor=actor, label=label)

    def _parents(self, operation: Operation, made: Made) -> Iterator[Arguments]:
        """Yield the arguments before the last one that name resources which exist."""
        inside = operation.inside("path")[:-1]
        choices = [self._candidates(operation, each.name, each.schema, made) for each in inside]
        for combination in itertools.product(*choices) if inside else ():
            if not any(each.former or self._gone(each, made) for each in combination):
                yield tuple(zip((each.name for each in inside), combination))

    def _variants(self, operation: Operation, number: int) -> list[str]:
        """Return the variants whose values differ from the full ones."""
        if operation.body is None:
            return []
        if operation.name not in self._differing:
            schema, found = operation.body.schema, []
            seen = [value_of(self.document, schema, number)]
            for variant in VARIANTS:
                value = value_of(self.document, schema, number, variant)
                if value not in seen:
                    seen.append(value)
                    found.append(variant)
            self._differing[operation.name] = found
        return self._differing[operation.name]

    def _actor(self, operation: Operation) -> str | None:
        acts = self.authentication.acts(operation)
        return self.authentication.actors[0].name if acts else None

    # -- bodies -------------------------------------------------------------------------------------------------

    def linked(self, operation: Operation, made: Made) -> dict[str, Any]:
        """Return, for each property of a body that refers to a resource, the value of one that exists, or None."""
        return {
            name: next((value for _, value in self._values(name, made.get(maker.name, ()))), None)
            for name, maker in self._links_of(operation).items()
        }

    def _referred(self, operation: Operation, made: Made) -> Iterator[tuple[str, int]]:
        """Yield the resources to which the body of an operation refers."""
        for name, maker in self._links_of(operation).items():
            for index, _ in itertools.islice(self._values(name, made.get(maker.name, ())), 1):
                yield maker.name, index

    def _values(self, name: str, resources: Iterable[Resource]) -> Iterator[tuple[int, Any]]:
        for index, resource in enumerate(resources):
            field = field_for(name, resource["fields"]) or field_for("id", resource["fields"])
            if field is not None and not resource["gone"]:
                yield index, resource["fields"][field]

    def _links_of(self, operation: Operation) -> dict[str, Operation]:
        if operation.name not in self._links:
            value = value_of(self.document, operation.body.schema, 0) if operation.body is not None else None
            self._links[operation.name] = (
                body_links(self.document, operation, value) if isinstance(value, dict) else {}
            )
        return self._links[operation.name]

    def requires(self, operation: Operation, name: str) -> bool:
        """Return whether a property of a body is required."""
        schema = merged(self.document, operation.body.schema) if operation.body is not None else {}
        return name in (schema.get("required") or ())

    def _missing(self, operation: Operation, made: Made) -> list[str]:
        """Return what the body of an operation must refer to and does not exist, as a label."""
        if operation.name in self.independent:
            return []
        links, found = self._links_of(operation), self.linked(operation, made)
        makers = [
            links[name].name
            for name, value in found.items()
            if value is None and links[name].name not in self.skipped and self.requires(operation, name)
        ]
        return [f"without {' and '.join(dict.fromkeys(map(label_of, makers)))}"] if makers else []

    # -- arguments ----------------------------------------------------------------------------------------------

    def _arguments(self, operation: Operation, made: Made) -> list[Arguments]:
        inside = operation.inside("path")
        if not inside:
            return [()]
        choices = [self._candidates(operation, each.name, each.schema, made) for each in inside]
        if not all(choices):
            return []
        found: dict[Arguments, None] = {}
        names = [each.name for each in inside]
        for combination in itertools.product(*choices):
            args = tuple(zip(names, combination))
            resource = self.resource(combination[-1], made)
            parents = resource["args"] if resource is not None else {}
            if all(parents.get(name) in (None, [each.operation, each.index]) for name, each in args[:-1]):
                found[args] = None
            if len(found) >= COMBINATIONS:
                break
        return list(found)

    def _candidates(self, operation: Operation, name: str, schema: Any, made: Made) -> list[Argument]:
        values = merged(self.document, schema).get("enum")
        if values:
            return [Argument("fixed", value=each) for each in values[:2]]
        makers = self.makers[operation.name].get(name, ())
        found, former = [], []
        sources = [(each.name, made.get(each.name, ())) for each in makers]
        if not makers:
            sources = [(key, rows) for key, rows in self.seeds.items() if _lists(key, operation, name)]
        for maker, resources in sources:
            for index, resource in enumerate(resources):
                field = field_for(name, resource["fields"])
                if field is None:
                    continue
                found.append(Argument("made", maker, index, field))
                if field in resource["former"]:
                    former.append(Argument("made", maker, index, field, True))
        return found + former

    def resource(self, argument: Argument, made: Made) -> Resource | None:
        """Return the resource of an argument, if it has one."""
        if argument.kind != "made":
            return None
        found = made.get(argument.operation) or self.seeds.get(argument.operation) or ()
        return found[argument.index] if argument.index < len(found) else None

    def is_about(self, operation: Operation, last: Argument) -> bool:
        """Return whether the path of an operation is the own path of the resource that its last parameter names."""
        if last.kind != "made" or not operation.path.rstrip("/").endswith("}"):
            return False
        maker = self.document.by_name.get(last.operation)
        if maker is None or maker.method != "post":  # a list of resources that exist at the start
            return True
        return is_own_path(maker, operation.path, operation.inside("path")[-1].name)

    def _gone(self, argument: Argument, made: Made) -> bool:
        resource = self.resource(argument, made)
        return resource is not None and bool(resource["gone"])


def _lists(lister: str, operation: Operation, name: str) -> bool:
    """Return whether a GET lists what a path parameter names."""
    return lister.removeprefix("GET ").rstrip("/") == head_of(operation.path, name)


def references_of(args: Arguments) -> dict[str, Any]:
    """Return the resources among path arguments, as references."""
    return {name: [each.operation, each.index] for name, each in args if each.kind == "made"}
