"""The structure's figures, on small packages with cases that a naive count gets wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from cdc_assets_tests.shape.__main__ import main
from cdc_assets_tests.shape.calls import Trace, Tracer
from cdc_assets_tests.shape.figures import Structure, measure, nearest
from cdc_assets_tests.shape.tree import Package, circles
from cdc_assets_tests.shape.walk import walk

pytestmark = pytest.mark.unit

SETTINGS = """
[project.entry-points."cdc_assets.formats"]
plain = "cdc_assets.formats.plain:Plain"

[[tool.importlinter.contracts]]
name = "one way"
type = "layers"
layers = ["cdc_assets.cli : cdc_assets.top", "cdc_assets.middle", "cdc_assets.low"]

[[tool.importlinter.contracts]]
name = "rooms"
type = "layers"
containers = ["cdc_assets.merge"]
layers = ["rebuild", "replicate : apply", "(fold)"]
"""


def project(folder: Path, files: dict[str, str]) -> Structure:
    """Writes a project whose package has these files, by their paths in it, and reads it."""
    (folder / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "cdc_assets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        for above in path.parents:
            if above == folder:
                break
            (above / "__init__.py").touch()
    return Structure.read(folder)


def trace(folder: Path, files: dict[str, str], start: str, *cuts: str) -> Trace:
    package = project(folder, files).package
    return Tracer(package).trace(f"cdc_assets.{start}", [f"cdc_assets.{each}" for each in cuts])


def reached(found: Trace) -> set[str]:
    return {each.removeprefix("cdc_assets.") for each in found.functions}


def importers(structure: Structure, name: str) -> set[str]:
    found = structure.package.importers[f"cdc_assets.{name}"]
    return {each.removeprefix("cdc_assets.") for each in found}


# ── importers ────────────────────────────────────────────────────────────────────────────────


def test_imports_in_functions_and_for_types_alone_count_as_importers(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "used.py": "X = 1",
            "late.py": "def f():\n    from cdc_assets.used import X\n    return X",
            "typed.py": """
                from typing import TYPE_CHECKING
                if TYPE_CHECKING:
                    from cdc_assets import used
            """,
            "relative.py": "from .used import X",
        },
    )
    assert importers(found, "used") == {"late", "typed", "relative"}


def test_an_import_through_a_re_exporting_package_is_one_of_the_defining_module(
    tmp_path: Path,
) -> None:
    found = project(
        tmp_path,
        {
            "room/__init__.py": "from cdc_assets.room.inner import Box\n__all__ = ['Box']",
            "room/inner/__init__.py": "from cdc_assets.room.inner.box import Box",
            "room/inner/box.py": "class Box: ...",
            "user.py": "from cdc_assets.room import Box",
        },
    )
    assert importers(found, "room.inner.box") == {"user"}
    assert importers(found, "room") == set()
    assert found.one_importer() == ["cdc_assets.room.inner.box"]


def test_a_package_that_re_exports_what_nobody_takes_from_it_is_an_importer(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "room/__init__.py": "from cdc_assets.room.box import Box, Lid",
            "room/box.py": "class Box: ...\nclass Lid: ...",
        },
    )
    assert importers(found, "room.box") == {"room"}


def test_a_name_that_a_package_defines_itself_is_not_looked_through(tmp_path: Path) -> None:
    found = project(
        tmp_path, {"room/__init__.py": "X = 1", "user.py": "from cdc_assets.room import X"}
    )
    assert importers(found, "room") == {"user"}


def test_boundaries_and_long_modules_are_no_slivers(tmp_path: Path) -> None:
    every = (
        "merge/guards/columns.py", "merge/modes/soft.py", "formats/plain.py", "formats/order/a.py",
        "databases/postgres/types.py", "orchestration/sensors/tick.py",
    )  # fmt: skip
    user = [each.removesuffix(".py").replace("/", ".") for each in (*every, "long", "sliver")]
    files = dict.fromkeys(every, "X = 1") | {
        "long.py": "X = 1\n" * 150,
        "sliver.py": "X = 1\n" * 149,
        "operations/compact/__init__.py": "from cdc_assets.operations.compact.run import Run",
        "operations/compact/run.py": "from .part import X\nclass Run: ...",
        "operations/compact/part.py": "X = 1",
        "user.py": "\n".join(f"import cdc_assets.{each}" for each in user)
        + "\nfrom cdc_assets.operations.compact import Run",
    }
    found = project(tmp_path, files)
    assert len(found.one_importer()) == 10
    assert found.slivers() == ["cdc_assets.operations.compact.part", "cdc_assets.sliver"]


# ── names, private imports, circles ──────────────────────────────────────────────────────────


def test_only_classes_of_the_top_level_have_names_that_can_be_taken_twice(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "one.py": "class Place: ...\nclass Outer:\n    class Inner: ...",
            "two.py": "if True:\n    class Place: ...\ndef f():\n    class Inner: ...",
            "three.py": "class Inner: ...",
        },
    )
    assert found.class_names() == {"Place": ["one.py", "two.py"]}


def test_statements_that_import_private_modules_are_counted_not_names(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "a.py": "from dagster._core.x import (\n    A,\n    B,\n)\nimport dagster._core.y as y",
            "b.py": "def f():\n    from dagster import _core",
            "c.py": "import dagster\nfrom dagster._corex import X",
        },
    )
    assert found.private_imports() == ["a.py:1", "a.py:5", "b.py:2"]


def test_circles_are_found_by_level_and_with_hidden_imports(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "a.py": "from cdc_assets import b",
            "b.py": "import cdc_assets.c",
            "c.py": "def f():\n    from cdc_assets.a import X",
            "d.py": "from cdc_assets import a",
        },
    ).package
    assert circles(found.edges(hidden=False)) == []
    assert circles(found.edges(hidden=True)) == [["cdc_assets.a", "cdc_assets.b", "cdc_assets.c"]]


def test_two_circles_that_one_import_joins_are_two() -> None:
    edges = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": ["a"]}
    assert circles(edges) == [["a", "b"], ["c", "d"]]


# ── sizes ────────────────────────────────────────────────────────────────────────────────────


def test_lengths_are_those_of_modules_by_rank_not_means(tmp_path: Path) -> None:
    assert nearest([1, 2, 3, 100], 0.5) == 2
    assert nearest(list(range(1, 11)), 0.9) == 9
    found = project(tmp_path, {"a.py": "X = 1\n" * 3, "b.py": '"""Doc.\n\nMore.\n"""\n'})
    assert found.lengths() == (3, 4, 4)


def test_lines_of_a_batch_leave_out_only_the_named_rooms_of_merge(tmp_path: Path) -> None:
    files = {
        "formats/a.py": "X = 1\n",
        "merge/batch.py": "X = 1\nY = 2\n",
        "merge/rebuild/a.py": "X = 1\n" * 10,
        "merge/renamed.py": "X = 1\n" * 10,
        "merge/rebuilding.py": "X = 1\n" * 4,
        "lake/a.py": "X = 1\n" * 10,
        "decode/jvm/A.java": "class A {\n}\n",
        "devstack/jvm/B.java": "class B {\n}\n",
    }
    found = project(tmp_path, files)
    assert sum(found.batch_files()) == 1 + 2 + 4 + 2
    assert sum(found.package.java.values()) == 4


def test_options_of_click_that_are_fields_of_a_job_too_are_declared_twice(tmp_path: Path) -> None:
    found = project(
        tmp_path,
        {
            "command.py": """
                import click
                @click.option("--from-source", is_flag=True)
                @click.option("--verify/--no-verify", default=True)
                @click.option("-n", "--json", "as_json", is_flag=True)
                @click.option("--alone")
                def f(): ...
            """,
            "jobs.py": """
                import dagster as dg
                class Base(dg.Config):
                    from_source: bool = False
                class Wish(Base):
                    verify: bool = True
                    json: bool = False
                    as_json: bool = False
            """,
            "values.py": "class Options:\n    alone: bool = False",
        },
    )
    assert found.twice_declared() == ["as_json", "from_source", "verify"]


# ── calls ────────────────────────────────────────────────────────────────────────────────────

SHOP = {
    "kinds.py": """
        from __future__ import annotations
        from collections.abc import Callable, Iterable, Iterator
        from contextlib import contextmanager
        from dataclasses import dataclass, replace
        from typing import Protocol

        @dataclass(frozen=True)
        class Item:
            price: int
            tag: Tag | None = None
            @property
            def gross(self) -> int:
                return self.net()
            def net(self) -> int:
                return self.price

        class Tag:
            def text(self) -> str: ...

        class Special(Item):
            def net(self) -> int:
                return rebate()

        class Unrelated:
            def net(self) -> int:
                return never()

        def rebate() -> int: ...
        def never() -> int: ...

        class Closes(Protocol):
            def shut(self) -> None: ...

        class Door:
            def shut(self) -> None: ...

        class Window:
            def open(self) -> None: ...

        class Shop:
            def shut(self, door: Door) -> None: ...

        class Opens(Protocol):
            def shut(self, key: int) -> None: ...

        @contextmanager
        def opened(path: str) -> Iterator[Item]: ...

        def each_of(items: Iterable[Item]) -> Iterator[Item]: ...
        def called_back() -> None: ...
        def in_table() -> None: ...
        TABLE = {"x": in_table}
    """,
    "room/__init__.py": "from cdc_assets.kinds import Item, opened",
}


def shop(folder: Path, body: str, *cuts: str) -> Trace:
    return trace(folder, {**SHOP, "start.py": body}, "start.go", *cuts)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("def go(item: Item) -> None:\n    item.gross", "Item.gross"),
        ("def go(item: 'Item | None') -> None:\n    item.net()", "Item.net"),
        ("def go(items: list[Item]) -> None:\n    for x in items:\n        x.net()", "Item.net"),
        ("def go(a: dict[str, Item]) -> None:\n    [x.net() for _, x in a.items()]", "Item.net"),
        ("def go() -> None:\n    with opened('') as item:\n        item.net()", "Item.net"),
        ("def go() -> None:\n    next(each_of(())).net()", "Item.net"),
        ("def go() -> None:\n    Item(1, Tag()).tag.text()", "Tag.text"),
        ("def go(x: Item) -> None:\n    replace(x, price=2).net()", "Item.net"),
        (
            "def go(x) -> None:\n    match x:\n        case Item(_, tag):\n            tag.text()",
            "Tag.text",
        ),
        ("def go(x: Closes) -> None:\n    x.shut()", "Door.shut"),
        ("def go(run) -> None:\n    run(called_back)", "called_back"),
        ("def go() -> None:\n    TABLE['x']()", "in_table"),
        (
            "class Box:\n    def __init__(self, x: Item) -> None:\n        self.a = self.b = x\n"
            "def go(box: Box) -> None:\n    box.b.net()",
            "Item.net",
        ),
    ],
    ids=[
        "property", "optional", "loop", "comprehension", "with", "generator", "constructor",
        "replace", "match", "protocol", "callback", "table", "self attribute",
    ],
)  # fmt: skip
def test_a_call_is_followed_by_the_types_that_annotations_tell(
    tmp_path: Path, body: str, wanted: str
) -> None:
    start = f"from dataclasses import replace\nfrom cdc_assets.kinds import *\n{body}"
    names = "Item, Tag, Closes, TABLE, opened, each_of, called_back"
    found = shop(tmp_path, start.replace("import *", f"import {names}"))
    assert f"kinds.{wanted}" in reached(found)
    assert "kinds.never" not in reached(found)
    assert found.unresolved == ()


def test_a_call_counts_classes_below_but_not_others_with_the_same_method(tmp_path: Path) -> None:
    body = "from cdc_assets.room import Item\ndef go(item: Item) -> None:\n    item.net()"
    found = shop(tmp_path, body)
    assert reached(found) == {"start.go", "kinds.Item.net", "kinds.Special.net", "kinds.rebate"}
    assert found.modules == {"cdc_assets.start", "cdc_assets.kinds"}


def test_a_class_that_lacks_a_member_of_a_protocol_is_not_taken_for_it(tmp_path: Path) -> None:
    body = "from cdc_assets.kinds import Closes\ndef go(x: Closes) -> None:\n    x.shut()"
    assert "kinds.Window.open" not in reached(shop(tmp_path, body))


def test_a_method_with_other_parameters_is_not_taken_for_a_protocols(tmp_path: Path) -> None:
    body = "from cdc_assets.kinds import Opens\ndef go(x: Opens) -> None:\n    x.shut(1)"
    assert reached(shop(tmp_path, body)) == {"start.go", "kinds.Opens.shut"}


def test_calls_of_unknown_objects_are_told_and_those_of_foreign_ones_are_not(
    tmp_path: Path,
) -> None:
    body = """
        import requests
        from cdc_assets.kinds import Item
        def go(unknown, item: Item, text: str) -> None:
            unknown.net()
            unknown.something_foreign()
            item.missing()
            item.net()
            requests.get("x").net()
            text.strip()
    """
    found = shop(tmp_path, textwrap.dedent(body))
    assert found.unresolved == ("start.py:4 .net()", "start.py:6 .missing()")
    assert len(found.unresolved) / (found.resolved + len(found.unresolved)) == pytest.approx(2 / 3)


def test_what_is_cut_is_neither_followed_nor_counted(tmp_path: Path) -> None:
    files = {
        "start.py": "from cdc_assets.cut import a\nfrom cdc_assets.cutter import b\n"
        "def go() -> None:\n    a()\n    b()",
        "cut/__init__.py": "from cdc_assets.cut.inner import a",
        "cut/inner.py": "from cdc_assets.far import far\ndef a() -> None:\n    far()",
        "cutter.py": "def b() -> None: ...",
        "far.py": "def far() -> None: ...",
    }
    assert reached(trace(tmp_path, files, "start.go", "cut")) == {"start.go", "cutter.b"}


def test_a_start_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=r"no function cdc_assets\.kinds\.Item\.gone"):
        trace(tmp_path, SHOP, "kinds.Item.gone")


def test_a_parameter_is_followed_where_it_is_passed_and_not_where_it_is_kept(
    tmp_path: Path,
) -> None:
    files = {
        "start.py": """
            from cdc_assets.other import Holder, whole, part, listed, unconcerned, further
            def go(step: Holder, other: int) -> None:
                whole(step)
                part(other, entry=step.entry)
                listed([step.entry])
                unconcerned(other, step.result())
        """,
        "other.py": """
            class Holder:
                entry: int
                def result(self) -> int: ...
            def whole(step: Holder) -> None:
                further(step.entry)
            def further(entry: int) -> None: ...
            def part(other: int, entry: int) -> None:
                unconcerned(other, 1)
            def listed(entries: list[int]) -> None: ...
            def unconcerned(other: int, result: int) -> None: ...
        """,
    }
    calls = walk(Tracer(project(tmp_path, files).package), "cdc_assets.start.go", "step")
    found = {called.rpartition(".")[2] for _, called in calls}
    assert found == {"whole", "part", "listed", "further"}


@pytest.mark.parametrize(
    ("caller", "called", "is_up"),
    [
        ("low.a", "top.b", True),
        ("low", "middle.x.y", True),
        ("top", "low", False),
        ("cli", "top", False),
        ("low", "elsewhere", False),
        ("lower", "top", False),
        ("merge.fold.a", "merge.rebuild.b", True),
        ("merge.apply", "merge.fold", False),
    ],
)
def test_a_call_is_up_if_a_contract_has_the_called_module_in_a_layer_above(
    tmp_path: Path, caller: str, called: str, *, is_up: bool
) -> None:
    found = project(tmp_path, {})
    assert found.is_up(f"cdc_assets.{caller}", f"cdc_assets.{called}") is is_up


# ── the table ────────────────────────────────────────────────────────────────────────────────

WHOLE = {
    "merge/replicate.py": """
        class Replicator:
            def drain(self) -> None:
                self.plan()
            def plan(self) -> None: ...
    """,
    "orchestration/table_run/batches.py": "def begin(step: int) -> None: ...",
}


def test_the_table_has_each_figure_beside_its_goal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, WHOLE)
    assert main(["--project", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    drain = next(line for line in lines if line.startswith("Replicator.drain"))
    assert "1 modules, 2 functions" in drain
    assert drain.endswith("≤ 150 modules, ≤ 1,000 functions")
    assert "warning: no module cdc_assets.formats.canal" in "\n".join(lines)


def test_a_renamed_start_is_an_error_with_the_place_to_correct(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    structure = project(tmp_path, {"merge/replicate.py": "class Replicator: ..."})
    with pytest.raises(LookupError):
        list(measure(structure))
    assert main(["--project", str(tmp_path)]) == 1
    assert "Replicator.drain: correct cdc_assets_tests/shape/goals.py" in capsys.readouterr().err


def test_a_list_names_what_was_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = {"one.py": "class Place: ...", "two.py": "class Place: ..."}
    project(tmp_path, {**WHOLE, **twice})
    assert main(["--project", str(tmp_path), "--list"]) == 0
    assert "  Place: one.py, two.py" in capsys.readouterr().out


def test_the_names_of_modules_are_those_of_their_files(tmp_path: Path) -> None:
    project(tmp_path, {"a/b.py": ""})
    assert set(Package.read(tmp_path / "cdc_assets").modules) == {
        "cdc_assets", "cdc_assets.a", "cdc_assets.a.b",
    }  # fmt: skip
