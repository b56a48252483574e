"""Runs one small query of each kind against a fresh Spark Connect server.

This is a program of its own (``python -m``), because the stack itself does not import Spark.
"""

from __future__ import annotations

import os

from cdc_assets.connect_session import open_session

_STATEMENTS = (
    "CREATE NAMESPACE IF NOT EXISTS scratch.w",
    "CREATE TABLE scratch.w.t (id BIGINT, v STRING, p BINARY) USING iceberg "
    "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read')",
    "INSERT INTO scratch.w.t SELECT id, j.a, cast(id AS STRING)::BINARY FROM "
    "(SELECT id, from_json(concat('{\"a\":\"', id, '\"}'), 'a STRING') AS j FROM range(2000))",
    "ALTER TABLE scratch.w.t CREATE OR REPLACE BRANCH b",
    "DELETE FROM scratch.w.t.branch_b WHERE id IN (SELECT id FROM range(500))",
    "INSERT INTO scratch.w.t.branch_b SELECT id, max(v), max(p) FROM scratch.w.t GROUP BY id",
    "MERGE INTO scratch.w.t.branch_b t USING (SELECT id FROM range(10)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = 'x'",
    "CALL scratch.system.fast_forward('w.t', 'main', 'b')",
    "DROP TABLE scratch.w.t",
)


def main() -> None:
    """Warms up the server at ``SPARK_REMOTE_URL``."""
    spark = open_session(os.environ["SPARK_REMOTE_URL"])
    for statement in _STATEMENTS:
        spark.sql(statement).collect()
    spark.stop()


if __name__ == "__main__":
    main()
