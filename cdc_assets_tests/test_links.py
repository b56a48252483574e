"""Links between pages lead somewhere, and the site shows each page."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.links import anchors_of, broken_in, main, pages_of

pytestmark = pytest.mark.unit

PAGE = """\
# The [`first`](x.md) heading: 1, 2 & 3

## Twice

## Twice

```sh
# no heading [none](none.md)
```

<a id="own"></a>[own](#own), [twice](#twice-1), [there](other.md#a-table), `[code](none.md)`,
[outside](https://example.org/none.md)
[no anchor](#thrice) [no
page](none.md)
![no picture](images/none.png)
[no file](https://github.com/cdc-assets/cdc-assets/blob/main/none.py)
[a file](https://github.com/cdc-assets/cdc-assets/blob/main/LICENSE)
"""


def test_the_documents_have_no_broken_link_and_the_site_shows_each_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main()
    assert capsys.readouterr().out == ""


def test_links_that_lead_nowhere_are_found_with_their_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    (tmp_path / "x.md").touch()
    (tmp_path / "other.md").write_text("# A table\n", encoding="utf-8")
    assert list(broken_in(page)) == [
        (13, "#thrice: no such anchor"),
        (14, "none.md: no such file"),
        (15, "images/none.png: no such file"),
        (16, "https://github.com/cdc-assets/cdc-assets/blob/main/none.py: no such file"),
    ]


def test_anchors_are_those_of_headings_as_github_makes_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    assert anchors_of(page) == {"the-first-heading-1-2--3", "twice", "twice-1", "own"}


def test_pages_of_a_navigation_are_those_of_its_parts_too() -> None:
    nav = [{"Home": "index.md"}, {"How-to": ["a.md", {"Sources": ["b.md", {"C": "c.md"}]}]}]
    assert list(pages_of(nav)) == ["index.md", "a.md", "b.md", "c.md"]
