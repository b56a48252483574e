"""Judges a server's settings for its binlog: whether changes hold whole rows in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

VARIABLES: Final = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_value_options",
    "binlog_row_metadata",
    "binlog_transaction_compression",
)
"""The server's variables, in the order of `BinlogSettings`."""


@dataclass(frozen=True, slots=True)
class BinlogSettings:
    """The server's global settings for its binlog, in lower case.

    A session may have others (``SET SESSION binlog_row_image``,
    ``binlog_transaction_compression``), which nobody can see.

    Attributes:
        is_written: ``log_bin``. A server without a binlog is not the connector's: a replica
            that is asked in its place. Nothing is known of the other's settings then.
        row_format: ``binlog_format``; "" of a server that has only one.
        row_image: ``binlog_row_image``.
        row_values: ``binlog_row_value_options``, of MySQL.
        row_metadata: ``binlog_row_metadata``.
        compression: ``binlog_transaction_compression``, of MySQL 8.0.20 and later.
    """

    is_written: bool = True
    row_format: str = "row"
    row_image: str = "full"
    row_values: str = ""
    row_metadata: str = ""
    compression: str = ""

    def fault(self) -> tuple[str, str] | None:
        """Says why readers do not get whole rows in their order, and the remedy; None if they do.

        The events in a compressed transaction have no places of their own. Debezium gives all of
        them the transaction's, with rows that count from 0 again in each; Maxwell up to 1.44
        passes over the whole transaction (zendesk/maxwell#2254).
        """
        if not self.is_written:
            return None
        if self.row_format not in {"row", ""}:
            return (
                f"the server's binlog_format is {self.row_format}",
                "SET GLOBAL binlog_format=ROW",
            )
        if self.row_image not in {"full", ""}:  # "": servers before it was a choice
            what = (
                f"the server's binlog_row_image is {self.row_image}: changes lack columns, and "
                "nothing tells these from columns that are NULL"
            )
            return what, "SET GLOBAL binlog_row_image=FULL"
        if "partial_json" in self.row_values:
            what = "the server writes changed parts of JSON values only (PARTIAL_JSON)"
            return what, "SET GLOBAL binlog_row_value_options=''"
        if self.compression in {"on", "1"}:
            what = (
                "the server compresses transactions in its binlog (binlog_transaction_compression):"
                " their changes have no places of their own, by which they could be ordered, and "
                "some readers pass over them"
            )
            return what, "SET GLOBAL binlog_transaction_compression=OFF"
        return None


def settings_of(variables: Mapping[str, str]) -> BinlogSettings:
    """Returns the settings of a server's `VARIABLES`."""
    written, *others = (variables.get(name, "").lower() for name in VARIABLES)
    return BinlogSettings(written in {"on", "1"}, *others)
