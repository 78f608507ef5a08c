"""The name of a module in stored data."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from clew.module_names import loaded_module, stored_module_name


def main_module(
    monkeypatch: pytest.MonkeyPatch, *, file: str | None = None, spec: str | None = None
) -> ModuleType:
    module = ModuleType("__main__")
    if file is not None:
        module.__file__ = file
    module.__spec__ = None if spec is None else ModuleSpec(spec, None)
    monkeypatch.setitem(sys.modules, "__main__", module)
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)
    return module


def test_a_module_has_its_name() -> None:
    assert stored_module_name("clew.errors") == "clew.errors"
    assert loaded_module("clew.errors") is sys.modules["clew.errors"]
    assert loaded_module("gone") is None


@pytest.mark.parametrize(
    "file, spec, name",
    [
        ("/a/flow.py", None, "flow"),
        ("flow.py", None, "flow"),
        ("/a/app/__main__.py", "app.__main__", "app.__main__"),
        ("/a/flow.py", "pkg.flow", "pkg.flow"),
        (None, None, "__main__"),
        ("<stdin>", None, "__main__"),
        ("/bin/my-tool", None, "__main__"),
        ("/a/flow.py", "__main__", "flow"),
    ],
)
def test_a_script_has_the_name_that_others_import(
    monkeypatch: pytest.MonkeyPatch, file: str | None, spec: str | None, name: str
) -> None:
    module = main_module(monkeypatch, file=file, spec=spec)
    assert (stored_module_name("__main__"), loaded_module(name)) == (name, module)


def test_an_imported_module_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    main_module(monkeypatch, file="/a/flow.py")
    monkeypatch.setitem(sys.modules, "flow", ModuleType("flow"))
    assert loaded_module("flow") is sys.modules["flow"]
    assert stored_module_name("__mp_main__") == "__mp_main__"
