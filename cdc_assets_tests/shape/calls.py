"""Traces calls from a function through a package, by the types that annotations tell.

An upper bound: a call of a method counts the definitions of the class and of all classes below,
branches are not pruned, and a function that is only mentioned (passed on, kept in a table) counts
as called where it is mentioned. Functions within functions are part of these. What other packages
call back (a hook of a framework, an entry point) is not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass

from cdc_assets_tests.shape.annotations import Annotations
from cdc_assets_tests.shape.classes import Classes
from cdc_assets_tests.shape.scope import Scope
from cdc_assets_tests.shape.tree import Function, Module, Package, last_name
from cdc_assets_tests.shape.values import (
    UNKNOWN,
    Class,
    Defined,
    Foreign,
    Instance,
    Loaded,
    Types,
    Variable,
    one,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or method with its place."""

    module: Module
    cls: str | None
    node: Function

    @property
    def decorators(self) -> frozenset[str]:
        """The last names of the decorators."""
        return frozenset(last_name(each) for each in self.node.decorator_list)

    @property
    def parameters(self) -> list[ast.arg]:
        """The positional parameters, without the object or class of a method."""
        args = [*self.node.args.posonlyargs, *self.node.args.args]
        return args[1:] if self.cls and "staticmethod" not in self.decorators else args


@dataclass(frozen=True, slots=True)
class Trace:
    """What is reached from a function.

    Attributes:
        functions: by dotted names, with that function.
        modules: that define them.
        calls: pairs of caller and called.
        resolved: calls of a method or attribute of an object of the package that were followed.
        unresolved: places of those that were not, or may be such.
    """

    functions: frozenset[str]
    modules: frozenset[str]
    calls: frozenset[tuple[str, str]]
    resolved: int
    unresolved: tuple[str, ...]


