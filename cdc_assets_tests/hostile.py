"""Finds the patterns of the package, and makes texts on which a bad one takes for ever.

Patterns are found by themselves: those of Python among the modules' names and in calls of ``re``,
those of Java in calls that Spark runs, and in SQL. A pattern that is put together from what only a
function knows is found without its text.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import cdc_assets
from cdc_assets_tests.toy.profiles import is_soak

ops: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
SIZE = 1_000_000 if is_soak() else 128_000
"""Characters of a text: a megabyte in the soak. An eighth shows a square as well, in less time."""
END = "\x01"
"""No pattern expects it."""

_MOST = 60
"""Repetitions up to this many take time in proportion, whatever is repeated."""

FILLERS = (
    " ", "\t", "\n", "\r\n", '"', "'", "`", "\\", "\\'", "'\\'", '\\"', "[", "]", "{", "}", "(",
    ")", ",", ";", ":", ".", "-", "+", "=", "_", "$", "#", "@", "/", "*", "/*", "*/", "/*!", "--",
    "-- ", "0", "1", "9.", ".0", "1e", "0,", "a", "A", "f", "é", "\U0001f600", "\0", "\\u0000",
    "\\ud800", "\\ud83d\\ude00", "''", '""', '"a":', '"a":{', '{"a":[', "} ", "a.", "a .", "a,",
    "a ", "a=", "a:", "T", "Z", "+00:00", "-1", "null", "select ", "drop ",
)  # fmt: skip
_CANDIDATES = "a0 \n1zAf.-_:,'\"`[](){}\\;T/$#@é"

_PLAIN = (
    ast.Constant, ast.Name, ast.Attribute, ast.JoinedStr, ast.FormattedValue, ast.BinOp,
    ast.operator, ast.expr_context,
)  # fmt: skip
"""What a pattern is put together from where no function is called."""

PYTHON, JAVA = "python", "java"
_RE = {"compile", "match", "search", "sub", "subn", "fullmatch", "split", "findall", "finditer"}
_ANCHORED = {"match", "fullmatch"}
_SPARK = {
    "rlike", "regexp", "regexp_like", "regexp_replace", "regexp_extract", "regexp_extract_all",
    "regexp_count", "regexp_instr", "regexp_substr",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A pattern with its place; ``text`` is None if only its function can put it together."""

    where: str
    kind: str
    text: str | None
    flags: int = 0
    methods: frozenset[str] = frozenset()


def modules(package: ModuleType = cdc_assets) -> Iterator[tuple[ModuleType, ast.Module]]:
    """Imports every module of a package, and parses its text."""
    root = Path(package.__path__[0])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join((package.__name__, *(each for each in parts if each != "__init__")))
        yield importlib.import_module(name), ast.parse(path.read_text())


def found_in(module: ModuleType, tree: ast.Module) -> Iterator[Found]:
    """Yields the patterns of a module."""
    names = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in names:
                used.setdefault(name, set()).add(attribute)
            case ast.Constant(value=str(text)) if re.search(r"(?i)\bregexp_\w+\(|\brlike\b", text):
                for literal in filter(None, re.findall(r"'([^'\n]*)'", text)):
                    yield Found(_where(module, node), JAVA, literal)
    for name, value in names.items():
        text, methods = value.pattern, frozenset(used.get(name, ()))
        text = text.decode("latin-1") if isinstance(text, bytes) else text
        yield Found(f"{module.__name__}.{name}", PYTHON, text, value.flags, methods)
    for function in (tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))):
        for each in _called(module, function):
            if function is not tree or each.kind == JAVA:  # else it is among the names
                yield each


def _called(module: ModuleType, function: ast.Module | ast.FunctionDef) -> Iterator[Found]:
    """Yields the patterns that are given to calls, as far as its own constants tell them."""
    known = dict(vars(module))
    for node in _own(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                text := _value(value, known)
            ) is not None:
                known[name] = text
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attribute)) if (
                attribute in _RE
            ):
                flags = _value(node.args[-1], known) if attribute == "compile" else 0
                text, given = (
                    _text(node.args[0], known),
                    int(flags) if isinstance(flags, int) else 0,
                )
                if not (text is None and isinstance(_value(node.args[0], known), bytes)):
                    methods = frozenset({attribute} - {"compile"})
                    yield Found(_where(module, node), PYTHON, text, given, methods)
            case ast.Call(func=ast.Attribute(attr=attribute)) if attribute in _SPARK:
                at = 0 if attribute == "rlike" else 1
                yield Found(_where(module, node), JAVA, _text(node.args[at], known))
            case _:
                pass


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yields what is in a function itself, in order."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from _own(child)


def _text(node: ast.expr, known: dict[str, Any]) -> str | None:
    value = _value(node, known)
    return value if isinstance(value, str) else None


def _value(node: ast.expr, known: dict[str, Any]) -> object:
    if not all(isinstance(each, _PLAIN) for each in ast.walk(node)):
        return None
    try:
        return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(known))  # noqa: S307
    except (NameError, AttributeError, TypeError):
        return None


