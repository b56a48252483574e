"""A broker that asks for tokens of OAuth or tickets of Kerberos, and clients of both kinds.

Tokens are valid for seconds, and the broker ends each connection with its token. With
``CDC_ASSETS_TESTS_GSSAPI`` (a folder with a ``confluent_kafka`` that has Kerberos) librdkafka logs
in by it, too; the wheels on the index have none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cdc_assets_devstack.configured import stack_of
from cdc_assets_devstack.layout import JARS_VARIABLE, StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from confluent_kafka import KafkaException, Producer

from cdc_assets.config import ReplicationConfig
from cdc_assets.connect_session import open_session
from cdc_assets.errors import ConfigError, LoginRefusedError
from cdc_assets.log.kafka import KafkaLog
from cdc_assets_tests.canaries import shown_in
from cdc_assets_tests.configuration import beside, on_ports, write
from cdc_assets_tests.conftest import CHECKOUT_JARS
from cdc_assets_tests.login import realm as realms
from cdc_assets_tests.login.broker import SecuredKafka, kerberos, oauth, secured
from cdc_assets_tests.login.issuer import Issuer, issuing
from cdc_assets_tests.login.realm import REALM, Realm
from cdc_assets_tests.pipeline import Message, Pipeline, Session
from cdc_assets_tests.toy.profiles import in_soak
from cdc_assets_tests.waiting import until

pytestmark = [pytest.mark.stack, in_soak]

GSSAPI_VARIABLE = "CDC_ASSETS_TESTS_GSSAPI"
TABLE = "public.good"
TYPED = {TABLE: {"primary_key": ["id"], "columns": {"id": "bigint", "name": "text"}}}
TOKEN_SECONDS = 15


@dataclass(frozen=True)
class Place:
    """What the tests of this module share.

    Attributes:
        issuer: of tokens.
        realm: of tickets; None where this machine has no KDC.
        keytab: of the client there.
        broker: that asks for both.
        config: of a lake and a Spark server.
        spark: a session of that server.
    """

    issuer: Issuer
    realm: Realm | None
    keytab: Path | None
    broker: SecuredKafka
    config: ReplicationConfig
    spark: Session

    def logged_in(self, name: str, listener: str, properties: dict[str, Any]) -> ReplicationConfig:
        """The configuration of a client of a listener."""
        brokers = self.broker.address_of(listener)
        said = {"bootstrap_servers": brokers, "properties": properties}
        return beside(self.config, name, kafka=said)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, _no_finalizers: None) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("logins")
    ports = pick_free_ports()
    with pytest.MonkeyPatch.context() as patch, issuing(seconds=TOKEN_SECONDS) as issuer:
        patch.setenv(JARS_VARIABLE, os.environ.get(JARS_VARIABLE, str(CHECKOUT_JARS)))
        with _realm(home) as (realm, keytab, service):
            listeners = {"oauth": oauth(issuer.keys_url)}
            java = ""
            if realm is not None and service is not None:
                listeners["kerberos"] = kerberos(
                    f"kafka/localhost@{REALM}", service, realm.settings
                )
                java = f"-Djava.security.krb5.conf={realm.settings}"
            spark = {"remote": "local", "memory": "1500m",
                     "conf": {"spark.driver.extraJavaOptions": java} if java else {}}  # fmt: skip
            config = write(home / "replication.yaml", on_ports(ports, sources={}, spark=spark))
            stack = stack_of(config)
            with secured(StackLayout(home / "kafka", ports), listeners) as broker:
                try:
                    stack.up(("spark",))
                    session = open_session(stack.spark.endpoint.url)
                    yield Place(issuer, realm, keytab, broker, config, lambda: session)
                    session.stop()
                finally:
                    stack.down()


@pytest.fixture
def by_oauth(place: Place) -> dict[str, Any]:
    place.issuer.is_down = False
    file = place.config.path.with_name("oauth-secret")  # type: ignore[union-attr]
    file.write_text(f"{place.issuer.secret}\n")
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.client.id": place.issuer.client,
        "sasl.oauthbearer.client.secret": {"file": str(file)},
        "sasl.oauthbearer.token.endpoint.url": place.issuer.url,
        "sasl.oauthbearer.scope": "read",
    }  # fmt: skip


@contextmanager
def _realm(home: Path) -> Iterator[tuple[Realm | None, Path | None, Path | None]]:
    if not realms.is_installed():
        yield None, None, None
        return
    with realms.running(home / "realm") as realm:
        yield realm, realm.keytab("etl"), realm.keytab("kafka/localhost")


def event(number: int) -> Message:
    now = int(time.time() * 1000)
    source = {
        "version": "3.6.1.Final", "connector": "postgresql", "name": "t", "db": "shop",
        "schema": "public", "table": "good", "snapshot": "false", "txId": number,
        "lsn": 1000 + number, "ts_ms": now, "sequence": f'["{999 + number}","{1000 + number}"]',
    }  # fmt: skip
    after = {"id": number, "name": f"n{number}"}
    value = {"before": None, "after": after, "source": source, "op": "c", "ts_ms": now}
    return Message(json.dumps({"id": number}).encode(), json.dumps(value).encode())


def pipeline_of(
    place: Place, name: str, listener: str, login: dict[str, Any], tmp: Path
) -> Pipeline:
    """Messages by the plain listener, everything else by the other."""
    plain = beside(place.config, f"{name}-plain", kafka={"bootstrap_servers": place.broker.address})
    made = Pipeline(plain, place.spark, tmp, {"tables": TYPED})
    said = {"bootstrap_servers": place.broker.address_of(listener), "properties": login}
    made.config = beside(made.config, f"{name}-in", kafka=said)
    made.create_topic(TABLE)
    return made


def grown(place: Place, tokens: int, more: Callable[[], object]) -> None:
    """Work until the issuer has had so many requests more."""
    end, until_tokens = time.monotonic() + 300, len(place.issuer.tokens) + tokens
    while len(place.issuer.tokens) < until_tokens:
        assert time.monotonic() < end
        more()


def test_a_replication_lives_across_tokens(place, by_oauth, tmp_path, monkeypatch, capfd):
    """First small batches, which Python reads; then by Spark's reader alone."""
    made, number = pipeline_of(place, "across", "oauth", by_oauth, tmp_path), 0
    log = KafkaLog(made.config.kafka.librdkafka)

    def once() -> None:
        nonlocal number
        number += 1
        made.produce(TABLE, [event(number)])
        assert log.watermarks([made.topic(TABLE)])
        assert made.merge(TABLE)

    grown(place, 3, once)
    by_python = number
    monkeypatch.setattr("cdc_assets.merge.attempt.records.FEW", 0)
    grown(place, 3, once)
    assert number > by_python
    assert sorted(made.by_key(TABLE)) == list(range(1, number + 1))
    assert {scope for _, scope in place.issuer.tokens} == {"read"}
    shown = capfd.readouterr()
    secrets = [place.issuer.secret, *(token for token, _ in place.issuer.tokens)]
    assert not [each for each in secrets if each in shown.out + shown.err]
    home = place.config.path.parent  # type: ignore[union-attr]
    for folder in ("logs", "kafka/logs", "lake"):
        assert not shown_in(home / folder, secrets)


