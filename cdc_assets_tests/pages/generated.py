"""Names the generated pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cdc_assets_tests.operate import findings_page
from cdc_assets_tests.pages import cli_page, configuration_page, metrics_page
from cdc_assets_tests.schema import types_page

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "cli.md": cli_page.page,
    "configuration.md": configuration_page.page,
    "findings.md": findings_page.page,
    "metrics.md": metrics_page.page,
    "types.md": types_page.page,
}
