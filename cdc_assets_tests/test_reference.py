"""Each error leads to its entry on the page of errors, and each entry belongs to an error."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cdc_assets import errors
from cdc_assets.errors import (
    CdcError,
    ConfigError,
    HungError,
    LoginRefusedError,
    LostRangeError,
    OutcomeUnknownError,
    SilentChangeError,
    TerminalError,
    UnreachableError,
)
from cdc_assets.merge.intake.same_table import AnotherTableError
from cdc_assets.reference import PAGES, explained, finding_page

CHECKOUT: Final = Path(__file__).parents[1]
CLASSES: Final = [
    each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, CdcError)
]
UNEXPECTED: Final = "unexpected"


def entries() -> list[str]:
    """The ids of the page's entries: anchors of their headings."""
    page = (CHECKOUT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    return [each.lower().replace(" ", "-") for each in re.findall(r"^### (.+)$", page, re.M)]


def ids() -> set[str]:
    """The ids in the code: arguments, attributes and variables with the name ``page``."""
    found = {UNEXPECTED}
    for folder in ("cdc_assets", "packages"):
        for file in (CHECKOUT / folder).rglob("*.py"):
            for value in pages_in(ast.parse(file.read_text(encoding="utf-8"))):
                found |= texts(value)
    return found - {""}


def pages_in(module: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        match node:
            case ast.keyword(arg="page", value=value):
                yield value
            case ast.AnnAssign(target=ast.Name(id="page"), value=ast.expr() as value):
                yield value
            case ast.Assign(targets=[ast.Name(id="page")], value=value):
                yield value
            case _:
                pass


def texts(value: ast.expr) -> set[str]:
    match value:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=body, orelse=orelse):
            return texts(body) | texts(orelse)
        case _:
            return set()


def made(kind: type[CdcError], page: str = "") -> CdcError:
    """An error of a class, with all that it may carry."""
    if kind is SilentChangeError:
        return SilentChangeError("what", where="where", remedy="remedy", learned={"a": "b"})
    if kind is LoginRefusedError:
        return LoginRefusedError("what", where="where", remedy="remedy")
    return kind("what", where="where", remedy="remedy", page=page)


@pytest.mark.slow
def test_each_id_in_the_code_has_an_entry_and_each_entry_an_id() -> None:
    assert ids() == {*entries()}


@pytest.mark.unit
def test_each_id_has_one_entry() -> None:
    assert len(entries()) == len({*entries()})


@pytest.mark.unit
@pytest.mark.parametrize("kind", CLASSES)
def test_each_class_has_an_entry_of_its_own(kind: type[CdcError]) -> None:
    assert "page" in vars(kind)
    assert [each.page for each in CLASSES].count(kind.page) == 1


@pytest.mark.unit
@pytest.mark.parametrize(
    ("error", "anchor"),
    [
        (LostRangeError("any words", page="lost-beginning"), "lost-beginning"),
        (LostRangeError("any words"), "lost-range"),
        (AnotherTableError("any words"), "recreated-table"),
        (AnotherTableError("any words", page="column-confused"), "column-confused"),
        (HungError("the step was not over"), "hung"),
        (ConfigError("unknown key 'topic'"), "config"),
        (TerminalError("something else"), "terminal"),
        (CdcError("something else"), "other"),
        (ValueError("a row's value"), UNEXPECTED),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_message_ends_with_the_address_of_its_entry(error: Exception, anchor: str) -> None:
    assert explained(error).endswith(f"; see {PAGES}reference/errors.md#{anchor}")
    assert "a row's value" not in explained(error)


@pytest.mark.unit
def test_a_message_that_repeats_another_one_has_its_address_alone() -> None:
    inner = explained(UnreachableError("Kafka is silent", page="kafka-silent"))
    assert explained(CdcError(inner)) == inner


@pytest.mark.unit
def test_an_error_that_follows_from_another_one_has_its_own_entry() -> None:
    error = OutcomeUnknownError("unknown")
    error.__cause__ = UnreachableError("the lake is silent", page="metadata-silent")
    assert explained(error).endswith("#outcome-unknown")


@pytest.mark.unit
@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_is_whole_in_another_process(kind: type[CdcError]) -> None:
    error = made(kind, "kafka-silent")
    found = pickle.loads(pickle.dumps(error))  # noqa: S301 (of this test)
    assert type(found) is kind
    assert (str(found), vars(found)) == (str(error), vars(error))


@pytest.mark.unit
@pytest.mark.parametrize("kind", CLASSES)
def test_another_place_or_remedy_leaves_the_rest(kind: type[CdcError]) -> None:
    error = made(kind, "kafka-silent")
    moved, other = error.but(where="elsewhere"), error.but(remedy="another")
    assert str(error) == "what [where] → remedy"
    assert (str(moved), str(other)) == ("what [elsewhere] → remedy", "what [where] → another")
    assert type(moved) is kind
    assert vars(moved) == vars(error) | {"where": "elsewhere"}


@pytest.mark.unit
def test_a_refused_login_is_counted_once() -> None:
    before = LoginRefusedError.count
    LoginRefusedError("refused").but(where="elsewhere")
    assert LoginRefusedError.count == before + 1


@pytest.mark.unit
def test_the_pages_are_those_of_the_repository() -> None:
    assert PAGES == "https://github.com/cdc-assets/cdc-assets/blob/main/docs/"
    assert finding_page("compacted") == f"{PAGES}reference/findings.md#compacted"
