"""Configures how the files of a table are laid out."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from cdc_assets.config.strict import Strict, refuse
from cdc_assets.errors import TerminalError
from cdc_assets.schema.file_layout import (
    DeleteMode,
    FileLayout,
    parse_sort,
    parse_term,
    require_parts,
)

_Terms = Annotated[tuple[str, ...], Field(strict=False)]
_FILE_BYTES: Final = "write.target-file-size-bytes"
_COMPRESSION: Final = "write.parquet.compression-codec"
_OURS: Final = {
    _FILE_BYTES: "write target_file_bytes instead",
    _COMPRESSION: "write compression instead",
    "format-version": "write format_version instead",
    "write.distribution-mode": "leave it out: batches arrive distributed",
    "write.delete.mode": "write delete_mode instead",
    "write.update.mode": "write delete_mode instead",
    "write.merge.mode": "write delete_mode instead",
}


class LayoutConfig(Strict):
    """The layout of a table's files.

    Attributes:
        partition_by: columns, or Iceberg's transforms such as ``day(c)`` and ``bucket(16, c)``.
            ``[]``: no partitions. Unset: the table's own.
        sort_by: the same terms, with ``asc`` or ``desc`` and ``nulls first`` or ``nulls last``.
            ``[]``: no order.
        properties: further table properties by Iceberg's names, as text.
        format_version: format version of the table. Version 2 is upgraded to 3; a downgrade is
            refused. Default: ``lake.format_version``.
        delete_mode: ``merge-on-read`` marks rows as deleted. ``copy-on-write`` copies files without
            them. Default: the mode of ``lake.readers``, else the table's own.
        target_file_bytes: size, in bytes, of the files that compaction makes. Default: Iceberg's
            (512 MB).
        compression: compression of Parquet files. Default: Iceberg's (``zstd``).
    """

    partition_by: _Terms | None = None
    sort_by: _Terms | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    format_version: Literal[2, 3] | None = None
    delete_mode: Literal["merge-on-read", "copy-on-write"] | None = None
    target_file_bytes: int | None = Field(default=None, ge=1 << 20, le=1 << 40)
    compression: Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"] | None = None

    @field_validator("partition_by")
    @classmethod
    def _parts(cls, texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        with_parts = _parsed(texts, parse_term)
        try:
            require_parts(with_parts)
        except TerminalError as error:
            raise refuse(error.what, error.remedy) from error
        return texts

    @field_validator("sort_by")
    @classmethod
    def _order(cls, texts: tuple[str, ...] | None) -> tuple[str, ...] | None:
        _parsed(texts, parse_sort)
        return texts

    @field_validator("properties")
    @classmethod
    def _of_iceberg(cls, properties: dict[str, str]) -> dict[str, str]:
        for name in properties:
            if name.startswith("cdc-assets.") or name in _OURS:
                what = f"the table property {name} is not to be set here"
                raise refuse(what, _OURS.get(name, "leave it out: it describes the table's state"))
        return properties

    @property
    def files(self) -> FileLayout:
        """The layout as a value of the core, without knowledge of the table's columns."""
        said = {_FILE_BYTES: self.target_file_bytes, _COMPRESSION: self.compression}
        own = {name: str(each) for name, each in said.items() if each is not None}
        parts, order = self.partition_by, self.sort_by
        return FileLayout(
            None if parts is None else tuple(parse_term(each) for each in parts),
            None if order is None else tuple(parse_sort(each) for each in order),
            {**self.properties, **own},
            self.format_version,
            self.delete_mode and DeleteMode(self.delete_mode),
        )


def _parsed(texts: tuple[str, ...] | None, parse: Any) -> list[Any]:
    """Parses each text.

    Raises:
        PydanticCustomError: if one is no term.
    """
    try:
        return [parse(each) for each in texts or ()]
    except TerminalError as error:
        raise refuse(error.what, error.remedy) from error
