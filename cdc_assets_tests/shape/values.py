"""What the tracer of calls knows of a value: which classes it may be of, and what it holds.

A value's types are a set: one of them for each class that it may be of. The empty set is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the package, or of a class below."""

    cls: str


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the package."""

    cls: str


@dataclass(frozen=True, slots=True)
class Above:
    """What ``super()`` returns in a class."""

    cls: str


@dataclass(frozen=True, slots=True)
class Defined:
    """A function or a method of the package."""

    key: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module of the package."""

    module: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """A value of another package; the name if it is a function or a class."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A type variable without a bound."""

    name: str


@dataclass(frozen=True, slots=True)
class Many:
    """An iterable; for a generator also what it returns."""

    of: Types
    returns: Types = frozenset()


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping."""

    keys: Types
    values: Types


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple of known length."""

    of: tuple[Types, ...]


@dataclass(frozen=True, slots=True)
class Callback:
    """A function of unknown place, by its annotation."""

    parameters: tuple[Types, ...]
    returns: Types


@dataclass(frozen=True, slots=True)
class Managed:
    """A context manager of another package, by what it yields."""

    of: Types


Type = (
    Instance | Class | Above | Defined | Loaded | Foreign | Variable
    | Many | Mapped | Row | Callback | Managed
)  # fmt: skip
Types = frozenset[Type]

UNKNOWN: Final[Types] = frozenset()
FOREIGN: Final[Types] = frozenset({Foreign()})


def one(of: Type) -> Types:
    """Returns the types of a value of one type."""
    return frozenset({of})


def union(several: Iterable[Types]) -> Types:
    """Returns the types of a value that is one of several."""
    return frozenset[Type]().union(*several)


def bind(expected: Types, given: Types, bound: dict[str, Types]) -> None:
    """Binds the type variables of a parameter to what is passed."""
    for each in expected:
        match each:
            case Variable(name):
                bound[name] = bound.get(name, UNKNOWN) | given
            case Many(of):
                bind(of, elements(given), bound)
            case _:
                for other in given:
                    _bind(each, other, bound)


def _bind(expected: Type, given: Type, bound: dict[str, Types]) -> None:
    match expected, given:
        case Mapped(keys, values), Mapped(given_keys, given_values):
            bind(keys, given_keys, bound)
            bind(values, given_values, bound)
        case Callback(_, returns), Callback(_, given_returns):
            bind(returns, given_returns, bound)
        case Managed(of), Managed(given_of):
            bind(of, given_of, bound)
        case _:
            pass


def substituted(types: Types, bound: dict[str, Types]) -> Types:
    """Returns types with their variables replaced; without those that are not bound."""
    return union(_substituted(each, bound) for each in types)


def _substituted(each: Type, bound: dict[str, Types]) -> Types:
    match each:
        case Variable(name):
            return bound.get(name, UNKNOWN)
        case Many(of, returns):
            return one(Many(substituted(of, bound), substituted(returns, bound)))
        case Mapped(keys, values):
            return one(Mapped(substituted(keys, bound), substituted(values, bound)))
        case Row(of):
            return one(Row(tuple(substituted(item, bound) for item in of)))
        case Callback(parameters, returns):
            given = tuple(substituted(item, bound) for item in parameters)
            return one(Callback(given, substituted(returns, bound)))
        case Managed(of):
            return one(Managed(substituted(of, bound)))
        case _:
            return one(each)


def elements(types: Types) -> Types:
    """Returns what iterating over a value yields, as far as that runs nothing of the package."""
    return union(_elements(each) for each in types)


def _elements(each: Type) -> Types:
    match each:
        case Many(of):
            return of
        case Mapped(keys):
            return keys
        case Row(of):
            return union(of)
        case Foreign():
            return FOREIGN
        case Class(cls):  # an enumeration
            return one(Instance(cls))
        case _:
            return UNKNOWN
