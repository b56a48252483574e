"""Finds the members of a package's classes, in the classes above and below."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Final

from cdc_assets_tests.shape.tree import Assigned, Function, Module, Package, assigned

_EMPTY: Final = {"Protocol", "Generic", "ABC"}
"""Bases that bring no methods to call."""


class Classes:
    """The classes at the top level of a package's modules, by their dotted names.

    Args:
        package: with the classes.
    """

    def __init__(self, package: Package) -> None:
        self.package = package
        self._nodes = {
            f"{module.name}.{name}": (module, node)
            for module in package.modules.values()
            for name, node in module.classes.items()
        }
        self._above = dict[str, tuple[str, ...]]()
        self._methods = dict[str, Mapping[str, Function]]()
        self._fields = dict[str, Mapping[str, Assigned]]()

    @property
    def names(self) -> Collection[str]:
        """All classes."""
        return self._nodes.keys()

    def module(self, cls: str) -> Module:
        """Returns the module that defines a class."""
        return self._nodes[cls][0]

    def methods(self, cls: str) -> Mapping[str, Function]:
        """Returns the methods that a class itself defines."""
        if cls not in self._methods:
            body = self._nodes[cls][1].body
            self._methods[cls] = {
                each.name: each for each in reversed(body) if isinstance(each, Function)
            }
        return self._methods[cls]

    def fields(self, cls: str) -> Mapping[str, Assigned]:
        """Returns the names that a class itself assigns in its body."""
        if cls not in self._fields:
            self._fields[cls] = assigned(self._nodes[cls][1].body)
        return self._fields[cls]

    def bases(self, cls: str) -> list[str]:
        """Returns the dotted names of the bases, those of other packages included."""
        module, node = self._nodes[cls]
        return [name for base in node.bases if (name := self._base(module, base))]

    def above(self, cls: str) -> tuple[str, ...]:
        """Returns the class, and the classes of the package above, the nearest first."""
        if cls not in self._above:
            found = [cls]
            for base in self.bases(cls):
                if base in self._nodes and base != cls:
                    found += [each for each in self.above(base) if each not in found]
            self._above[cls] = tuple(found)
        return self._above[cls]

    def below(self, cls: str) -> frozenset[str]:
        """Returns the classes below; for a protocol the classes that have all of its members."""
        return self._below.get(cls, frozenset())

    def is_foreign_below(self, cls: str) -> bool:
        """Returns whether a class inherits from one of another package."""
        bases = {base for each in self.above(cls) for base in self.bases(each)}
        return any(base.rpartition(".")[2] not in _EMPTY for base in bases - self._nodes.keys())

    def inherits(self, cls: str, *foreign: str) -> bool:
        """Returns whether a class, or one above, has one of these foreign bases."""
        return any(base in foreign for each in self.above(cls) for base in self.bases(each))

    def is_enumeration(self, cls: str) -> bool:
        """Returns whether the values in the body of a class are its objects."""
        return self.inherits(cls, "enum.Enum", "enum.StrEnum", "enum.IntEnum", "enum.Flag")

    def has(self, cls: str, name: str) -> bool:
        """Returns whether a class or one above defines a member."""
        return any(name in self.methods(e) or name in self.fields(e) for e in self.above(cls))

    def definitions(self, cls: str, name: str) -> Iterator[tuple[str, Function]]:
        """Yields the definitions that a call of a method may mean, with their classes.

        The nearest definition from the class upwards, and those of all classes below.
        """
        for each in self.above(cls):
            if name in self.methods(each):
                yield each, self.methods(each)[name]
                break
        for each in self.below(cls):
            if name in self.methods(each):
                yield each, self.methods(each)[name]

    def positional(self, cls: str) -> list[str]:
        """Returns the fields in the order of a dataclass's positional arguments."""
        found = dict[str, None]()
        for each in reversed(self.above(cls)):
            found |= {n: None for n, field in self.fields(each).items() if field.annotation}
        return list(found)

    @cached_property
    def method_names(self) -> frozenset[str]:
        """The names of all methods."""
        return frozenset(name for cls in self._nodes for name in self.methods(cls))

    @cached_property
    def _below(self) -> Mapping[str, frozenset[str]]:
        found = defaultdict[str, set[str]](set)
        for cls in self._nodes:
            for above in self.above(cls)[1:]:
                found[above].add(cls)
        for protocol in (each for each in self._nodes if self._is_protocol(each)):
            members = self._members(protocol)
            found[protocol] |= {
                cls
                for cls in self._nodes
                if members
                and cls != protocol
                and all(self._fits(cls, protocol, each) for each in members)
            }
        return {cls: frozenset(below) for cls, below in found.items()}

    def _fits(self, cls: str, protocol: str, member: str) -> bool:
        """Returns whether a class has a protocol's member, a method with the same parameters."""
        asked = self.methods(protocol).get(member)
        owner = next((each for each in self.above(cls) if member in self.methods(each)), None)
        if asked is None or owner is None:
            return self.has(cls, member)
        mine, wanted = _parameters(self.methods(owner)[member]), _parameters(asked)
        return mine[: len(wanted)] == wanted

    def _is_protocol(self, cls: str) -> bool:
        return any(base.rpartition(".")[2] == "Protocol" for base in self.bases(cls))

    def _members(self, protocol: str) -> set[str]:
        return {*self.methods(protocol), *self.fields(protocol)}

    def _base(self, module: Module, node: ast.expr) -> str:
        match node:
            case ast.Subscript(value=value):
                return self._base(module, value)
            case ast.Name(id=name):
                found = self.package.find(module.name, name)
                return ".".join(filter(None, found)) if found else name
            case ast.Attribute(value=ast.Name(id=owner), attr=attr):
                found = self.package.find(module.name, owner)
                return ".".join([*filter(None, found or (owner,)), attr])
            case _:
                return ""


def _parameters(node: Function) -> list[str]:
    """Returns the names of positional parameters, by which a class's method differs from others."""
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
