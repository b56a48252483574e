"""The generated pages are those of the code."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest
from pydantic import BaseModel

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.strict import Strict
from cdc_assets_tests.pages import cli_page, configuration_page
from cdc_assets_tests.pages.generated import FOLDER, PAGES
from cdc_assets_tests.words import CHECKOUT

MOST_WORDS = 25
"""Words of a description of a key."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.slow if each == "cli.md" else pytest.mark.unit)
        for each in PAGES
    ],
)
def test_the_page_is_that_of_the_code(name: str) -> None:
    command = "python -m cdc_assets_tests.pages"
    assert (FOLDER / name).read_text() == PAGES[name](), command


def models() -> dict[str, type[BaseModel]]:
    """The models of the configuration, by name."""
    found, new = dict[str, type[BaseModel]](), [Strict]
    while new:
        below = [each for model in new for each in model.__subclasses__()]
        found |= {each.__name__: each for each in below}
        new = below
    return found


@pytest.mark.unit
def test_each_part_of_the_configuration_is_on_the_page() -> None:
    schema = ReplicationConfig.model_json_schema()
    parts = {"ReplicationConfig", *schema["$defs"]} & models().keys()
    assert parts == configuration_page.COVERED


def described() -> list[Any]:
    """All keys, by model and name, with their descriptions."""
    schema = ReplicationConfig.model_json_schema()
    parts: dict[str, Any] = {**schema["$defs"], "ReplicationConfig": schema}
    return [
        pytest.param(field.get("description", ""), id=f"{model}.{name}")
        for model, part in parts.items() if model in models()
        for name, field in part["properties"].items()
    ]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("description", described())
def test_each_key_is_described_in_few_words(description: str) -> None:
    assert description
    own = re.sub(r" ?Default: (.+?)\.(?= |$)", "", description)
    assert len(own.split()) <= MOST_WORDS + 3, own


@pytest.mark.slow
def test_each_command_has_an_example_that_is_parsed() -> None:
    found = cli_page.commands()
    assert found.keys() == cli_page.EXAMPLES.keys()
    for name, command in found.items():
        line = re.sub(r"'[^']*'", "text", cli_page.EXAMPLES[name]).removeprefix(name).split()
        command.make_context(name, line)


def shown_commands() -> Iterator[tuple[str, str]]:
    """Each command in a code block of a page, with the page's name."""
    for page in (FOLDER.parent).glob("**/*.md"):
        for block in re.findall(r"```(?:sh|bash)\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                for part in re.split(r"&&|\|\|?(?= )|> |;", re.sub(r" #.*", "", line)):
                    if found := re.match(r" *cdc-assets ([^(]+)$", part):
                        yield page.name, found[1].strip()


def parse(line: str, where: str) -> None:
    """Parse a command as the program would; nothing is run."""
    known, words = cli_page.commands(), shlex.split(line)
    name = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in known), None)
    assert name is not None, (where, line)
    try:
        known[name].make_context(name, words[len(name.split()) :])
    except click.UsageError as error:
        raise AssertionError(f"{where}: {line}: {error.format_message()}") from None


@pytest.mark.slow
def test_the_commands_of_all_pages_are_parsed() -> None:
    count = 0
    for page, line in shown_commands():
        parse(line, page)
        count += 1
    assert count > 100


def messages() -> Iterator[tuple[str, str]]:
    """Each text of the product that is no docstring, with ``X`` for values, and its place."""
    for file in (CHECKOUT / "cdc_assets").glob("**/*.py"):
        tree = ast.parse(file.read_text())
        silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                silent |= {id(each) for each in node.values}
                texts = [each.value if isinstance(each, ast.Constant) else "X"
                         for each in node.values]  # fmt: skip
                yield "".join(map(str, texts)), f"{file.name}:{node.lineno}"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) not in silent:
                    yield node.value, f"{file.name}:{node.lineno}"


NEXT_STEP = re.compile(
    r"(?:→ |: |\(|`|, or |^)cdc-assets ((?!X)(?:[a-z-]+|[A-Z]+(?!-)| --[a-z-]+| )+?)(?=[;,.)`]|$)"
)
"""A command that a message asks for, up to what follows it."""
SENTENCE = re.compile(r" (?:names|refuses|says|shows|tells|tries|ends) ")
"""A sentence about a command, which is none."""
ORIGIN = "cdc-assets rebuild"
"""Who has paused a table; no next step."""


@pytest.mark.slow
def test_the_commands_that_messages_ask_for_are_parsed() -> None:
    count = 0
    for text, where in messages():
        for found in NEXT_STEP.finditer(text):
            if not SENTENCE.search(f"{found[1]} ") and text != ORIGIN:
                parse(found[1], where)
                count += 1
    assert count > 50
