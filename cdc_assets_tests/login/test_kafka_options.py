"""One login to Kafka, as librdkafka and as Java's clients are given it."""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic import ValidationError

from cdc_assets import aws
from cdc_assets.config.kafka import KafkaConfig
from cdc_assets.errors import CdcError, ConfigError, LoginRefusedError, UnreachableError
from cdc_assets.log.errors import no_answer, place_of, translate
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.login.identity import as_aws, is_signed
from cdc_assets_tests.login.issuer import Issuer, issuing
from cdc_assets_tests.waiting import until

# ruff: noqa: SLF001 - librdkafka's own errors begin with an underscore

OAUTH = {
    "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.client.id": 'c"1', "sasl.oauthbearer.client.secret": {"env": "OAUTH_SECRET"},
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/oauth2/token",
}  # fmt: skip
SECRET = 'hunter2"\\%'
MSK = "b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com:9098,b-2:9098"


def kafka(properties: dict[str, Any], brokers: str = "broker:9092") -> KafkaConfig:
    said = {"bootstrap_servers": brokers, "properties": properties}
    return KafkaConfig.model_validate(said)


@pytest.mark.unit
def test_client_credentials_of_oauth(monkeypatch, tmp_path):
    monkeypatch.setenv("OAUTH_SECRET", SECRET)
    (tmp_path / "ca.pem").write_text("PEM\nca\n")
    found = kafka({
        **OAUTH, "sasl.oauthbearer.scope": "read write",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-1",
        "https.ca.location": str(tmp_path / "ca.pem"),
    })  # fmt: skip
    told = found.librdkafka()
    assert told["sasl.oauthbearer.method"] == "oidc"
    assert told["sasl.oauthbearer.client.secret"] == SECRET
    assert found.spark_options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'clientId="c\\"1" clientSecret="hunter2\\"\\\\%" scope="read write" '
            'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1" '
            'ssl.truststore.type="PEM" ssl.truststore.certificates="PEM\\nca\\n";'
        ),
        "kafka.sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example/oauth2/token",
    }
    assert SECRET not in f"{found!r}{found.model_dump()}"


@pytest.mark.unit
def test_authorities_are_found_where_librdkafka_does_not_look(monkeypatch, tmp_path):
    monkeypatch.setenv("OAUTH_SECRET", SECRET)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    assert Path(kafka(OAUTH).librdkafka()["https.ca.location"]).is_file()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path))
    assert kafka(OAUTH).librdkafka()["https.ca.location"] == str(tmp_path)
    given = {**OAUTH, "https.ca.pem": "PEM"}
    assert "https.ca.location" not in kafka(given).librdkafka()


@pytest.mark.unit
def test_kerberos_by_a_keytab_and_by_the_ticket_of_the_user():
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI",
             "sasl.kerberos.principal": "etl@REALM"}  # fmt: skip
    by_ticket, by_keytab = kafka(login), kafka({**login, "sasl.kerberos.keytab": "/etc/etl.keytab"})
    module = 'com.sun.security.auth.module.Krb5LoginModule required principal="etl@REALM"'
    assert by_keytab.spark_options()["kafka.sasl.jaas.config"] == (
        f'{module} useKeyTab="true" storeKey="true" keyTab="/etc/etl.keytab";'
    )
    assert by_ticket.spark_options()["kafka.sasl.jaas.config"] == (
        f'{module} useTicketCache="true" renewTGT="true";'
    )
    assert by_ticket.spark_options()["kafka.sasl.kerberos.service.name"] == "kafka"
    assert by_ticket.librdkafka()["sasl.kerberos.min.time.before.relogin"] == "0"
    assert "sasl.kerberos.min.time.before.relogin" not in by_keytab.librdkafka()


@pytest.mark.unit
def test_msk_by_a_token_that_is_signed_when_it_is_needed(monkeypatch):
    as_aws(monkeypatch)
    found = kafka({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}, MSK)
    told = found.librdkafka()
    assert told["sasl.mechanism"] == "OAUTHBEARER"
    token, ends = told["oauth_cb"]("")
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert is_signed(url)
    assert not is_signed(url, "another")
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    assert "/eu-west-1/kafka-cluster/" in url.replace("%2F", "/")
    assert 890 < ends - time.time() <= 900
    assert found.spark_options() == {
        "kafka.bootstrap.servers": MSK,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    }


