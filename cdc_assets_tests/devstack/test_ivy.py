import pytest
from cdc_assets_devstack.ivy import missing_artifacts, retrieve
from cdc_assets_devstack.jars import MANIFESTS

from cdc_assets.errors import TransientError

UNRESOLVED = """
		module not found: org.apache.kafka#kafka_2.13;4.3.99
		::::::::::::::::::::::::::::::::::::::::::::::
		::          UNRESOLVED DEPENDENCIES         ::
		::::::::::::::::::::::::::::::::::::::::::::::
		:: org.apache.kafka#kafka_2.13;4.3.99: not found
		:: org.slf4j#slf4j-simple;1.7.36: not found
		::::::::::::::::::::::::::::::::::::::::::::::
:::: ERRORS
	Server access error at url https://example.org/x.pom (java.net.ConnectException: refused)
"""

FAILED = """
		::::::::::::::::::::::::::::::::::::::::::::::
		::              FAILED DOWNLOADS            ::
		:: ^ see resolution messages for details  ^ ::
		::::::::::::::::::::::::::::::::::::::::::::::
		:: com.github.luben#zstd-jni;1.5.6-10!zstd-jni.jar
		::::::::::::::::::::::::::::::::::::::::::::::
"""


@pytest.mark.unit
@pytest.mark.parametrize(
    ("printed", "missing"),
    [
        (UNRESOLVED, ("org.apache.kafka#kafka_2.13;4.3.99", "org.slf4j#slf4j-simple;1.7.36")),
        (FAILED, ("com.github.luben#zstd-jni;1.5.6-10!zstd-jni.jar",)),
        ("	[SUCCESSFUL ] org.slf4j#slf4j-api;1.7.36!slf4j-api.jar (17ms)", ()),
    ],
    ids=["unresolved", "failed-download", "all-well"],
)
def test_ivys_report_names_what_is_missing(printed, missing):
    assert missing_artifacts(printed.splitlines()) == missing


@pytest.mark.slow
def test_a_repository_that_does_not_answer_is_named_with_the_artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("CDC_ASSETS_MAVEN_REPOSITORY", "http://127.0.0.1:9/maven")
    with pytest.raises(TransientError) as caught:
        retrieve(MANIFESTS / "kafka.xml", tmp_path / "jars", tmp_path / "cache")
    message = str(caught.value)
    assert "org.apache.kafka#kafka_2.13;4.3.1" in message
    assert "http://127.0.0.1:9/maven" in message
    assert "cdc-assets stack install" in message
