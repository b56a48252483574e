"""Says what functions of the standard library return, and what containers hold."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cdc_assets_tests.shape.values import (
    FOREIGN,
    UNKNOWN,
    Class,
    Foreign,
    Instance,
    Managed,
    Many,
    Mapped,
    Row,
    Types,
    elements,
    one,
    union,
)

if TYPE_CHECKING:
    from cdc_assets_tests.shape.expressions import Expressions

PLAIN_METHODS: Final = frozenset(
    name for kind in (str, bytes, list, dict, set, tuple, int) for name in dir(kind)
)
"""Methods of built-in types: of a value of unknown type, they are taken for these."""

_SAME: Final = {"dataclasses.replace", "copy.copy", "copy.deepcopy", "functools.partial"}
_LISTS: Final = {
    "sorted", "list", "tuple", "set", "frozenset", "reversed", "iter", "collections.deque",
    "itertools.islice", "itertools.cycle",
}  # fmt: skip
_SECOND: Final = {"filter", "itertools.takewhile", "itertools.dropwhile", "itertools.filterfalse"}
_PLAIN: Final = {
    "str", "len", "int", "float", "bool", "repr", "hash", "sum", "any", "all", "isinstance",
    "issubclass", "print", "bytes", "range", "abs", "round", "hasattr", "id", "open", "format",
}  # fmt: skip
_SPECIAL: Final = {"str": "__str__", "len": "__len__", "repr": "__repr__", "hash": "__hash__"}


class Foreigners:
    """The functions of other packages that a scope calls.

    Args:
        scope: with the calls.
    """

    def __init__(self, scope: Expressions) -> None:
        self._scope = scope

    def returned(self, name: str, node: ast.Call, given: list[Types]) -> Types:
        """Returns the types of what a foreign function returns."""
        first = given[0] if given else UNKNOWN
        if name in _SAME:
            return first
        if name in _PLAIN:
            self._scope.attribute(first, _SPECIAL.get(name, "__bool__"))
            return FOREIGN
        found = self._iterating(name, given) if given else None
        if found is not None:
            return found
        if name == "typing.cast":
            return self._scope.annotations.types(node.args[0])
        if name == "type":
            return frozenset(Class(e.cls) if isinstance(e, Instance) else Foreign() for e in first)
        if name.endswith(("closing", "nullcontext")):
            return one(Managed(first))
        if name.endswith("enter_context"):
            return self._scope.entered(first)
        return self._other(given)

    def _iterating(self, name: str, given: list[Types]) -> Types | None:
        of: Callable[[Types], Types] = self._scope.elements
        if name in _LISTS:
            return one(Many(of(given[0])))
        if name in _SECOND:
            return one(Many(of(given[-1])))
        match name:
            case "next":
                return union([of(given[0]), *given[1:]])
            case "max" | "min":
                return of(given[0]) if len(given) == 1 or _is_many(given[0]) else union(given)
            case "map":
                return one(Many(self._scope.returned_by(given[0])))
            case "dict":
                mapped = frozenset(each for each in given[0] if isinstance(each, Mapped))
                return mapped or one(Mapped(UNKNOWN, UNKNOWN))
            case _:
                items = self._combined(name, given)
                return None if items is None else one(Many(items))

    def _combined(self, name: str, given: list[Types]) -> Types | None:
        """Returns the types of an item of what a function makes of iterables."""
        of: Callable[[Types], Types] = self._scope.elements
        match name:
            case "enumerate":
                return one(Row((FOREIGN, of(given[0]))))
            case "zip" | "itertools.product":
                return one(Row(tuple(of(each) for each in given)))
            case "itertools.chain":
                return union(of(each) for each in given)
            case "itertools.chain.from_iterable":
                return of(of(given[0]))
            case "itertools.groupby":
                return one(Row((UNKNOWN, one(Many(of(given[0]))))))
            case "itertools.pairwise" | "itertools.combinations":
                return one(Many(of(given[0])))
            case _:
                return None

    def _other(self, given: list[Types]) -> Types:
        """Returns the unknown if an object of the package may come back, else the foreign."""
        own = any(not isinstance(item, Foreign) for types in given for item in types)
        return UNKNOWN if own else FOREIGN


def method_of_container(owner: Types, name: str) -> Types | None:
    """Returns the types of what a container's method returns; None if it is none of these."""
    found = [
        types for each in owner for types in [_method(each, name)] if types is not None
    ]  # fmt: skip
    return union(found) if found else None


def _method(each: object, name: str) -> Types | None:
    match each:
        case Mapped(keys, values):
            match name:
                case "items":
                    return one(Many(one(Row((keys, values)))))
                case "values":
                    return one(Many(values))
                case "keys":
                    return one(Many(keys))
                case "copy":
                    return one(Mapped(keys, values))
                case "popitem":
                    return one(Row((keys, values)))
                case _:
                    return values
        case Many(of):
            is_item = name in ("pop", "popleft", "get", "get_nowait", "result")
            return of if is_item else one(Many(of))
        case Row(of):
            return one(Many(union(of)))
        case Managed(of) if name == "result":
            return of
        case _:
            return None


def _is_many(types: Types) -> bool:
    return any(isinstance(each, Many | Mapped) for each in types) and bool(elements(types))
