"""The files of the page. They are read once, by a list that is made when the server starts, so no address can leave the
folder.

The page names the modules of its screen, so that a browser asks for all of them at once, and not for each one after the
module that imports it.

Comments are not sent. A line of a script that has only a comment is sent empty, so that line numbers stay the same; the
style sheet is sent without comments and line ends. Vendored files are sent unchanged.
"""

from __future__ import annotations

import gzip
import posixpath
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

_MEDIA = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".html": "text/html; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
_FIRST_SCREENS = {"": "", "runs": "screens/runs.js", "run": "screens/run.js"}
_IMPORT = re.compile(r"""(?:from|^import)\s*['"](\.[^'"]+)""", re.MULTILINE)
FOLDER = Path(__file__).with_name("static")
_EMPTY = (
    b"<!doctype html><meta charset=utf-8><title>Clew</title><p>The page is not installed. "
    b"The API is at <code>/api</code>."
)


class StaticFile(NamedTuple):
    """A file, as it is and compressed."""

    content: bytes
    packed: bytes
    media: str
    tag: str


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """Read the files of a folder by their names below it, with slashes."""
    found: dict[str, StaticFile] = {}
    for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
        media = _MEDIA.get(file.suffix)
        if media is not None and file.is_file() and not file.is_symlink():
            name = file.relative_to(folder).as_posix()
            found[name] = _made(_sent(name, file.read_bytes()), media)
    found.setdefault("index.html", _made(_EMPTY, _MEDIA[".html"]))
    return found


def pages(files: Mapping[str, StaticFile]) -> dict[str, StaticFile]:
    """Return the page for the screens that people open first, and as "" for the others."""
    page = files["index.html"]
    made: dict[str, StaticFile] = {}
    for screen, module in _FIRST_SCREENS.items():
        modules = {name for each in ("main.js", module) if each in files for name in imported(each, files)}
        links = "".join(f'<link rel="modulepreload" href="/static/{name}">' for name in sorted(modules))
        made[screen] = _made(page.content.replace(b"</head>", links.encode() + b"</head>"), page.media)
    return made


def imported(name: str, files: Mapping[str, StaticFile]) -> set[str]:
    """Return the modules that are loaded with a module, itself included: not those that it loads later."""
    found = set[str]()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            paths = _IMPORT.findall(files[module].content.decode())
            waiting += [posixpath.normpath(posixpath.join(posixpath.dirname(module), path)) for path in paths]
    return found


def _sent(name: str, content: bytes) -> bytes:
    """Return what is sent of a file."""
    if name.startswith("vendor/"):
        return content
    if name.endswith(".css"):
        return re.sub(rb"/\*.*?\*/|\n", b"", content, flags=re.DOTALL)
    if name.endswith(".js"):
        return re.sub(rb"^ *(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/ *)$", _lines, content, flags=re.MULTILINE)
    return content


def _lines(comment: re.Match[bytes]) -> bytes:
    return b"\n" * comment[0].count(b"\n")


def _made(content: bytes, media: str) -> StaticFile:
    packed = gzip.compress(content, 9, mtime=0)
    return StaticFile(
        content, packed if len(packed) < len(content) else b"", media, sha256(content).hexdigest()[:32]
    )