def test_a_secret_that_is_replaced_in_its_file_is_used_by_both(
    place, by_oauth, tmp_path, monkeypatch
):
    monkeypatch.setattr("cdc_assets.merge.attempt.records.FEW", 0)
    made = pipeline_of(place, "renewed", "oauth", by_oauth, tmp_path)
    made.produce(TABLE, [event(1)])
    assert made.merge(TABLE)
    log = KafkaLog(made.config.kafka.librdkafka)
    assert log.topics()
    place.issuer.secret = "another-secret-of-tests"
    file = Path(by_oauth["sasl.oauthbearer.client.secret"]["file"])
    with pytest.raises(LoginRefusedError, match="invalid_client") as caught:
        KafkaLog(made.config.kafka.librdkafka).topics()
    assert "tokens of 127.0.0.1" in str(caught.value)
    file.write_text(place.issuer.secret)
    made.produce(TABLE, [event(2)])
    assert made.merge(TABLE)
    assert sorted(made.by_key(TABLE)) == [1, 2]

    def works() -> bool:
        try:
            return bool(log.topics())
        except LoginRefusedError:  # its client had the former secret: the next one reads the file
            return False

    tokens = len(place.issuer.tokens)
    until(lambda: works() and len(place.issuer.tokens) > tokens + 1, "a client of before goes on",
          within_seconds=180)  # fmt: skip