def _where(module: ModuleType, node: ast.AST) -> str:
    call = node.func if isinstance(node, ast.Call) else node
    argument = ""
    if isinstance(node, ast.Call):
        is_first = isinstance(call, ast.Attribute) and (
            call.attr == "rlike" or (isinstance(call.value, ast.Name) and call.value.id == "re")
        )
        argument = ast.unparse(node.args[0 if is_first else 1])
    return f"{module.__name__}: {argument}"


# ── hostile texts ─────────────────────────────────────────────────────────────────────────


def hostile_texts(pattern: str, flags: int = 0) -> Iterator[str]:
    """Yields the texts: of every filler, and of what each part of the pattern repeats.

    Each ends with `END`, so that a match fails at the very end.
    """
    for prefix, body in hostile_parts(pattern, flags):
        yield prefix + body * (SIZE // len(body)) + END


def hostile_parts(pattern: str, flags: int = 0) -> Iterator[tuple[str, str]]:
    """Yields the begin of each text, and what is repeated after it."""
    for filler in FILLERS:
        yield "", filler
    tree = parser.parse(pattern.replace(r"\z", r"\Z"), flags)
    units = {_sample(list(tree)[: n + 1], often) for n in range(len(tree)) for often in (0, 1)}
    pumps = {*_pumps(list(tree), "")} | {("", unit) for unit in units}
    usual = {*pattern, *" a0\n"}
    for prefix, body in sorted(pumps):
        if body and (prefix or body not in FILLERS) and (len(body) > 1 or body in usual):
            yield prefix, body


def _pumps(tree: Collection[Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yields what comes before a repetition, and what it repeats."""
    for op, av in tree:
        for inner in _inner(op, av):
            yield from _pumps(inner, prefix)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT) and av[1] > _MOST:
            for body in _bodies(list(av[2])):
                yield prefix, body
        prefix += _sample([(op, av)], 1)


def _inner(op: Any, av: Any) -> Iterable[Any]:
    if op is ops.SUBPATTERN:
        return [av[-1]]
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
        return [av[2]]
    if op is ops.BRANCH:
        return av[1]
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [av[1]]
    return [av] if op is ops.ATOMIC_GROUP else []


def _bodies(tree: list[Any]) -> Iterator[str]:
    if len(tree) == 1:
        op, av = tree[0]
        if op is ops.IN:
            yield from _members(av)
        elif op in (ops.ANY, ops.NOT_LITERAL):
            yield from _CANDIDATES
        elif op is ops.BRANCH:
            for each in av[1]:
                yield from _bodies(list(each))
        elif op is ops.SUBPATTERN:
            yield from _bodies(list(av[-1]))
    yield _sample(tree, 0)
    yield _sample(tree, 1)


def _sample(tree: Iterable[Any], often: int) -> str:
    """Returns a text that a pattern matches, with what may be left out as often as this."""
    found = ""
    for op, av in tree:
        if op is ops.LITERAL:
            found += chr(av)
        elif op in (ops.ANY, ops.NOT_LITERAL):
            found += "a" if av != ord("a") else "b"
        elif op is ops.IN:
            found += next(iter(_members(av)), "")
        elif op is ops.BRANCH:
            found += _sample(av[1][0], often)
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT):
            found += _sample(av[2], often) * max(av[0], min(often, av[1]))
        elif op in (ops.SUBPATTERN, ops.ATOMIC_GROUP):
            found += _sample(av[-1] if op is ops.SUBPATTERN else av, often)
    return found


def _members(items: list[Any]) -> list[str]:
    """Returns characters of a class: of those that patterns look for, or else its own."""
    own = [
        chr(av if op is ops.LITERAL else av[0])
        for op, av in items
        if op in (ops.LITERAL, ops.RANGE)
    ]
    negated = any(op is ops.NEGATE for op, _ in items)
    there = [each for each in _CANDIDATES if any(_is_in(each, item) for item in items) != negated]
    return there or ([] if negated else own)


def _is_in(char: str, item: tuple[Any, Any]) -> bool:
    op, av = item
    if op is ops.LITERAL:
        return ord(char) == av
    if op is ops.RANGE:
        return av[0] <= ord(char) <= av[1]
    if op is not ops.CATEGORY:
        return False
    kinds = {
        ops.CATEGORY_SPACE: char.isspace(),
        ops.CATEGORY_DIGIT: char.isdigit(),
        ops.CATEGORY_WORD: char.isalnum() or char == "_",
        ops.CATEGORY_NOT_SPACE: not char.isspace(),
        ops.CATEGORY_NOT_DIGIT: not char.isdigit(),
        ops.CATEGORY_NOT_WORD: not (char.isalnum() or char == "_"),
    }
    return kinds[av]


# ── time ──────────────────────────────────────────────────────────────────────────────────


class TooLongError(Exception):
    """A match is not over in its time."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends a match of Python's that takes longer: it looks for signals as it goes."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    was = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)


def run(found: Found, text: str) -> None:
    """Runs a pattern of Python's in each way in which its module does; unknown ways search."""
    compiled = re.compile(found.text or "", found.flags)
    if not found.methods or found.methods - _ANCHORED:
        for _ in compiled.finditer(text):
            pass
    if "match" in found.methods:
        compiled.match(text)
    if "fullmatch" in found.methods:
        compiled.fullmatch(text)
