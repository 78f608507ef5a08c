"""The OpenAPI document as operations: methods, paths, parameters, bodies, responses and security.

Versions 3.0 and 3.1 are read. References are resolved when they are used, so schemas may be recursive. A part that is
not understood is left out. An operation that is left out is reported; nothing is guessed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clew.errors import DefinitionError
from clew.json_schema import resolved

METHODS = ("get", "put", "post", "patch", "delete")
SAFE = "get"

Schema = Mapping[str, Any]


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of an operation: in its path, its query, or a header."""

    name: str
    where: str
    required: bool
    schema: Schema


class RequestBody(msgspec.Struct, frozen=True):
    """The body of a request: JSON, or a form."""

    kind: str  # "json", "form" or "multipart"
    schema: Schema


class Operation(msgspec.Struct, frozen=True, eq=False):
    """A method of a path. `security` has one entry for each alternative: the names of the schemes that it needs."""

    method: str
    path: str
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    responses: Mapping[str, Schema | None]  # by status; None: no JSON is declared
    security: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """Return the name in reports: `PUT /items/{id}`."""
        return f"{self.method.upper()} {self.path}"

    @property
    def writes(self) -> bool:
        """Return whether the method may change something."""
        return self.method != SAFE

    @property
    def secured(self) -> bool:
        """Return whether the document demands credentials."""
        return bool(self.security) and all(self.security)

    def inside(self, where: str) -> list[Parameter]:
        """Return the parameters of the path, the query or the headers."""
        return [each for each in self.parameters if each.where == where]

    def declares(self, status: int) -> bool:
        return self._key(status) is not None

    def response_schema(self, status: int) -> Schema | None:
        """Return the JSON schema of a status, or None."""
        key = self._key(status)
        return None if key is None else self.responses[key]

    def _key(self, status: int) -> str | None:
        found = (str(status), f"{status // 100}XX", f"{status // 100}xx", "default")
        return next((key for key in found if key in self.responses), None)


class ApiDocument:
    """An OpenAPI document."""

    def __init__(self, raw: Any) -> None:
        if not isinstance(raw, Mapping) or not isinstance(raw.get("paths"), Mapping):
            raise DefinitionError("openapi: expected an OpenAPI 3 document with paths")
        if not str(raw.get("openapi", "")).startswith("3."):
            raise DefinitionError(
                f"openapi: version 3 is required, got {raw.get('openapi') or raw.get('swagger')!r}"
            )
        self.raw: Mapping[str, Any] = raw
        components = raw.get("components") or {}
        self.schemes: dict[str, Schema] = {
            name: self.resolve(scheme) for name, scheme in (components.get("securitySchemes") or {}).items()
        }
        servers = raw.get("servers") or [{}]
        self.prefix = urlsplit(str(servers[0].get("url", ""))).path.rstrip("/")
        paths = {path: self.resolve(item) for path, item in raw["paths"].items()}
        self.operations = [
            self._operation(method, path, item, item[method])
            for path, item in paths.items()
            for method in METHODS
            if method in item
        ]
        self.by_name = {operation.name: operation for operation in self.operations}

    def resolve(self, part: Any) -> Any:
        """Follow references inside the document."""
        seen = set()
        while isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
            reference = part["$ref"]
            if reference in seen:
                return {}
            seen.add(reference)
            part = resolved(reference, self.raw)
        return part

    def _operation(self, method: str, path: str, item: Schema, raw: Schema) -> Operation:
        declared = [self.resolve(each) for each in (*item.get("parameters", ()), *raw.get("parameters", ()))]
        by_place = {(each.get("name"), each.get("in")): each for each in declared}
        # in the order of the path, in which the last one names the resource itself
        parameters = tuple(
            Parameter(name, where, bool(each.get("required")) or where == "path", self._schema(each))
            for (name, where), each in sorted(
                by_place.items(), key=lambda item: path.find(f"{{{item[0][0]}}}")
            )
            if isinstance(name, str) and isinstance(where, str)
        )
        responses = {
            str(status): self._json_schema(self.resolve(response))
            for status, response in (raw.get("responses") or {}).items()
        }
        security = raw.get("security", self.raw.get("security")) or ()
        return Operation(
            method,
            self.prefix + path,
            parameters,
            self._body(self.resolve(raw.get("requestBody") or {})),
            responses,
            tuple(tuple(alternative) for alternative in security),
        )

    def _schema(self, parameter: Schema) -> Schema:
        schema = dict(self.resolve(parameter.get("schema") or {}))
        if "example" in parameter:
            schema.setdefault("example", parameter["example"])
        return schema

    def _body(self, raw: Schema) -> RequestBody | None:
        kinds = {"json": "json", "form-urlencoded": "form", "multipart": "multipart"}
        for part, kind in kinds.items():
            for media, content in (raw.get("content") or {}).items():
                if part in media:
                    return RequestBody(kind, content.get("schema") or {})
        return None

    def _json_schema(self, response: Schema) -> Schema | None:
        for media, content in (response.get("content") or {}).items():
            if "json" in media:
                return content.get("schema") or {}
        return None


def read_document(text: str | bytes) -> dict[str, Any]:
    """Read a document from JSON, or from YAML if PyYAML is installed."""
    try:
        read = json.loads(text)
    except ValueError:
        try:
            import yaml  # type: ignore[import-untyped]
        except ImportError:
            raise DefinitionError("openapi: the document is not JSON; install PyYAML to read YAML") from None
        try:
            read = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise DefinitionError(f"openapi: the document is neither JSON nor YAML: {error}") from error
    if not isinstance(read, dict):
        raise DefinitionError("openapi: expected a JSON object")
    return read


def load_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a document from a file."""
    try:
        return read_document(Path(path).read_bytes())
    except OSError as error:
        raise DefinitionError(f"openapi: cannot read {path}: {error.strerror}") from error
