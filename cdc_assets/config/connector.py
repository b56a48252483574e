"""Configures how a source's connector writes values."""

from __future__ import annotations

import re
from typing import Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from cdc_assets.config.database import DatabaseKind
from cdc_assets.config.strict import Strict, refuse
from cdc_assets.schema.modes import (
    BinaryMode,
    ConnectorModes,
    DecimalMode,
    IntervalMode,
    TimeMode,
    UnsignedMode,
)

_HEX = "hex:"
_OFFSET = re.compile(r"[+-](0[0-9]|1[0-4]):[0-5][0-9]")


class ConnectorConfig(Strict):
    """The connector's settings for values; the defaults are Debezium's own.

    Attributes:
        decimal_handling_mode: the connector's ``decimal.handling.mode``.
        time_precision_mode: the connector's ``time.precision.mode``. Default: ``adaptive``; with
            MySQL and MariaDB ``adaptive_time_microseconds``.
        bigint_unsigned_handling_mode: the connector's ``bigint.unsigned.handling.mode``.
        binary_handling_mode: the connector's ``binary.handling.mode``.
        interval_handling_mode: the connector's ``interval.handling.mode``.
        include_unknown_datatypes: PostgreSQL: the connector's ``include.unknown.datatypes``. With
            schemas, too, for columns of type ``name``.
        unavailable_value_placeholder: the connector's ``unavailable.value.placeholder``. Set it
            with schemas, too.
        flattened: ``true``: each JSON object is a row. Needed only for flattened records without
            ``__op`` and ``__deleted``.
        added_fields_prefix: ``add.fields.prefix`` of the flattening transformation.
        record_type: ``full``: every update holds the whole row. Only for YugabyteDB's records
            without cells.
        replacement_characters: ``keep``: the character U+FFFD in rows of Canal's formats is data.
        time_zone: zone of timestamps written as text without one (Canal, TiCDC, GoldenGate,
            Maxwell): an IANA name or ``+hh:mm``.
    """

    decimal_handling_mode: Literal["precise", "string", "double"] = "precise"
    time_precision_mode: (
        Literal[
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ]
        | None
    ) = None
    bigint_unsigned_handling_mode: Literal["long", "precise"] = "long"
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    interval_handling_mode: Literal["numeric", "string"] = "numeric"
    include_unknown_datatypes: bool = False
    unavailable_value_placeholder: str = Field(default="__debezium_unavailable_value", min_length=1)
    flattened: bool = False
    added_fields_prefix: str = Field(default="__", min_length=1)
    record_type: Literal["partial", "full"] = "partial"
    replacement_characters: Literal["reject", "keep"] = "reject"
    time_zone: str | None = None

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _is_text(cls, setting: str) -> str:
        try:
            return placeholder_of(setting)
        except ValueError as error:
            what = "the bytes after hex: are no text in UTF-8"
            raise refuse(what, "choose a text at the connector, and here") from error

    @field_validator("time_zone")
    @classmethod
    def _exists(cls, zone: str | None) -> str | None:
        if zone is None or _OFFSET.fullmatch(zone):
            return zone
        try:
            ZoneInfo(zone)
        except (ValueError, OSError, LookupError) as error:
            what = f"{zone!r} is not a time zone"
            raise refuse(what, "write 'UTC', 'Europe/Zurich' or '+08:00', for example") from error
        return zone

    @property
    def modes(self) -> ConnectorModes:
        """The modes of PostgreSQL's connector, as values of the core."""
        return self.modes_of("postgres")

    def modes_of(self, kind: DatabaseKind | None) -> ConnectorModes:
        """Returns the modes of a kind of database's connector; None counts as PostgreSQL's."""
        usual = "adaptive" if kind in {"postgres", None} else "adaptive_time_microseconds"
        return ConnectorModes(
            DecimalMode(self.decimal_handling_mode),
            TimeMode(self.time_precision_mode or usual),
            BinaryMode(self.binary_handling_mode),
            UnsignedMode(self.bigint_unsigned_handling_mode),
            IntervalMode(self.interval_handling_mode),
            self.include_unknown_datatypes,
        )


def placeholder_of(setting: str) -> str:
    """Returns the text that a connector writes by its ``unavailable.value.placeholder``.

    Those of PostgreSQL and MySQL read what follows ``hex:`` as bytes.

    Raises:
        ValueError: if these are no text in UTF-8.
    """
    return (
        bytes.fromhex(setting.removeprefix(_HEX)).decode() if setting.startswith(_HEX) else setting
    )
