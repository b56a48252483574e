"""Configures how a connector writes records: JSON, or Avro with schemas in the stack's registry.

The Avro converter is Apicurio's, which has three ways of identifying a record's schema. The
settings' names are those of releases 3 (``apicurio.registry.*``; in 2 the handler of
eight bytes was ``DefaultIdHandler``, and the default).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from cdc_assets_devstack.layout import StackLayout
from cdc_assets_devstack.registry import own_url

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_HANDLERS = "io.apicurio.registry.serde"


class Wire(StrEnum):
    """The place of the schema's id in an Avro record."""

    CONFLUENT = "confluent"
    """Before the data: 0x00, then the id as 4 bytes, big-endian."""
    APICURIO = "apicurio"
    """Before the data: 0x00, then the id as 8 bytes, big-endian."""
    HEADERS = "headers"
    """In the header ``apicurio.key.contentId`` or ``apicurio.value.contentId`` (or
    ``….globalId``) as 8 bytes, big-endian; key and value are the data alone."""


class SchemaId(StrEnum):
    """The kind of id that identifies a schema."""

    CONTENT = "contentId"
    """One for each text of a schema. The API of Confluent's registry uses these."""
    GLOBAL = "globalId"
    """One for each version of each subject; the default of Apicurio's release 2."""


@dataclass(frozen=True, slots=True)
class Json:
    """Debezium's JSON.

    Args:
        value_schemas: whether each value carries its schema.
        key_schemas: whether each key carries its schema.
        nulls: whether to keep the NULL of a column that has a default. By default Kafka Connect
            writes the default instead (KAFKA-8713), which nobody downstream can detect.
    """

    value_schemas: bool = False
    key_schemas: bool = True
    nulls: bool = True


@dataclass(frozen=True, slots=True)
class Avro:
    """Avro, with every schema registered by the connector itself.

    A NULL in a column that has a default is written as the default: release 3.0.9 of the
    converter has no setting against it.

    Args:
        wire: the place of the schema's id in a record.
        ids: the kind of that id.
        references: whether to register the record types in a schema as subjects of their own, to
            which it refers, as Apicurio's converter does by default; otherwise each schema is
            complete, as with Confluent's converter. With references the converter takes the schema
            after an ``ALTER TABLE`` for the one before it, because only a referenced subject has
            changed, and stops the connector (seen with release 3.0.9). So its cache is disabled: it
            asks the registry for every record, which creates a version with the same content each
            time.
    """

    wire: Wire = Wire.CONFLUENT
    ids: SchemaId = SchemaId.CONTENT
    references: bool = False


Converter = Json | Avro


def converter_settings(layout: StackLayout, converter: Converter) -> dict[str, str]:
    """Returns the part of a connector's configuration that decides how it writes keys and values.

    Names of schemas are adjusted to Avro's rules (``schema.name.adjustment.mode``). Names of
    columns are not: those that Avro forbids stop the connector, which is better than columns under
    names that the source does not know.
    """
    match converter:
        case Json(value_schemas, key_schemas, nulls):
            return {
                "key.converter": _JSON,
                "key.converter.schemas.enable": str(key_schemas).lower(),
                "value.converter": _JSON,
                "value.converter.schemas.enable": str(value_schemas).lower(),
                "value.converter.replace.null.with.default": str(not nulls).lower(),
            }
        case Avro() as avro:
            both = _avro(layout, avro)
            return {
                **{f"key.converter{name}": value for name, value in both.items()},
                **{f"value.converter{name}": value for name, value in both.items()},
                "schema.name.adjustment.mode": "avro",
            }
        case _ as never:
            assert_never(never)


def _avro(layout: StackLayout, avro: Avro) -> dict[str, str]:
    handler = "Legacy8ByteIdHandler" if avro.wire is Wire.APICURIO else "Default4ByteIdHandler"
    return {
        "": _AVRO,
        ".apicurio.registry.url": own_url(layout),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.dereference-schema": str(not avro.references).lower(),
        **({".apicurio.registry.check-period-ms": "0"} if avro.references else {}),
        ".apicurio.registry.use-id": avro.ids.value,
        ".apicurio.registry.id-handler": f"{_HANDLERS}.{handler}",
        ".apicurio.registry.headers.enabled": str(avro.wire is Wire.HEADERS).lower(),
    }
