"""Translates Kafka's errors into this project's, with the server and a remedy."""

# librdkafka spells the codes of its own errors with a leading underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from confluent_kafka import KafkaError, KafkaException

from cdc_assets.errors import (
    CdcError,
    ConfigError,
    LoginRefusedError,
    TransientError,
    UnreachableError,
)

_PROPERTY: Final = re.compile(r'configuration property:? "?([\w.-]+)|property "([\w.-]+)"')
_FORBIDDEN: Final = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})  # fmt: skip
_LOGIN: Final = frozenset(
    {
        KafkaError._SSL,
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_CUT: Final = re.compile(r"disconnected|transport failure|timed out|reset by", re.IGNORECASE)
"""Texts of lost connections: a broker that goes away during a handshake refuses nothing."""
_NO_TOKEN: Final = "SASL OAUTHBEARER token: "  # noqa: S105 - words of a message
"""What the client's words for a token that it did not get end with; the rest is not ours."""
_OAUTH_ERRORS: Final = re.compile(
    r"\b(invalid_client|invalid_grant|invalid_request|invalid_scope|unauthorized_client"
    r"|unsupported_grant_type|access_denied)\b"
)
_NO_ENDPOINT: Final = re.compile(r"connect|resolve|timed? ?out|terminating", re.IGNORECASE)
_NO_TLS: Final = re.compile(r"certificate|trust anchors|SSL|TLS", re.IGNORECASE)
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_NO_PROVIDER: Final = "No provider for SASL mechanism GSSAPI"
_READ_AGAIN: Final = "it is planned and read again by the next try, which says if a part is lost"
BUILD: Final = (
    "install librdkafka with libsasl2, and build the client for it: "
    "pip install --no-binary confluent-kafka confluent-kafka (docs/how-to/run/log-in.md)"
)
"""The remedy for wheels of the client, which come without Kerberos."""
_REMEDY: Final = "check that it runs, and kafka.bootstrap_servers and its listeners"


def place_of(conf: Mapping[str, Any]) -> str:
    """Returns the brokers for messages, and the endpoint that issues the tokens for them."""
    servers, url = str(conf["bootstrap.servers"]), conf.get(_ENDPOINT)
    return f"{servers}, tokens of {urlsplit(str(url)).netloc}" if url else servers


def translate(error: KafkaException, servers: str, last: KafkaError | None = None) -> CdcError:
    """Returns the error for a person to read about a failed call.

    Args:
        error: from the call.
        servers: see `place_of`.
        last: the newest error that the client reported apart from the call, which often names the
            cause of the call's time-out.
    """
    cause = error.args[0] if error.args else None
    if not isinstance(cause, KafkaError):
        return UnreachableError("Kafka failed", where=servers, remedy=_REMEDY)
    if cause.code() in {KafkaError._INVALID_ARG, KafkaError._UNKNOWN_PROTOCOL}:
        return _invalid(cause)
    if cause.code() in _FORBIDDEN:
        msg = f"Kafka refused the login its rights ({cause.name()})"
        remedy = "allow the user Describe and Read on the topics, and Describe on the cluster"
        return LoginRefusedError(msg, where=servers, remedy=remedy)
    refusal = next((each for each in (cause, last) if _refuses(each)), None)
    if refusal is not None:
        return _refused(refusal, servers)
    detail = f"; {last.str()}" if last else ""
    return UnreachableError(
        f"Kafka does not answer ({cause.name()}{detail})",
        where=servers,
        remedy=_REMEDY,
        page="kafka-silent",
    )


def of_partition(error: KafkaException, topic: str, partition: int) -> UnreachableError:
    """Returns the error for a partition without a leader, which cannot be asked."""
    what = f"a partition of {topic} does not answer ({error.args[0].name()})"
    remedy = "check that the brokers with its replicas run"
    return UnreachableError(
        what,
        where=f"topic={topic} partition={partition}",
        remedy=remedy,
        page="partition-without-leader",
    )


def gone(topic: str, partition: int) -> TransientError:
    """Returns the error for a partition that has lost the offset from which to read."""
    what = "a range that was planned is not in the log any more"
    where = f"topic={topic} partition={partition}"
    return TransientError(what, where=where, remedy=_READ_AGAIN)


def ends_early(topic: str, partition: int, found: int, end: int) -> TransientError:
    """Returns the error for a partition that ends before its reported end."""
    what = f"a partition ends at offset {found}, and its end was {end} before"
    where = f"topic={topic} partition={partition}"
    return TransientError(what, where=where, remedy=_READ_AGAIN)


def no_answer(
    servers: str,
    seconds: float,
    last: KafkaError | None = None,
    missing: Sequence[tuple[str, int]] = (),
) -> UnreachableError:
    """Returns the error for a deadline passed without an answer from the ``missing`` partitions."""
    detail = f"; {last.str()}" if last else ""
    if missing:
        topic, partition = missing[0]
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        detail = f" for topic={topic} partition={partition}{more}{detail}"
    if last is not None and _refuses(last):
        return _refused(last, servers)
    msg = f"Kafka did not answer within {seconds:g} s{detail}"
    return UnreachableError(msg, where=servers, remedy=_REMEDY, page="kafka-silent")


def _refuses(error: KafkaError | None) -> bool:
    """Whether a broker, or our own check of its certificate, has refused the login."""
    if error is None or error.code() not in _LOGIN:
        return False
    return _NO_TOKEN in error.str() or not _CUT.search(error.str())


def _refused(error: KafkaError, servers: str) -> UnreachableError:
    if _NO_TOKEN in error.str():
        return _without_token(error.str().partition(_NO_TOKEN)[2], servers)
    msg = f"Kafka refused the login ({error.name()}; {error.str()})"
    remedy = (
        "renew the password or certificate, and check security.protocol, sasl.* and ssl.* of "
        "kafka.properties; the next attempt reads them again"
    )
    return LoginRefusedError(msg, where=servers, remedy=remedy)


def _without_token(said: str, servers: str) -> UnreachableError:
    """Returns the error for a token that was not issued. The endpoint's words are not repeated."""
    if refusal := _OAUTH_ERRORS.search(said):
        msg = f"the token endpoint refused the login to Kafka ({refusal[1]})"
        remedy = (
            "renew sasl.oauthbearer.client.secret; check .client.id, .scope of kafka.properties"
        )
        return LoginRefusedError(msg, where=servers, remedy=remedy)
    remedy = f"check {_ENDPOINT} of kafka.properties"
    if _NO_TLS.search(said):
        msg = "the certificate of Kafka's token endpoint is not accepted"
        return LoginRefusedError(msg, where=servers, remedy=f"{remedy}, and https.ca.location")
    does = "cannot be reached" if _NO_ENDPOINT.search(said) else "issues no token"
    return UnreachableError(f"Kafka's token endpoint {does}", where=servers, remedy=remedy)


def _invalid(cause: KafkaError) -> ConfigError:
    """Names the property only: the client's own text also repeats the value."""
    if _NO_PROVIDER in cause.str():
        msg = "this build of Kafka's client has no Kerberos (GSSAPI)"
        return ConfigError(msg, where="kafka.properties.sasl.mechanism", remedy=BUILD)
    found = _PROPERTY.search(cause.str())
    name = (found[1] or found[2]) if found else "a property"
    msg = f"Kafka's client does not accept {name}"
    remedy = "see librdkafka's CONFIGURATION.md for its name and values"
    return ConfigError(msg, where="kafka.properties", remedy=remedy)
