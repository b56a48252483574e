"""Reads a package's modules as syntax trees: their definitions and their imports.

Nothing is imported or run. A name is followed through the modules that import it to the module
that defines it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """One imported name: ``from module import name as bound``.

    Attributes:
        module: dotted and absolute.
        name: None for ``import module``.
        bound: the name in the importing module.
        is_hidden: whether the import is inside a function, or under TYPE_CHECKING.
        line: of the statement.
    """

    module: str
    name: str | None
    bound: str
    is_hidden: bool
    line: int

    @property
    def bound_module(self) -> str:
        """The module that the name is, for ``import module``: ``a`` for ``import a.b``."""
        return self.bound if self.module.startswith(f"{self.bound}.") else self.module


class Symbol(NamedTuple):
    """The definition of a name; without a name a module, without a module a foreign name."""

    module: str
    name: str


@dataclass(frozen=True)
class Module:
    """A module of the package.

    Attributes:
        name: dotted.
        path: of its file, below the package's folder, with slashes.
        text: of the file.
        is_package: whether the module is the ``__init__`` of a folder.
    """

    name: str
    path: str
    text: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def line_count(self) -> int:
        """Lines of the file, with docstrings and blank ones."""
        return len(self.text.splitlines())

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """All imports, wherever they are."""
        return tuple(self._imports(self.tree.body, is_hidden=False))

    @cached_property
    def names(self) -> Mapping[str, Import]:
        """What the names are that are imported outside of functions."""
        return {each.bound: each for each in self.bound(self.tree.body)}

    @cached_property
    def classes(self) -> Mapping[str, ast.ClassDef]:
        """The classes at the top level."""
        found = (each for each in statements(self.tree.body) if isinstance(each, ast.ClassDef))
        return {each.name: each for each in found}

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """The functions at the top level."""
        found = (each for each in statements(self.tree.body) if isinstance(each, Function))
        return {each.name: each for each in found}

    @cached_property
    def variables(self) -> Mapping[str, Assigned]:
        """The names assigned at the top level."""
        return assigned(self.tree.body)

    def defines(self, name: str) -> bool:
        """Returns whether the name is of a class, a function or a variable of this module."""
        return name in self.classes or name in self.functions or name in self.variables

    def bound(self, body: Iterable[ast.stmt]) -> Iterator[Import]:
        """Yields the imports among some statements, without functions among them."""
        for each in statements(body):
            yield from self._of(each, is_hidden=False)

    def _imports(self, body: Iterable[ast.stmt], *, is_hidden: bool) -> Iterator[Import]:
        for each in body:
            yield from self._of(each, is_hidden=is_hidden)
            inside = is_hidden or isinstance(each, Function)
            for name, block in blocks(each):
                for_types = isinstance(each, ast.If) and last_name(each.test) == "TYPE_CHECKING"
                hidden = inside or (for_types and name == "body")
                yield from self._imports(block, is_hidden=hidden)

    def _of(self, node: ast.AST, *, is_hidden: bool) -> Iterator[Import]:
        match node:
            case ast.Import(names=names):
                for each in names:
                    bound = each.asname or each.name.partition(".")[0]
                    yield Import(each.name, None, bound, is_hidden, node.lineno)
            case ast.ImportFrom(names=names):
                for each in names:
                    bound = each.asname or each.name
                    yield Import(self._source(node), each.name, bound, is_hidden, node.lineno)

    def _source(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        above = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*above, *([node.module] if node.module else [])])


class Assigned(NamedTuple):
    """An assignment to a name."""

    annotation: ast.expr | None
    value: ast.expr | None


@dataclass(frozen=True)
class Package:
    """A package's modules.

    Attributes:
        name: of the package.
        modules: by their dotted names.
        java: lines of each file in Java, by its path below the package's folder.
    """

    name: str
    modules: Mapping[str, Module]
    java: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Package:
        """Reads a package's folder."""
        modules = (_read(folder, each) for each in sorted(folder.rglob("*.py")))
        java = {
            each.relative_to(folder).as_posix(): len(each.read_text("utf-8").splitlines())
            for each in sorted(folder.rglob("*.java"))
        }
        return cls(folder.name, {each.name: each for each in modules}, java)

    def find(self, module: str, name: str) -> Symbol | None:
        """Follows a name to its definition; None if the module does not have it."""
        seen = set[tuple[str, str]]()
        while (module, name) not in seen:
            seen.add((module, name))
            own = self.modules.get(module)
            if own is None:
                return Symbol("", f"{module}.{name}")
            if own.defines(name):
                return Symbol(module, name)
            imported = own.names.get(name)
            if imported is None or (imported.module, imported.name) == (module, name):
                below = f"{module}.{name}"
                return Symbol(below, "") if below in self.modules else None
            if imported.name is None:
                return self.module_symbol(imported.bound_module)
            module, name = imported.module, imported.name
        return None

    def module_symbol(self, dotted: str) -> Symbol:
        """Returns the symbol of a module by its dotted name."""
        return Symbol(dotted, "") if dotted in self.modules else Symbol("", dotted)

    @cached_property
    def importers(self) -> Mapping[str, frozenset[str]]:
        """The modules that import each module, re-exporting ``__init__`` files looked through.

        An ``__init__`` counts as an importer only of what nobody imports through it.
        """
        uses = [
            (module, one, self._through(one.module, one.name))
            for module in self.modules.values()
            for one in module.imports
        ]
        passed = {step for _, _, (_, steps) in uses for step in steps}
        found = defaultdict[str, set[str]](set)
        for module, one, (target, _) in uses:
            is_passed_on = module.is_package and (module.name, one.bound) in passed
            if target and target != module.name and not is_passed_on:
                found[target].add(module.name)
        return {name: frozenset(found[name]) for name in self.modules}

    def _through(self, module: str, name: str | None) -> tuple[str | None, list[tuple[str, str]]]:
        """Returns the module that an import means, and the names passed in ``__init__`` files."""
        steps = list[tuple[str, str]]()
        while name is not None:
            own = self.modules.get(module)
            passes = own is not None and own.is_package and not own.defines(name)
            imported = own.names.get(name) if own and passes else None
            if imported is None or (module, name) in steps:
                below = f"{module}.{name}"
                module = below if below in self.modules else module
                break
            steps.append((module, name))
            if (imported.module, imported.name) == (module, name):
                return f"{module}.{name}", steps
            module, name = imported.module, imported.name
        return (module if module in self.modules else None), steps

    def edges(self, *, hidden: bool) -> Mapping[str, frozenset[str]]:
        """Returns the modules that each imports as its statements are written.

        Args:
            hidden: whether to count the imports in functions and under TYPE_CHECKING.
        """
        return {
            name: frozenset(
                self._written(one) for one in module.imports if hidden or not one.is_hidden
            )
            & self.modules.keys() - {name}
            for name, module in self.modules.items()
        }

    def _written(self, one: Import) -> str:
        below = f"{one.module}.{one.name}"
        return below if one.name and below in self.modules else one.module


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields statements and those in their branches, but not those of functions and classes."""
    for each in body:
        yield each
        if not isinstance(each, Function | ast.ClassDef):
            for _, block in blocks(each):
                yield from statements(block)


def last_name(node: ast.expr) -> str:
    """Returns the last name of a dotted one, called or not; empty for anything else."""
    match node:
        case ast.Call(func=func):
            return last_name(func)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def blocks(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yields the blocks of a compound statement, with the names of their fields."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if block:
            yield name, block
    for name in ("handlers", "cases"):
        for each in getattr(statement, name, ()):
            yield name, each.body


def assigned(body: Iterable[ast.stmt]) -> dict[str, Assigned]:
    """Returns the names assigned among some statements."""
    found = dict[str, Assigned]()
    for each in statements(body):
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                found[name] = Assigned(annotation, value)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                        if isinstance(one, ast.Name):
                            whole = not isinstance(target, ast.Tuple)
                            found.setdefault(one.id, Assigned(None, value if whole else None))
            case _:
                pass
    return found


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the strongly connected components of more than one node, each sorted."""
    order, seen = list[str](), set[str]()
    for node in edges:
        _walk(node, edges, seen, order)
    back = defaultdict[str, list[str]](list)
    for node, targets in edges.items():
        for target in targets:
            back[target].append(node)
    found, seen = list[list[str]](), set[str]()
    for node in reversed(order):
        together = list[str]()
        _walk(node, back, seen, together)
        if len(together) > 1:
            found.append(sorted(together))
    return sorted(found)


def _walk(start: str, edges: Mapping[str, Iterable[str]], seen: set[str], order: list[str]) -> None:
    """Adds the nodes that are reached for the first time, each after those that follow it."""
    if start in seen:
        return
    seen.add(start)
    ahead = [(start, iter(edges.get(start, ())))]
    while ahead:
        node, targets = ahead[-1]
        following = next((each for each in targets if each not in seen), None)
        if following is None:
            order.append(node)
            ahead.pop()
        else:
            seen.add(following)
            ahead.append((following, iter(edges.get(following, ()))))


def _read(folder: Path, path: Path) -> Module:
    below = path.relative_to(folder)
    parts = [folder.name, *below.with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, below.as_posix(), path.read_text("utf-8"), is_package)
