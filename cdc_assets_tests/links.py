"""Checks links, and that the site shows each page: ``python -m cdc_assets_tests.links``.

A link within the checkout must name a file, and an anchor that the file has, as GitHub makes them.
Pages of the site link to files outside of ``docs/`` by the repository's address, which is looked up
in the checkout. Other addresses are not fetched.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from cdc_assets_tests.words import CHECKOUT, READ, files_in

DOCS: Final = CHECKOUT / "docs"
SITE: Final = CHECKOUT / "zensical.toml"
REPOSITORY: Final = "https://github.com/cdc-assets/cdc-assets/"
LINK: Final = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|(?:href|src)=\"([^\"]+)\"")
_FENCE: Final = re.compile(r"^ *(```+|~~~+).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(`+)(?:(?!\n\n).)+?\1", re.DOTALL)
_HEADING: Final = re.compile(r"^#{1,6} +(.*?)(?: +#+)? *$", re.MULTILINE)
_ANCHOR: Final = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Returns the anchors of a page: those of headings, as GitHub makes them, and explicit ones."""
    text = _blank(_FENCE, page.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    anchors = set(_ANCHOR.findall(text))
    for heading in _HEADING.findall(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"</?a\b[^>]*>", "", heading))
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(anchors)


def broken_in(page: Path) -> Iterator[tuple[int, str]]:
    """Yields line and fault of each link of a page that leads nowhere."""
    text = _blank(_CODE, _blank(_FENCE, page.read_text(encoding="utf-8")))
    for match in LINK.finditer(text):
        if fault := _fault(page, match[1] or match[2]):
            yield 1 + text.count("\n", 0, match.start()), fault


def _fault(page: Path, link: str) -> str:
    """Returns what is wrong with a link of this page, or nothing."""
    inside = re.sub(rf"^{re.escape(REPOSITORY)}(?:blob|tree)/main/", "", link)
    if inside == link and re.match(r"[a-z]+:", link):
        return ""
    path, _, anchor = inside.partition("#")
    file = (CHECKOUT / path) if inside != link else (page.parent / path) if path else page
    if not file.resolve().exists():
        return f"{link}: no such file"
    if inside == link and page.is_relative_to(DOCS) and not file.resolve().is_relative_to(DOCS):
        return f"{link}: outside of docs/ → {REPOSITORY}blob/main/…"
    if anchor and file.suffix == ".md" and anchor not in anchors_of(file.resolve()):
        return f"{link}: no such anchor"
    return ""


def pages_of(nav: list[Any]) -> Iterator[str]:
    """Yields the pages of a navigation."""
    for entry in nav:
        for each in entry.values() if isinstance(entry, Mapping) else [entry]:
            yield from pages_of(each) if isinstance(each, list) else [each]


def not_shown() -> Iterator[str]:
    """Yields each page that the site's navigation does not name, or not once."""
    shown = Counter(pages_of(tomllib.loads(SITE.read_text())["project"]["nav"]))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    for page in sorted(there | shown.keys()):
        if page not in there:
            yield f"{SITE.name}: {page} in nav: no such page"
        elif shown[page] != 1:
            yield f"{SITE.name}: docs/{page} is {shown[page]} times in nav → once"


def _blank(code: re.Pattern[str], text: str) -> str:
    """Returns the text with spaces in place of code."""
    return code.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def main() -> int:
    """Prints each link that leads nowhere and each page that is not shown; returns 1 if any is."""
    pages = [*(f for f in files_in(READ) if f.suffix == ".md"), CHECKOUT / "CHANGELOG.md"]
    faults = [
        f"{page.relative_to(CHECKOUT)}:{line}: {fault}"
        for page in pages
        for line, fault in broken_in(page)
    ]
    faults += not_shown()
    print("\n".join(faults), end="\n" if faults else "")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