class Tracer:
    """A tracer of the calls in a package. What it finds out of a function is kept.

    Args:
        package: with the functions.
    """

    def __init__(self, package: Package) -> None:
        self.package = package
        self.classes = Classes(package)
        self._scopes = dict[str, Scope]()
        self._definitions = dict[str, Definition]()
        self._fields = dict[str, dict[str, Types]]()
        self._variables = dict[tuple[str, str], tuple[Types, frozenset[str]]]()

    def trace(self, start: str, cuts: Collection[str] = ()) -> Trace:
        """Follows all calls from a function.

        Args:
            start: dotted name of a function or method.
            cuts: modules and folders (dotted names) that are neither followed nor counted.

        Raises:
            LookupError: if the package has no such function.
        """
        self.locate(start)
        reached, ahead = {start}, [start]
        calls = set[tuple[str, str]]()
        resolved, unresolved = 0, list[str]()
        while ahead:
            key = ahead.pop()
            scope = self.scope(key)
            homes = {each: self.definition(each).module.name for each in scope.called}
            called = {each for each, home in homes.items() if not is_within(home, cuts)}
            calls |= {(key, each) for each in called}
            ahead += called - reached
            reached |= called
            resolved += sum(scope.attribute_calls.values())
            unresolved += scope.unresolved()
        modules = frozenset(self.definition(each).module.name for each in reached)
        return Trace(
            frozenset(reached), modules, frozenset(calls), resolved, tuple(sorted(unresolved))
        )

    # ── definitions ──────────────────────────────────────────────────────────────────────

    def locate(self, start: str) -> None:
        """Finds a function or method by its dotted name.

        Raises:
            LookupError: if the package has none of this name.
        """
        owner, _, name = start.rpartition(".")
        module = self.package.modules.get(owner)
        if module is not None and name in module.functions:
            self.function(module, name)
            return
        above, _, cls = owner.rpartition(".")
        module = self.package.modules.get(above)
        if module is None or cls not in module.classes or name not in self.classes.methods(owner):
            msg = f"no function {start}"
            raise LookupError(msg)
        self.method(owner, name, self.classes.methods(owner)[name])

    def function(self, module: Module, name: str) -> Types:
        """Returns the type of a module's function."""
        key = f"{module.name}.{name}"
        self._definitions[key] = Definition(module, None, module.functions[name])
        return one(Defined(key))

    def method(self, cls: str, name: str, node: Function) -> Types:
        """Returns the type of a class's method."""
        key = f"{cls}.{name}"
        self._definitions[key] = Definition(self.classes.module(cls), cls, node)
        return one(Defined(key))

    def definition(self, key: str) -> Definition:
        """Returns the definition of a function that was met."""
        return self._definitions[key]

    def annotations(self, module: Module, cls: str | None) -> Annotations:
        """Returns the reader of annotations at a place."""
        return Annotations(self.classes, module, cls)

    def scope(self, key: str) -> Scope:
        """Returns the evaluated body of a function that was met."""
        if key not in self._scopes:
            found = self.definition(key)
            scope = Scope(self, found.module, found.cls)
            self._scopes[key] = scope
            scope.run(found.node)
        return self._scopes[key]

    # ── what names and attributes are ────────────────────────────────────────────────────

    def named(self, module: str, name: str) -> tuple[Types, frozenset[str]]:
        """Returns the types of a name at the top level of a module.

        Returns:
            The types, and for a variable the functions that its value mentions.
        """
        symbol = self.package.find(module, name)
        if symbol is None:
            return UNKNOWN, frozenset()
        if not symbol.module:
            return one(Foreign(symbol.name)), frozenset()
        if not symbol.name:
            return one(Loaded(symbol.module)), frozenset()
        found = self.package.modules[symbol.module]
        if symbol.name in found.classes:
            return one(Class(f"{found.name}.{symbol.name}")), frozenset()
        if symbol.name in found.functions:
            return self.function(found, symbol.name), frozenset()
        return self._variable(found, symbol.name)

    def _variable(self, module: Module, name: str) -> tuple[Types, frozenset[str]]:
        key = (module.name, name)
        if key not in self._variables:
            self._variables[key] = (UNKNOWN, frozenset())
            found = module.variables[name]
            scope = Scope(self, module, None)
            types = scope.value(found.value) if found.value else UNKNOWN
            told = self.annotations(module, None).types(found.annotation)
            known = frozenset(each for each in told if not isinstance(each, Variable))
            self._variables[key] = (known | types, frozenset(scope.mentioned))
        return self._variables[key]

    def members(self, cls: str, name: str) -> tuple[Types, frozenset[str]]:
        """Returns the types of an object's attribute, and the properties that reading it calls.

        Not known attributes have the types of nothing.
        """
        called, types = set[str](), self._field(cls, name)
        for owner, node in self.classes.definitions(cls, name):
            method = self.method(owner, name, node)
            key = f"{owner}.{name}"
            if self.definition(key).decorators & {"property", "cached_property"}:
                called.add(key)
                types |= self.returned(key)
            else:
                types |= method
        return types, frozenset(called)

    def returned(self, key: str) -> Types:
        """Returns the types that a function's annotation says it returns."""
        found = self.definition(key)
        return self.annotations(found.module, found.cls).types(found.node.returns)

    def _field(self, cls: str, name: str) -> Types:
        result: Types = frozenset()
        for each in (*self.classes.above(cls), *self.classes.below(cls)):
            field = self.classes.fields(each).get(name)
            if field is not None:
                within = self.classes.module(each)
                told = self.annotations(within, each).types(field.annotation)
                result |= told or self._class_value(each, name)
            result |= self._assigned(each).get(name, UNKNOWN)
        return result

    def _class_value(self, cls: str, name: str) -> Types:
        if self.classes.is_enumeration(cls):
            return one(Instance(cls))
        value = self.classes.fields(cls)[name].value
        return Scope(self, self.classes.module(cls), cls).value(value) if value else UNKNOWN

    def _assigned(self, cls: str) -> dict[str, Types]:
        """Returns what the methods of a class assign to attributes of ``self``."""
        if cls not in self._fields:
            fields = self._fields[cls] = {}
            for _ in range(2):
                for node in self.classes.methods(cls).values():
                    Scope(self, self.classes.module(cls), cls, fields).run(node)
        return self._fields[cls]

    def constructors(self, cls: str) -> list[str]:
        """Returns the functions of the package that making an object calls."""
        names = ("__new__", "__init__", "__post_init__", "model_post_init")
        found = list[str]()
        for above in self.classes.above(cls):
            for name, node in self.classes.methods(above).items():
                key = f"{above}.{name}"
                self.method(above, name, node)
                checks = {"model_validator", "field_validator"} & self.definition(key).decorators
                if checks or (name in names and not any(e.endswith(f".{name}") for e in found)):
                    found.append(key)
        return found


def is_within(module: str, cuts: Collection[str]) -> bool:
    """Returns whether a module is one of these, or in one of these folders."""
    return any(module == cut or module.startswith(f"{cut}.") for cut in cuts)
