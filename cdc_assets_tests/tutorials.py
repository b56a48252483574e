"""Runs the commands of a tutorial as a reader would, and compares what they print in its shape.

Each ``sh`` block of a page is run, in order, in one shell. A ``text`` block after it has lines that
must be printed, in their order; numbers and widths may differ, and ``…`` stands for anything. A
comment before a block says otherwise:

- ``<!-- yours -->``: the reader's own values; a test has others.
- ``<!-- runs until: TEXT -->``: a program that stays; the next block is run once TEXT is printed.
- ``<!-- ctrl-c -->``, without a block: the program that stays is interrupted.
- ``<!-- not run: REASON -->``
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc_assets_tests.waiting import until

YOURS, NOT_RUN, UNTIL, INTERRUPT = "yours", "not run", "runs until", "ctrl-c"
_PART: Final = re.compile(
    r"(?:<!-- (?P<mark>yours|not run|runs until|ctrl-c)(?:: (?P<said>.*?))? -->\n+)?"
    r"^(?P<space> *)```(?P<kind>sh|text)\n(?P<code>.*?)^ *```$"
    r"|<!-- (?P<alone>ctrl-c) -->",
    re.MULTILINE | re.DOTALL,
)
PATIENCE_SECONDS: Final = 900


@dataclass(frozen=True)
class Step:
    """One block of commands, or the interruption of a program that stays.

    Attributes:
        line: of the page, where its code begins.
        code: its commands.
        mark: what a comment says about the block; empty without one.
        said: the comment's text after the mark.
        prints: lines that its output must have.
    """

    line: int
    code: str = ""
    mark: str = ""
    said: str = ""
    prints: tuple[str, ...] = ()


def steps_of(page: str) -> list[Step]:
    """Returns a page's blocks of commands in order, each with what it is to print."""
    steps: list[Step] = []
    for part in _PART.finditer(page):
        line = 1 + page.count("\n", 0, part.start("code") if part["kind"] else part.start())
        code = re.sub(rf"^{part['space']}", "", part["code"] or "", flags=re.MULTILINE)
        if part["kind"] == "text" and steps:
            last = steps.pop()
            printed = tuple(each for each in code.splitlines() if each.strip())
            steps.append(Step(last.line, last.code, last.mark, last.said, printed))
        elif part["kind"] != "text":
            mark = part["alone"] or part["mark"] or ""
            steps.append(Step(line, code, mark, part["said"] or ""))
    return steps


def missing_of(prints: tuple[str, ...], output: str) -> str:
    """Returns the first line that the output lacks, in this order and this shape, or nothing."""
    at = 0
    for line in prints:
        found = re.compile(_shape(line)).search(output, at)
        if found is None:
            return line
        at = found.end()
    return ""


def _shape(line: str) -> str:
    """Returns a pattern for a line: any number for a number, any space for a space."""
    words = ("".join(_piece(each) for each in re.findall(r"\d+|…|.", w)) for w in line.split())
    return r"[ \t]+".join(words)


def _piece(piece: str) -> str:
    if piece == "…":
        return r"[^\n]*"
    return r"\d+" if piece.isdigit() else re.escape(piece)


class Shell:
    """One Bash, in which a tutorial's blocks are run; the first command that fails ends it."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """Starts it.

        Args:
            folder: where it begins; scripts and outputs are kept in ``steps`` there.
            variables: its whole environment.
        """
        self._steps = folder / "steps"
        self._steps.mkdir()
        self._stays: list[int] = []
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE, stdout=(self._steps / "bash.out").open("wb"),
            stderr=subprocess.STDOUT, cwd=folder, env=dict(variables), text=True,
        )  # fmt: skip
        self._say("set -meu")

    def take(self, step: Step) -> None:
        """Takes a step, and requires what the page says about it."""
        if step.mark == INTERRUPT:
            self.interrupt()
        elif step.mark == UNTIL:
            self._start(step)
        elif step.mark != NOT_RUN:
            output = self._run(step)
            missing = missing_of(step.prints, output)
            assert not missing, f"line {step.line} did not print: {missing}\n{output[-3000:]}"

    def interrupt(self) -> None:
        """Ends the programs that stay, as Ctrl-C does."""
        for pid in self._stays:
            os.killpg(pid, signal.SIGINT)
        self._say(f"wait {' '.join(map(str, self._stays))} || true")
        self._stays.clear()

    def close(self) -> None:
        """Ends everything that the shell has started in the foreground or left to stay."""
        for pid in self._stays:
            os.killpg(pid, signal.SIGKILL)
        self._bash.kill()
        self._bash.wait()

    def _run(self, step: Step) -> str:
        script, out, done = self._files(step)
        self._say(f"source {script} > {out} 2>&1 < /dev/null; touch {done}")
        self._until(done.exists, f"the commands of line {step.line}", out)
        return out.read_text(errors="replace")

    def _start(self, step: Step) -> None:
        script, out, done = self._files(step)
        begun = f"echo $! > {done}.new; mv {done}.new {done}"
        self._say(f"source {script} > {out} 2>&1 < /dev/null & {begun}")
        self._until(done.exists, f"the start of line {step.line}", out)
        self._stays.append(int(done.read_text()))

        def has_begun() -> bool:
            return step.said in out.read_text(errors="replace")

        self._until(has_begun, f"'{step.said}' of line {step.line}", out)

    def _files(self, step: Step) -> tuple[Path, Path, Path]:
        script = self._steps / f"{step.line}.sh"
        script.write_text(step.code)
        return script, script.with_suffix(".out"), script.with_suffix(".done")

    def _say(self, line: str) -> None:
        assert self._bash.stdin
        self._bash.stdin.write(f"{line}\n")
        self._bash.stdin.flush()

    def _until(self, is_so: Callable[[], bool], what: str, out: Path) -> None:
        def ended() -> bool:
            return self._bash.poll() is not None

        until(lambda: is_so() or ended(), what, within_seconds=PATIENCE_SECONDS)
        output = out.read_text(errors="replace")[-3000:] if out.exists() else ""
        assert is_so() or not ended(), f"{what} failed:\n{output}"


@contextmanager
def shell(folder: Path, variables: Mapping[str, str]) -> Iterator[Shell]:
    """Opens a shell for a tutorial."""
    opened = Shell(folder, variables)
    try:
        yield opened
    finally:
        opened.close()
