"""A symbolic call as a concrete request: ids from resources, values from schemas, credentials from the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from clew.explore.api.calls import Argument, Call, CallTable
from clew.explore.api.openapi.document import Operation, Parameter
from clew.explore.api.openapi.values import HUGE, PROBE_TEXT, kind_of, merged, value_of
from clew.explore.api.resources import Made
from clew.explore.api.transports.messages import NOT_JSON, HttpRequest
from clew.explore.systems.http.session import ActorCredentials

_UNKNOWN_UUID = "00000000-0000-4000-8000-00000000dead"
_UNKNOWN_NUMBER = 987_654
_UNKNOWN_TEXT = "no-such-thing"


class RequestBuilder:
    """Builds requests for calls."""

    def __init__(self, table: CallTable) -> None:
        self._table = table
        self._document = table.document

    def build(self, call: Call, made: Made, credentials: ActorCredentials | None) -> HttpRequest:
        """Return the request of a call in the current state."""
        operation = self._document.by_name[call.operation]
        path = operation.path
        schemas = {each.name: each.schema for each in operation.inside("path")}
        for name, argument in call.args:
            value = self._argument(argument, made, schemas.get(name, {}))
            path = path.replace("{" + name + "}", quote(str(value), safe=""))
        body = self._body(operation, call, made)
        return self.with_credentials(operation, path, self._query(operation, call), body, credentials)

    def with_credentials(
        self,
        operation: Operation,
        path: str,
        query: Mapping[str, Any],
        body: Any,
        credentials: ActorCredentials | None,
    ) -> HttpRequest:
        """Return a request with the credentials of an actor."""
        headers = {
            each.name: str(value_of(self._document, each.schema, 0, name=each.name))
            for each in operation.inside("header")
            if each.required and each.name.lower() != "authorization"
        }
        pairs = {name: _as_text(value) for name, value in query.items()}
        if credentials is not None:
            headers |= dict(credentials.headers)
            pairs |= dict(credentials.query)
            if credentials.cookies:
                headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in credentials.cookies)
        kind = operation.body.kind if operation.body is not None else ""
        if body is NOT_JSON or kind == "json":
            return HttpRequest(operation.method, path, tuple(pairs.items()), headers, body)
        form = {name: _as_text(value) for name, value in body.items()} if isinstance(body, dict) else {}
        return HttpRequest(
            operation.method, path, tuple(pairs.items()), headers, form=form, multipart=kind == "multipart"
        )

    def _argument(self, argument: Argument, made: Made, schema: Any) -> Any:
        resource = self._table.resource(argument, made)
        if resource is not None:
            return resource["former" if argument.former else "fields"][argument.field]
        if argument.kind == "fixed":
            return argument.value
        found = merged(self._document, schema)
        if argument.kind == "huge":
            return HUGE
        if kind_of(found) in ("integer", "number"):
            return _UNKNOWN_NUMBER
        return _UNKNOWN_UUID if found.get("format") == "uuid" else _UNKNOWN_TEXT

    def _query(self, operation: Operation, call: Call) -> dict[str, Any]:
        query = {}
        for each in operation.inside("query"):
            if each.required:
                query[each.name] = value_of(self._document, each.schema, call.number, name=each.name)
            elif call.role == "query":
                value = self._edge(each, call.variant)
                if value is not None:
                    query[each.name] = value
        return query

    def _edge(self, parameter: Parameter, variant: str) -> Any:
        schema = merged(self._document, parameter.schema)
        kind = kind_of(schema)
        if kind in ("integer", "number"):
            return schema.get("minimum", -1) if variant == "least" else schema.get("maximum", HUGE)
        if kind == "string" and not schema.get("format") and not schema.get("enum"):
            return "" if variant == "least" else PROBE_TEXT
        return None

    def _body(self, operation: Operation, call: Call, made: Made) -> Any:
        if operation.body is None:
            return NOT_JSON
        variant = call.variant if call.role == "variant" else "full"
        value = value_of(self._document, operation.body.schema, call.number, variant)
        if isinstance(value, dict):
            self._link(operation, value, made)
        return value

    def _link(self, operation: Operation, value: dict[str, Any], made: Made) -> None:
        """Fill properties that refer to other resources; an optional one that refers to nothing is left out."""
        for name, found in self._table.linked(operation, made).items():
            if value.get(name) is None:
                continue
            if found is not None:
                value[name] = found
            elif not self._table.requires(operation, name):
                del value[name]


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(_as_text, value)) if isinstance(value, list) else str(value)
