"""Refused words are found in what people read, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets_tests.words import (
    CHECKOUT,
    LONGEST,
    READ,
    files_in,
    found_in,
    instead,
    long_in,
    main,
    names_in,
)

REFUSED = '''\
"""Builds the table anew.

It lies beside the old one,
which is told what is wanted.
"""

HELP = "It goes on amid changes."
MESSAGE = f"nothing thereof {HELP} lie in quarantine"
'''
CLEAN = '''\
"""Rebuilds the table as a shadow table; see `beside` and ``anew(told)``.

Args:
    beside: the shadow table.
    told: the reported offsets.
"""

told = beside = anew = "anew"
FLIES = "Whether the toldest anewer goes."
'''

PAGE = """\
# A table is built anew

It lies `beside` the
old one, and goes
on amid [changes](#told-anew).

```sh
cdc-assets rebuild --told  # thereof
```

<a id="anew"></a>An odd ` does not hide what is wanted.

Nor does the ` end here, as told.
"""


def written(folder: Path, text: str, name: str = "example.py") -> Path:
    """Writes an example file."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.unit
def test_each_refused_word_is_found_with_its_line(tmp_path: Path) -> None:
    assert sorted(found_in(written(tmp_path, REFUSED))) == [
        (1, "anew"),
        (3, "beside"),
        (3, "lies"),
        (4, "told"),
        (4, "what is wanted"),
        (7, "amid"),
        (7, "goes on"),
        (8, "lie in"),
        (8, "thereof"),
    ]


@pytest.mark.unit
def test_names_of_code_and_longer_words_are_no_refused_words(tmp_path: Path) -> None:
    assert list(found_in(written(tmp_path, CLEAN))) == []


NAMES = '''\
"""told"""

from told_by import Beside as shadow

def is_told(answer: str, built_anew: bool) -> str:
    foretold = answer.lies  # beside
    return f"{foretold} told" if "anew" in {besides: 1} else TOLD
'''


@pytest.mark.unit
def test_a_name_with_a_refused_word_is_found_and_longer_words_and_texts_are_not(
    tmp_path: Path,
) -> None:
    found = [(line, fault.split("'")[1]) for line, fault in names_in(written(tmp_path, NAMES))]
    assert found == [
        (3, "told_by"),
        (3, "Beside"),
        (5, "is_told"),
        (5, "built_anew"),
        (6, "lies"),
        (7, "TOLD"),
    ]


@pytest.mark.slow
def test_no_name_of_the_product_has_a_refused_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([CHECKOUT / "cdc_assets"]) == 0, capsys.readouterr().out


@pytest.mark.unit
def test_each_refused_word_of_a_page_is_found_in_prose_and_not_in_code(tmp_path: Path) -> None:
    assert list(found_in(written(tmp_path, PAGE, "page.md"))) == [
        (1, "anew"),
        (3, "lies"),
        (4, "goes on"),
        (5, "amid"),
        (11, "what is wanted"),
        (13, "told"),
    ]


@pytest.mark.unit
def test_a_page_with_refused_words_fails_and_the_changelog_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, PAGE, "CHANGELOG.md")
    assert main([tmp_path]) == 0
    page = written(tmp_path, PAGE, "page.md")
    assert main([page]) == main([tmp_path]) == 1
    assert f"{page}:1: 'anew' → " in capsys.readouterr().out


@pytest.mark.unit
def test_the_documents_are_checked() -> None:
    files = {file.relative_to(CHECKOUT).as_posix() for file in files_in(READ)}
    read = {"README.md", "CONTRIBUTING.md", "docs/reference/states.md", "cdc_assets/cli.py"}
    assert read <= files
    assert "CHANGELOG.md" not in files


@pytest.mark.unit
def test_the_printed_line_names_the_place_and_what_to_write_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, 'HELP = "Stops,\\nand Goes on."\n')
    assert main([tmp_path]) == 1
    assert capsys.readouterr().out == f"{file}:2: 'Goes on' → continues; resumes\n"
    assert instead("anew") == "again; from the source; a new …"


@pytest.mark.unit
def test_a_folder_without_refused_words_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, CLEAN)
    assert main([tmp_path]) == 0
    assert capsys.readouterr().out == ""


LONG = f"""\
# Title

{"word " * LONGEST}
{"*more* "}end. {"short " * 10}. `{"code " * 40}` and
[a link](https://example.org/{"x" * 9}) end here.

- {"item " * 30}
- {"item " * 30}

| {"cell " * 30}| {"cell " * 30}|
|---|---|

1. {"word " * 36}
"""


@pytest.mark.unit
def test_long_sentences_of_a_page_are_found_with_their_line(tmp_path: Path) -> None:
    page = written(tmp_path, LONG, "page.md")
    assert list(long_in(page)) == [(3, "a sentence of 37 words"), (13, "a sentence of 36 words")]


@pytest.mark.unit
def test_no_sentence_of_the_users_pages_is_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([CHECKOUT / "docs", CHECKOUT / "README.md"]) == 0, capsys.readouterr().out
