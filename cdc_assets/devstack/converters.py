"""How a connector writes its records: JSON, or Avro with its schemas in the stack's registry.

The Avro converter is Apicurio's, which has three ways of saying which schema a record was
written with. Names are those of releases 3 (``apicurio.registry.*``; in 2 the handler of
eight bytes was ``DefaultIdHandler``, and the default).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from cdc_assets.devstack.layout import StackLayout
from cdc_assets.devstack.registry import own_url

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_HANDLERS = "io.apicurio.registry.serde"


class Wire(StrEnum):
    """Where an Avro record carries the id of its schema."""

    CONFLUENT = "confluent"
    """Before the data: 0x00, then the id as 4 bytes, highest first."""
    APICURIO = "apicurio"
    """Before the data: 0x00, then the id as 8 bytes, highest first."""
    HEADERS = "headers"
    """In the header ``apicurio.key.contentId`` or ``apicurio.value.contentId`` (or
    ``….globalId``) as 8 bytes, highest first; key and value are the data alone."""


class SchemaId(StrEnum):
    """Which of its two ids a schema is called by."""

    CONTENT = "contentId"
    """One for each text of a schema. The interface of Confluent's registry knows these."""
    GLOBAL = "globalId"
    """One for each version of each subject; what Apicurio's release 2 wrote by default."""


@dataclass(frozen=True, slots=True)
class Json:
    """Debezium's JSON.

    Args:
        value_schemas: whether each value carries its schema.
        key_schemas: whether each key carries its schema.
        nulls: keep the NULL of a column that has a default. Kafka Connect's own choice is to
            write the default instead (KAFKA-8713), and nobody downstream can tell.
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
        wire: where a record carries the id of its schema.
        ids: which id that is.
        references: register record types that a schema contains as subjects of their own, to
            which it refers, as Apicurio's converter does by default; else each schema is whole,
            as Confluent's converter makes it. With references the converter takes the schema
            after an ``ALTER TABLE`` for the one before it, because only what it refers to is
            another, and stops the connector (seen with release 3.0.9); so it is told to
            remember nothing: it asks the registry for every record, which makes a version of
            the same content each time.
    """

    wire: Wire = Wire.CONFLUENT
    ids: SchemaId = SchemaId.CONTENT
    references: bool = False


Converter = Json | Avro


def converter_settings(layout: StackLayout, converter: Converter) -> dict[str, str]:
    """The part of a connector's configuration that says how it writes keys and values.

    Names of schemas are made such as Avro allows (``schema.name.adjustment.mode``). Names of
    columns are not: those that Avro does not allow stop the connector, which is better than
    columns under names that the source does not know.
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
