"""Results of scans as Parquet files: ``tenant/trace/node/<sha256>.parquet``.

The name of a file is the hash of what is in it: the names and types of its columns, and its rows. It is not the
hash of the file's bytes, which depend on who wrote them. So equal results have equal hashes in any process, one
changed cell changes the hash, and reading a file verifies it: a file that was tampered with is refused before
anybody sees a row of it.

Rows of a query without ORDER BY have no order, so they are sorted before they are hashed. Values that databases
give are brought to a few types (`columnar`): what Parquet holds is what is hashed."""

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
    """Artifacts below one folder."""

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
        """Store a result; writing an equal one again changes nothing."""
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        table = to_table(result, ordered=ordered)
        digest = content_hash(table)
        uri = "/".join([*map(_safe, (tenant_id, trace_id, node_id)), f"{digest}.parquet"])
        path = self.root / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        # a reader never sees half a file, and a killed writer leaves none
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
        """The rows of an artifact, verified."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.root / ref.uri
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise ArtifactCorruptError(f"the artifact {ref.uri} lies outside of the artifacts' folder")
        try:
            table = pq.ParquetFile(path).read()
        except (OSError, pa.ArrowException) as error:
            raise ArtifactCorruptError(f"the artifact {ref.uri} cannot be read: {error}") from error
        found = content_hash(table)
        if found != ref.content_hash:
            raise ArtifactCorruptError(
                f"the artifact {ref.uri} was changed: its content hashes to {found[:12]}..., "
                f"not {ref.content_hash[:12]}...; ask the question again"
            )
        return table


def content_hash(table: pa.Table) -> str:
    """SHA-256 over names and types of the columns, and the values, column by column, each part with its length."""
    digest = hashlib.sha256()
    parts = [msgspec.msgpack.encode([[field.name, str(field.type)] for field in table.schema])]
    parts += [msgspec.msgpack.encode(column.to_pylist(), enc_hook=str) for column in table.columns]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _safe(part: str) -> str:
    """A name as a folder: what could lead elsewhere is written as its code, so that different names stay
    different."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02x}" for byte in found[0].encode()), part) or "%"
