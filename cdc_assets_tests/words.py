"""Refuses words that hide what a sentence is about: ``python -m cdc_assets_tests.words``.

Looks at docstrings, help texts and messages: every string of the product with a space in it.
Names of code are ignored: text between backticks, and the name before the colon in a docstring's
list of arguments or attributes. CONTRIBUTING.md, *Words*, says what to write instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]
PRODUCT: Final = (CHECKOUT / "cdc_assets", CHECKOUT / "packages")
REFUSED: Final = {
    r"anew": "again; from the source; a new …",
    r"beside": "next to a file: say the folder; of two tables: shadow table; in addition to",
    r"told": "name who writes it: the record, the catalog, the statement",
    r"lies|lie in": "is; is stored in",
    r"what (is|was|are|were) (wanted|asked|given)": "the noun: the directive, the request",
    r"(go|goes|going|gone|went) on": "continues; resumes",
    r"thereof|therein|whereof": "name the thing",
    r"amid": "between; during",
}
"""By pattern, the words to write instead."""
_REFUSED: Final = re.compile(
    rf"(?<!--)\b({'|'.join(f'({each})' for each in REFUSED)})\b", re.IGNORECASE
)
_CODE: Final = re.compile(r"(`+)[^`]*\1|^ +\w+(?=: )", re.MULTILINE)
"""Names of code within a sentence: between backticks, or of an argument or attribute."""


def found_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and word of each refused word in a file's strings."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            prose = _CODE.sub(_blank, node.value)
            for match in _REFUSED.finditer(prose):
                yield node.lineno + prose.count("\n", 0, match.start()), match[0]


def _blank(code: re.Match[str]) -> str:
    """Returns spaces of the code's length, with its line breaks."""
    return re.sub(r"[^\n]", " ", code[0])


def instead(word: str) -> str:
    """Returns what to write in a refused word's place."""
    return next(text for each, text in REFUSED.items() if re.fullmatch(each, word, re.IGNORECASE))


def main(folders: Sequence[Path] = PRODUCT) -> int:
    """Prints each refused word with its place, and returns 1 if there is any."""
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    found = [(file, line, word) for file in files for line, word in found_in(file)]
    for file, line, word in found:
        print(f"{file}:{line}: '{word}' → {instead(word.lower())}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]] or PRODUCT))
