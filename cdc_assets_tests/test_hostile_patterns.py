"""Every pattern takes time in proportion to its text, whoever wrote that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pyspark
import pytest
from cdc_assets_devstack.java import find_java
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError
from pyspark.sql.types import BinaryType, StringType

from cdc_assets import decode
from cdc_assets.formats.values import arriving, is_decoded, wire_type
from cdc_assets.schema.types import Column, Decimal, Primitive, Wire, WireDetail
from cdc_assets_tests import hostile
from cdc_assets_tests.hostile import (
    END,
    FILLERS,
    JAVA,
    PYTHON,
    SIZE,
    Found,
    TooLongError,
    found_in,
    hostile_parts,
    hostile_texts,
    within,
)
from cdc_assets_tests.toy import profiles
from cdc_assets_tests.toy.profiles import is_soak

SECONDS = 20 if is_soak() else 5
"""For `SIZE`, on a busy machine. Twice the text for four times the time would take minutes."""

SAMPLES = {
    "cdc_assets.databases.mysql.type_text: f'{quote}{quote}|\\\\\\\\(.)'": [r"''|\\(.)"],
    "cdc_assets.operations.rebuild.tables: f'{self._kept}([0-9]+)'": ["kept([0-9]+)"],
}  # fmt: skip
"""What patterns become that only their function knows."""

OF_OPERATORS = {
    "cdc_assets.config.source: self.tables",
    "cdc_assets.config.strict: pattern",
    "cdc_assets.config.table: ''.join(parts)",
    "cdc_assets.config.topics: pattern",
    "cdc_assets.config.verify: each",
    "cdc_assets.log.connect: text",
}
"""Patterns from the configuration, or a connector's: who writes those is trusted."""


@cache
def all_found() -> tuple[Found, ...]:
    return tuple(each for module, tree in hostile.modules() for each in found_in(module, tree))


def patterns(kind: str) -> list[Found]:
    """Returns every pattern of the package once, with all the ways in which it is used."""
    mine = [each for each in all_found() if each.kind == kind and each.where not in OF_OPERATORS]
    known = [each for each in mine if each.text is not None]
    known += [
        Found(each.where, kind, text, 0, each.methods)
        for each in mine
        if each.text is None
        for text in SAMPLES.get(each.where, ())
    ]
    by_text = sorted(known, key=lambda each: (each.text or "", each.flags))
    groups = (list(g) for _, g in groupby(by_text, key=lambda each: (each.text, each.flags)))
    return [
        Found(g[0].where, kind, g[0].text, g[0].flags, frozenset().union(*(e.methods for e in g)))
        for g in groups
    ]


def try_on_python(found: Found, seconds: float = SECONDS) -> str | None:
    """Returns the reason why a pattern is not fit; None if it is."""
    for text in hostile_texts(found.text or "", found.flags):
        try:
            with within(seconds):
                hostile.run(found, text)
        except TooLongError:
            return f"{found.where} on {text[:60]!r}: longer than {seconds} s"
    return None


@pytest.mark.slow
def test_patterns_that_only_a_function_knows_have_samples() -> None:
    unknown = {each.where for each in all_found() if each.text is None}
    assert unknown == {*SAMPLES, *OF_OPERATORS}


@profiles.in_soak
@pytest.mark.slow
def test_every_pattern_of_pythons_takes_time_in_proportion() -> None:
    slow = [why for found in patterns(PYTHON) if (why := try_on_python(found)) is not None]
    if slow:  # without a traceback: its source may not be parsed before Python 3.11.8 (gh-106905)
        pytest.fail("\n".join(slow), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "methods"),
    [
        (r"\[([^\]]+)\]", {"findall"}),
        (r"'(?:[^'\\]|\\.|'')*'", {"sub"}),
        (r"\s*(.+?)\s+to\s+(.+?)\s*", {"fullmatch"}),
        (r"^a(?:\s*\.\s*b)*\s.*?\bdrop\b", {"match"}),
        (r"0+\Z", set()),
    ],
)
def test_one_that_takes_four_times_as_long_for_twice_the_text_is_found(
    text: str, methods: set[str]
) -> None:
    why = try_on_python(Found("a module", PYTHON, text, 0, frozenset(methods)), seconds=2)
    assert why is not None
    assert why.startswith("a module on ")


@pytest.mark.slow
def test_patterns_are_found_wherever_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text(
        """
import re
_A = re.compile("a+", re.IGNORECASE)
_B = "b+"
_SQL = "regexp_replace(x, 'c+', '')"
def read(value, F, given):
    _A.fullmatch(value)
    part = f"{_B}d"
    re.search("e+", value)
    value.rlike(part), F.regexp_extract(value, rf"{given}f", 1)
"""
    )
    monkeypatch.syspath_prepend(tmp_path)
    package = __import__("a_package")
    found = {
        (each.kind, each.text, *each.methods)
        for module, tree in hostile.modules(package)
        for each in found_in(module, tree)
    }
    assert found >= {
        (PYTHON, "a+", "fullmatch"),
        (PYTHON, "e+", "search"),
        (JAVA, "b+d"),
        (JAVA, "c+"),
        (JAVA, None),
    }
    for name in [each for each in sys.modules if each.partition(".")[0] == "a_package"]:
        del sys.modules[name]


