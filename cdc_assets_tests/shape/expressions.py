"""Evaluates expressions to their types, and notes the functions that they call."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cdc_assets_tests.shape.foreign import PLAIN_METHODS, Foreigners, method_of_container
from cdc_assets_tests.shape.tree import Module
from cdc_assets_tests.shape.values import (
    FOREIGN,
    UNKNOWN,
    Above,
    Callback,
    Class,
    Defined,
    Foreign,
    Instance,
    Loaded,
    Managed,
    Many,
    Mapped,
    Row,
    Type,
    Types,
    bind,
    elements,
    one,
    substituted,
    union,
)

if TYPE_CHECKING:
    from cdc_assets_tests.shape.calls import Tracer

OPERATORS: Final = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Div: "__truediv__",
    ast.BitOr: "__or__", ast.BitAnd: "__and__", ast.Mod: "__mod__", ast.Lt: "__lt__",
    ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__", ast.Eq: "__eq__", ast.NotEq: "__eq__",
}  # fmt: skip
MANAGERS: Final = {"contextmanager", "asynccontextmanager"}


class Expressions:
    """The names of one function with their types, and the expressions over them.

    Args:
        tracer: of the package.
        module: with the function.
        cls: the class of a method; None for a function.
        fields: receives the types that are assigned to attributes of ``self``.

    Attributes:
        called: dotted names of the functions that it calls, or mentions.
        mentioned: those that it only mentions.
        attribute_calls: calls of an attribute of an object that may be the package's, by place;
            whether they were resolved.
        sites: the calls, each with a function that it calls.
        annotations: reads those at this place.
    """

    def __init__(
        self,
        tracer: Tracer,
        module: Module,
        cls: str | None,
        fields: dict[str, Types] | None = None,
    ) -> None:
        self.called = set[str]()
        self.mentioned = set[str]()
        self.attribute_calls = dict[tuple[int, int, str], bool]()
        self.sites = dict[tuple[int, str], tuple[ast.Call, str]]()
        self.annotations = tracer.annotations(module, cls)
        self._tracer = tracer
        self._module = module
        self._cls = cls
        self._fields = fields
        self._names = dict[str, Types]()
        self._foreigners = Foreigners(self)

    # ── names ────────────────────────────────────────────────────────────────────────────

    def _parameters(self, args: ast.arguments, *, static: bool = True) -> None:
        positional = [*args.posonlyargs, *args.args]
        for each in (*positional, *args.kwonlyargs):
            self._names[each.arg] = self.annotations.types(each.annotation)
        if self._cls and positional and not static:
            first = positional[0].arg
            kind = Class(self._cls) if first in ("cls", "mcs") else Instance(self._cls)
            self._names[first] = one(kind)
        if args.vararg:
            items = self.annotations.types(args.vararg.annotation)
            self._names[args.vararg.arg] = one(Many(items))
        if args.kwarg:
            values = self.annotations.types(args.kwarg.annotation)
            self._names[args.kwarg.arg] = one(Mapped(FOREIGN, values))
        for each in (*args.defaults, *filter(None, args.kw_defaults)):
            self.value(each)

    @contextmanager
    def _inner(self) -> Iterator[None]:
        """Names that are set within it have their former types afterwards."""
        before = dict(self._names)
        yield
        self._names = before

    def _assign(self, target: ast.expr, types: Types, *, adds: bool = True) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = types | (self._names.get(name, UNKNOWN) if adds else UNKNOWN)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for at, part in enumerate(parts):
                    self._assign(part, self._item(types, at, len(parts)), adds=adds)
            case ast.Starred(value=value):
                self._assign(value, one(Many(types)), adds=adds)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr) if self._fields is not None:
                self._fields[attr] = self._fields.get(attr, UNKNOWN) | types
            case ast.Subscript(value=value, slice=index):
                self._dunder(self.value(value), "__setitem__")
                self.value(index)
            case _:
                pass

    def _item(self, types: Types, at: int, count: int) -> Types:
        found = list[Types]()
        for each in types:
            if isinstance(each, Row):
                if len(each.of) == count:
                    found.append(each.of[at])
                else:
                    found.append(union(each.of))
            elif isinstance(each, Instance) and not self._tracer.classes.has(each.cls, "__iter__"):
                fields = self._tracer.classes.positional(each.cls)  # a named tuple
                if at < len(fields):
                    found.append(self.attribute(one(each), fields[at]))
            else:
                found.append(self.elements(one(each)))
        return union(found)

    # ── expressions ──────────────────────────────────────────────────────────────────────

    def value(self, node: ast.expr) -> Types:
        """Returns the types of an expression; functions that it is, or holds, are mentioned."""
        types = self.types(node)
        if isinstance(node, ast.Name | ast.Attribute):
            for each in types:
                if isinstance(each, Defined):
                    self.called.add(each.key)
                    self.mentioned.add(each.key)
        return types

    def types(self, node: ast.expr) -> Types:
        """Returns the types of an expression."""
        match node:
            case ast.Name(id=name):
                return self._name_types(name)
            case ast.Attribute(value=value, attr=attr):
                return self.attribute(self.types(value), attr)
            case ast.Call():
                return self._call(node)
            case ast.Constant():
                return FOREIGN
            case ast.Subscript(value=value, slice=index):
                self.value(index)
                return self.subscript(self.value(value), index)
            case ast.Lambda():
                return self.made_lambda(node, ())
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node)
            case ast.Dict() | ast.List() | ast.Set() | ast.Tuple():
                return self._display(node)
            case ast.NamedExpr(target=target, value=value):
                types = self.value(value)
                self._assign(target, types)
                return types
            case _:
                return self._operation(node)

    def _operation(self, node: ast.expr) -> Types:
        match node:
            case ast.BoolOp(values=values):
                return union([self.value(each) for each in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test)
                return self.value(body) | self.value(orelse)
            case ast.BinOp(left=left, op=op, right=right):
                one_side, other = self.value(left), self.value(right)
                made = self._dunder(one_side, OPERATORS.get(type(op), ""))
                return made or one_side | other
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                self._compare(left, ops, comparators)
                return FOREIGN
            case ast.Await(value=value) | ast.Starred(value=value):
                return self.value(value)
            case ast.YieldFrom(value=value):
                types = self.value(value)
                self.elements(types)
                return union(each.returns for each in types if isinstance(each, Many))
            case ast.FormattedValue(value=value):
                self._dunder(self.value(value), "__str__")
                return FOREIGN
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child)
                return FOREIGN

    def _compare(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> None:
        before = self.value(left)
        for op, node in zip(ops, others, strict=True):
            after = self.value(node)
            if isinstance(op, ast.In | ast.NotIn):
                self._dunder(after, "__contains__")
            self._dunder(before, OPERATORS.get(type(op), ""))
            before = after

    def _name_types(self, name: str) -> Types:
        if name in self._names:
            return self._names[name]
        if self._module.defines(name) or name in self._module.names:
            return self._mentioned(*self._tracer.named(self._module.name, name))
        return one(Foreign(name))

    def _display(self, node: ast.Dict | ast.List | ast.Set | ast.Tuple) -> Types:
        if isinstance(node, ast.Dict):
            keys = union([self.value(key) for key in node.keys if key])
            values = [self.value(value) for value in node.values]
            plain = [v for key, v in zip(node.keys, values, strict=True) if key]
            spread = [v for key, v in zip(node.keys, values, strict=True) if not key]
            return union([one(Mapped(keys, union(plain))), *spread])
        parts = [
            self.elements(self.value(each.value)) if isinstance(each, ast.Starred)
            else self.value(each)
            for each in node.elts
        ]  # fmt: skip
        is_row = isinstance(node, ast.Tuple) and not any(
            isinstance(each, ast.Starred) for each in node.elts
        )
        return one(Row(tuple(parts))) if is_row else one(Many(union(parts)))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> Types:
        with self._inner():
            for each in node.generators:
                self._assign(each.target, self.elements(self.value(each.iter)), adds=False)
                for condition in each.ifs:
                    self.value(condition)
            if isinstance(node, ast.DictComp):
                return one(Mapped(self.value(node.key), self.value(node.value)))
            return one(Many(self.value(node.elt)))

    def made_lambda(self, node: ast.Lambda, given: tuple[Types, ...]) -> Types:
        """Returns the type of a lambda expression whose parameters have these types."""
        with self._inner():
            self._parameters(node.args)
            for arg, types in zip(node.args.args, given, strict=False):
                self._names[arg.arg] = types
            return one(Callback(given, self.value(node.body)))

    # ── attributes, items ────────────────────────────────────────────────────────────────

    def attribute(self, owner: Types, name: str) -> Types:
        """Returns the types of an attribute, and notes the properties that are read."""
        return union(self._attribute(each, name) or UNKNOWN for each in owner)

    def _at(self, node: ast.Call, functions: Iterable[str]) -> None:
        for each in functions:
            self.sites[id(node), each] = (node, each)

    def _attribute(self, each: Type, name: str) -> Types | None:
        """Returns None if an object or class of the package has no such attribute."""
        classes = self._tracer.classes
        match each:
            case Instance(cls) | Class(cls):
                types, called = self._tracer.members(cls, name)
                if isinstance(each, Instance):
                    self.called |= called
                has = (
                    types
                    or called
                    or any(classes.has(one_class, name) for one_class in (cls, *classes.below(cls)))
                )
                if not has:
                    return FOREIGN if classes.is_foreign_below(cls) or name[:2] == "__" else None
                return types
            case Above(cls):
                return self._above(cls, name)
            case Loaded(module):
                return self._mentioned(*self._tracer.named(module, name))
            case Foreign(of):
                return one(Foreign(f"{of}.{name}" if of else ""))
            case _:
                return FOREIGN

    def _above(self, cls: str, name: str) -> Types:
        for each in self._tracer.classes.above(cls)[1:]:
            found = self._tracer.classes.methods(each).get(name)
            if found is not None:
                return self._tracer.method(each, name, found)
        return FOREIGN

    def elements(self, types: Types) -> Types:
        """Returns what iterating over a value yields, and notes the iterators that are called."""
        return elements(types) | elements(self._dunder(types, "__iter__"))

    def subscript(self, types: Types, index: ast.expr | None) -> Types:
        """Returns the types of an item, or of a slice."""
        own = self._dunder(types, "__getitem__")
        return union([own, *(self._subscript(each, index) for each in types)])

    def _subscript(self, each: Type, index: ast.expr | None) -> Types:
        match each, index:
            case Mapped(_, values), _:
                return values
            case Many() | Row(), ast.Slice():
                return one(Many(elements(one(each))))
            case Row(of), ast.Constant(value=int(at)) if at < len(of):
                return of[at]
            case Foreign(name), ast.expr() if name:  # list[X], of which an object is made
                return one(each)
            case _:
                return elements(one(each))

    def _dunder(self, types: Types, name: str) -> Types:
        """Notes the call of a special method, where one is defined, and returns its types."""
        found = list[Types]()
        for each in types if name else ():
            if isinstance(each, Instance):
                for owner, node in self._tracer.classes.definitions(each.cls, name):
                    found.append(self.returned_by(self._tracer.method(owner, name, node)))
        return union(found)

    def _made(self, kinds: Types) -> Types:
        rows = [item for each in kinds if isinstance(each, Row) for item in each.of]
        flat = union([kinds, *rows])
        return frozenset(Instance(e.cls) if isinstance(e, Class) else Foreign() for e in flat)

    def _mentioned(self, types: Types, functions: frozenset[str]) -> Types:
        self.called |= functions
        self.mentioned |= functions
        return types

    def entered(self, types: Types) -> Types:
        """Returns what ``with`` binds, and notes that these managers are entered and left."""
        self._dunder(types, "__exit__")
        managed = union(each.of for each in types if isinstance(each, Managed))
        foreign = FOREIGN if any(isinstance(each, Foreign) for each in types) else UNKNOWN
        return managed | foreign | self._dunder(types, "__enter__")

    # ── calls ────────────────────────────────────────────────────────────────────────────

    def _call(self, node: ast.Call) -> Types:
        func = node.func
        if isinstance(func, ast.Name) and func.id == "super" and self._cls:
            return one(Above(self._cls))
        if isinstance(func, ast.Subscript):
            made = self.annotations.types(func)
            if made:
                self._arguments(node, UNKNOWN)
                return made
        if isinstance(func, ast.Attribute):
            return self._attribute_call(node, func)
        return self._called(node, self.types(func))

    def _attribute_call(self, node: ast.Call, func: ast.Attribute) -> Types:
        owner = self.types(func.value)
        place = (func.end_lineno or 0, func.end_col_offset or 0, func.attr)
        own = [each for each in owner if isinstance(each, Instance | Class)]
        found = [self._attribute(each, func.attr) for each in own]
        if own:
            self.attribute_calls[place] = any(each is not None for each in found)
        elif not owner and func.attr not in PLAIN_METHODS:
            if func.attr in self._tracer.classes.method_names:
                self.attribute_calls[place] = False
        held = method_of_container(owner, func.attr)
        if held is not None:
            given = self._arguments(node, one(Callback((elements(owner),), UNKNOWN)))
            self._extend(func.value, func.attr, given)
            return held | (union(given) if func.attr in ("get", "pop", "setdefault") else UNKNOWN)
        types = self.attribute(owner, func.attr)
        if not owner:
            self._arguments(node, UNKNOWN)
            return UNKNOWN
        return self._called(node, types)

    def _extend(self, target: ast.expr, method: str, given: list[Types]) -> None:
        if method in ("append", "add", "appendleft", "put") and given:
            self._assign(target, one(Many(given[0])))
        elif method in ("extend", "update") and given:
            self._assign(target, one(Many(elements(given[0]))))

    def _called(self, node: ast.Call, types: Types) -> Types:
        given = self._arguments(node, types)
        found = list[Types]()
        for each in types:
            match each:
                case Foreign(name):
                    found.append(self._foreigners.returned(name, node, given))
                case Defined(key):
                    self._at(node, [key])
                    found.append(self._returned(key, node, given))
                case Class(cls):
                    self._at(node, self._tracer.constructors(cls))
                    found.append(self.returned_by(one(each)))
                case _:
                    found.append(self.returned_by(one(each)))
        return union(found)

    def _returned(self, key: str, node: ast.Call, given: list[Types]) -> Types:
        bound = dict[str, Types]()
        named = {k.arg: v for k, v in zip(node.keywords, given[len(node.args) :], strict=True)}
        parameters = self._expected(one(Defined(key)))
        for at, types in enumerate(given[: len(node.args)]):
            if at < len(parameters):
                bind(list(parameters.values())[at], types, bound)
        for name, types in named.items():
            bind(parameters.get(name or "", UNKNOWN), types, bound)
        return substituted(self.returned_by(one(Defined(key))), bound)

    def returned_by(self, types: Types) -> Types:
        """Notes the call of these functions and classes, and returns what they return."""
        found = list[Types]()
        for each in types:
            match each:
                case Defined(key):
                    self.called.add(key)
                    returned = self._tracer.returned(key)
                    is_manager = MANAGERS & self._tracer.definition(key).decorators
                    found.append(one(Managed(elements(returned))) if is_manager else returned)
                case Class(cls):
                    self.called.update(self._tracer.constructors(cls))
                    found.append(one(Instance(cls)))
                case Callback(_, returns):
                    found.append(returns)
                case Instance():
                    found.append(self._dunder(one(each), "__call__"))
                case Foreign():
                    found.append(FOREIGN)
                case _:
                    pass
        return union(found)

    def _arguments(self, node: ast.Call, called: Types) -> list[Types]:
        """Evaluates the arguments; lambda expressions with the parameters that are expected."""
        expected = self._expected(called)
        order = list(expected.values())
        given = list[Types]()
        for at, each in enumerate(node.args):
            given.append(self._argument(each, order[at] if at < len(order) else UNKNOWN))
        for keyword in node.keywords:
            given.append(self._argument(keyword.value, expected.get(keyword.arg or "", UNKNOWN)))
        if not any(isinstance(each, Foreign) and each.name in _KINDS for each in called):
            for types in given:
                for each in types:
                    if isinstance(each, Class):  # a class that is passed on makes objects there
                        self.called.update(self._tracer.constructors(each.cls))
        elif len(node.args) == 2 and isinstance(node.args[0], ast.Name) and not given[0]:
            self._assign(node.args[0], self._made(given[1]))
        return given

    def _argument(self, node: ast.expr, expected: Types) -> Types:
        if isinstance(node, ast.Lambda):
            callbacks = [each.parameters for each in expected if isinstance(each, Callback)]
            return self.made_lambda(node, callbacks[0] if callbacks else ())
        return self.value(node)

    def _expected(self, called: Types) -> dict[str, Types]:
        """Returns the types of the parameters of what is called, without ``self``."""
        for each in called:
            match each:
                case Defined(key):
                    found = self._tracer.definition(key)
                    within = self._tracer.annotations(found.module, found.cls)
                    every = [*found.parameters, *found.node.args.kwonlyargs]
                    return {arg.arg: within.types(arg.annotation) for arg in every}
                case Class(cls):
                    return self._of_constructor(cls)
                case Callback(parameters, _):
                    return {str(at): types for at, types in enumerate(parameters)}
                case _:
                    pass
        return {}

    def _of_constructor(self, cls: str) -> dict[str, Types]:
        for key in self._tracer.constructors(cls):
            if key.endswith(".__init__"):
                return self._expected(one(Defined(key)))
        return {
            name: self._tracer.members(cls, name)[0]
            for name in self._tracer.classes.positional(cls)
        }


_KINDS: Final = {"isinstance", "issubclass", "typing.cast", "type", "getattr", "hasattr"}