def test_spark_says_that_the_login_is_refused(place, by_oauth, tmp_path, monkeypatch):
    """Python's client has the right secret, Spark's the wrong one."""
    monkeypatch.setattr("cdc_assets.merge.attempt.records.FEW", 0)
    made = pipeline_of(place, "spark-refused", "oauth", by_oauth, tmp_path)
    made.produce(TABLE, [event(1)])
    options = dict(made.config.kafka.spark_options())
    secret = place.issuer.secret
    wrong = {n: v.replace(_jaas(secret), "wrong-hunter2") for n, v in options.items()}
    assert wrong != options
    monkeypatch.setattr(type(made.config.kafka), "spark_options", lambda _: wrong)
    with pytest.raises(LoginRefusedError, match="Kafka refused the login of Spark") as caught:
        made.merge(TABLE)
    assert "hunter2" not in str(caught.value)


def _jaas(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def by_kerberos(place: Place) -> dict[str, Any]:
    if place.keytab is None:
        pytest.skip("this machine has no KDC: apt-get install krb5-kdc krb5-admin-server krb5-user")
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.principal": f"etl@{REALM}", "sasl.kerberos.keytab": str(place.keytab),
    }  # fmt: skip


def test_spark_reads_by_a_ticket_of_kerberos(place, tmp_path):
    plain = pipeline_of(place, "tickets", "kerberos", by_kerberos(place), tmp_path)
    plain.produce(TABLE, [event(n) for n in range(3)])
    reader = place.spark().read.format("kafka").options(**plain.config.kafka.spark_options())
    assert reader.option("subscribe", plain.topic(TABLE)).load().count() == 3


def test_librdkafka_reads_by_a_ticket_of_kerberos(place, tmp_path):
    login, folder = by_kerberos(place), os.environ.get(GSSAPI_VARIABLE)
    if folder is None:
        pytest.skip(f"{GSSAPI_VARIABLE} names no confluent_kafka that has Kerberos")
    made = pipeline_of(place, "librdkafka-tickets", "kerberos", login, tmp_path)
    made.produce(TABLE, [event(n) for n in range(3)])
    script = (
        "import sys; from cdc_assets.config import load_config; from pathlib import Path;"
        "from cdc_assets.log.kafka import KafkaLog;"
        "log = KafkaLog(load_config(Path(sys.argv[1])).kafka.librdkafka, 30);"
        "print(log.watermarks([sys.argv[2]])); print(len(log.sample(sys.argv[2], 9)), 'records')"
    )
    assert place.realm is not None
    env = {**os.environ, **place.realm.environment, "PYTHONPATH": f"{folder}:{':'.join(sys.path)}"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(made.config.path), made.topic(TABLE)],
        check=False, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.endswith("3 records\n"), done.stdout + done.stderr


def test_a_client_without_kerberos_says_how_it_is_got(place):
    config = place.logged_in("without", "kerberos", by_kerberos(place))
    login = {**config.kafka.librdkafka(), "sasl.kerberos.min.time.before.relogin": "0"}
    try:
        Producer(login)
    except KafkaException:
        with pytest.raises(ConfigError, match="--no-binary confluent-kafka"):
            KafkaLog(login).topics()
    else:
        pytest.skip("this client has Kerberos")
