"""The page of types says what the mappings do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.schema.types_page import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "types.md"


@pytest.mark.unit
def test_the_page_of_types_is_that_of_the_mappings() -> None:
    told = "python -m cdc_assets_tests.pages"
    assert PAGE.read_text() == page(), told
