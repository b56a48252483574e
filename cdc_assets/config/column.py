"""Configures single columns of a table, and the types that columns are stored as."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from cdc_assets.config.secret import Secret
from cdc_assets.config.strict import Strict, refuse
from cdc_assets.errors import TerminalError
from cdc_assets.schema.parse import parse_type
from cdc_assets.schema.types import ColumnType


class ColumnOverrides(Strict):
    """The configuration of one column.

    Attributes:
        type: stored type of the column.
        exclude: whether the lake leaves the column out.
        mask: digest that the lake stores in place of the values.
        salt: secret key of the digest (HMAC), at least 16 characters.
        rename: name of the column in the lake.
        existing: value, as text, of the column in rows older than the column; null for no value.
        large_values: ``accept``: accept NULL where the connector loses an unchanged large value.
    """

    type: str | None = None
    exclude: bool = False
    mask: Literal["sha256"] | None = None
    salt: Secret | None = None
    rename: str | None = Field(default=None, min_length=1)
    existing: str | None = None
    large_values: Literal["fail", "accept"] = "fail"

    @field_validator("type")
    @classmethod
    def _parses(cls, text: str | None) -> str | None:
        if text is not None:
            column_type(text)
        return text

    @model_validator(mode="after")
    def _says_one_thing(self) -> ColumnOverrides:
        said = (self.type is not None, self.exclude, self.mask is not None)
        has_others = self.rename is not None or self.tells_existing or self.accepts_lost
        if sum(said) > 1 or not (sum(said) or has_others) or (self.exclude and has_others):
            what = (
                "a column has one of type, exclude and mask, and may have a name (rename), a "
                "value of older rows (existing) and large_values if it is not excluded"
            )
            raise refuse(what, "write a type, {exclude: true}, {mask: sha256} or {rename: name}")
        if self.salt is not None and self.mask is None:
            what = "a salt is that of a mask, and the column is not masked"
            raise refuse(what, "write {mask: sha256, salt: {env: NAME}}")
        if self.mask is not None and self.existing is not None:
            what = "`existing` is not allowed on a masked column"
            raise refuse(what, "write existing: null, or leave it out")
        return self

    @property
    def accepts_lost(self) -> bool:
        """Whether NULL is accepted for large values that an update leaves alone."""
        return self.large_values == "accept"

    @property
    def tells_existing(self) -> bool:
        """Whether a value of older rows is configured, even if it is null."""
        return "existing" in self.model_fields_set


def column_type(text: str) -> ColumnType:
    """Parses a configured column type.

    Raises:
        PydanticCustomError: if it is none.
    """
    try:
        return parse_type(text)
    except TerminalError as error:
        raise refuse(error.what, error.remedy) from error
