"""A function says where each session of Spark is opened, and what logs in there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cdc_assets_devstack.spark_server import SparkEndpoint

from cdc_assets.config import ReplicationConfig, load
from cdc_assets.config.platform import SparkHook
from cdc_assets.errors import ConfigError, LoginRefusedError, UnreachableError
from cdc_assets.orchestration.resources import spark_resource
from cdc_assets_tests.configuration import beside
from cdc_assets_tests.login import gateway as proxies
from cdc_assets_tests.login.gateway import HEADER, Gateway
from cdc_assets_tests.toy.profiles import in_soak

THIS = __name__
_SAID: object = None
_GATEWAY: Gateway | None = None


def said() -> object:
    """The operator's function of the tests that reach no server."""
    return _SAID


def asked() -> object:
    """The operator's function of those that do."""
    assert _GATEWAY is not None
    return _GATEWAY.hook()


def url_of(answer: object, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(f"{THIS}._SAID", answer)
    return SparkHook(hook=f"{THIS}:said").url()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("answer", "url"),
    [
        ("sc://host:443/;use_ssl=true;token=a", "sc://host:443/;use_ssl=true;token=a"),
        ({"url": "sc://host", "token": "a=b;c"}, "sc://host/;token=a%3Db%3Bc"),
        (
            {"url": "sc://host/;use_ssl=true", "headers": {"x-aws-proxy-auth": "p=/;"}},
            "sc://host/;use_ssl=true;x-aws-proxy-auth=p%3D%2F%3B",
        ),
        ({"url": "sc://localhost:1", "headers": {"x-a": "b"}}, "sc://localhost:1/;x-a=b"),
    ],
)
def test_a_function_returns_a_url_or_its_parts(answer, url, monkeypatch):
    assert url_of(answer, monkeypatch) == url


@pytest.mark.unit
@pytest.mark.parametrize(
    "answer",
    [
        None, "", "http://hunter2", {"token": "hunter2"}, {"url": "sc://h", "toke": "hunter2"},
        {"url": "sc://h", "token": 5}, {"url": "sc://h", "token": ""},
        {"url": "sc://h", "headers": {"use_ssl": "hunter2"}},
        {"url": "sc://h;use_ssl=true", "headers": {"x a": "hunter2"}},
        {"url": "sc://h;use_ssl=true", "headers": {"X-A": "hunter2"}},
        {"url": "sc://h", "headers": {"x-sent-over-plaintext": "hunter2"}},
    ],
)  # fmt: skip
def test_another_answer_is_refused_and_not_shown(answer, monkeypatch):
    with pytest.raises(ConfigError, match=f"spark.remote hook={THIS}:said") as caught:
        url_of(answer, monkeypatch)
    assert "hunter2" not in str(caught.value)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("spark", "words"),
    [
        ({"remote": {"hook": "hunter2"}}, "spark.remote"),
        ({"remote": {"hok": "hunter2"}}, "did you mean 'hook'"),
        ({"remote": 5}, "spark.remote"),
        ({"remote": {"hook": "a:b"}, "token": {"env": "T"}}, "leave spark.token out"),
        ({"remote": {"hook": "a:b"}, "master": "local"}, "exclude each other"),
    ],
)
def test_a_wrong_hook_is_refused(spark, words):
    document = {
        "kafka": {"bootstrap_servers": "x:1"}, "sources": {}, "spark": spark,
        "lake": {"catalog": {"type": "rest", "uri": "http://x"}, "warehouse": "s3://x"},
    }  # fmt: skip
    with pytest.raises(ConfigError, match=words) as caught:
        load.read_config(document, Path("/"), "test")
    assert "hunter2" not in str(caught.value)
    assert "1 problem" not in str(caught.value)


@pytest.fixture
def gateway(spark_endpoint: SparkEndpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    with proxies.before(spark_endpoint) as running:
        monkeypatch.setattr(f"{THIS}._GATEWAY", running)
        yield running


@pytest.fixture
def through(stack_config: ReplicationConfig) -> Callable[..., ReplicationConfig]:
    def configured(name: str) -> ReplicationConfig:
        return beside(stack_config, name, spark={"remote": {"hook": f"{THIS}:asked"}})

    return configured


@in_soak
@pytest.mark.stack
def test_each_session_asks_the_function_and_a_refused_one_is_replaced(gateway, through, caplog):
    config = through("hooked")
    resource = spark_resource(config)
    assert resource.session().range(5).count() == 5
    assert len(gateway.passes) == 1
    other = resource.new_session()
    assert len(gateway.passes) == 2
    assert other.range(7).count() == 7
    other.stop()
    gateway.rotate()
    with pytest.raises(Exception, match="UNAUTHENTICATED"):
        resource.session().range(5).count()
    resource.forget()
    assert resource.session().range(6).count() == 6
    resource.forget()
    shown = f"{resource!r}{resource.spark_config}{config!r}{caplog.text}"
    assert not [each for each in gateway.passes if each and each in shown]
    assert resource.spark_config["spark.remote"] == f"function {THIS}:asked"


@in_soak
@pytest.mark.stack
def test_a_function_that_fails_or_gives_an_old_pass_is_named(gateway, through, monkeypatch):
    resource = spark_resource(through("hooked-badly"))
    gateway.hook()
    old = {"url": f"sc://localhost:{gateway.port}", "headers": {HEADER: "old"}}
    monkeypatch.setattr(gateway, "hook", lambda: old)
    with pytest.raises(LoginRefusedError, match=f"function {THIS}:asked"):
        resource.session()
    monkeypatch.undo()
    with pytest.raises(UnreachableError, match=r"failed \(OSError\)") as caught:
        gateway_is_down(gateway, resource)
    assert gateway.passes[0] not in str(caught.value)


def gateway_is_down(gateway: Gateway, resource) -> None:
    global _GATEWAY
    gateway.is_down, _GATEWAY = True, gateway
    resource.session()
