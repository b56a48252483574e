"""The blocks of a tutorial's page are found, and what they print is compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets_tests.tutorials import NOT_RUN, Step, missing_of, steps_of

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_has_commands_and_reasons_for_those_that_are_not_run(page: Path) -> None:
    found = steps_of(page.read_text())
    assert len(found) >= 3
    assert [each.line for each in found if each.mark == NOT_RUN and not each.said] == []


def test_the_files_that_the_page_of_kubernetes_names_are_there() -> None:
    checkout = PAGES.parents[1]
    if not (checkout / "deploy").is_dir():
        pytest.skip("deploy/ is not part of this checkout")
    named = set(re.findall(r"\bdeploy/(?:\w+/|Dockerfile)[\w.-]*", (PAGES / "kubernetes.md").read_text()))
    assert len(named) >= 7
    assert [each for each in sorted(named) if not (checkout / each).exists()] == []


PAGE = """\
# Title

```sh
echo 12 orders
```

```text
7 orders
```

1. A list:

   ```sh
   cd there
   ```

<!-- yours -->
```sh
export NAME=…
```

<!-- runs until: Serving -->
```sh
serve
```

<!-- ctrl-c -->

<!-- not run: needs a cluster -->
```sh
kubectl apply
```

```yaml
none: of these
```
"""


def test_steps_are_the_blocks_of_commands_with_their_marks_and_lines() -> None:
    assert steps_of(PAGE) == [
        Step(4, "echo 12 orders\n", prints=("7 orders",)),
        Step(14, "cd there\n"),
        Step(19, "export NAME=…\n", "yours"),
        Step(24, "serve\n", "runs until", "Serving"),
        Step(27, mark="ctrl-c"),
        Step(31, "kubectl apply\n", "not run", "needs a cluster"),
    ]


@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        ("a\nx  12   orders of shop, 3 s\nlast\n", ""),
        ("last\nx 12 orders\n", "last"),
        ("12 customers\nlast\n", "7 orders"),
    ],
)
def test_what_is_printed_is_compared_in_its_shape_and_order(printed: str, missing: str) -> None:
    assert missing_of(("7 orders", "last"), printed) == missing
    assert missing_of(("a … c", "1 d"), "a bb c\n22  d") == ""
