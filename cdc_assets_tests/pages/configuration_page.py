"""Generates ``docs/reference/configuration.md`` from the models of the configuration."""

# ruff: noqa: E501 (lines of a page)

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cdc_assets.config import ReplicationConfig
from cdc_assets.config.assess import AssessConfig, SourceAssessConfig
from cdc_assets.config.batch import (
    BatchConfig,
    ConsistentConfig,
    QuarantineConfig,
    SloConfig,
    TransactionsConfig,
)
from cdc_assets.config.column import ColumnOverrides
from cdc_assets.config.connector import ConnectorConfig
from cdc_assets.config.database import ConnectConfig, DatabaseConfig, IamPassword
from cdc_assets.config.kafka import KafkaConfig
from cdc_assets.config.layout import LayoutConfig
from cdc_assets.config.maintenance import MaintenanceConfig
from cdc_assets.config.platform import (
    AlertsConfig,
    CatalogConfig,
    LakeConfig,
    OperationsConfig,
    Ports,
    RunsConfig,
    SparkConfig,
    SparkHook,
    StackConfig,
)
from cdc_assets.config.schema_changes import SchemaChanges, SilentChanges
from cdc_assets.config.schema_registry import OAuthConfig, SchemaRegistryConfig
from cdc_assets.config.source import MergeIntoConfig, ResnapshotConfig, SourceConfig
from cdc_assets.config.table import TableOverrides
from cdc_assets.config.topics import TargetConfig, TopicsConfig
from cdc_assets.config.verify import VerifyConfig

