"""The Iceberg catalog as PyIceberg and as Spark open it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from threading import Lock

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, RESTError
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from cdc_assets.changes.names import LakeName
from cdc_assets.config import LakeConfig, ReplicationConfig
from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.lake.properties import Published
from cdc_assets.lake.side import SideState, read_side
from cdc_assets.lake.state import TableState, ancestry, published_by, publishes, read_state

_BUSY_SECONDS = 3.0
_SPARK_TYPES = {"sql": "jdbc", "rest": "rest", "glue": "glue", "hive": "hive"}


class Lake:
    """Reads tables through PyIceberg, and writes none. Opens the catalog at the first use."""

    def __init__(self, config: ReplicationConfig) -> None:
        self._config = config.lake
        self._catalog: Catalog | None = None
        self._opening = Lock()

    @property
    def address(self) -> str:
        """Where the catalog is, without credentials, for messages."""
        return f"{self._config.catalog.type} catalog {_without_userinfo(self._config)}"

    def state(self, name: LakeName, shard: str = "") -> TableState | None:
        """What the table says now; None if it does not exist.

        Args:
            name: of the table.
            shard: whose publishes count; empty for a table of one source table.

        Raises:
            UnreachableError: if the catalog or the table's metadata cannot be read.
        """
        table = self._load(name)
        return read_state(name, table, shard) if table else None

    def side(self, name: LakeName) -> SideState | None:
        """A side table; None if it does not exist. See `cdc_assets.lake.side.side_of`."""
        table = self._load(name)
        return read_side(name, table) if table else None

    def history(self, name: LakeName, limit: int, shard: str = "") -> tuple[Published, ...]:
        """Up to ``limit`` of our publishes of a shard, newest first."""
        table = self._load(name)
        mine = (each for each in publishes(table) if each.shard == shard) if table else ()
        return tuple(islice(mine, limit))

    def drop(self, name: LakeName) -> str:
        """Takes a table out of the catalog; its files stay.

        Returns:
            Where its last metadata is, by which it can be registered again; empty if it was not
            there.

        Raises:
            UnreachableError: if the catalog does not answer.
        """
        table = self._load(name)
        if table is None:
            return ""
        with self._reachable(), effect("catalog: drop table"):
            self._open().drop_table((name.namespace, name.name))
        return table.metadata_location

    def has_attempt(self, name: LakeName, attempt: str) -> bool:
        """Whether this attempt is in the ancestry of ``main``: then it was published."""
        table = self._load(name)
        return table is not None and any(each.attempt == attempt for each in publishes(table))

    def branches(self, name: LakeName) -> dict[str, int]:
        """Branch names and the snapshots they point to, ``main`` included."""
        table = self._load(name)
        return {ref: each.snapshot_id for ref, each in table.metadata.refs.items()} if table else {}

    def dead_branches(self, name: LakeName, own: re.Pattern[str]) -> tuple[str, ...]:
        """Branches with names of this form that can never be fast-forwarded to.

        ``main`` may only move to a descendant of its head: a branch that does not have that
        among its ancestors was left by a writer that was killed, or beaten.
        """
        table = self._load(name)
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return ()
        parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}

        def descends(snapshot: int | None) -> bool:
            while snapshot is not None and snapshot != head.snapshot_id:
                snapshot = parents.get(snapshot)
            return snapshot is not None

        refs = table.metadata.refs.items()
        ours = ((ref, each.snapshot_id) for ref, each in refs if own.fullmatch(ref))
        return tuple(ref for ref, snapshot in ours if not descends(snapshot))

    def is_built_on(
        self, name: LakeName, branch: str, head: int | None, attempt: str, at_most: int
    ) -> bool:
        """Whether a branch is ``at_most`` so many snapshots of this attempt, and then ``head``.

        And ``main`` is still at ``head``. Iceberg makes a branch that is missing when something
        is written to it, on whatever ``main`` has become: what was written before is lost then,
        and a fast-forward would publish the rest.
        """
        table = self._load(name)
        ref = table.metadata.refs.get(branch) if table else None
        if table is None or ref is None:
            return False
        main = table.current_snapshot()
        if (main.snapshot_id if main else None) != head:
            return False
        snapshot = table.snapshot_by_id(ref.snapshot_id)
        last = published_by(snapshot) if snapshot else None
        if last is None or last.attempt != attempt:
            return False
        for _ in range(at_most):
            if snapshot is None:
                return False
            if snapshot.parent_snapshot_id == head:
                return True
            snapshot = table.snapshot_by_id(snapshot.parent_snapshot_id or -1)
            if snapshot is not None and published_by(snapshot) is not None:
                return False
        return False

    def parents(self, name: LakeName) -> tuple[int, ...]:
        """Snapshot ids from the head of ``main`` back."""
        table = self._load(name)
        return tuple(snapshot.snapshot_id for snapshot in ancestry(table)) if table else ()

    def _load(self, name: LakeName) -> Table | None:
        """A table; a catalog in a file that somebody is writing to is asked again for a while."""
        asking = Retrying(
            retry=retry_if_exception_type(OperationalError),
            stop=stop_after_delay(_BUSY_SECONDS),
            wait=wait_random(0.05, 0.3),
            reraise=True,
        )
        with self._reachable(), effect("lake: load table"):
            return asking(self._loaded, name)

    def _loaded(self, name: LakeName) -> Table | None:
        try:
            return self._open().load_table((name.namespace, name.name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def _open(self) -> Catalog:
        with self._opening:
            if self._catalog is None:
                self._catalog = load_catalog(self._config.catalog.name, **_pyiceberg(self._config))
            return self._catalog

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, RESTError, OSError, requests.RequestException) as error:
            what = f"the lake did not answer ({type(error).__name__})"
            remedy = "check that the catalog runs and that its warehouse can be read"
            raise UnreachableError(what, where=self.address, remedy=remedy) from None


def spark_conf(config: ReplicationConfig) -> dict[str, str]:
    """Settings that define the catalog on a Spark server that we start.

    Spark's own table cache is off: it would hide another writer's publish for up to 30 s.
    """
    lake = config.lake
    prefix = f"spark.sql.catalog.{lake.catalog.name}"
    values = {
        "type": _SPARK_TYPES[lake.catalog.type],
        "warehouse": lake.warehouse,
        "cache-enabled": "false",
        **lake.catalog.resolved(),
    }
    if lake.catalog.type == "sql":
        values["uri"] = _jdbc(values["uri"])
        values["jdbc.schema-version"] = "V1"  # the version that PyIceberg reads and writes
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{name}": value for name, value in values.items()},
    }


def _pyiceberg(lake: LakeConfig) -> dict[str, str]:
    """For local files without pyarrow's file system: importing that takes two seconds."""
    local = lake.warehouse.startswith("file:")
    io = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"} if local else {}
    given = lake.catalog.resolved()
    return {"type": lake.catalog.type, "warehouse": lake.warehouse, **io, **given}


def _jdbc(uri: str) -> str:
    """``sqlite:///FILE`` → ``jdbc:sqlite:FILE``; other SQLAlchemy URLs lose their driver."""
    if uri.startswith("sqlite:///"):
        return "jdbc:sqlite:" + uri.removeprefix("sqlite:///")
    scheme, _, rest = uri.partition("://")
    return f"jdbc:{scheme.split('+')[0]}://{rest}"


def _without_userinfo(lake: LakeConfig) -> str:
    uri = lake.catalog.uri
    if not isinstance(uri, str):
        return lake.warehouse if uri is None else "(address in a secret)"
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rsplit('@', 1)[-1]}"
