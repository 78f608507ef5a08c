"""Store results of scans as Parquet files: ``tenant/trace/node/<sha256>.parquet``.

A file is named by the hash of its content: column names, column types and rows. The bytes of the file do not
matter, since they depend on the Parquet writer. Equal results therefore have equal hashes in every process,
and one changed cell changes the hash. `read` verifies the hash and rejects a modified file before it returns
any row.

Rows of a query without ORDER BY have no defined order, so they are sorted before they are hashed. `columnar`
converts values to a few types first; the hash covers exactly what Parquet stores.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from clew_nl2sql.columnar import to_table
from clew_nl2sql.errors import ArtifactCorruptError
from clew_nl2sql.schemas import ArtifactRef, ColumnRef
from clew_nl2sql.sources.protocol import QueryResult

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_UNSAFE = re.compile(r"[^\w.-]|^\.+")


class ArtifactStore:
    """Artifacts in one folder."""

    backend = "local"

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def write(
        self,
        result: QueryResult,
        *,
        tenant_id: str,
        trace_id: str,
        node_id: str,
        roles: list[tuple[Any, str]],
        ordered: bool,
    ) -> ArtifactRef:
        """Store a result and return a reference to it. Storing an equal result again changes nothing."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        table = to_table(result, ordered=ordered)
        digest = content_hash(table)
        uri = "/".join([*map(_safe, (tenant_id, trace_id, node_id)), f"{digest}.parquet"])
        path = self.root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readers never see an incomplete file, and a killed writer leaves no file with a valid name.
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        os.close(handle)
        try:
            pq.write_table(table, temporary)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        columns = tuple(
            ColumnRef(
                name=field.name,
                type=str(field.type),
                role=roles[place][0] if place < len(roles) else "attribute",
                entity=roles[place][1] if place < len(roles) else "",
            )
            for place, field in enumerate(table.schema)
        )
        return ArtifactRef(
            uri=uri,
            backend=self.backend,
            format="parquet",
            content_hash=digest,
            tenant_id=tenant_id,
            trace_id=trace_id,
            node_id=node_id,
            row_count=table.num_rows,
            columns=columns,
            truncated=result.truncated,
        )

    def read(self, ref: ArtifactRef) -> pa.Table:
        """Return the rows of an artifact; raise `ArtifactCorruptError` if its hash differs."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.root / ref.uri
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise ArtifactCorruptError(f"the artifact {ref.uri} is outside the artifact folder")
        try:
            table = pq.ParquetFile(path).read()
        except (OSError, pa.ArrowException) as error:
            raise ArtifactCorruptError(f"the artifact {ref.uri} cannot be read: {error}") from error
        found = content_hash(table)
        if found != ref.content_hash:
            raise ArtifactCorruptError(
                f"the artifact {ref.uri} was modified: its content hash is {found[:12]}..., "
                f"expected {ref.content_hash[:12]}...; ask the question again"
            )
        return table


def content_hash(table: pa.Table) -> str:
    """Return the SHA-256 of column names, column types and values. Each part is prefixed with its length."""
    digest = hashlib.sha256()
    parts = [msgspec.msgpack.encode([[field.name, str(field.type)] for field in table.schema])]
    parts += [msgspec.msgpack.encode(column.to_pylist(), enc_hook=str) for column in table.columns]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _safe(part: str) -> str:
    """Return a name as a folder name. Unsafe characters are percent-encoded, so different names stay different."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02x}" for byte in found[0].encode()), part) or "%"
