"""Outside of a terminal each change is a line, written when it happens and not at the end."""

from pathlib import Path

import pytest
from cdc_assets_devstack.jars import JarProgress
from cdc_assets_devstack.part import PartState, PartStatus
from cdc_assets_devstack.progress import install_progress, start_progress

pytestmark = pytest.mark.unit


def status(name: str, state: PartState) -> PartStatus:
    return PartStatus(name, state, "127.0.0.1:1", Path("log"))


def test_a_part_that_starts_is_told_in_a_pipe_at_once_and_each_state_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with start_progress() as told:
        told(status("kafka", PartState.STARTING))
        assert capsys.readouterr().err == "kafka: starting\n"
        told(status("kafka", PartState.STARTING))
        told(status("spark", PartState.STARTING))
        assert capsys.readouterr().err == "spark: starting\n"
        told(status("kafka", PartState.READY))
        assert capsys.readouterr().err == "kafka: ready\n"
    assert capsys.readouterr().err == ""


def test_what_is_installed_is_told_in_a_pipe_by_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    with install_progress() as told:
        for done in range(201):
            told(JarProgress("spark", done, 200))
            line = "" if done % 20 else f"spark: installing, {done // 2} %\n"
            assert capsys.readouterr().err == line
