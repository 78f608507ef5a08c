"""Every code block of the README and of ``docs`` runs, in order, and prints what the page says it prints.

The blocks of one file share a namespace and a temporary working directory. ```` ```python ```` blocks are
executed, ```` ```pycon ```` sessions go through doctest, ```` ```console ```` sessions through a shell; ``markdown.py``
has the instructions for blocks.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tests.docs.console import run_console
from tests.docs.markdown import Block, read_blocks
from tests.docs.model_server import model_server
from tests.explore.systems.servers import RedisServer
from tests.stores.servers import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "nl2sql/README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def compiled(block: Block, page: Path) -> types.CodeType:
    """Code whose line numbers are those of the page, so that a traceback points into it."""
    return compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)


def run_session(block: Block, page: Path, namespace: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.code, {}, page.name, str(page), block.line - 1)
    test.globs = namespace  # DocTest would copy it
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    assert result.attempted, f"{page.name}:{block.line}: a pycon block without >>>"
    assert not result.failed, "".join(report)


def run_page(page: Path, module: types.ModuleType) -> None:
    printed: str | None = None  # by the python block above, if one ran
    for block in read_blocks(page.read_text("utf-8")):
        where = f"{page.name}:{block.line}"
        if block.peer is not None:
            compiled(block, page)  # what the block before it has printed stays
        elif block.not_run is not None:
            if block.language == "python" and "not python" not in block.not_run:
                compiled(block, page)
            printed = None
        elif block.file is not None:
            Path(block.file).write_text(block.code, "utf-8")
            printed = None
        elif block.language == "console":
            run_console(block, page)
            printed = None
        elif block.is_output:
            assert block.language == "text", f"{where}: an output is a ```text block"
            assert printed is not None, f"{where}: an output needs a python block that runs above it"
            assert printed == block.code, f"{where}: the block above prints something else"
        elif block.language == "python":
            stdout = io.StringIO()
            with contextlib.redirect_stdout(stdout):
                exec(compiled(block, page), module.__dict__)
            printed = stdout.getvalue()
        elif block.language == "pycon":
            run_session(block, page, module.__dict__)


def forget_modules(folder: Path) -> None:
    """Forget the modules that were imported from a folder: the next page has others with the same names."""
    for name, each in list(sys.modules.items()):
        file = getattr(each, "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]


@pytest.fixture
def module(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[types.ModuleType]:
    """Where a page lives: a real module of its own, since classes are looked up by module and name."""
    module = types.ModuleType(re.sub(r"\W+", "_", request.node.name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a page may import the files that it writes
    yield module
    forget_modules(tmp_path)


@pytest.fixture
def _model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model where the clients of OpenAI and Anthropic look for one."""
    with model_server() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield


@pytest.fixture
def _databases(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PostgreSQL database and a Redis server where pages look for them."""
    import psycopg

    running, name = RedisServer(), f"page_{token_hex(4)}"
    running.start()
    try:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
            monkeypatch.setenv("DATABASE_URL", server.dsn.replace("dbname=postgres", f"dbname={name}"))
            monkeypatch.setenv("REDIS_URL", running.url)
            yield
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    finally:
        running.remove()


@pytest.mark.usefixtures("_model")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, module: types.ModuleType, request: pytest.FixtureRequest) -> None:
    if "REDIS_URL" in page.read_text("utf-8"):
        request.getfixturevalue("_databases")
    run_page(page, module)


GOOD = """
```python
x = 1
print(x)
```

<!-- output -->

```text
1
```

- in a list:

  ```pycon
  >>> x + 1
  2
  ```

<!-- not run: needs a server -->
```python
serve(forever)
```

<!-- not run: not python, a sketch -->
```python
f(x) -> y ...
```
"""


@pytest.mark.parametrize(
    "text, error",
    [
        (GOOD, None),
        (GOOD.replace("print(x)", "print(2)"), AssertionError),
        (GOOD.replace("x + 1", "x + 2"), AssertionError),
        (GOOD.replace("serve(forever)", "serve(forever"), SyntaxError),
        (GOOD.replace("x = 1", "x = y"), NameError),
        (GOOD.replace("not run: needs a server", "not run"), ValueError),
        (GOOD.replace(">>>", "..."), (AssertionError, ValueError)),
        ("```python\nx = 1\n", ValueError),
        ("<!-- output -->\n```text\n1\n```\n", AssertionError),
    ],
)
def test_the_check_sees(
    text: str, error: type[Exception] | None, module: types.ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(error) if error else contextlib.nullcontext():
        run_page(page, module)
