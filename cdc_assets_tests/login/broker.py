"""A broker with a listener for each login, and a plain one for the tests' own producer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdc_assets_devstack import kafka as plain
from cdc_assets_devstack.kafka import Kafka, properties
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.ports import pick_free_ports
from cdc_assets_devstack.process import Command

from cdc_assets_tests.login.issuer import AUDIENCE

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_LISTENERS = ("oauth", "kerberos")


@dataclass(frozen=True)
class Listener:
    """A listener's settings, by their names after ``listener.name.<name>.``.

    Attributes:
        mechanism: of SASL.
        settings: others of the listener.
        java: options of the broker's Java.
    """

    mechanism: str
    settings: Mapping[str, str]
    java: tuple[str, ...] = ()


def oauth(keys_url: str) -> Listener:
    """Tokens that are signed by the keys at a URL; a connection ends with its token."""
    return Listener(
        "OAUTHBEARER",
        {
            "oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
            "oauthbearer.sasl.server.callback.handler.class":
                f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys_url,
            "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            "oauthbearer.connections.max.reauth.ms": "3600000",
        },
        (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys_url}",),
    )  # fmt: skip


def kerberos(principal: str, keytab: Path, krb5: Path) -> Listener:
    """Tickets for a service of a realm."""
    login = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}"'
    return Listener(
        "GSSAPI",
        {
            "gssapi.sasl.jaas.config":
                f"com.sun.security.auth.module.Krb5LoginModule required {login};",
            "sasl.kerberos.service.name": "kafka",
        },
        (f"-Djava.security.krb5.conf={krb5}",),
    )  # fmt: skip


class SecuredKafka(Kafka):
    """The broker; its listeners are named as `address_of` names them."""

    def __init__(self, layout: StackLayout, listeners: Mapping[str, Listener]) -> None:
        super().__init__(layout)
        self._listeners = listeners
        free = pick_free_ports()
        self._at = dict(zip(listeners, (free.connect, free.postgres, free.spark), strict=False))

    def address_of(self, listener: str) -> str:
        """Where a login is asked for."""
        return f"{_host(listener)}:{self._at[listener]}"

    def prepare(self) -> None:
        super().prepare()
        self.settings_file.write_text(plain.broker_properties(self.layout) + self._more())

    def command(self) -> Command:
        made = super().command()
        more = [option for each in self._listeners.values() for option in each.java]
        return Command([made.argv[0], *more, *made.argv[1:]], env=made.env)

    def _more(self) -> str:
        """Of several lines for one key, the last counts."""
        ports = self.layout.ports
        inner = f"PLAINTEXT://{HOST}:{ports.kafka}"
        controller = f"CONTROLLER://{HOST}:{ports.kafka_controller}"
        own = {name: f"{name.upper()}://{self.address_of(name)}" for name in self._listeners}
        settings: dict[str, object] = {
            "listeners": ",".join([inner, controller, *own.values()]),
            "advertised.listeners": ",".join([inner, *own.values()]),
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT",
                 *(f"{name.upper()}:SASL_PLAINTEXT" for name in own)]
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(
                each.mechanism for each in self._listeners.values()
            ),
        }  # fmt: skip
        for name, each in self._listeners.items():
            prefix = f"listener.name.{name}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = each.mechanism
            for key, value in each.settings.items():
                own_key = key if key.startswith("sasl.kerberos") else f"{prefix}.{key}"
                settings[own_key] = value
        return properties(settings)


def _host(listener: str) -> str:
    """Tickets are for a name, not for an address."""
    return "localhost" if listener == "kerberos" else HOST


@contextmanager
def secured(layout: StackLayout, listeners: Mapping[str, Listener]) -> Iterator[SecuredKafka]:
    """Start it; stop it."""
    broker = SecuredKafka(layout, listeners)
    try:
        broker.bring_up(lambda _: None)
        yield broker
    finally:
        broker.stop()
