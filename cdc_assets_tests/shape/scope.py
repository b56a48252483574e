"""Evaluates the body of one function statement by statement."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from cdc_assets_tests.shape.expressions import MANAGERS, OPERATORS, Expressions
from cdc_assets_tests.shape.tree import Function, Import, last_name
from cdc_assets_tests.shape.values import (
    UNKNOWN,
    Callback,
    Foreign,
    Instance,
    Loaded,
    Managed,
    Many,
    Types,
    elements,
    one,
    union,
)


class Scope(Expressions):
    """The names of one function, as its statements assign them."""

    def run(self, node: Function) -> None:
        """Evaluates a function, twice, as a loop may use what comes later."""
        for each in node.decorator_list:
            self.value(each)
        self._parameters(node.args, static="staticmethod" in map(last_name, node.decorator_list))
        for _ in range(2):
            self._block(node.body)

    def unresolved(self) -> list[str]:
        """Returns the places of attribute calls that were not resolved."""
        return [
            f"{self._module.path}:{line} .{name}()"
            for (line, _, name), is_resolved in self.attribute_calls.items()
            if not is_resolved
        ]

    # ── statements ───────────────────────────────────────────────────────────────────────

    def _block(self, body: Iterable[ast.stmt]) -> None:
        for each in body:
            self._statement(each)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                types = self.value(value)
                for target in targets:
                    self._assign(target, types)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                given = self.value(value) if value else UNKNOWN
                self._assign(target, self.annotations.types(annotation) | given)
            case ast.AugAssign(target=target, op=op, value=value):
                left, right = self.value(target), self.value(value)
                self._dunder(left, OPERATORS.get(type(op), ""))
                self._assign(target, left | right)
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self._assign(target, self.elements(self.value(source)), adds=False)
                self._block([*node.body, *node.orelse])
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self._enter(item)
                self._block(body)
            case ast.Match():
                self._match(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._inner_function(node)
            case ast.Import() | ast.ImportFrom():
                for each in self._module.bound([node]):
                    self._names[each.bound] = self._imported(each)
            case _:
                self._other(node)

    def _other(self, node: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.expr():
                    self.value(child)
                case ast.stmt():
                    self._statement(child)
                case ast.ExceptHandler(type=kind, name=name, body=body):
                    if name and kind:
                        self._names[name] = self._made(self.types(kind))
                    self._block(body)
                case _:
                    pass

    def _imported(self, name: Import) -> Types:
        if name.name is None:
            symbol = self._tracer.package.module_symbol(name.bound_module)
            return one(Loaded(symbol.module) if symbol.module else Foreign(symbol.name))
        return self._mentioned(*self._tracer.named(name.module, name.name))

    def _inner_function(self, node: Function) -> None:
        for each in node.decorator_list:
            self.value(each)
        returned = self.annotations.types(node.returns)
        if MANAGERS & set(map(last_name, node.decorator_list)):
            returned = one(Managed(elements(returned)))
        arguments = tuple(self.annotations.types(each.annotation) for each in node.args.args)
        self._names[node.name] = one(Callback(arguments, returned))
        with self._inner():
            self._parameters(node.args)
            self._block(node.body)

    def _enter(self, item: ast.withitem) -> None:
        types = self.value(item.context_expr)
        entered = self.entered(types)
        if item.optional_vars:
            self._assign(item.optional_vars, entered, adds=False)

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        for case in node.cases:
            self._pattern(case.pattern, subject)
            if case.guard:
                self.value(case.guard)
            self._block(case.body)

    def _pattern(self, pattern: ast.pattern, subject: Types) -> None:
        match pattern:
            case ast.MatchAs(pattern=None, name=str(name)):
                self._names[name] = subject
            case ast.MatchAs(pattern=ast.pattern() as inner, name=name):
                self._pattern(inner, subject)
                if name:
                    self._names[name] = self._matched(inner) or subject
            case ast.MatchOr(patterns=patterns):
                for each in patterns:
                    self._pattern(each, subject)
            case ast.MatchClass(cls=cls, patterns=given, kwd_attrs=attrs, kwd_patterns=named):
                made = self._made(self.types(cls))
                fields = [*self._positional(made)[: len(given)], *[""] * len(given)][: len(given)]
                for name, each in zip([*fields, *attrs], [*given, *named], strict=True):
                    self._pattern(each, self.attribute(made, name) if name else made)
            case _:
                self._pattern_of_items(pattern, subject)

    def _positional(self, made: Types) -> list[str]:
        """Returns the fields of the first class that may be meant."""
        classes = [each.cls for each in made if isinstance(each, Instance)]
        return self._tracer.classes.positional(classes[0]) if classes else []

    def _pattern_of_items(self, pattern: ast.pattern, subject: Types) -> None:
        match pattern:
            case ast.MatchSequence(patterns=patterns):
                for at, each in enumerate(patterns):
                    self._pattern(each, self._item(subject, at, len(patterns)))
            case ast.MatchStar(name=str(name)):
                self._names[name] = one(Many(self.elements(subject)))
            case ast.MatchMapping(patterns=patterns):
                for each in patterns:
                    self._pattern(each, self.subscript(subject, None))
            case _:
                pass

    def _matched(self, pattern: ast.pattern) -> Types:
        match pattern:
            case ast.MatchClass(cls=cls):
                return self._made(self.types(cls))
            case ast.MatchOr(patterns=patterns):
                return union(self._matched(each) for each in patterns)
            case _:
                return UNKNOWN
