"""Writes the generated pages: ``python -m cdc_assets_tests.pages``."""

from __future__ import annotations

from cdc_assets_tests.pages.generated import FOLDER, PAGES

for name, page in PAGES.items():
    (FOLDER / name).write_text(page(), encoding="utf-8")