# ── on a JVM ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def jvm(seconds: float) -> Iterator[Any]:
    """Starts the Java of the stack's Spark, with its classes and ours but without Spark.

    A thread's stack is as large as that of a task; a call that takes longer than this is an error.
    """
    jars = Path(pyspark.__file__).parent / "jars"
    (jar,) = jars.glob("py4j-*.jar")
    launched: Any = launch_gateway(
        jarpath=str(jar), classpath=f"{jars}/*:{decode.JAR}",
        java_path=str(find_java().program), die_on_exit=True, return_proc=True,
        redirect_stdout=subprocess.DEVNULL, redirect_stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port, process = launched
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, read_timeout=seconds))
    try:
        yield gateway
    finally:
        process.kill()
        process.wait()


def try_on_java(gateway: Any, found: Found) -> str | None:
    """Returns the reason why a pattern is not fit; None if it is."""
    pattern = gateway.jvm.java.util.regex.Pattern.compile(found.text)
    for prefix, body in hostile_parts(found.text or ""):
        text = gateway.jvm.java.lang.StringBuilder(body)
        length = len(body.encode("utf-16-le")) // 2
        for _ in range((SIZE // length).bit_length()):
            text.append(text, 0, text.length())
        assert text.length() >= SIZE
        text.insert(0, prefix).append(END)
        try:
            pattern.matcher(text).results().count()
        except Py4JError as error:
            return f"{found.where} on {prefix + body!r}: {type(error).__name__}"
    return None


@pytest.mark.spark
def test_every_pattern_of_sparks_takes_time_in_proportion_and_no_stack() -> None:
    with jvm(SECONDS) as java:
        for found in patterns(JAVA):
            assert try_on_java(java, found) is None


@pytest.mark.spark
@pytest.mark.parametrize(
    "text", [r'(?<!"data")\s*:\s*[\[{]', r'"((?:[^"\\]++|\\.)*+)"', r"0+\z", r'"(?:[^"\\]|\\.)*"']
)
def test_a_pattern_that_overflows_or_takes_too_long_is_found(text: str) -> None:
    with jvm(seconds=3) as java:
        assert try_on_java(java, Found("a module", JAVA, text)) is not None


MORE: Mapping[Wire, Sequence[dict[str, Any]]] = {
    Wire.STRING: (
        {},
        {"labels": ("a", "b")},
        {"labels": ("a", "b"), "many": True},
        {"number": True},
    ),
    Wire.BITS: ({"bits": 70},),
    **dict.fromkeys((Wire.ENUM_ORDINAL, Wire.SET_BITS), ({"labels": ("a", "b")},)),
    **dict.fromkeys((Wire.BYTES_LATIN1, Wire.SCALAR), ({}, {"width": 9})),
}
COLUMNS = [
    Column("c", type_, wire, detail=WireDetail(zone="Europe/Berlin", **more))
    for wire in Wire
    for type_ in (*Primitive, Decimal(38, 9))
    for more in MORE.get(wire, ({},))
]


def hostile_rows(gateway: Any, *, as_bytes: bool) -> list[tuple[str, Any]]:
    """Returns each filler, and a row of one long value that consists of it."""
    java, found = gateway.jvm, []
    text_of = java.org.apache.spark.unsafe.types.UTF8String.fromString
    for filler in FILLERS:
        for end in ("", END):
            long = text_of(text_of(filler).repeat(SIZE // len(filler)).toString() + end)
            values = gateway.new_array(java.java.lang.Object, 1)
            values[0] = long.getBytes() if as_bytes else long
            row = java.org.apache.spark.sql.catalyst.expressions.GenericInternalRow(values)
            found.append((filler, row))
    return found


def decoder(gateway: Any, column: Column) -> Any:
    """Returns the image of rows with this column."""
    java = gateway.jvm
    told = java.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(arriving(column)))
    columns = java.java.util.ArrayList()
    columns.add(java.cdc_assets.decode.values.Arriving(told))
    types = java.org.apache.spark.sql.types.DataTypes
    kind = types.BinaryType if is_bytes(column) else types.StringType
    struct = java.org.apache.spark.sql.types.StructType().add("c", kind)
    return java.cdc_assets.decode.values.Image(struct, columns)


def is_bytes(column: Column) -> bool:
    return isinstance(wire_type(column), BinaryType)


@pytest.mark.spark
def test_every_decoder_takes_any_value_in_time_in_proportion_to_it() -> None:
    columns = [
        each
        for each in COLUMNS
        if each.wire is not Wire.LIST and each.wire is not Wire.SHARD and is_decoded(each)
        if isinstance(wire_type(each), StringType | BinaryType)
    ]
    assert len(columns) > 40
    with jvm(SECONDS) as java:
        rows = {kind: hostile_rows(java, as_bytes=kind) for kind in (False, True)}
        for column in columns:
            image = decoder(java, column)
            for filler, row in rows[is_bytes(column)]:
                try:
                    image.of(row).decoded(0)
                except Py4JError as error:
                    pytest.fail(f"{column.wire} as {column.type} on {filler!r}: {error}")