HEAD: Final = """\
# Configuration

Generated from the models of the configuration (`python -m cdc_assets_tests.pages`);
`cdc-assets config schema` prints the same for editors. To begin:
[Write a configuration](../how-to/run/write-a-configuration.md).

The file is `--config FILE`, `$CDC_ASSETS_CONFIG`, or `replication.yaml` in the folder in which a
command or Dagster starts. Relative paths are relative to the file. An unknown or repeated key is an
error. A *secret* is `{env: NAME}`, `{file: /PATH}`,
[a command or a function](../how-to/run/log-in.md#secrets). **Bold**: the default. Keys with a
section of their own are only there.
"""
SOURCE: Final = "sources.NAME"
TABLE: Final = "tables.SCHEMA.TABLE"


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        title: the heading, without quotes.
        models: by the prefix of their keys.
        more: what the descriptions cannot say.
    """

    title: str
    models: Mapping[str, type[BaseModel]]
    more: str = ""


HOW: Final = "../how-to"
SECTIONS: Final = (
    Section("Top level", {"": ReplicationConfig},
            f"Files next to the registry: [Files](environment.md#files-of-the-registry). Several "
            f"replications: [Use in a Dagster project]({HOW}/run/use-in-a-dagster-project.md)."),
    Section("kafka", {"": KafkaConfig},
            "Translated security properties: `security.protocol`; `sasl.mechanism` (PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512) with `sasl.username` and `sasl.password`, or OAUTHBEARER, "
            f"AWS_MSK_IAM, GSSAPI ([Log in]({HOW}/run/log-in.md#kafka)); `ssl.ca.*`, "
            "`ssl.certificate.*`, `ssl.key.*` as `.location` (a PEM file) or `.pem`. Refused: "
            "`group.id`, `isolation.level` and other properties that cdc_assets sets itself."),
    Section("lake", {"": LakeConfig, "catalog.": CatalogConfig},
            "The driver of `postgresql+psycopg://…` is installed; other drivers, and the clients "
            "of Glue and Hive, are not. A folder of `sqlite:///…` must not have `%` or `?` in its "
            "name."),
    Section("spark", {"": SparkConfig, "remote.": SparkHook},
            f"Servers of your own: [Run a Spark server]({HOW}/run/run-a-spark-server.md). "
            "`spark.sql.variable.substitute` is off in every session."),
    Section("runs", {"": RunsConfig}, f"Effects: [Tune]({HOW}/run/tune.md)."),
    Section("alerts", {"": AlertsConfig}, f"Alerts: [Alert]({HOW}/run/alert.md)."),
    Section("operations", {"": OperationsConfig}),
    Section("assess", {"": AssessConfig},
            f"Verdicts: [Assess sources]({HOW}/run/assess-sources.md)."),
    Section("stack.ports", {"": Ports},
            f"The local stack: [Use the local stack]({HOW}/run/use-the-local-stack.md)."),
    Section(SOURCE, {"": SourceConfig, "topics.": TopicsConfig, "database.": DatabaseConfig,
                     "database.password.": IamPassword, "target.": TargetConfig, "slo.": SloConfig,
                     "quarantine.": QuarantineConfig, "batch.": BatchConfig,
                     "transactions.": TransactionsConfig,
                     "consistent.": ConsistentConfig, "connect.": ConnectConfig,
                     "assess.": SourceAssessConfig},
            "Wire formats: [Formats](formats/README.md). Kinds of tables: [Lake tables](tables.md)."
            " Cuts: [All tables at one commit](../consistent.md)."),
    Section("connector", {"": ConnectorConfig},
            "Of a source. Needed only for events without schemas from a connector without Debezium's "
            "defaults, unless a description says otherwise."),
    Section("schema_registry", {"": SchemaRegistryConfig, "oauth.": OAuthConfig},
            "Of a source with Avro records: see [Debezium, Avro](formats/debezium-avro.md)."),
    Section("merge_into", {"": MergeIntoConfig},
            f"Of a source: a list of rules. See [Merge sharded "
            f"tables]({HOW}/tables/merge-sharded-tables.md)."),
    Section(TABLE, {"": TableOverrides, "columns.COLUMN.": ColumnOverrides},
            "Of a source. An entry makes its topic a table, whatever the topic holds. A pattern "
            "(`shop.order_*`: `*` is any text, `?` one character) applies to all matching tables, "
            "and makes none. Settings of patterns are combined key by key; those of the table's "
            "own name win. Two patterns that differ in a key that it lacks stop the table. Types: `boolean`, `int`, `bigint`, `float`, `double`, "
            "`decimal(p,s)`, `string`, `binary`, `date`, `timestamp` (without zone), `timestamptz`, "
            "and lists such as `text[]`. A type may replace the "
            "mapping: `total: decimal(10,2)`. `type`, `rename`, `existing` and `large_values` may "
            "be combined. Without schemas in the events, types are fixed at creation."),
    Section("layout", {"": LayoutConfig},
            f"Of a table: see [Lay out files]({HOW}/tables/lay-out-files.md)."),
    Section("schema_changes", {"": SchemaChanges},
            "Of a source and of a table. `evolve` follows the change, `strict` stops the table, "
            f"`ignore` leaves the lake as it is: [Follow column "
            f"changes]({HOW}/tables/follow-column-changes.md)."),
    Section("silent_changes", {"": SilentChanges},
            "Of a source and of a table. `stop` stops the table, `mark` continues in doubt, "
            f"`ignore` trusts the rows: [Handle silent "
            f"changes]({HOW}/tables/handle-silent-changes.md)."),
    Section("maintenance", {"": MaintenanceConfig},
            "Of a source and of a table. Times are ten years at most. Shards of one lake table use "
            f"the settings of the first: [Maintain tables]({HOW}/run/maintain-tables.md)."),
    Section("verify", {"": VerifyConfig},
            f"Of a source: see [Verify tables]({HOW}/tables/verify-tables.md). A statement for "
            "which the database reads the whole table counts as all of its rows."),
    Section("resnapshot", {"": ResnapshotConfig},
            "Of a source: limits of `resnapshot`, `rebuild --from-source` and `initial: read`, "
            "together with slot, time-outs and waiting of `verify`."),
)  # fmt: skip
COVERED: Final = {m.__name__ for s in SECTIONS for m in s.models.values()} | {StackConfig.__name__}


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(_section, SECTIONS)])


def _section(section: Section) -> str:
    title = section.title if section.title == "Top level" else f"`{section.title}`"
    more = f"\n{section.more}\n" if section.more else ""
    head = "\n| key | value | |\n|---|---|---|\n"
    return f"## {title}\n{more}{head}{''.join(_rows(section))}"


def _rows(section: Section) -> Iterator[str]:
    for prefix, model in section.models.items():
        properties = model.model_json_schema(ref_template="{model}")["properties"]
        again = [name for name in model.model_fields if _is_of_source(properties[name])]
        if again:
            names = ", ".join(f"`{name}`" for name in again)
            yield f"| {names} | **the source's** | The same, of this table. |\n"
        for name, field in model.model_fields.items():
            values = {*_each_value(properties[name])} - {"mapping"}
            is_here = values or not _has_section(section, prefix, name)
            if is_here and name not in again:
                yield _row(prefix + name, field, properties[name])


def _is_of_source(schema: Mapping[str, Any]) -> bool:
    """Whether a table's key is that of its source, with the source's value as its default."""
    return str(schema.get("description", "")).endswith("Default: the source's.")


def _has_section(section: Section, prefix: str, name: str) -> bool:
    """Whether a key's own keys are shown in its place."""
    titles = {each.title.partition(".")[0] for each in SECTIONS}
    inner = f"{prefix}{name}."
    is_part = any(each.startswith(inner) for each in section.models)
    return is_part or (not prefix and name in titles - {section.title})


