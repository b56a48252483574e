"""What a module of tests is about, by its imports, and whether that has changed since a commit.

The rule is simple on purpose: a module of tests is about itself, the modules of tests that it
imports (and those that they import, and the ``conftest.py`` of its folders), and the folders of
the product that any of these imports. Another folder that the product itself imports is left
out: then everything would be about everything. Age decides among what has not changed.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cdc_assets_tests.workers import TESTS

CHECKOUT: Final = TESTS.parent
_PACKAGES: Final = {
    "cdc_assets": CHECKOUT,
    "cdc_assets_tests": CHECKOUT,
    "cdc_assets_devstack": CHECKOUT / "packages" / "devstack",
}
"""The folder that each package lies in."""
_WIDENED: Final = ("is_soak(", "@examples(", "profiles.examples(")
_SETTINGS: Final = frozenset({TESTS / "toy" / "profiles.py", TESTS / "conftest.py"})


@cache
def tests_of(module: Path) -> frozenset[Path]:
    """The module, and all modules of tests that it imports, directly or not."""
    found, ahead = set[Path](), [module, *_conftests(module)]
    while ahead:
        each = ahead.pop()
        if each not in found:
            found.add(each)
            ahead += [one for one in _imported(each) if TESTS in one.parents]
    return frozenset(found)


@cache
def about(module: Path) -> frozenset[str]:
    """Files of tests, and folders of the product with a slash at their ends, from the checkout."""
    files = tests_of(module)
    product = {
        one.relative_to(CHECKOUT)
        for each in files
        for one in _imported(each)
        if TESTS not in one.parents
    }
    folders = {
        f"{path.parts[0]}/{path.parts[1]}" + ("/" if len(path.parts) > 2 else "")
        for path in product
        if len(path.parts) > 1
    }
    return frozenset({each.relative_to(CHECKOUT).as_posix() for each in files} | folders)


def is_widened(module: Path) -> bool:
    """Whether it asks for the profile, itself or in what it imports: more is tried in a soak."""
    asks = (each for each in tests_of(module) if each not in _SETTINGS)
    return any(word in each.read_text(encoding="utf-8") for each in asks for word in _WIDENED)


def has_changed(module: Path, commit: str) -> bool:
    """Whether what the module is about is another than on that commit, or the commit unknown."""
    changed = _changed_since(commit)
    if changed is None:
        return True
    return any(
        path == one or (one.endswith("/") and path.startswith(one))
        for one in about(module)
        for path in changed
    )


def head() -> str:
    """The commit that is checked out."""
    return _git("rev-parse", "--short=12", "HEAD").strip()


def is_dirty() -> bool:
    """Whether a file that git knows differs from that commit, but for what the soak writes."""
    status = _git("status", "--porcelain", "--untracked-files=no")
    return any(not line.endswith("soak/passed.tsv") for line in status.splitlines())


@cache
def _changed_since(commit: str) -> frozenset[str] | None:
    try:
        return frozenset(_git("diff", "--name-only", commit, "HEAD").splitlines())
    except subprocess.CalledProcessError:
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    return done.stdout


@cache
def _imported(file: Path) -> frozenset[Path]:
    """The modules of ours that a file imports, as files."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = (name for node in ast.walk(tree) for name in _names(node))
    found = (_file_of(name) for name in names if name.partition(".")[0] in _PACKAGES)
    return frozenset(each for each in found if each is not None)


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (each.name for each in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield module
            yield from (f"{module}.{each.name}" for each in names)
        case _:
            pass


def _file_of(name: str) -> Path | None:
    path = _PACKAGES[name.partition(".")[0]].joinpath(*name.split("."))
    package = path / "__init__.py"
    return next((each for each in (path.with_suffix(".py"), package) if each.is_file()), None)


def _conftests(module: Path) -> list[Path]:
    folders = (each for each in module.parents if each == TESTS or TESTS in each.parents)
    return [each / "conftest.py" for each in folders if (each / "conftest.py").is_file()]
