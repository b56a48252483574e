"""Chooses the scheme of a table from the origin that its records state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cdc_assets.changes.position.binlog import binlog_file
from cdc_assets.changes.position.scheme import Scheme
from cdc_assets.changes.position.sqlserver import sqlserver_lsn
from cdc_assets.changes.position.trail import trail_place
from cdc_assets.changes.position.yugabyte import yugabyte_op


def scheme_of(source: Mapping[str, object]) -> Scheme:
    """Returns the scheme of a table, from the ``source`` of one of its records.

    A source whose position is not filled in, such as an empty binlog file name, is ordered by
    the Kafka offset, like an unknown connector.

    So is MongoDB, though there is a scheme for it. Rows of its snapshots have no cluster time
    (``ord`` is -1 and ``ts_ms`` is the connector's clock), and since Debezium 3.4 ``ts_ms`` of
    changes is wall time, whose second may differ from that of ``ord``.
    """
    is_read = source.get("snapshot") not in (None, False, "false")
    match source.get("connector"):
        case "postgresql" if _number(source, "lsn") or (is_read and _text(source, "sequence")):
            return Scheme.POSTGRES
        case "mysql" if _in_binlog(source):
            return Scheme.BINLOG
        case "mariadb" if _in_binlog(source):
            return Scheme.MARIADB
        case "sqlserver" if sqlserver_lsn(_text(source, "commit_lsn")):
            return Scheme.SQLSERVER
        case "oracle" if _number(source, "scn") and (is_read or _number(source, "commit_scn")):
            return Scheme.ORACLE
        case "yugabytedb" if is_read or yugabyte_op(_text(source, "lsn")):
            return Scheme.YUGABYTE if _number(source, "commit_time") else Scheme.OFFSET
        case "ticdc" if _number(source, "commitTs"):
            return Scheme.TIDB
        case "goldengate" if trail_place(_text(source, "pos")):
            return Scheme.TRAIL
        case _:
            return Scheme.OFFSET


def _in_binlog(source: Mapping[str, object]) -> bool:
    return bool(binlog_file(_text(source, "file")) and _number(source, "pos"))


def _text(source: Mapping[str, object], name: str) -> str:
    value = source.get(name)
    return value if isinstance(value, str) else ""


def _number(source: Mapping[str, object], name: str) -> int:
    """Returns a number, also from decimal text; 0 if it is neither."""
    value = source.get(name)
    if isinstance(value, str):
        return int(value) if _DECIMAL.match(value) else 0
    return value if isinstance(value, int) else 0


_DECIMAL: Final = re.compile(r"^[0-9]{1,19}\Z")
