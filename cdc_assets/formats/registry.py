"""Reads schemas by the ids in records, from the registries of Confluent, Apicurio and AWS Glue.

An id stands for one schema forever, so each schema is cached: a table whose schemas are known keeps
working while the registry is down. Sources: the OpenAPI documents in confluentinc/schema-registry
and Apicurio/apicurio-registry (``/schemas/ids/{id}``; ``/ids/contentIds/{id}`` of v3).

Apicurio's converter registers each nested record as an artifact of its own unless
``apicurio.registry.dereference-schema`` is set: references are read and inlined.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast
from urllib.parse import quote
from uuid import UUID

from cdc_assets.changes.json_text import mapping, read_json, read_object
from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.errors import ConfigError, TerminalError
from cdc_assets.formats.glue import GlueSchemas
from cdc_assets.formats.registry_http import ROUNDS, NotFound, RegistryHttp
from cdc_assets.formats.wire_id import IdKind, SchemaId
from cdc_assets.schema.avro_parse import MAX_DEPTH, parse_avro, read_avro
from cdc_assets.schema.avro_types import AvroSchemaError
from cdc_assets.schema.avro_wire import self_contained

MAX_REFERENCES: Final = 500
"""Limit of the references of one schema, including those of its references."""

MAX_BYTES: Final = 32 << 20
"""Limit of the bytes of one schema with all of its references."""

_UNKNOWN: Final = (40401, 40402, 40403)
"""Confluent's error codes: no such subject, version, schema."""

_KEY: Final = "schema_registry"


class SchemaRegistry:
    """The schemas of one registry. May be used from several threads.

    Args:
        config: a source's ``schema_registry``.
        rounds: how often all URLs are tried before the registry counts as unreachable.
    """

    def __init__(self, config: SchemaRegistryConfig, rounds: int = ROUNDS) -> None:
        self._http = None if config.api == "glue" else RegistryHttp(config, rounds)
        self._glue = GlueSchemas(config)
        self._config = config
        self._lock = threading.Lock()
        self._known: dict[SchemaId, object] = {}

    @property
    def is_glue(self) -> bool:
        """Whether it is AWS Glue's, whose records are framed in a way of their own."""
        return self._http is None

    def ask(self) -> None:
        """Asks for any schema: the registry answers, and takes the login.

        Raises:
            CdcError: as `schema`, except for an unknown id.
        """
        if self._http is None:
            self._glue.ask()
            return
        path = "/schemas/ids/1" if self._config.api == "confluent" else "/ids/globalIds/1"
        self._http.get(path, f"registry {self._http.shown}")

    def schema(self, schema_id: SchemaId, topic: str) -> object:
        """Returns an Avro writer schema as its parsed JSON, with all references inlined.

        Callers share it and must not change it.

        Args:
            schema_id: as in the record.
            topic: the record's, for messages.

        Raises:
            UnreachableError: the registry does not answer; ids read before still work.
            LoginRefusedError: it refuses our login.
            TerminalError: it does not know the id, or its reply is no schema.
            ConfigError: a secret is missing, or the configuration does not fit the ids.
        """
        with self._lock:
            known = self._known.get(schema_id)
        if known is None:
            shown = self._glue.shown if self._http is None else self._http.shown
            where = f"registry={shown} topic={topic} schema_id={schema_id}"
            if self._http is None:
                known = _of_glue(self._glue, schema_id, where)
            else:
                known = _Read(self._http, self._config, where).schema(schema_id)
            with self._lock:
                self._known[schema_id] = known
        return known


def _of_glue(glue: GlueSchemas, schema_id: SchemaId, where: str) -> object:
    try:
        avro = read_avro(glue.definition(UUID(int=schema_id.number), where))
        parse_avro(avro)
    except AvroSchemaError as error:
        raise TerminalError(
            error.what, where=f"{error.where} {where}", remedy=error.remedy
        ) from None
    return avro


@dataclass(frozen=True, slots=True)
class _Place:
    """The paths of a document and of its list of references."""

    content: str
    references: str


