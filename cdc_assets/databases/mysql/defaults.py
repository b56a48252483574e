"""Tells which values rows older than a column have, by the column's present default."""

from __future__ import annotations

import re
from typing import Final

from cdc_assets.databases.facts import Facts
from cdc_assets.databases.mysql.type_text import MysqlType, parse_column_type
from cdc_assets.schema.types import MAX_DECIMAL_DIGITS

_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_DOUBLE: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?e[+-]?[0-9]+")
_DIGIT: Final = re.compile(r"[0-9]")
_FLOAT_DIGITS: Final = 6
"""As many as the catalog has of a ``float``: the value may have had more."""
_QUOTED: Final = re.compile(r"'((?:[^'\\]|'')*)'")


def default_facts(
    type_text: str, not_null: bool, extra: str, default: str | None, is_mariadb: bool
) -> Facts:
    """Returns facts by the present default: no catalog keeps the one at the column's addition.

    MariaDB writes defaults as SQL has them, MySQL their values.
    """
    type_, words = parse_column_type(type_text), extra.lower()
    if "auto_increment" in words or "generated" in words:
        return Facts(is_untold=True)
    if default is None or (is_mariadb and default.upper() == "NULL"):
        is_other = _implies_another(type_)
        return Facts(is_implied=not_null and not is_other, is_untold=not_null and is_other)
    if type_.name == "float" and len(_DIGIT.findall(default)) >= _FLOAT_DIGITS:
        return Facts(is_untold=True)
    is_number = _NUMBER.fullmatch(default) or (
        type_.name == "double" and _DOUBLE.fullmatch(default)
    )
    if not is_mariadb or is_number:
        return Facts(existing=default)
    text = _QUOTED.fullmatch(default)
    return Facts(existing=text[1].replace("''", "'")) if text else Facts(is_untold=True)


def _implies_another(type_: MysqlType) -> bool:
    """Returns whether rows have another value than an empty text or 0 without a default."""
    is_long = type_.name == "decimal" and type_.arguments[:1] > (MAX_DECIMAL_DIGITS,)
    return type_.name in {"enum", "json"} or is_long
