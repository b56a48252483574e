"""The blocks of a tutorial's page are found, and what they print is compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdc_assets_tests.tutorials import NOT_RUN, Step, missing_of, shell, steps_of

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"


@pytest.mark.unit
@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_has_commands_and_reasons_for_those_that_are_not_run(page: Path) -> None:
    found = steps_of(page.read_text())
    assert len(found) >= 3
    assert [each.line for each in found if each.mark == NOT_RUN and not each.said] == []


@pytest.mark.unit
def test_the_files_that_the_page_of_kubernetes_names_are_there() -> None:
    checkout = PAGES.parents[1]
    if not (checkout / "deploy").is_dir():
        pytest.skip("deploy/ is not part of this checkout")
    named = set(
        re.findall(r"\bdeploy/(?:\w+/|Dockerfile)[\w.-]*", (PAGES / "kubernetes.md").read_text())
    )
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


@pytest.mark.unit
def test_steps_are_the_blocks_of_commands_with_their_marks_and_lines() -> None:
    assert steps_of(PAGE) == [
        Step(4, "echo 12 orders\n", prints=("7 orders",)),
        Step(14, "cd there\n"),
        Step(19, "export NAME=…\n", "yours"),
        Step(24, "serve\n", "runs until", "Serving"),
        Step(27, mark="ctrl-c"),
        Step(31, "kubectl apply\n", "not run", "needs a cluster"),
    ]


@pytest.mark.unit
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


RUN = """\
```sh
export NAME=there
mkdir $NAME; cd $NAME
```

<!-- runs until: serving -->
```sh
trap 'echo ended > ended; exit' INT; echo serving; while true; do sleep 0.1; done
```

```sh
basename "$PWD"
```

```text
there
```

<!-- ctrl-c -->

```sh
cat ended
```

```text
ended
```
"""


@pytest.mark.slow
def test_a_shell_keeps_its_state_and_ends_a_program_as_ctrl_c_does(tmp_path: Path) -> None:
    with shell(tmp_path, {"PATH": "/usr/bin:/bin"}) as reader:
        for step in steps_of(RUN):
            reader.take(step)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "prints", "said"),
    [("echo one; false; echo two", (), "one"), ("echo one", ("two",), "did not print: two")],
)
def test_a_command_that_fails_or_prints_something_else_is_named(
    code: str, prints: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    failed = pytest.raises(AssertionError, match=f"line 7 (.|\n)*{said}")
    with shell(tmp_path, {"PATH": "/usr/bin:/bin"}) as reader, failed:
        reader.take(Step(7, code, prints=prints))
