"""Refuses words that hide what a sentence is about, and long sentences: ``python -m …words``.

Looks at docstrings, help texts and messages: every string of the product with a space in it; and
at the prose of Markdown files, except the changelog. Names of code are ignored: text between
backticks, the name before the colon in a docstring's list of arguments or attributes, code blocks,
targets of links, HTML tags. `REFUSED` says what to write instead. No name of the product's code has
a word of `IN_NAMES`.

On the pages that users read, no sentence has more than `LONGEST` words. A name of code is one word,
and a cell of a table ends a sentence, as a list's item does.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]
READ: Final = tuple(
    CHECKOUT / each
    for each in ("cdc_assets", "packages", "docs", "examples", "README.md", "CONTRIBUTING.md")
)
"""The folders and files that are checked."""
EXEMPT: Final = "CHANGELOG.md"
LONGEST: Final = 35
SHORT: Final = ("docs/tutorials", "docs/how-to", "docs/reference", "docs/explanation", "README.md")
"""The pages whose sentences are limited."""
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
IN_NAMES: Final = ("anew", "beside", "lies", "told")
NAMED: Final = CHECKOUT / "cdc_assets"
"""The folder whose names are checked."""
PUBLIC: Final = {NAMED / "operations/resnapshot/operation.py": "anew"}
"""By file, a name that users know: the option ``--anew``."""
_NAME: Final = re.compile(rf"(?:^|_)(?:{'|'.join(IN_NAMES)})(?:_|$)", re.IGNORECASE)
_REFUSED: Final = re.compile(
    rf"(?<!--)\b({'|'.join(REFUSED)})\b".replace(" ", r"\s+"), re.IGNORECASE
)
_CODE: Final = re.compile(r"(`+)[^`]*\1|^ +\w+(?=: )", re.MULTILINE)
"""Names of code within a sentence: between backticks, or of an argument or attribute."""
_MARKUP: Final = re.compile(
    r"^ *(```+|~~~+).*?^ *\1|(?<!`)(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\2(?!`)|\]\([^)\n]*\)|<[^>\n]+>",
    re.MULTILINE | re.DOTALL,
)
"""Parts of Markdown that are not prose: code blocks, code spans, targets of links, HTML tags."""
_SENTENCE: Final = re.compile(
    r"(?:(?!\n *\n|\n *(?:[-*#>]|\d+\.) |[.!?][\"*_)]*\s|\|).)+", re.DOTALL
)


def found_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and word of each refused word in a module's strings or a page's prose."""
    for first, prose in _prose_of(file):
        for match in _REFUSED.finditer(prose):
            yield first + prose.count("\n", 0, match.start()), " ".join(match[0].split())


def names_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and fault of each name in a module that has a word of `IN_NAMES`."""
    with tokenize.open(file) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            is_name = token.type == tokenize.NAME and token.string != PUBLIC.get(file)
            if is_name and _NAME.search(token.string):
                yield token.start[0], f"the name '{token.string}'"


def long_in(file: Path) -> Iterator[tuple[int, str]]:
    """Yields line and fault of each sentence of a page with more than `LONGEST` words."""
    prose = _MARKUP.sub(_word, file.read_text(encoding="utf-8"))
    for match in _SENTENCE.finditer(prose):
        count = len(re.findall(r"[^\W_][\w'./-]*", match[0]))
        if count > LONGEST:
            yield 1 + prose.count("\n", 0, match.start() + 1), f"a sentence of {count} words"


def _word(code: re.Match[str]) -> str:
    """Returns one word in place of a name of code, and nothing in place of other markup."""
    return f"x{_blank(code)[1:]}" if code[2] else _blank(code)


def _prose_of(file: Path) -> Iterator[tuple[int, str]]:
    """Yields the first line and the text of a file's prose, with spaces in place of code."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield 1, _MARKUP.sub(_blank, text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, _CODE.sub(_blank, node.value)


def _blank(code: re.Match[str]) -> str:
    """Returns spaces of the code's length, with its line breaks."""
    return re.sub(r"[^\n]", " ", code[0])


def instead(word: str) -> str:
    """Returns what to write in a refused word's place."""
    return next(text for each, text in REFUSED.items() if re.fullmatch(each, word, re.IGNORECASE))


def files_in(places: Sequence[Path]) -> list[Path]:
    """Returns the modules and pages in folders, and single files, without the changelog."""
    inside = [file for each in places for file in (each.rglob("*") if each.is_dir() else [each])]
    return sorted(f for f in inside if f.suffix in (".py", ".md") and f.name != EXEMPT)


def main(places: Sequence[Path] = READ) -> int:
    """Prints refused words and names, and long sentences; returns 1 if there are any."""
    found = [(file, line, word) for file in files_in(places) for line, word in found_in(file)]
    for file, line, word in found:
        print(f"{file}:{line}: '{word}' → {instead(word.lower())}")
    modules = [f for f in files_in(places) if f.suffix == ".py" and f.is_relative_to(NAMED)]
    names = [(file, line, fault) for file in modules for line, fault in names_in(file)]
    for file, line, fault in names:
        print(f"{file}:{line}: {fault} → the noun of the value or of the result")
    limited = [CHECKOUT / each for each in SHORT]
    pages = [f for f in files_in(places) if any(f.is_relative_to(each) for each in limited)]
    long = [(file, line, fault) for file in pages for line, fault in long_in(file)]
    for file, line, fault in long:
        print(f"{file}:{line}: {fault} → at most {LONGEST}; one idea a sentence")
    return int(bool(found or names or long))


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]] or READ))
