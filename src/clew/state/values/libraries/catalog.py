"""The catalog of library values: which classes of other libraries can be stored, and in which format.

Rules:

- Encoding imports nothing. A value of a library exists only if the program has imported the library, so the classes are
  looked up in ``sys.modules``.
- Decoding imports the libraries that this catalog names, if they are installed. Stored data names a format, never code.
- Only the exact class counts, as everywhere in the codec: a subclass would be decoded as its parent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from clew.state.values.libraries import (
    arrow_values,
    numpy_values,
    pandas_values,
    polars_values,
    pydantic_values,
)


class MissingLibraryError(Exception):
    """A stored value needs a library that is not installed."""


class Format(NamedTuple):
    """How the instances of some classes of a library are stored."""

    tag: str
    name: str
    """The class, for people."""
    libraries: tuple[str, ...]
    """The library of the class, then those that the format needs too."""
    has: Callable[[Any, type], bool]
    """Takes the module of the library and a class; tells whether instances are stored in this format."""
    write: Callable[[Any], Any]
    """Takes an instance and returns its content. Raises ValueError if it cannot be stored."""
    read: Callable[[Any], Any]
    """Takes content, which may be invalid, and returns an instance."""
    brief: Callable[[Any], str]
    """Takes an instance and returns its short form."""
    is_tree: bool = False
    """The content is a small tree, not bytes."""

    def encoded(self, value: Any) -> Any:
        """Return the content of a value. Raises ValueError if it cannot be stored."""
        for library in self.libraries:
            if library not in sys.modules:
                raise ValueError(f"its format needs {library}; install {library} and import it")
        return self.write(value)

    def decoded(self, content: Any) -> Any:
        """Return the value of some content. Raises MissingLibraryError if a library is not installed."""
        for library in self.libraries:
            if library not in sys.modules:
                from importlib.util import find_spec

                try:
                    if find_spec(library) is not None:
                        import_module(library)
                        continue
                except ImportError:  # it is installed, and one of its own requirements is not
                    pass
                raise MissingLibraryError(f"a stored {self.name} needs {library}, which is not installed")
        return self.read(content)


def format_of(cls: type) -> Format | None:
    """Return the format for the instances of a class; None if it is not in the catalog."""
    module = getattr(cls, "__module__", None)
    root = module.partition(".")[0] if type(module) is str else ""
    for form in _BY_LIBRARY.get(root, ()):
        library = sys.modules.get(root)
        if library is not None and form.has(library, cls):
            return form
    return None


def brief(value: Any) -> str | None:
    """Return the short form of a library value, such as ``ndarray float64 (1000, 3)``; None for any other value."""
    form = format_of(type(value))
    return None if form is None else form.brief(value)


def _is(name: str) -> Callable[[Any, type], bool]:
    return lambda library, cls: cls is getattr(library, name)


def _is_scalar(numpy: Any, cls: type) -> bool:
    return issubclass(cls, numpy.generic) and cls.__module__ == "numpy"


def _is_index(pandas: Any, cls: type) -> bool:
    return issubclass(cls, pandas.Index) and cls.__module__.partition(".")[0] == "pandas"


def _is_arrow_array(pyarrow: Any, cls: type) -> bool:
    return issubclass(cls, pyarrow.Array) and cls.__module__ == "pyarrow.lib"


def _frame(frame: Any) -> str:
    rows, columns = frame.shape
    return f"{type(frame).__name__} {rows}×{columns}"


def _column(column: Any) -> str:
    return f"{type(column).__name__} {column.dtype} ({len(column)},)"


def _arrow(array: Any) -> str:
    return f"{type(array).__name__} {array.type} ({len(array)},)"


_N, _D, _L, _A = ("numpy",), ("pandas", "pyarrow"), ("polars",), ("pyarrow",)
_NP, _PD, _PL, _PA, _PY = numpy_values, pandas_values, polars_values, arrow_values, pydantic_values
_FORMATS = (
    Format(
        "npy",
        "numpy.ndarray",
        _N,
        _is("ndarray"),
        _NP.write_array,
        _NP.read_array,
        lambda array: f"ndarray {array.dtype} {tuple(map(int, array.shape))}",
    ),
    Format("numpy_scalar", "numpy scalar", _N, _is_scalar, _NP.scalar_tree, _NP.read_scalar, repr, True),
    Format("pandas_frame", "pandas.DataFrame", _D, _is("DataFrame"), _PD.write_frame, _PD.read_frame, _frame),
    Format("pandas_series", "pandas.Series", _D, _is("Series"), _PD.write_series, _PD.read_series, _column),
    Format("pandas_index", "pandas.Index", _D, _is_index, _PD.write_index, _PD.read_index, _column),
    Format("polars_frame", "polars.DataFrame", _L, _is("DataFrame"), _PL.write_frame, _PL.read_frame, _frame),
    Format("polars_series", "polars.Series", _L, _is("Series"), _PL.write_series, _PL.read_series, _column),
    Format("arrow_table", "pyarrow.Table", _A, _is("Table"), _PA.write_table, _PA.read_table, _frame),
    Format(
        "arrow_batch", "pyarrow.RecordBatch", _A, _is("RecordBatch"), _PA.write_batch, _PA.read_batch, _frame
    ),
    Format("arrow_array", "pyarrow.Array", _A, _is_arrow_array, _PA.write_array, _PA.read_array, _arrow),
    Format(
        "arrow_chunks",
        "pyarrow.ChunkedArray",
        _A,
        _is("ChunkedArray"),
        _PA.write_array,
        _PA.read_chunked,
        _arrow,
    ),
    Format("pydantic_url", "pydantic URL", ("pydantic",), _PY.is_url, _PY.url_tree, _PY.read_url, repr, True),
)

BY_TAG = {form.tag: form for form in _FORMATS}
_BY_LIBRARY: dict[str, list[Format]] = {}
for _form in _FORMATS:
    _BY_LIBRARY.setdefault(_form.libraries[0], []).append(_form)