class _Read:
    """The reading of one schema."""

    def __init__(self, http: RegistryHttp, config: SchemaRegistryConfig, where: str) -> None:
        self._http = http
        self._config = config
        self._where = where
        self._seen: set[_Place] = set()
        self._references: list[object] = []
        self._bytes = 0

    def schema(self, schema_id: SchemaId) -> object:
        """Reads it, and then its references."""
        try:
            avro = self._document(self._place(schema_id))
            if self._references:
                return self_contained(avro, self._references)
            parse_avro(avro)
        except AvroSchemaError as error:
            where = f"{error.where} {self._where}"
            raise TerminalError(error.what, where=where, remedy=error.remedy) from None
        return avro

    def _document(self, place: _Place, depth: int = 0) -> object:
        """Returns the document's JSON; its references are put into the list first."""
        self._seen.add(place)
        is_first = depth == 0
        if self._config.api == "apicurio":
            avro, listed = self._apicurio(place, is_first=is_first)
        else:
            avro, listed = self._confluent(place, is_first=is_first)
        for each in listed:
            if each in self._seen:
                continue
            if len(self._seen) > MAX_REFERENCES or depth >= MAX_DEPTH:
                self._malformed(f"refers to more than {MAX_REFERENCES} others, or too deep")
            self._references.append(self._document(each, depth + 1))
        return avro

    def _confluent(self, place: _Place, *, is_first: bool) -> tuple[object, list[_Place]]:
        reply = read_object(self._get(place.content, is_first=is_first))
        text, kind = reply.get("schema"), reply.get("schemaType") or "AVRO"
        if kind != "AVRO":
            self._malformed("is not of type AVRO: look at the connector's converter")
        if not isinstance(text, str):
            self._malformed("comes in a reply that is not of a schema registry")
        listed = self._listed(reply.get("references") or [])
        return read_avro(text), [self._subject(each) for each in listed]

    def _apicurio(self, place: _Place, *, is_first: bool) -> tuple[object, list[_Place]]:
        avro = read_avro(self._get(place.content, is_first=is_first))
        listed = read_json(self._get(place.references, is_first=False))
        return avro, [self._artifact(each) for each in self._listed(listed)]

    def _listed(self, listed: object) -> list[Mapping[str, Any]]:
        if not isinstance(listed, list):
            self._malformed("has references that are no list")
        return [mapping(each) for each in cast("list[Any]", listed)]

    def _subject(self, reference: Mapping[str, Any]) -> _Place:
        subject, version = reference.get("subject"), reference.get("version")
        if not isinstance(subject, str) or not isinstance(version, int) or version < 1:
            self._malformed("has a reference without subject and version")
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        return _Place(path, path)

    def _artifact(self, reference: Mapping[str, Any]) -> _Place:
        group = reference.get("groupId") or "default"
        artifact, version = reference.get("artifactId"), reference.get("version")
        if not all(isinstance(each, str) and each for each in (group, artifact, version)):
            self._malformed("has a reference without artifact and version")
        path = f"/groups/{_quoted(group)}/artifacts/{_quoted(artifact)}"
        path = f"{path}/versions/{_quoted(version)}"
        return _Place(f"{path}/content", f"{path}/references")

    def _place(self, schema_id: SchemaId) -> _Place:
        if self._config.api == "confluent":
            if schema_id.kind is not IdKind.PREFIX:
                msg = "records name ids of Apicurio's own in their headers"
                raise ConfigError(msg, where=self._where, remedy=f"set {_KEY}.api: apicurio")
            path = f"/schemas/ids/{schema_id.number}"
            return _Place(path, path)
        kind = self._config.ids if schema_id.kind is IdKind.PREFIX else schema_id.kind.value
        if kind is None:
            msg = "records have ids before their data, and nothing says of which kind"
            remedy = f"set {_KEY}.ids to what the converter's apicurio.registry.use-id says"
            raise ConfigError(msg, where=self._where, remedy=remedy)
        path = f"/ids/{kind}Ids/{schema_id.number}"
        return _Place(path, f"{path}/references")

    def _get(self, path: str, *, is_first: bool) -> bytes:
        reply = self._http.get(path, self._where)
        if not isinstance(reply, NotFound):
            self._bytes += len(reply)
            if self._bytes > MAX_BYTES:
                self._malformed(f"is larger than {MAX_BYTES:,} bytes with its references")
            return reply
        if not _says_unknown(reply.body):
            what = "something answers, and not as a schema registry does (HTTP 404)"
            remedy = (
                f"check path and kind, {_KEY}.url and .api (Apicurio as Confluent's: "
                "…/apis/ccompat/v7; Confluent's contexts: …/contexts/.name)"
            )
        elif is_first:
            what = "the schema registry does not know the schema id of a record"
            remedy = (
                f"does {_KEY}.url name the registry that the connector writes to? "
                "A deleted schema has to be registered again under its id"
            )
        else:
            what = "the schema registry does not have what the schema refers to"
            remedy = "register the deleted version again"
        raise TerminalError(what, where=self._where, remedy=remedy)

    def _malformed(self, what: str) -> NoReturn:
        text = f"the schema of a record {what}"
        remedy = f"look at it in the registry; does {_KEY}.api fit it?"
        raise TerminalError(text, where=self._where, remedy=remedy)


def _says_unknown(body: bytes) -> bool:
    """Returns whether a 404 is a registry's answer on an id, not another server's on a path."""
    error = read_object(body)
    named = str(error.get("name", "")).endswith("NotFoundException")
    return named or error.get("error_code") in _UNKNOWN


def _quoted(part: object) -> str:
    return quote(str(part), safe="")
