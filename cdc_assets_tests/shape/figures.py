"""Counts the structure's figures."""

from __future__ import annotations

import ast
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cdc_assets_tests.shape import goals
from cdc_assets_tests.shape.calls import Trace, Tracer, is_within
from cdc_assets_tests.shape.classes import Classes
from cdc_assets_tests.shape.tree import Module, Package, circles, last_name
from cdc_assets_tests.shape.walk import walk


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table.

    Attributes:
        name: of the figure.
        now: as measured.
        goal: empty if there is none.
        items: what was counted, for ``--list``.
    """

    name: str
    now: str
    goal: str = ""
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class Structure:
    """A package in its project.

    Attributes:
        package: its modules.
        settings: all ``pyproject.toml`` of the project, the root's first.
    """

    package: Package
    settings: tuple[Mapping[str, Any], ...]

    @classmethod
    def read(cls, project: Path) -> Structure:
        """Reads the package of a project, whose folder has a ``pyproject.toml``."""
        files = [project / "pyproject.toml", *sorted(project.glob("packages/*/pyproject.toml"))]
        settings = tuple(tomllib.loads(each.read_text("utf-8")) for each in files)
        return cls(Package.read(project / goals.PACKAGE), settings)

    # ── modules ──────────────────────────────────────────────────────────────────────────

    def one_importer(self) -> list[str]:
        """Returns the modules that exactly one other imports."""
        return [name for name, by in self.package.importers.items() if len(by) == 1]

    def slivers(self) -> list[str]:
        """Returns those that are neither a boundary nor long enough for a file."""
        modules, boundaries = self.package.modules, self.boundaries()
        return [
            name
            for name in self.one_importer()
            if name not in boundaries and modules[name].line_count < goals.LONG_ENOUGH
        ]

    def boundaries(self) -> frozenset[str]:
        """Returns the modules that are a guard, a mode, a format, an operation and the like."""
        modules = self.package.modules.values()
        found = {each.name for each in modules if PurePosixPath(each.path).match(goals.DATABASES)}
        for each in modules:
            path = PurePosixPath(each.path)
            place = path.parent if each.is_package else path
            if any(_is_at(place, boundary) for boundary in goals.BOUNDARIES):
                found |= {each.name, *(self._exported(each) if each.is_package else ())}
        return frozenset(found | set(self._formats()))

    def _exported(self, module: Module) -> Iterator[str]:
        for name in module.names:
            symbol = self.package.find(module.name, name)
            if symbol and symbol.module and symbol.module.startswith(f"{module.name}."):
                yield symbol.module

    def _formats(self) -> Iterator[str]:
        for each in self.settings:
            points = each.get("project", {}).get("entry-points", {})
            for target in points.get(f"{goals.PACKAGE}.formats", {}).values():
                yield target.partition(":")[0]

    def class_names(self) -> dict[str, list[str]]:
        """Returns the class names that are defined more than once, with their modules."""
        found = defaultdict[str, list[str]](list)
        for module in self.package.modules.values():
            for name in module.classes:
                found[name].append(module.path)
        return {name: places for name, places in sorted(found.items()) if len(places) > 1}

    def private_imports(self) -> list[str]:
        """Returns the places of the statements that import what Dagster keeps to itself."""
        found = {
            (module.path, one.line)
            for module in self.package.modules.values()
            for one in module.imports
            if is_within(f"{one.module}.{one.name}", [goals.PRIVATE])
        }
        return [f"{path}:{line}" for path, line in sorted(found)]

    def batch_files(self) -> Iterator[int]:
        """Yields the lengths of the files of ``formats``, ``decode`` and the batch in ``merge``."""
        outside = tuple(f"merge/{each}" for each in goals.OUTSIDE_OF_BATCH)
        lines = {each.path: each.line_count for each in self.package.modules.values()}
        for path, count in {**lines, **self.package.java}.items():
            if path.startswith(("formats/", "merge/", "decode/")) and not _is_below(path, outside):
                yield count

    def lengths(self) -> tuple[int, int, int]:
        """Returns the median, the 90 % and the longest length of the modules, in lines."""
        lengths = sorted(each.line_count for each in self.package.modules.values())
        return nearest(lengths, 0.5), nearest(lengths, 0.9), lengths[-1]

    def twice_declared(self) -> list[str]:
        """Returns the options that click and a subclass of ``dg.Config`` both declare."""
        classes = Classes(self.package)
        kinds = (each for each in classes.names if classes.inherits(each, "dagster.Config"))
        fields = {name for kind in kinds for name in classes.positional(kind)}
        options = {
            option
            for module in self.package.modules.values()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and (option := option_name(node))
        }
        return sorted(fields & options)

    # ── calls ────────────────────────────────────────────────────────────────────────────

    def is_up(self, caller: str, called: str) -> bool:
        """Returns whether a call leads from a module to one in a layer above."""
        return any(
            0 <= above < below
            for ladder in self._ladders()
            for above, below in [(_rung(ladder, called), _rung(ladder, caller))]
        )

    def _ladders(self) -> Iterator[list[list[str]]]:
        """Yields the layers of each contract, the highest first, as dotted names."""
        contracts = self.settings[0].get("tool", {}).get("importlinter", {}).get("contracts", [])
        for each in contracts:
            if each["type"] == "layers":
                for container in each.get("containers", [""]):
                    start = f"{container}." if container else ""
                    yield [
                        [start + name.strip(" ()") for name in layer.split(":")]
                        for layer in each["layers"]
                    ]

    def missing_cuts(self) -> list[str]:
        """Returns the cuts that name no module any more."""
        return [each for each in _dotted(goals.NARROW_CUTS) if each not in self.package.modules]


def measure(structure: Structure) -> Iterator[Figure]:
    """Yields the figures.

    Raises:
        LookupError: if a trace begins at a function that does not exist any more.
    """
    yield from _sizes(structure)
    yield from _names(structure)
    tracer = Tracer(structure.package)
    yield from _drain(tracer)
    yield from _begin(structure, tracer)
    yield from _rest(structure)


def _sizes(structure: Structure) -> Iterator[Figure]:
    modules = structure.package.modules.values()
    yield Figure("modules", f"{len(modules):,}", f"≤ {goals.MODULES:,}")
    lines = sum(each.line_count for each in modules)
    yield Figure("lines, docstrings included", f"{lines:,}", f"≤ {goals.LINES:,}")
    yield Figure("lines of Java", f"{sum(structure.package.java.values()):,}")
    one, slivers = structure.one_importer(), structure.slivers()
    yield Figure("modules with one importer", f"{len(one):,}", f"≤ {goals.ONE_IMPORTER}")
    what = f"of these, no boundary and below {goals.LONG_ENOUGH} lines"
    items = tuple(f"{each} ({structure.package.modules[each].line_count})" for each in slivers)
    yield Figure(what, f"{len(slivers):,}", items=items)


def _names(structure: Structure) -> Iterator[Figure]:
    twice = structure.class_names()
    items = tuple(f"{name}: {', '.join(places)}" for name, places in twice.items())
    yield Figure("class names defined more than once", f"{len(twice):,}", "0", items)
    private = structure.private_imports()
    files = {each.rpartition(":")[0] for each in private}
    now = f"{len(private)} in {len(files)} modules"
    yield Figure(f"imports of {goals.PRIVATE}", now, "0, or one module", tuple(private))
    for hidden, what in ((False, "at module level"), (True, "hidden imports included")):
        found = circles(structure.package.edges(hidden=hidden))
        items = tuple(" ".join(each) for each in found)
        yield Figure(f"import circles, {what}", f"{len(found)}", "0", items)


def _drain(tracer: Tracer) -> Iterator[Figure]:
    start = next(_dotted([goals.DRAIN]))
    whole = tracer.trace(start)
    yield from _reached("Replicator.drain", whole, goals.DRAIN_MODULES, goals.DRAIN_FUNCTIONS)
    yield _followed("of its calls on own objects, not resolved", whole)
    narrow = tracer.trace(start, tuple(_dotted(goals.NARROW_CUTS)))
    what = "the same, keyed Debezium JSON alone"
    yield from _reached(what, narrow, goals.NARROW_MODULES, goals.NARROW_FUNCTIONS)


def _begin(structure: Structure, tracer: Tracer) -> Iterator[Figure]:
    start = next(_dotted([goals.BEGIN]))
    calls = walk(tracer, start, goals.BEGIN_PARAMETER)
    functions = sorted({start, *(called for _, called in calls)})
    homes = {each: tracer.definition(each).module.name for each in functions}
    up = sorted(f"{a} → {b}" for a, b in calls if structure.is_up(homes[a], homes[b]))
    what = f"begin: functions that `{goals.BEGIN_PARAMETER}` is passed to"
    goal = f"≤ {goals.BEGIN_FUNCTIONS} in ≤ {goals.BEGIN_MODULES} modules"
    now = f"{len(functions)} in {len(set(homes.values()))} modules"
    yield Figure(what, now, goal, tuple(functions))
    yield Figure("begin: such calls back up", f"{len(up)}", f"≤ {goals.BEGIN_UP}", tuple(up))
    whole = tracer.trace(start)
    yield from _reached("begin", whole)
    homes = {each: tracer.definition(each).module.name for each in whole.functions}
    up = sorted(f"{a} → {b}" for a, b in whole.calls if structure.is_up(homes[a], homes[b]))
    yield Figure("begin, everything: calls back up", f"{len(up):,}", items=tuple(up))


def _reached(
    what: str, trace: Trace, modules: int | None = None, functions: int | None = None
) -> Iterator[Figure]:
    goal = f"≤ {modules:,} modules, ≤ {functions:,} functions" if functions else ""
    now = f"{len(trace.modules):,} modules, {len(trace.functions):,} functions"
    yield Figure(f"{what}, everything" if "alone" not in what else what, now, goal)


def _followed(what: str, trace: Trace) -> Figure:
    unresolved, every = len(trace.unresolved), trace.resolved + len(trace.unresolved)
    share = unresolved / every if every else 0.0
    return Figure(what, f"{share:.1%} ({unresolved} of {every:,})", items=trace.unresolved)


def _rest(structure: Structure) -> Iterator[Figure]:
    median, most, longest = structure.lengths()
    goal = " / ".join(map(str, goals.LENGTHS))
    yield Figure("module, median / 90 % / longest", f"{median} / {most} / {longest}", goal)
    twice = structure.twice_declared()
    yield Figure("options that click and dg.Config declare", f"{len(twice)}", "0", tuple(twice))
    lines = sum(structure.batch_files())
    what = "lines of formats, decode and a batch in merge"
    yield Figure(what, f"{lines:,}", f"≤ {goals.BATCH_LINES:,}")


def nearest(ordered: list[int], share: float) -> int:
    """Returns the smallest of some ordered values that this share of them does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def option_name(call: ast.Call) -> str | None:
    """Returns the parameter that a call of ``click.option`` names; None for another call."""
    if last_name(call.func) != "option":
        return None
    said = [e.value for e in call.args if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    plain = [each for each in said if each.isidentifier()]
    long = [each for each in said if each.startswith("--")] or said
    if not said:
        return None
    return plain[0] if plain else long[0].partition("/")[0].strip("-").replace("-", "_")


def _dotted(names: Iterable[str]) -> Iterator[str]:
    return (f"{goals.PACKAGE}.{each}" for each in names)


def _is_at(path: PurePosixPath, boundary: str) -> bool:
    wanted = PurePosixPath(boundary)
    return len(path.parts) == len(wanted.parts) and path.match(boundary)


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == f"{each}.py" or path.startswith(f"{each}/") for each in places)


def _rung(ladder: list[list[str]], module: str) -> int:
    """Returns the module's layer, counted from the highest; -1 if it is in none."""
    return next((at for at, layer in enumerate(ladder) if is_within(module, layer)), -1)
