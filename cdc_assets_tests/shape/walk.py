"""Follows one parameter from a function through the calls that it is passed to.

Followed are the parameter and what is read from it (``step.entry``), where they are arguments; not
what a call returns, what an object keeps, or the object whose method is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from cdc_assets_tests.shape.calls import Definition, Tracer

Names = frozenset[str]


def walk(tracer: Tracer, start: str, parameter: str) -> frozenset[tuple[str, str]]:
    """Returns the calls that pass a parameter on: pairs of caller and called.

    Raises:
        LookupError: if there is no such function.
    """
    tracer.locate(start)
    calls = set[tuple[str, str]]()
    first = (start, frozenset({parameter}))
    seen, ahead = {first}, [first]
    while ahead:
        key, names = ahead.pop()
        for called, received in _passing(tracer, key, names):
            calls.add((key, called))
            if (called, received) not in seen:
                seen.add((called, received))
                ahead.append((called, received))
    return frozenset(calls)


def _passing(tracer: Tracer, key: str, names: Names) -> Iterator[tuple[str, Names]]:
    """Yields the calls in a function that pass names on, with the parameters that receive them."""
    for node, called in tracer.scope(key).sites.values():
        received = _received(tracer.definition(called), node, names)
        if received:
            yield called, received


def _received(called: Definition, node: ast.Call, names: Names) -> Names:
    positional = zip(called.parameters, node.args, strict=False)
    found = {parameter.arg for parameter, each in positional if _holds(each, names)}
    named = {each.arg for each in node.keywords if each.arg and _holds(each.value, names)}
    return frozenset(found | named)


def _holds(node: ast.expr, names: Names) -> bool:
    """Returns whether an expression is one of the names, read from one, or a list with one."""
    match node:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=value) | ast.Starred(value=value):
            return _holds(value, names)
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return any(_holds(each, names) for each in items)
        case _:
            return False
