"""Configures access to Kafka, in the two spellings that its clients use.

The file uses librdkafka's names (``sasl.username``); Spark's reader uses Java's
(``sasl.jaas.config``). Properties that affect security are translated or refused, never dropped:
https://kafka.apache.org/documentation/#consumerconfigs and
https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from cdc_assets.config.kafka_login import MECHANISMS, MSK_CLASS, PROPERTIES, pem
from cdc_assets.config.paths import absolute_path
from cdc_assets.config.secret import Properties, Secret, reveal
from cdc_assets.config.strict import Strict, did_you_mean, refuse

_SAME_IN_JAVA = frozenset({
    "client.id", "client.rack", "fetch.max.bytes", "fetch.min.bytes", "metadata.max.age.ms",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "sasl.kerberos.service.name",
    "sasl.oauthbearer.sub.claim.name",
})  # fmt: skip
_SECURITY = frozenset({
    *PROPERTIES, "security.protocol", "sasl.mechanism", "sasl.mechanisms",
    "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
    "ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.endpoint.identification.algorithm",
})  # fmt: skip
_FILES = frozenset({
    "ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location",
    "sasl.kerberos.keytab",
})  # fmt: skip
_ABOUT_SECURITY = ("sasl.", "ssl.", "security.", "https.", "enable.ssl.", "enable.sasl.")
_OURS = frozenset({
    "bootstrap.servers", "metadata.broker.list", "group.id", "enable.auto.commit",
    "isolation.level", "auto.offset.reset", "enable.partition.eof",
})  # fmt: skip


class KafkaConfig(Strict):
    """Brokers and client properties (librdkafka's names; secrets as `Secret`).

    Attributes:
        bootstrap_servers: addresses of brokers, separated by commas.
        properties: client properties by librdkafka's names. Security properties are translated for
            Spark's reader, or refused.
    """

    bootstrap_servers: str = Field(min_length=1)
    properties: Properties = Field(default_factory=dict)

    @field_validator("properties")
    @classmethod
    def _known_to_both_clients(cls, properties: dict[str, str | Secret]) -> dict[str, str | Secret]:
        for name in properties:
            if name in _OURS:
                what = f"{name} is set by cdc_assets itself"
                remedy = "kafka.bootstrap_servers names the brokers; leave the property out"
                raise refuse(what, remedy)
            if name.startswith(_ABOUT_SECURITY) and name not in _SECURITY | _SAME_IN_JAVA:
                what = f"{name} cannot be translated for Spark's Kafka reader"
                raise refuse(what, did_you_mean(name, _SECURITY))
        _check_mechanism(properties)
        return properties

    @field_validator("properties")
    @classmethod
    def _absolute(
        cls, properties: dict[str, str | Secret], info: ValidationInfo
    ) -> dict[str, str | Secret]:
        """Resolves files: librdkafka and our reader of them would take the working directory."""
        return {
            name: str(absolute_path(Path(value), info))
            if name in _FILES and isinstance(value, str)
            else value
            for name, value in properties.items()
        }

    @property
    def mechanism(self) -> str:
        """The name of the SASL mechanism; empty if nobody logs in by one."""
        return str(_mechanism(self.properties) or "").upper()

    @property
    def spark_class(self) -> str:
        """The class that Spark needs to log in, if Kafka's own client has none; else empty."""
        return MSK_CLASS if self.mechanism == "AWS_MSK_IAM" else ""

    def librdkafka(self) -> dict[str, Any]:
        """Returns properties for confluent-kafka, with secrets revealed.

        Raises:
            ConfigError: if a secret's variable is not set, or the login lacks a package.
            UnreachableError: if a secret cannot be fetched.
        """
        given, login = self._revealed(), MECHANISMS.get(self.mechanism)
        return login.librdkafka(given) if login else given

    def _revealed(self) -> dict[str, str]:
        revealed = {name: reveal(value) for name, value in self.properties.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **revealed}

    def spark_options(self) -> dict[str, str]:
        """Returns options for Spark's Kafka reader (``kafka.`` + Java's names), secrets revealed.

        Certificates and keys are passed as text, so that remote executors need no files.

        Raises:
            ConfigError: if a secret's variable is not set or a certificate cannot be read.
            UnreachableError: if a secret cannot be fetched.
        """
        given = self._revealed()
        java = {name: given[name] for name in given if name in _SAME_IN_JAVA}
        java["bootstrap.servers"] = self.bootstrap_servers
        java |= _protocol(given) | _truststore(given) | _keystore(given)
        return {f"kafka.{name}": value for name, value in java.items()}


def _mechanism(given: Mapping[str, str | Secret]) -> str | Secret | None:
    return given.get("sasl.mechanism", given.get("sasl.mechanisms"))


def _check_mechanism(given: Mapping[str, str | Secret]) -> None:
    protocol = given.get("security.protocol", "")
    if not isinstance(protocol, str):
        return
    if not protocol.upper().startswith("SASL"):
        unused = sorted(name for name in given if name.startswith("sasl."))
        if unused:
            what = f"{unused[0]} is given, and no login takes place without a SASL protocol"
            raise refuse(what, "security.protocol: SASL_SSL, or leave sasl.* out")
        return
    mechanism = _mechanism(given)
    login = MECHANISMS.get(mechanism.upper()) if isinstance(mechanism, str) else None
    if login is None:
        what = "sasl.mechanism is missing or cannot be translated for Spark's Kafka reader"
        raise refuse(what, f"one of {', '.join(MECHANISMS)}")
    if not given.keys() >= {*login.needs}:
        what = f"sasl.mechanism {mechanism} needs {', '.join(login.needs)}"
        raise refuse(what, "add all of them; passwords and secrets as {env: NAME}")
    if login is MECHANISMS["AWS_MSK_IAM"] and protocol.upper() != "SASL_SSL":
        what = "sasl.mechanism AWS_MSK_IAM needs an encrypted connection"
        raise refuse(what, "security.protocol: SASL_SSL")


def _protocol(given: Mapping[str, str]) -> dict[str, str]:
    protocol = given.get("security.protocol", "plaintext").upper()
    java = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        mechanism = str(_mechanism(given)).upper()
        java |= {"sasl.mechanism": mechanism, **MECHANISMS[mechanism].java(given)}
    return java


def _truststore(given: Mapping[str, str]) -> dict[str, str]:
    java: dict[str, str] = {}
    if (authority := pem(given, "ssl.ca")) is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if (algorithm := given.get("ssl.endpoint.identification.algorithm")) is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return java


def _keystore(given: Mapping[str, str]) -> dict[str, str]:
    certificate, key = pem(given, "ssl.certificate"), pem(given, "ssl.key")
    if certificate is None or key is None:
        return {}
    java = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }
    if (password := given.get("ssl.key.password")) is not None:
        java["ssl.key.password"] = password
    return java
