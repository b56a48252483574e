"""``python -m cdc_assets_tests.upgrade``: record the state and the promises of this release.

Called once for each release, at its commit; what a release has recorded is never recorded again,
unless by ``--force``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE
from cdc_assets_devstack.ports import pick_free_ports

from cdc_assets import decode
from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.configuration import on_ports, write
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.operated import rebuild_of
from cdc_assets_tests.pipeline import Session
from cdc_assets_tests.upgrade.promises import promises
from cdc_assets_tests.upgrade.state import RELEASES, State, own_place
from cdc_assets_tests.upgrade.story import CUT, PAUSED, REBUILT, logs_of, sources_of


@contextmanager
def running(place: Path) -> Iterator[tuple[ReplicationConfig, Session]]:
    """A Kafka and a Spark server, with a lake at a release's place."""
    os.environ.setdefault(JARS_VARIABLE, str(CHECKOUT_JARS))
    lake = {"catalog": {"type": "sql", "uri": f"sqlite:///{place}/lake/catalog.db"},
            "warehouse": f"{place}/lake/warehouse"}  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        base = write(Path(home) / "stack.yaml", on_ports(pick_free_ports(), sources={}, lake=lake))
        stack = stack_of(base)
        try:
            stack.up(["kafka", "spark"])
            session = open_session(stack.spark.endpoint.url)
            try:
                for name, value in decode.SETTINGS.items():
                    session.conf.set(name, value)
                yield base, lambda: session
            finally:
                session.stop()
        finally:
            stack.down()


def produce(state: State, part: int) -> None:
    for source, logs in logs_of(state.name).items():
        for table, log in logs.items():
            topic = f"{source}.{table}" if table else source
            if log[part] and topic not in state.topics:
                last = max(message.partition for each in log for message in each)
                state.create_topic(topic, last + 1)
            state.produce(topic, log[part])


def leave(state: State) -> None:
    """What is there when the state is recorded: the cuts' second transaction has not ended."""
    produce(state, 0)
    state.run("replicate", "--until-caught-up")
    state.run("pause", "--table", state.table(PAUSED), "--why", "its source is moved")
    produce(state, 1)
    for source in state.sources:
        caught_up = () if source == state.table(CUT).partition(".")[0] else ("--until-caught-up",)
        state.run("replicate", "--source", source, *caught_up, fails=source == state.name)
    (entry,) = (e for e in RegistryFile(state.config.registry).load()
                if str(e.table) == state.table(REBUILT))  # fmt: skip
    rebuild = rebuild_of(state.config, state.spark, entry)
    rebuild.begin(rebuild.tables.standing(), from_now=False)


def record(release: Path, state: State) -> None:
    def write_json(name: str, document: object) -> None:
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
        (release / f"{name}.json").write_text(text + "\n")

    leave(state)
    state.store(release / "state.tar.xz")
    left = state.standing()
    produce(state, 2)
    with gzip.GzipFile(release / "records.jsonl.gz", "wb", mtime=0) as lines:
        lines.write("".join(json.dumps(each) + "\n" for each in state.records()).encode())
    write_json("topics", {"ids": state.ids(), "partitions": state.topics})
    write_json("sources", state.sources)
    state.merge()
    write_json("expected", {"rows": state.rows(), "left": left, "after": state.standing()})
    write_json("outputs", state.outputs())
    write_json("promises", promises())


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m cdc_assets_tests.upgrade", description=__doc__)
    asked.add_argument("--force", action="store_true", help="also if this version has a folder")
    is_forced = asked.parse_args().force
    this = version("cdc-assets")
    release = RELEASES / this
    if release.exists() and not is_forced:
        asked.error(f"{release} was recorded by the release: raise the version, or say --force")
    with own_place(this) as place, running(place) as (base, spark):
        made = place.with_name(f"{this}.recorded")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        record(made, State(base, spark, place, sources_of(f"from_{this.replace('.', '_')}")))
        shutil.rmtree(release, ignore_errors=True)
        shutil.move(made, release)
    return 0


if __name__ == "__main__":
    code = 1
    try:
        code = main()
    except Exception:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # frames of Spark's client would wait for the server that has ended
