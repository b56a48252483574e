"""Records that decompression makes a thousand times larger end a Spark server, but not for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE
from cdc_assets_devstack.ports import pick_free_ports
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.changes.names import LakeName
from cdc_assets.config import ReplicationConfig
from cdc_assets_tests.configuration import on_ports, source, write
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.lake_view import read_table
from cdc_assets_tests.merge.events import event
from cdc_assets_tests.toy import profiles

RECORDS = 40
SIZE = 14_000_000
"""Characters of each of two columns; a gigabyte in all."""
TOPIC = "grown.public.t"
LARGE = {"compression.type": "zstd", "message.max.bytes": 3 * SIZE, "batch.num.messages": 1}

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800), profiles.in_soak]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplicationConfig]:
    """Kafka and a Spark server of 2 GB, which belong to this test alone."""
    monkeypatch.setenv(JARS_VARIABLE, os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS)))
    grown = source("grown", tables={"public.t": {"primary_key": ["id"]}})
    document = on_ports(
        pick_free_ports(), sources={"grown": grown}, spark={"remote": "local", "memory": "2g"}
    )
    config = write(tmp_path / "replication.yaml", document)
    stack = stack_of(config)
    try:
        stack.up(("kafka", "spark"))
        yield config
    finally:
        stack.down()


def test_a_batch_that_ends_the_server_is_read_in_smaller_parts_until_all_is_merged(
    config: ReplicationConfig, tmp_path: Path
) -> None:
    kafka = {"bootstrap.servers": config.kafka.bootstrap_servers}
    admin = AdminClient(kafka)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer({**kafka, **LARGE})
    for number in range(RECORDS):
        message = event(
            "c",
            {"id": number, "one": "x" * SIZE, "other": "y" * SIZE},
            10 * number,
            commit=10 * number,
        )
        producer.produce(TOPIC, key=message.key, value=message.value)
        assert producer.flush(60) == 0

    env = {**os.environ, "CDC_ASSETS_CONFIG": str(config.path), "DAGSTER_HOME": str(tmp_path)}
    merged, first = 0, stack_of(config).spark.running
    while merged < RECORDS:
        done = subprocess.run(
            [sys.executable, "-m", "cdc_assets.cli", "replicate", "--until-caught-up"],
            env=env,
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        said = done.stdout + done.stderr
        table = read_table(config, LakeName("grown_public", "t"))
        assert table is not None, said[-3000:]
        ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        assert sorted(ids) == list(range(len(ids)))
        assert len(ids) > merged, said[-3000:]
        assert (done.returncode == 0) == (len(ids) == RECORDS), said[-3000:]
        merged = len(ids)
    assert stack_of(config).spark.running != first, "else nothing was shown"