def _row(name: str, field: FieldInfo, schema: dict[str, Any]) -> str:
    words, default = str(schema["description"]), _default(field)
    if found := re.search(r" ?Default: (.+?)\.(?= |$)", words):
        words, default = words.replace(found[0], "").strip(), found[1]
    text = _marked(words[0].upper() + words[1:])
    cells = (f"`{name}`", _with_default(_values(schema), _marked(default)), text)
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"


def _marked(words: str) -> str:
    """Words of a docstring in Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", words)


def _with_default(values: str, default: str) -> str:
    """Marks the default among the values, or adds it."""
    if default in ("", "required"):
        return ", ".join(filter(None, (values, default)))
    if default in values.split(", "):
        return ", ".join(f"**{each}**" if each == default else each for each in values.split(", "))
    return f"{values}, **{default}**"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    match value:
        case None | () | "":
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case int():
            return f"{value:,}" if value >= 100_000 else str(value)
        case float():
            return f"{value:g}"
        case str() | Path():
            return f"`{value}`"
        case BaseModel() | dict():
            return ""
        case _:
            return f"`{list(value)}`".replace("'", "")


def _values(schema: dict[str, Any]) -> str:
    """Returns the allowed values for people."""
    found = list(dict.fromkeys(_each_value(schema)))
    return " or ".join(found) if found else "text"


def _each_value(schema: dict[str, Any]) -> Iterator[str]:
    if "anyOf" in schema or "oneOf" in schema:
        for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from _each_value(each)
    elif "enum" in schema or "const" in schema:
        values: Sequence[object] = schema.get("enum", [schema.get("const")])
        yield ", ".join(f"`{str(each).lower() if each is False else each}`" for each in values)
    elif "$ref" in schema:
        yield "secret" if schema["$ref"] == "Secret" else "mapping"
    elif schema.get("type") == "array":
        yield "list"
    elif schema.get("type") == "object":
        yield "mapping"
    elif schema.get("type") in {"integer", "number"}:
        yield _number(schema)
    elif schema.get("type") == "boolean":
        yield "`true`, `false`"
    elif schema.get("type") == "string":
        yield "text"


def _number(schema: dict[str, Any]) -> str:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    bounds = [f"≥{low:,}"] if low is not None else [f">{above:,}"] if above is not None else []
    if high is not None and high < 1 << 41:
        bounds = [f"{low:,}\u2013{high:,}"] if low is not None else [*bounds, f"≤{high:,}"]
    kind = "integer" if schema["type"] == "integer" else "number"
    return " ".join([kind, *bounds])
