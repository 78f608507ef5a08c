"""Values of numpy, pandas, polars and pyarrow: their formats in stored data, and their short form for people."""

from __future__ import annotations

from clew.state.values.libraries.catalog import BY_TAG, Format, MissingLibraryError, brief, format_of

__all__ = ["BY_TAG", "Format", "MissingLibraryError", "brief", "format_of"]
