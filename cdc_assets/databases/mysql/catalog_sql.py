"""Queries of MySQL's and MariaDB's catalog, and of the server's settings."""

from __future__ import annotations

from typing import Final

EXISTING: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA IN %(schemas)s AND TABLE_NAME IN %(names)s
  AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
"""


LISTED: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
  AND (%(schema)s = '' OR TABLE_SCHEMA = %(schema)s)
ORDER BY 1, 2
"""


TABLES: Final = """
SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.TABLE_COMMENT,
       c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE, c.COLUMN_COMMENT, c.EXTRA, k.SEQ_IN_INDEX,
       c.COLUMN_DEFAULT, VERSION() LIKE '%%MariaDB%%', c.CHARACTER_SET_NAME,
       c.GENERATION_EXPRESSION
FROM information_schema.TABLES t
JOIN information_schema.COLUMNS c
  ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME
LEFT JOIN information_schema.STATISTICS k
  ON k.TABLE_SCHEMA = c.TABLE_SCHEMA AND k.TABLE_NAME = c.TABLE_NAME
 AND k.COLUMN_NAME = c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY'
WHERE t.TABLE_SCHEMA IN %(schemas)s AND t.TABLE_NAME IN %(names)s
  AND t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
ORDER BY t.TABLE_SCHEMA, t.TABLE_NAME, c.ORDINAL_POSITION
"""

CASCADES: Final = """
SELECT k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA,
       k.REFERENCED_TABLE_NAME, r.DELETE_RULE, r.UPDATE_RULE
FROM information_schema.KEY_COLUMN_USAGE k
LEFT JOIN information_schema.REFERENTIAL_CONSTRAINTS r
  ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.TABLE_NAME = k.TABLE_NAME
 AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME
WHERE k.TABLE_SCHEMA IN %(schemas)s AND k.TABLE_NAME IN %(names)s
  AND k.REFERENCED_TABLE_NAME IS NOT NULL AND k.ORDINAL_POSITION = 1
ORDER BY 1, 2, 3
"""
"""Foreign keys. MariaDB shows their rules to users only who may more than read the table."""

MADE: Final = "SHOW CREATE TABLE {table}"
"""Shows the rules of foreign keys to all who may read the table."""

LOGS: Final = ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS")
"""Shows the options that keep databases out of the binlog; the second one from MySQL 8.4 on."""

SETTINGS: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN %(names)s"
