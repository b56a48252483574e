"""What the figures are measured by: goals, where traces begin, and what is cut off them."""

from __future__ import annotations

from typing import Final

PACKAGE: Final = "cdc_assets"

DRAIN: Final = "merge.replicate.Replicator.drain"
BEGIN: Final = "orchestration.table_run.batches.begin"
BEGIN_PARAMETER: Final = "step"

NARROW_CUTS: Final = (
    # other formats, and Debezium's records in Avro
    "formats.canal",
    "formats.goldengate",
    "formats.maxwell",
    "formats.yugabyte",
    "formats.debezium.avro",
    "formats.debezium.avro_records",
    "formats.registry",
    "formats.registry_http",
    "schema.avro",
    "schema.avro_parse",
    "schema.avro_types",
    "schema.avro_wire",
    # the order of other databases than PostgreSQL
    "changes.numbering",
    "databases.mysql",
    "formats.mysql_ddl",
    "formats.mysql_definitions",
    "formats.mysql_words",
    "formats.order.binlog",
    "formats.order.oracle",
    "formats.order.sqlserver",
    "formats.order.tidb",
    "formats.order.trail",
    "formats.order.yugabyte",
    # other modes
    "merge.apply.changelog",
    "merge.apply.history",
    "merge.apply.multiset",
    "merge.fold.versions",
    "merge.modes.changelog",
    "merge.modes.history",
    "merge.modes.keyless",
    # second looks of guards, other requests, upkeep
    "merge.attempt.from_quarantine",
    "merge.guards.restarts",
    "merge.upkeep",
)
"""Of a batch of keyed Debezium JSON from PostgreSQL: modules and folders that it does not need."""

BOUNDARIES: Final = ("merge/guards/*", "merge/modes/*", "formats/order/*", "operations/*",
                     "orchestration/sensors/*")  # fmt: skip
"""A module there earns its file; of a folder there, the modules that its ``__init__`` exports."""

DATABASES: Final = "databases/*/*"
"""Each module there earns its file."""

LONG_ENOUGH: Final = 150
"""Lines from which a module earns its file, whoever imports it."""

OUTSIDE_OF_BATCH: Final = ("rebuild", "resnapshot", "verifying", "accepting", "renamed")
"""Of ``merge``, what is no part of a batch."""

PRIVATE: Final = "dagster._core"

MODULES: Final = 280
LINES: Final = 52_000
ONE_IMPORTER: Final = 30
DRAIN_MODULES: Final = 150
DRAIN_FUNCTIONS: Final = 1_000
NARROW_MODULES: Final = 110
NARROW_FUNCTIONS: Final = 600
BEGIN_MODULES: Final = 12
BEGIN_FUNCTIONS: Final = 30
BEGIN_UP: Final = 3
LENGTHS: Final = (150, 350, 500)
BATCH_LINES: Final = 16_000
