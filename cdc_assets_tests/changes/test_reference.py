"""The merge, as a model, publishes what the log means: its fold, and in the end its source."""

from __future__ import annotations

import pytest
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from cdc_assets_tests.toy.machine import KeyedMachine, KeylessMachine, SoftMachine
from cdc_assets_tests.toy.profiles import examples

pytestmark = pytest.mark.property


@pytest.mark.parametrize(
    "machine",
    [KeyedMachine, SoftMachine, KeylessMachine],
    ids=["key", "soft_deletes", "no_key"],
)
def test_every_publish_is_the_fold_of_what_was_read(
    machine: type[RuleBasedStateMachine],
) -> None:
    run_state_machine_as_test(machine, settings=examples(200))