@pytest.mark.unit
def test_msk_without_an_identity_a_region_or_the_package_is_named(monkeypatch):
    as_aws(monkeypatch)
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
    with pytest.raises(ConfigError, match="nothing names the region"):
        kafka(login).librdkafka()
    assert kafka({**login, "sasl.aws.region": "eu-west-1"}).librdkafka()["oauth_cb"]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(UnreachableError, match="NoCredentialsError"):
        kafka(login, MSK).librdkafka()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError, match=r"pip install 'cdc-assets\[aws\]'"):
        aws.session()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            {**OAUTH, "sasl.oauthbearer.client.id": None},
            "needs sasl.oauthbearer.token.endpoint.url",
        ),
        ({**OAUTH, "sasl.oauthbearer.assertion.file": "x"}, "cannot be translated"),
        ({**OAUTH, "sasl.oauthbearer.client.secret": "hunter2"}, "in plain text"),
        ({**OAUTH, "sasl.oauthbearer.grant.type": "x"}, "cannot be translated"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.kerberos.principal"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "aws_msk_iam"}, "encrypted"),
        ({"sasl.kerberos.principal": "a"}, "no login takes place"),
    ],
)
def test_a_login_that_lacks_something_is_refused(properties, words):
    given = {name: value for name, value in properties.items() if value is not None}
    with pytest.raises(ValidationError, match=words) as caught:
        kafka(given)
    assert "hunter2" not in str(caught.value)


def without_token(said: str) -> list[CdcError]:
    last = KafkaError(
        KafkaError._AUTHENTICATION, f"Failed to acquire SASL OAUTHBEARER token: {said}"
    )
    late = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    where = place_of({"bootstrap.servers": "b:1", **OAUTH})
    return [translate(KafkaException(last), where), translate(late, where, last),
            no_answer(where, 10, last)]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ('{"error": "invalid_client", "error_description": "hunter2 timed out"}', LoginRefusedError,
         "refused the login to Kafka (invalid_client)"),
        ("Failed to connect to login.example: hunter2", UnreachableError, "cannot be reached"),
        ("Operation timed out after hunter2", UnreachableError, "cannot be reached"),
        ("SSL certificate problem: hunter2", LoginRefusedError, "certificate"),
        ("<html>hunter2</html>", UnreachableError, "issues no token"),
    ],
)  # fmt: skip
def test_a_token_endpoint_is_named_without_its_words(said, kind, words):
    for problem in without_token(said):
        assert type(problem) is kind
        assert words in str(problem)
        assert "[b:1, tokens of login.example]" in str(problem)
        assert "hunter2" not in str(problem)


@pytest.mark.unit
def test_a_client_that_was_built_without_kerberos_says_how_it_is_got():
    words = "Failed to create: No provider for SASL mechanism GSSAPI: recompile librdkafka"
    problem = translate(KafkaException(KafkaError(KafkaError._INVALID_ARG, words)), "b:1")
    assert isinstance(problem, ConfigError)
    assert "--no-binary confluent-kafka" in problem.remedy


def of(issuer: Issuer) -> KafkaConfig:
    said = {**OAUTH, "security.protocol": "SASL_PLAINTEXT",
            "sasl.oauthbearer.client.id": issuer.client,
            "sasl.oauthbearer.token.endpoint.url": issuer.url}  # fmt: skip
    return kafka(said, "127.0.0.1:9")


@pytest.mark.slow
def test_an_endpoint_that_refuses_or_does_not_answer_is_named_in_time(monkeypatch):
    with issuing() as issuer:
        monkeypatch.setenv("OAUTH_SECRET", "wrong")
        with pytest.raises(LoginRefusedError, match="invalid_client"):
            KafkaLog(of(issuer).librdkafka, 5).topics()
        monkeypatch.setenv("OAUTH_SECRET", issuer.secret)
        issuer.is_down, begun = True, time.monotonic()
        with pytest.raises(UnreachableError) as caught:
            KafkaLog(of(issuer).librdkafka, 3).topics()
        assert time.monotonic() - begun < 20
        assert issuer.secret not in str(caught.value)


@pytest.mark.slow
def test_tokens_are_renewed_without_any_call(monkeypatch):
    with issuing(seconds=6) as issuer:
        monkeypatch.setenv("OAUTH_SECRET", issuer.secret)
        client = Producer({**of(issuer).librdkafka(), "log_level": 0})
        until(lambda: len(issuer.tokens) >= 3, "three tokens")
        del client
