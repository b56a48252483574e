"""Thirty ALTERs under load, and runs that are killed amid them: the lake equals the database."""

from __future__ import annotations

import os
import random
import signal
import subprocess

import pytest

from cdc_assets.config import ReplicationConfig
from cdc_assets.devstack.converters import converter_settings
from cdc_assets.devstack.shop.connector import WITH_SCHEMAS
from cdc_assets.devstack.stack import LocalStack
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.stack.alterer import Alterer
from cdc_assets_tests.stack.replicated import Replicated, new_database, replicated
from cdc_assets_tests.toy import profiles

pytestmark = [pytest.mark.stack, profiles.in_soak]

SEED = int(os.environ.get("CDC_ASSETS_SEED", "7"))
ALTERS = 30
TABLE = "CREATE TABLE altered (id int PRIMARY KEY, fixed text)"
ALTERING = ("add", "rename", "rename key", "widen", "drop")


@pytest.mark.parametrize("schemas", [False, True], ids=["bare", "schemas"])
def test_the_lake_equals_the_database_after_many_alters_and_kills(
    stack: LocalStack,
    stack_config: ReplicationConfig,
    capsys: pytest.CaptureFixture[str],
    *,
    schemas: bool,
) -> None:
    name = "alteredload" + ("inline" if schemas else "bare")
    rows = "INSERT INTO altered SELECT n, 'first' FROM generate_series(0, 40) n"
    dsn = new_database(stack, name, TABLE, rows)
    inline = converter_settings(stack.layout, WITH_SCHEMAS) if schemas else {}
    with replicated(stack, stack_config, name, dsn, debezium=inline) as database:
        database.wait_until_delivered()
        database.replicate()
        writer, rng, killed = Alterer(dsn, SEED), random.Random(SEED), 0
        with writer.running():
            while sum(writer.done[each] for each in ALTERING) < ALTERS:
                killed += is_killed(database.start("replicate", "--until-caught-up"), rng)
                writer.may_rename |= columns(database) & {*writer.columns, writer.key}
        database.wait_until_delivered()
        database.replicate()
        found = database.differences("altered", ignoring=writer.dropped)
        assert not found, f"CDC_ASSETS_SEED={SEED}: {found}"
        with capsys.disabled():
            print(f"\n{name}: seed {SEED}: {dict(writer.done)}; {killed} runs killed")
        assert killed > 3


def is_killed(run: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """Kill a run at a random moment of its life; false if it was over before."""
    try:
        run.wait(rng.uniform(4, 16))
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGKILL)
        run.wait(10)
        return True
    return False


def columns(database: Replicated) -> set[str]:
    """The lake's."""
    table = read_table(database.config, database.entry("altered").target)
    return set(table.schema().column_names) if table else set()
