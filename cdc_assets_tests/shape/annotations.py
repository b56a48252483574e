"""Reads annotations as types."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from cdc_assets_tests.shape.tree import Module, Symbol, last_name
from cdc_assets_tests.shape.values import (
    FOREIGN,
    UNKNOWN,
    Callback,
    Class,
    Foreign,
    Instance,
    Managed,
    Many,
    Mapped,
    Row,
    Types,
    Variable,
    one,
    union,
)

if TYPE_CHECKING:
    from cdc_assets_tests.shape.classes import Classes

_TRANSPARENT: Final = {"Optional", "Final", "ClassVar", "Annotated", "Required", "NotRequired"}
_MAPPINGS: Final = {
    "dict", "Mapping", "MutableMapping", "defaultdict", "OrderedDict", "MappingProxyType", "Dict",
}  # fmt: skip
_ITERABLES: Final = {
    "list", "set", "frozenset", "deque", "Sequence", "MutableSequence", "Iterable", "Iterator",
    "Collection", "Set", "MutableSet", "AbstractSet", "KeysView", "ValuesView", "Queue",
    "SimpleQueue", "List", "Reversible",
}  # fmt: skip
_MANAGERS: Final = {"AbstractContextManager", "ContextManager", "Future", "closing"}


class Annotations:
    """A reader of the annotations in one module.

    Args:
        classes: of the package.
        module: with the annotations.
        own: the class around them, for ``Self``.
    """

    def __init__(self, classes: Classes, module: Module, own: str | None = None) -> None:
        self._classes = classes
        self._module = module
        self._own = own

    def types(self, node: ast.expr | None) -> Types:
        """Returns the types that an annotation names."""
        match node:
            case ast.Constant(value=str(text)):
                return self.types(ast.parse(text.strip(), mode="eval").body)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.types(left) | self.types(right)
            case ast.Subscript(value=value, slice=inside):
                items = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                return self._generic(value, items)
            case ast.Name() | ast.Attribute():
                return self._named(node)
            case ast.List(elts=elements):
                return one(Row(tuple(self.types(each) for each in elements)))
            case _:
                return UNKNOWN

    def _generic(self, value: ast.expr, items: list[ast.expr]) -> Types:
        name = last_name(value)
        if name in _TRANSPARENT:
            return self.types(items[0])
        if name == "Union":
            return union(self.types(each) for each in items)
        if name == "Literal":
            return FOREIGN
        given = [self.types(each) for each in items]
        if name in ("type", "Type"):
            return self._kinds(given[0])
        if name == "Callable":
            return one(Callback(self._parameters(items[0]), given[-1]))
        if name in ("tuple", "Tuple"):
            is_open = len(items) == 2 and isinstance(items[1], ast.Constant)
            return one(Many(given[0])) if is_open else one(Row(tuple(given)))
        return self._container(name, given) or self._named(value)

    def _container(self, name: str, given: list[Types]) -> Types:
        if name in _MAPPINGS and len(given) == 2:
            return one(Mapped(*given))
        if name == "Generator":
            return one(Many(given[0], given[2] if len(given) > 2 else UNKNOWN))
        if name in _ITERABLES:
            return one(Many(given[0]))
        if name == "ItemsView":
            return one(Many(one(Row(tuple(given)))))
        return one(Managed(given[0])) if name in _MANAGERS else UNKNOWN

    def _kinds(self, of: Types) -> Types:
        names = (each.cls for each in of if isinstance(each, Instance))
        found = {Class(each) for name in names for each in (name, *self._classes.below(name))}
        return frozenset(found) or of

    def _parameters(self, node: ast.expr) -> tuple[Types, ...]:
        return tuple(self.types(e) for e in node.elts) if isinstance(node, ast.List) else ()

    def _named(self, node: ast.expr) -> Types:
        symbol = self._symbol(node)
        if symbol is None:
            return UNKNOWN
        if not symbol.module:
            return self._foreign(symbol.name)
        module = self._classes.package.modules[symbol.module]
        if symbol.name in module.classes:
            return one(Instance(f"{symbol.module}.{symbol.name}"))
        alias = module.variables.get(symbol.name)
        if alias is None or alias.value is None:
            return UNKNOWN
        return self._aliased(module, symbol.name, alias.value)

    def _aliased(self, module: Module, name: str, value: ast.expr) -> Types:
        within = Annotations(self._classes, module, self._own)
        match value:
            case ast.Call(func=func, keywords=keywords) if last_name(func) == "TypeVar":
                bounds = [each.value for each in keywords if each.arg == "bound"]
                return within.types(bounds[0]) if bounds else one(Variable(name))
            case ast.Call(func=func) if last_name(func) == "NewType":
                return FOREIGN
            case ast.Name(id=same) if same == name:
                return UNKNOWN
            case _:
                return within.types(value)

    def _foreign(self, name: str) -> Types:
        last = name.rpartition(".")[2]
        if last == "Self":
            return one(Instance(self._own)) if self._own else UNKNOWN
        if last in ("Any", "object"):
            return UNKNOWN
        if last in _ITERABLES:
            return one(Many(UNKNOWN))
        if last in _MAPPINGS:
            return one(Mapped(UNKNOWN, UNKNOWN))
        return one(Foreign())

    def _symbol(self, node: ast.expr) -> Symbol | None:
        package = self._classes.package
        match node:
            case ast.Name(id=name):
                found = package.find(self._module.name, name)
                is_builtin = found is None and not self._module.defines(name)
                return Symbol("", name) if is_builtin else found
            case ast.Attribute(value=value, attr=attr):
                owner = self._symbol(value)
                if owner is None:
                    return None
                if not owner.module:
                    return Symbol("", f"{owner.name}.{attr}")
                return package.find(owner.module, attr) if not owner.name else None
            case _:
                return None
