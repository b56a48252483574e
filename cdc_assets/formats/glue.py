"""Reads schemas from AWS Glue Schema Registry, by the UUIDs of their versions.

A version never changes. Glue's schemas refer to no others. Requests are made by boto3, with the
credentials that it finds: https://docs.aws.amazon.com/glue/latest/webapi/API_GetSchemaVersion.html.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final
from uuid import UUID

from cdc_assets import aws
from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.config.secret import reveal
from cdc_assets.errors import CdcError, LoginRefusedError, TerminalError, UnreachableError

_KEY: Final = "schema_registry"
_NOBODY: Final = UUID(int=0)
_UNKNOWN: Final = "EntityNotFoundException"
_REFUSED: Final = frozenset({
    "AccessDeniedException", "UnrecognizedClientException", "InvalidSignatureException",
    "ExpiredTokenException", "MissingAuthenticationTokenException", "IncompleteSignatureException",
})  # fmt: skip
_PASSING: Final = frozenset({
    "ThrottlingException", "InternalServiceException", "ServiceUnavailable", "RequestTimeout",
})  # fmt: skip


class GlueSchemas:
    """The client of one account's registry in one region. May be used from several threads.

    Args:
        config: a source's ``schema_registry``.
    """

    def __init__(self, config: SchemaRegistryConfig) -> None:
        self._config = config

    @property
    def shown(self) -> str:
        """The registry's name in messages."""
        return f"glue.{self._config.region}" if self._config.region else "glue"

    def definition(self, version: UUID, where: str) -> str:
        """Returns the text of a schema.

        Args:
            version: as in the record.
            where: coordinates for messages.

        Raises:
            UnreachableError: Glue does not answer, or nobody has credentials.
            LoginRefusedError: Glue refuses them.
            TerminalError: Glue does not know the version, or it is no Avro.
        """
        found = self._version(version, where)
        if found is None:
            what = "the schema registry does not know the schema version of a record"
            remedy = (
                f"does {_KEY}.region name the region, and this login the account, of the writer?"
            )
            raise TerminalError(what, where=where, remedy=remedy)
        if found.get("DataFormat") != "AVRO" or found.get("Status") != "AVAILABLE":
            what = "the schema of a record is no available schema of type AVRO"
            raise TerminalError(what, where=where, remedy="look at it in Glue's console")
        return str(found["SchemaDefinition"])

    def ask(self) -> None:
        """Asks for a version that nobody has: Glue answers, and takes the login.

        Raises:
            CdcError: as `definition`.
        """
        self._version(_NOBODY, self.shown)

    def _version(self, version: UUID, where: str) -> dict[str, Any] | None:
        from botocore.exceptions import ClientError

        with aws.translated(where):
            try:
                return self._client.get_schema_version(SchemaVersionId=str(version))
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if code == _UNKNOWN:
                    return None
                if code in _REFUSED:
                    self.__dict__.pop("_client", None)  # the next one reads credentials again
                raise _refusal(code, where) from None

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config

        config, seconds = self._config, self._config.timeout_seconds
        url = reveal(config.urls[0]) if config.urls else None
        region = aws.region_of(config.region, url or "", f"{_KEY}.region")
        limits = Config(connect_timeout=seconds, read_timeout=seconds)
        verify = None if config.ca_file is None else str(config.ca_file)
        return aws.session().client(
            "glue", region_name=region, endpoint_url=url, config=limits, verify=verify
        )


def _refusal(code: str, where: str) -> CdcError:
    if code in _REFUSED:
        what = f"the schema registry refused the login ({code})"
        remedy = "renew the credentials of AWS; allow glue:GetSchemaVersion on registry and schemas"
        return LoginRefusedError(what, where=where, remedy=remedy)
    if code in _PASSING:
        return UnreachableError(f"the schema registry does not answer ({code})", where=where)
    what = f"the schema registry refuses the request ({code or 'no reason given'})"
    return TerminalError(what, where=where, remedy=f"check {_KEY}.region and .url")
