"""Formats are found by their entry points: ours, and those of other packages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.config import SourceConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.registered import format_of
from cdc_assets_tests.pipeline import Message, Pipeline

HERE = Path(__file__).parent
TABLE = "public.lines"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Install a package that names a format; it is gone after the test."""

    def install(target: str) -> None:
        said = tmp_path / "somebody-1.0.dist-info"
        said.mkdir()
        (said / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
        (said / "entry_points.txt").write_text(f"[cdc_assets.formats]\nlines = {target}\n")
        (tmp_path / "somebody.py").write_bytes((HERE / "lines_format.py").read_bytes())
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "somebody", raising=False)

    return install


def source(name: str) -> SourceConfig:
    return SourceConfig.model_validate({"format": name, "topics": {"include": [".*"]}})


@pytest.mark.unit
def test_a_format_that_no_package_brings_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an installed format"):
        source("debezium-jason")


@pytest.mark.unit
def test_the_formats_of_the_product_are_installed() -> None:
    made = format_of(source("debezium-json"))
    assert made.name == "debezium-json"


@pytest.mark.unit
def test_a_package_that_cannot_be_loaded_is_named_by_its_format(
    package: Callable[[str], None],
) -> None:
    package("somebody.nothing:Nothing")
    with pytest.raises(ConfigError, match="format 'lines' cannot be loaded"):
        format_of(source("lines"))


@pytest.mark.stack
def test_a_format_of_another_package_is_replicated(
    package: Callable[[str], None], pipeline: Callable[..., Pipeline]
) -> None:
    package("somebody:Lines")
    made = pipeline(format="lines")
    made.create_topic(TABLE)
    made.produce(TABLE, [Message(None, line) for line in (b"+;1;a", b"+;2;b", b"+;1;c", b"-;2;")])
    (merged,) = made.merge(TABLE)
    assert (merged.inserted, merged.deleted) == (3, 1)
    assert made.rows(TABLE) == [{"id": "1", "text": "c"}]
    made.produce(TABLE, [Message(None, b"?")])
    with pytest.raises(TerminalError, match="not a line of ours"):
        made.merge(TABLE)
