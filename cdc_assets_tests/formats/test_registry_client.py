"""The schema registry's client, against a real HTTP server that does what registries may do."""

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.config.schema_registry import SchemaRegistryConfig
from cdc_assets.errors import ConfigError, LoginRefusedError, TerminalError, UnreachableError
from cdc_assets.formats import registry_http
from cdc_assets.formats.registry import SchemaRegistry
from cdc_assets.formats.registry_http import MAX_REPLY_BYTES
from cdc_assets.formats.wire_id import IdKind, SchemaId
from cdc_assets.schema.avro import connect_schema
from cdc_assets.schema.connect import describe_envelope
from cdc_assets_tests.formats.registry_server import Reply, document, running, schema_reply

SECRET = "hunter2-and-more"
PATH = "/schemas/ids/7"
GOLDEN = Path(__file__).parent / "golden"


def record(name, **fields):
    listed = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


KEY = record("Key", id="long")


@pytest.fixture
def server():
    with running() as registry:
        yield registry


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(registry_http, "FIRST_WAIT_SECONDS", 0.01)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def client(*urls, rounds=2, **keys):
    given = {"url": list(urls), "timeout_seconds": 20, **keys}
    return SchemaRegistry(SchemaRegistryConfig.model_validate(given), rounds)


def nowhere():
    """A URL where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def failure(registry, kind, schema_id=None):
    with pytest.raises(kind) as caught:
        registry.schema(schema_id or SchemaId(7), "shop.public.orders")
    error = caught.value
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert SECRET not in str(error)
    return error


@pytest.mark.unit
def test_a_schema_is_asked_for_once(server):
    server.replies[PATH] = schema_reply(KEY)
    registry = client(server.url + "/")
    found = [registry.schema(SchemaId(7), "t") for _ in range(3)]
    assert found == [KEY] * 3
    assert server.paths == [PATH]


@pytest.mark.unit
def test_a_known_schema_is_there_while_the_registry_is_not():
    with running() as server:
        server.replies[PATH] = schema_reply(KEY)
        registry = client(server.url)
        registry.schema(SchemaId(7), "t")
    assert registry.schema(SchemaId(7), "t") == KEY
    error = failure(registry, UnreachableError, SchemaId(8))
    assert server.url in error.where
    assert "topic=shop.public.orders schema_id=8" in error.where
    assert "schema_registry.url" in error.remedy


@pytest.mark.unit
def test_threads_share_what_is_known(server):
    server.replies |= {f"/schemas/ids/{n}": schema_reply(KEY) for n in range(1, 9)}
    registry, found = client(server.url), []

    def read():
        found.extend(registry.schema(SchemaId(n), "t") for n in range(1, 9))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert found == [KEY] * 48


@pytest.mark.unit
@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_what_may_pass_is_tried_again(server, status):
    server.replies[PATH] = [Reply(status, b"busy"), schema_reply(KEY)]
    assert client(server.url).schema(SchemaId(7), "t") == KEY
    assert server.paths == [PATH, PATH]


@pytest.mark.slow
@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, b"boom"),
        Reply(hangs=True),
        Reply(200, b'{"schema":', announced=500, hangs_amid=True),
        Reply(200, b'{"schema": "', announced=500),
        Reply(200, b" " * 1000, drips=True),
    ],
    ids=["500", "silent", "hangs amid its reply", "cut off", "a byte at a time"],
)
def test_repetitions_are_bounded(server, reply):
    server.replies[PATH] = reply
    error = failure(client(server.url, rounds=3, timeout_seconds=0.4), UnreachableError)
    assert "does not answer" in error.what
    assert server.paths == [PATH] * 3


@pytest.mark.unit
def test_several_urls_are_tried_in_turn(server):
    server.replies[PATH] = schema_reply(KEY)
    with running() as broken:
        broken.replies[PATH] = Reply(500)
        registry = client(nowhere(), broken.url, server.url, rounds=1)
        assert registry.schema(SchemaId(7), "t") == KEY
        server.replies["/schemas/ids/8"] = schema_reply("string")
        assert registry.schema(SchemaId(8), "t") == "string"
        assert broken.paths == [PATH]  # the one that answered comes first


@pytest.mark.unit
def test_an_id_that_one_url_does_not_know_yet_is_asked_for_at_the_next(server):
    server.replies[PATH] = schema_reply(KEY)
    with running() as behind:
        assert client(behind.url, server.url).schema(SchemaId(7), "t") == KEY
        assert behind.paths == [PATH]


@pytest.mark.unit
def test_an_unknown_id_names_id_registry_topic_and_what_to_do(server):
    error = failure(client(server.url), TerminalError)
    assert not isinstance(error, ConfigError)
    assert "does not know the schema id" in error.what
    assert error.where == f"registry={server.url} topic=shop.public.orders schema_id=7"
    assert "the connector writes to" in error.remedy
    assert server.paths == [PATH]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(302, headers={"Location": "http://127.0.0.1:1/"}), "redirects elsewhere"),
        (Reply(307, headers={"Location": "/elsewhere"}), "redirects elsewhere"),
        (Reply(400), "refuses the request (HTTP 400)"),
        (Reply(204), "refuses the request (HTTP 204)"),
        (Reply(404, b"<html>nginx</html>"), "not as a schema registry does"),
        (document({"error_code": 404, "message": "HTTP 404"}, 404), "not as a schema registry"),
        (Reply(200, b"<html>welcome</html>"), "not of a schema registry"),
        (Reply(200, b""), "not of a schema registry"),
        (Reply(200, b"\xff\xfe"), "not of a schema registry"),
        (document([]), "not of a schema registry"),
        (document({"schema": {"type": "int"}}), "not of a schema registry"),
        (document({"schema": "{"}), "is no JSON"),
        (document({"schema": "[" * 99_999}), "is no JSON"),
        (document({"schema": '{"type": "nonsense"}'}), "'nonsense'"),
        (document({"schema": "syntax = proto3", "schemaType": "PROTOBUF"}), "not of type AVRO"),
        (document({"schema": "{}", "schemaType": "JSON"}), "not of type AVRO"),
        (schema_reply(KEY, references=7), "references that are no list"),
        (schema_reply(KEY, references=[{"subject": "x"}]), "without subject and version"),
        (
            schema_reply(KEY, references=[{"subject": "x", "version": 1}]),
            "what the schema refers to",
        ),
        (Reply(200, b" " * (MAX_REPLY_BYTES + 1)), "more than 8,388,608 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.status} {value.body[:20]}",
)
def test_replies_that_no_repetition_mends(server, reply, words):
    server.replies[PATH] = reply
    error = failure(client(server.url), TerminalError)
    assert words in error.what
    assert "schema_id=7" in error.where
    assert error.remedy
    assert server.paths[0] == PATH
    assert server.paths.count(PATH) == 1


@pytest.mark.unit
@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_refused_login_is_named_and_not_repeated_until_the_next_attempt(server, status):
    server.replies[PATH] = Reply(status)
    registry = client(server.url)
    error = failure(registry, LoginRefusedError)
    assert error.what == f"the schema registry refused the login (HTTP {status})"
    assert server.paths == [PATH]

    server.replies[PATH] = schema_reply(KEY)
    assert registry.schema(SchemaId(7), "t") == KEY


@pytest.mark.unit
def test_a_reply_just_within_the_bound_is_read(server):
    reply = schema_reply(KEY)
    reply.body += b" " * (MAX_REPLY_BYTES - len(reply.body))
    server.replies[PATH] = reply
    assert client(server.url).schema(SchemaId(7), "t") == KEY


@pytest.mark.unit
def test_what_confluents_schemas_refer_to_is_read_and_written_in(server):
    """Each version once, the deepest first; the same one by two ways."""
    block = record("event.block", n="long")
    row = record("shop.Value", id="int", b="event.block")
    envelope = record("shop.Envelope", after=["null", "Value"], t="event.block")
    to_block = {"name": "event.block", "subject": "a/block", "version": 2}
    to_row = {"name": "shop.Value", "subject": "shop.Value", "version": 1}
    server.replies |= {
        PATH: schema_reply(envelope, references=[to_row, to_block]),
        "/subjects/shop.Value/versions/1": schema_reply(row, references=[to_block]),
        "/subjects/a%2Fblock/versions/2": schema_reply(block, references=[]),
    }
    found = client(server.url).schema(SchemaId(7), "t")
    assert describe_envelope(connect_schema(found)).names == ("id", "b")
    assert sorted(server.paths) == sorted(server.replies)


@pytest.mark.unit
def test_references_in_a_circle_or_without_end_are_refused(server):
    server.replies[PATH] = schema_reply("x.Y", references=[{"subject": "s", "version": 1}])
    server.replies["/subjects/s/versions/1"] = schema_reply(
        "x.Y", references=[{"subject": "s", "version": 1}]
    )
    assert "'x.Y', which is not defined" in failure(client(server.url), TerminalError).what
    for n in range(1, 99):
        server.replies[f"/subjects/s/versions/{n}"] = schema_reply(
            "int", references=[{"subject": "s", "version": n + 1}]
        )
    assert "too deep" in failure(client(server.url), TerminalError).what


@pytest.mark.unit
@pytest.mark.parametrize(
    ("schema_id", "keys", "path"),
    [
        (SchemaId(7, IdKind.CONTENT), {}, "/ids/contentIds/7"),
        (SchemaId(7, IdKind.GLOBAL), {"ids": "content"}, "/ids/globalIds/7"),
        (SchemaId(7), {"ids": "content"}, "/ids/contentIds/7"),
        (SchemaId(7), {"ids": "global"}, "/ids/globalIds/7"),
    ],
    ids=str,
)
def test_apicurio_is_asked_by_the_kind_of_id(server, schema_id, keys, path):
    base = "/apis/registry/v3"
    server.replies |= {
        f"{base}{path}": document(["null", "a.B"]),
        f"{base}{path}/references": document(
            [{"groupId": None, "artifactId": "a.B", "version": "1", "name": "a.B"}]
        ),
        f"{base}/groups/default/artifacts/a.B/versions/1/content": document(
            {"type": "fixed", "name": "a.B", "size": 2}
        ),
        f"{base}/groups/default/artifacts/a.B/versions/1/references": document([]),
    }
    for url in (server.url, f"{server.url}{base}"):
        found = client(url, api="apicurio", **keys).schema(schema_id, "t")
        assert found == ["null", {"type": "fixed", "name": "a.B", "size": 2}]


@pytest.mark.unit
def test_apicurios_word_on_an_unknown_id_is_understood(server):
    missing = {"name": "ContentNotFoundException", "status": 404, "title": "No content"}
    server.replies["/apis/registry/v3/ids/contentIds/7"] = document(missing, 404)
    registry = client(server.url, api="apicurio", ids="content")
    assert "does not know" in failure(registry, TerminalError).what


@pytest.mark.unit
@pytest.mark.parametrize(
    ("references", "words"),
    [
        (document({}), "no list"),
        (Reply(200, b"<html>"), "no list"),
        (document([{"artifactId": "x"}]), "without artifact and version"),
        (document([7]), "without artifact and version"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.body),
)
def test_malformed_references_of_apicurio_are_refused(server, references, words):
    path = "/apis/registry/v3/ids/contentIds/7"
    server.replies |= {path: document(KEY), f"{path}/references": references}
    registry = client(server.url, api="apicurio", ids="content")
    assert words in failure(registry, TerminalError).what


@pytest.mark.unit
@pytest.mark.parametrize(
    ("keys", "schema_id", "words"),
    [
        ({}, SchemaId(7, IdKind.GLOBAL), "api: apicurio"),
        ({"api": "apicurio"}, SchemaId(7), "schema_registry.ids"),
    ],
    ids=["headers without api", "prefix without ids"],
)
def test_ids_that_do_not_fit_the_configuration_are_not_guessed(server, keys, schema_id, words):
    assert words in failure(client(server.url, **keys), ConfigError, schema_id).remedy
    assert not server.asked


@pytest.mark.unit
@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ({"username": "me", "password": {"env": "PW"}}, "Basic bWU6aHVudGVyMi1hbmQtbW9yZQ=="),
        ({"token": {"env": "PW"}}, f"Bearer {SECRET}"),
        ({}, None),
    ],
    ids=["basic", "bearer", "none"],
)
def test_the_login_is_sent_and_never_shown(server, monkeypatch, tmp_path, keys, sent):
    (tmp_path / ".netrc").write_text("default login other password other\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PW", SECRET)
    registry = client(server.url, **keys)
    failure(registry, TerminalError)
    assert [headers.get("Authorization") for _, headers in server.asked] == [sent]
    server.replies[PATH] = Reply(401)
    failure(registry, LoginRefusedError)


@pytest.mark.unit
def test_a_login_in_the_url_is_sent_and_never_shown(server, monkeypatch):
    monkeypatch.setenv("URL", server.url.replace("//", f"//me:{SECRET}%21@"))
    registry = client({"env": "URL"})
    assert f"registry={server.url} " in failure(registry, TerminalError).where
    (_, headers) = server.asked[0]
    assert headers["Authorization"] == "Basic bWU6aHVudGVyMi1hbmQtbW9yZSE="
    monkeypatch.setenv("URL", nowhere().replace("//", f"//me:{SECRET}@"))
    failure(registry, UnreachableError)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (
            {"token": {"env": "PW"}},
            f"{SECRET}\n",
            "line break at the end of environment variable PW",
        ),
        ({"token": {"env": "PW"}}, "", "PW is not set"),
        ({"url": {"env": "PW"}}, f"{SECRET}", "http://"),
        ({"ca_file": "/nowhere/ca.pem"}, "", "/nowhere/ca.pem"),
    ],
    ids=["token with a line break", "no token", "no URL", "no file"],
)
def test_settings_that_cannot_be_used_are_named(server, monkeypatch, keys, value, words):
    monkeypatch.setenv("PW", value)
    given = {"url": server.url, **keys}
    registry = SchemaRegistry(SchemaRegistryConfig.model_validate(given), 1)
    assert words in str(failure(registry, ConfigError))
    assert not server.asked


TOKEN = "/oauth2/token"
ISSUED = {"access_token": f"{SECRET}.1", "token_type": "Bearer", "expires_in": 3600}


def oauth_client(server, monkeypatch, **keys):
    monkeypatch.setenv("CLIENT_SECRET", f"{SECRET}:%")
    login = {"token_url": server.url + TOKEN, "client_id": "me:x"}
    login |= {"client_secret": {"env": "CLIENT_SECRET"}, **keys}
    return client(server.url, oauth=login)


def known(server, *numbers):
    server.replies |= {f"/schemas/ids/{n}": schema_reply(KEY) for n in numbers}


def sent(server, path):
    return [headers.get("Authorization") for asked, headers in server.asked if asked == path]


@pytest.mark.unit
def test_a_token_of_oauth_is_asked_for_once_and_sent_with_each_request(server, monkeypatch):
    known(server, 7, 8)
    server.replies[TOKEN] = document(ISSUED)
    registry = oauth_client(
        server, monkeypatch, scope="read all", logical_cluster="lsrc-1", identity_pool="pool-2"
    )
    for number in (7, 8):
        assert registry.schema(SchemaId(number), "t") == KEY
    assert server.paths == [TOKEN, PATH, "/schemas/ids/8"]
    assert server.forms == ["grant_type=client_credentials&scope=read+all"]
    login = b64encode(f"me%3Ax:{SECRET}%3A%25".encode()).decode()
    assert sent(server, TOKEN) == [f"Basic {login}"]
    (_, headers) = server.asked[1]
    assert headers["Authorization"] == f"Bearer {SECRET}.1"
    assert (headers["target-sr-cluster"], headers["Confluent-Identity-Pool-Id"]) == (
        "lsrc-1", "pool-2",
    )  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize(
    ("valid", "passed", "asked"),
    [(100, 79, 1), (100, 81, 2), (None, 47, 1), (None, 49, 2), (0, 0, 2), ("many", 49, 2)],
    ids=str,
)
def test_a_token_is_replaced_before_it_is_invalid(server, monkeypatch, valid, passed, asked):
    known(server, 7, 8)
    server.replies[TOKEN] = document({**ISSUED, "expires_in": valid})
    registry = oauth_client(server, monkeypatch)
    registry.schema(SchemaId(7), "t")
    begun = time.monotonic()
    monkeypatch.setattr(registry_http.time, "monotonic", lambda: begun + passed)
    registry.schema(SchemaId(8), "t")
    assert server.paths.count(TOKEN) == asked


@pytest.mark.unit
def test_a_refused_token_is_replaced_at_the_next_attempt(server, monkeypatch):
    server.replies |= {TOKEN: document(ISSUED), PATH: [Reply(401), schema_reply(KEY)]}
    registry = oauth_client(server, monkeypatch)
    error = failure(registry, LoginRefusedError)
    assert error.what == "the schema registry refused the login (HTTP 401)"
    assert "schema_registry.oauth.client_id" in error.remedy
    server.replies[TOKEN] = document({**ISSUED, "access_token": "other"})
    assert registry.schema(SchemaId(7), "t") == KEY
    assert sent(server, PATH) == [f"Bearer {SECRET}.1", "Bearer other"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        (document({"error": "invalid_client"}, 401), LoginRefusedError, "(HTTP 401: invalid_cl"),
        (document({"error": "invalid_scope"}, 400), LoginRefusedError, "(HTTP 400: invalid_scope)"),
        (document({"error": SECRET}, 400), LoginRefusedError, "refused the login (HTTP 400)"),
        (document({"error": [SECRET]}, 400), LoginRefusedError, "refused the login (HTTP 400)"),
        (Reply(403), LoginRefusedError, "refused the login (HTTP 403)"),
        (Reply(302, headers={"Location": "/other"}), TerminalError, "no bearer token (HTTP 302)"),
        (Reply(404), TerminalError, "no bearer token (HTTP 404)"),
        (Reply(200, b"<html>"), TerminalError, "no bearer token (HTTP 200)"),
        (document({"access_token": f"{SECRET}\n"}), TerminalError, "no bearer token"),
        (document({"access_token": ""}), TerminalError, "no bearer token"),
        (document({**ISSUED, "token_type": "mac"}), TerminalError, "no bearer token"),
        (Reply(200, b" " * (MAX_REPLY_BYTES + 1)), TerminalError, "the token endpoint replies"),
    ],
    ids=lambda value: f"{value.status} {value.body[:30]}" if isinstance(value, Reply) else "",
)  # fmt: skip
def test_an_endpoint_that_issues_no_token_is_named(server, monkeypatch, reply, kind, words):
    server.replies[TOKEN] = reply
    error = failure(oauth_client(server, monkeypatch), kind)
    assert words in error.what
    assert "schema_id=7" in error.where
    assert "schema_registry.oauth." in error.remedy
    assert server.paths == [TOKEN]


@pytest.mark.unit
def test_an_endpoint_that_does_not_answer_is_asked_again_and_named(server, monkeypatch):
    known(server, 7)
    server.replies[TOKEN] = [Reply(503), document(ISSUED)]
    assert oauth_client(server, monkeypatch).schema(SchemaId(7), "t") == KEY
    server.replies[TOKEN] = Reply(503)
    error = failure(oauth_client(server, monkeypatch), UnreachableError)
    assert error.what == "the token endpoint does not answer (HTTP 503)"
    assert "schema_registry.oauth.token_url" in error.remedy
    assert server.paths == [TOKEN, TOKEN, PATH, TOKEN, TOKEN]


@pytest.mark.unit
def test_no_proxy_stands_before_this_machine(server, monkeypatch):
    server.replies[PATH] = schema_reply(KEY)
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{SECRET}@127.0.0.1:1")
    assert client(server.url).schema(SchemaId(7), "t") == KEY
    failure(client("http://registry.invalid", rounds=1), UnreachableError)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Files of an authority of our own: ``ca``, and ``server`` and ``client`` signed by it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is not there")
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ("-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl("req", "-x509", *new, "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl(
            "req", *new[:3], "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr"
        )
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-CAcreateserial", "-extfile", "names", "-out", f"{name}.pem",
        )  # fmt: skip
    return folder


def tls_of(folder, *, asks_clients=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if asks_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    return context


@pytest.mark.slow
def test_a_certificate_of_our_own_authority_is_trusted_by_file_only(certificates):
    with running(tls_of(certificates)) as server:
        server.replies[PATH] = schema_reply(KEY)
        ca: dict[str, Any] = {"ca_file": str(certificates / "ca.pem")}
        trusting = client(server.url, **ca)
        assert trusting.schema(SchemaId(7), "t") == KEY
        assert "refused the login" in failure(client(server.url), LoginRefusedError).what
        assert "ca_file" in failure(client(server.url), LoginRefusedError).remedy
        named = client(
            server.url.replace("127.0.0.1", "localhost"), ca_file=str(certificates / "ca.pem")
        )
        assert "refused the login" in failure(named, LoginRefusedError).what


@pytest.mark.slow
def test_a_registry_that_asks_for_a_certificate_gets_ours(certificates):
    ca: dict[str, Any] = {"ca_file": str(certificates / "ca.pem")}
    ours: dict[str, Any] = {
        "certificate_file": str(certificates / "client.pem"),
        "key_file": str(certificates / "client.key"),
    }
    with running(tls_of(certificates, asks_clients=True)) as server:
        server.replies[PATH] = schema_reply(KEY)
        assert client(server.url, **ca, **ours).schema(SchemaId(7), "t") == KEY
        failure(client(server.url, **ca), UnreachableError)
        wrong = {**ours, "key_file": str(certificates / "server.key")}
        failure(client(server.url, **ca, **wrong), LoginRefusedError)


@pytest.mark.slow
def test_the_certificate_of_an_endpoint_is_checked_by_its_own_authorities(
    certificates, server, monkeypatch
):
    known(server, 7)
    ca = str(certificates / "ca.pem")
    with running(tls_of(certificates)) as endpoint:
        endpoint.replies[TOKEN] = document(ISSUED)
        login = {"token_url": endpoint.url + TOKEN, "ca_file": ca}
        assert oauth_client(server, monkeypatch, **login).schema(SchemaId(7), "t") == KEY
        error = failure(
            oauth_client(server, monkeypatch, token_url=endpoint.url + TOKEN), LoginRefusedError
        )
        assert "the token endpoint refused the login (its certificate" in error.what
        assert error.remedy.endswith("check schema_registry.oauth.ca_file")


@pytest.mark.unit
@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the recordings of Debezium are not there")
def test_schemas_that_apicurio_registered_in_parts_are_put_together(server):
    recorded = json.loads((GOLDEN / "debezium_avro_apicurio.json").read_text())["artifacts"]
    for name, versions in recorded.items():
        for each in versions:
            listed = [
                {
                    **reference,
                    "subject": reference["artifactId"],
                    "version": int(reference["version"]),
                }
                for reference in each["references"]
            ]
            reply = schema_reply(json.loads(each["schema"]), references=listed)
            server.replies[f"/schemas/ids/{each['contentId']}"] = reply
            server.replies[f"/subjects/{name}/versions/{each['version']}"] = reply
    registry = client(server.url)

    def columns(name):
        found = registry.schema(SchemaId(recorded[name][-1]["contentId"]), "t")
        return describe_envelope(connect_schema(found)).columns

    for table in ("kinds", "orders", "ended"):
        whole, parts = (
            columns(f"eight.public.{table}-value"),
            columns(f"references.public.{table}-value"),
        )
        assert whole == parts
        assert whole


@pytest.mark.unit
def test_the_references_of_one_schema_are_bounded_together(server, monkeypatch):
    monkeypatch.setattr("cdc_assets.formats.registry.MAX_BYTES", 4_000)
    parts = [{"name": f"x.P{n}", "subject": f"p{n}", "version": 1} for n in range(9)]
    server.replies[PATH] = schema_reply(KEY, references=parts)
    for n in range(9):
        part = schema_reply({"type": "fixed", "name": f"x.P{n}", "size": 1})
        part.body += b" " * 900
        server.replies[f"/subjects/p{n}/versions/1"] = part
    assert (
        "larger than 4,000 bytes with its references"
        in failure(client(server.url), TerminalError).what
    )
    assert len(server.paths) <= 6
