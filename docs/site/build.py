"""Build the site: ``python -m docs.site.build [FOLDER]``. The pages end up in ``build/site``.

Every warning of Sphinx, every link that leads nowhere, and everything that a page would load from another host is an
error. No network is used.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path

from clew.drawing.svg import style_sheet
from docs.site.api import api_pages
from docs.site.checks import problems_of
from docs.site.gallery import gallery, pattern_pages, recipe_pages
from docs.site.pages import navigation, pages_of, rewritten, subpages, write_changed

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent


GALLERY = re.compile(r"<!-- gallery: (\w+) -->\n.*", re.DOTALL)
ORPHANS = ("contents.md", "nl2sql.md")  # pages that the sidebar does not have


def stage(root: Path, folder: Path) -> None:
    """Write what Sphinx reads, and remove pages that no longer exist."""
    staged: dict[str, str | bytes] = {**staged_pages(root)}
    for picture in sorted(root.glob("docs/pictures/*")):
        if picture.suffix in (".svg", ".png"):
            staged[f"pictures/{picture.name}"] = picture.read_bytes()
    for name, content in staged.items():
        write_changed(folder / name, content)
    for old in folder.rglob("*"):
        if old.is_file() and old.relative_to(folder).as_posix() not in staged:
            old.unlink()


def staged_pages(root: Path) -> dict[str, str]:
    """Return the text of every page of the site."""
    pages = pages_of(root)
    made = {**api_pages(), **pattern_pages(root), **recipe_pages(root, pages)}
    for file, page in pages.items():
        if file == "README.md" or page in made:
            continue
        text = rewritten((root / file).read_text("utf-8"), file, root, pages)
        if page == "index.md":
            contents = (root / "docs/contents.md").read_text("utf-8")
            text += navigation(rewritten(contents, "docs/contents.md", root, pages))
        elif page == "compare/index.md":
            text += subpages(text)
        elif page in ORPHANS:
            text = f"---\norphan: true\n---\n\n{text}"
        made[page] = GALLERY.sub(lambda found: gallery(root, found[1]), text)
    return made


def write_styles(folder: Path) -> None:
    """Write the style sheet of the drawings: it follows the theme switch of the site."""
    light, dark = style_sheet()
    text = f"{light}\nbody[data-theme=dark]{{{dark}}}\n"
    text += f"@media (prefers-color-scheme:dark){{body:not([data-theme=light]){{{dark}}}}}\n"
    write_changed(folder / "drawings.css", text)


def main(arguments: list[str] | None = None) -> int:
    """Build and check the site, and print where it is."""
    parser = argparse.ArgumentParser(
        prog="python -m docs.site.build", description="Build the documentation site."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "build" / "site", help="where to (build/site)"
    )
    parser.add_argument("--clean", action="store_true", help="read every page again")
    options = parser.parse_args(arguments)
    from sphinx.cmd.build import build_main

    began = time.perf_counter()
    work = options.folder.parent / f"{options.folder.name}-source"
    if options.clean:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(options.folder, ignore_errors=True)
    stage(ROOT, work / "pages")
    write_styles(work / "static")
    statics = f"html_static_path=static,{work.resolve() / 'static'}"
    code = build_main(
        [
            "-b",
            "html",
            "-a",
            "-W",
            "--keep-going",
            "-q",
            "-c",
            str(HERE),
            "-d",
            str(work / "cache"),
            "-D",
            statics,
        ]
        + ["-j", "2", str(work / "pages"), str(options.folder)]
    )
    for old in options.folder.rglob("*.html"):
        name = old.relative_to(options.folder).with_suffix(".md")
        if name.stem not in ("genindex", "py-modindex", "search") and not (work / "pages" / name).is_file():
            old.unlink()  # of a page that no longer exists
    found = problems_of(options.folder)
    for problem in found:
        print(problem, file=sys.stderr)
    if code or found:
        print(
            f"the site has {len(found)} broken links or foreign assets; Sphinx's exit code is {code}",
            file=sys.stderr,
        )
        return 1
    count = sum(1 for _ in options.folder.rglob("*.html"))
    print(f"{count} pages in {time.perf_counter() - began:.0f} s: open {options.folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
