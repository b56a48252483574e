"""Requests from a schema registry: several URLs, with limits on time, bytes and retries.

A request is tried at each URL in turn, and again after a while where the trouble may pass (no
connection, no reply in time, 408, 429, 5xx). Redirects are not followed: they could carry a login
elsewhere. No ``.netrc`` is read: its login would replace the configured one.

With ``oauth`` requests carry a token of OAuth 2.0's client credentials (RFC 6749, 4.4), which is
kept in memory only. A refused token is replaced with the next request.

No secret is shown: the text of a library's exception is never repeated, since it may contain URLs
with logins.
"""

from __future__ import annotations

import os
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Final, TypeGuard
from urllib.parse import quote, unquote, urlsplit

import requests
import urllib3
from requests.utils import get_environ_proxies
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from cdc_assets.changes.json_text import natural, read_object
from cdc_assets.config.schema_registry import OAuthConfig, SchemaRegistryConfig, is_http
from cdc_assets.config.secret import reveal
from cdc_assets.errors import (
    CdcError,
    ConfigError,
    LoginRefusedError,
    TerminalError,
    UnreachableError,
)

MAX_REPLY_BYTES: Final = 8 << 20
ROUNDS: Final = 4
"""Number of passes through all URLs."""

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 8
_CHUNK: Final = 1 << 16
_TRY_AGAIN: Final = frozenset({408, 429})
_HEADERS: Final = {
    "Accept": "application/vnd.schemaregistry.v1+json, application/json, */*;q=0.1",
    "Accept-Encoding": "identity",  # a compressed reply could grow beyond any bound
    "User-Agent": "cdc-assets",
}
_WRONG_TLS: Final = ("certificate verify failed", "pem", "x509", "no certificate", "mismatch")
_NATIVE: Final = "/apis/registry/v3"
_KEY: Final = "schema_registry"
_TOKEN_SECONDS: Final = 60
"""Validity of a token whose endpoint does not name one."""

_USED_SHARE: Final = 0.8
"""Share of a token's validity after which it is replaced."""

_OAUTH_ERRORS: Final = frozenset({
    "invalid_client", "invalid_grant", "invalid_request", "invalid_scope", "unauthorized_client",
    "unsupported_grant_type",
})  # fmt: skip
"""The refusals of RFC 6749, 5.2. Other words of an endpoint are not repeated."""


@dataclass(frozen=True, slots=True)
class NotFound:
    """The reply 404 of every URL that answered; ``body`` is that of the last one."""

    body: bytes


class _PassingError(Exception):
    """A failure that may pass; its text is part of our message."""

    name = "schema registry"
    url_key = f"{_KEY}.url"


class _TokenPassingError(_PassingError):
    name = "token endpoint"
    url_key = f"{_KEY}.oauth.token_url"


@dataclass(frozen=True, slots=True, repr=False)
class _RegistryServer:
    """A server, the headers for it, and its names in messages.

    Attributes:
        verify: the server's authorities; None for the session's.
    """

    url: str
    headers: Mapping[str, str]
    verify: str | bool | None = None
    name: str = _PassingError.name
    url_key: str = _PassingError.url_key
    tls_keys: str = f"{_KEY}.ca_file, .certificate_file, .key_file"

    def at(self, path: str, login: Mapping[str, str]) -> _RegistryServer:
        """Returns the server for a path, with another login if there is one."""
        return replace(self, url=f"{self.url}{path}", headers=login or self.headers)


class RegistryHttp:
    """The URLs of one registry. May be used from several threads.

    Args:
        config: secrets are read from the environment with each request.
        rounds: how often all URLs are tried.
    """

    def __init__(self, config: SchemaRegistryConfig, rounds: int = ROUNDS) -> None:
        self._config = config
        self._rounds = rounds
        self._answered = 0
        self._tokens = None if config.oauth is None else _Tokens(config.oauth)

    @property
    def shown(self) -> str:
        """The URLs without logins."""
        return ", ".join(server.url for server in self._servers())

    def get(self, path: str, where: str) -> bytes | NotFound:
        """Returns the reply to one request.

        Args:
            path: what follows the configured URLs.
            where: coordinates for messages.

        Raises:
            UnreachableError: no URL gave a reply.
            TerminalError: one refuses, redirects, or replies with more than `MAX_REPLY_BYTES`.
            ConfigError: a secret is missing, or the settings cannot be used.
        """
        attempts = Retrying(
            stop=stop_after_attempt(self._rounds),
            wait=wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS),
            retry=retry_if_exception_type(_PassingError),
            reraise=True,
        )
        try:
            return attempts(self._round, path, where)
        except _PassingError as error:
            what = f"the {error.name} does not answer ({error})"
            remedy = f"check that it runs and that {error.url_key} names it"
            remedy = f"{remedy}; known schemas stay usable"
            raise UnreachableError(what, where=where, remedy=remedy) from None

    def _round(self, path: str, where: str) -> bytes | NotFound:
        """Tries each URL once, first the one that answered last."""
        servers = self._servers()
        missing: NotFound | None = None
        passing: _PassingError | None = None
        with self._session() as session:
            login = self._login(session, where)
            for step in range(len(servers)):
                number = (self._answered + step) % len(servers)
                try:
                    found = self._ask(session, servers[number].at(path, login), where)
                except _PassingError as error:
                    passing = error
                    continue
                self._answered = number
                if not isinstance(found, NotFound):
                    return found
                missing = found
        if missing is None:
            raise passing or _PassingError("no URL")
        return missing

    def _login(self, session: requests.Session, where: str) -> Mapping[str, str]:
        """Returns OAuth's headers; none without OAuth."""
        if self._tokens is None:
            return {}
        try:
            return self._tokens.headers(partial(self._send, session, where), where)
        except _PassingError as error:
            raise _TokenPassingError(*error.args) from None

    def _ask(
        self, session: requests.Session, server: _RegistryServer, where: str
    ) -> bytes | NotFound:
        status, body = self._send(session, where, server)
        if status in {200, 404}:
            return NotFound(body) if status == 404 else body
        if self._tokens is not None:
            self._tokens.forget()
        raise _refusal(status, where, with_oauth=self._tokens is not None)

    def _send(
        self,
        session: requests.Session,
        where: str,
        server: _RegistryServer,
        form: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Returns the status and body of a reply to a GET, or to a form that is posted."""
        with _translated(server, where):
            response = session.request(
                "GET" if form is None else "POST",
                server.url,
                headers=server.headers,
                data=form,
                verify=server.verify,
                timeout=self._config.timeout_seconds,
                proxies=_proxies(server.url),
                allow_redirects=False,
                stream=True,
            )
        with response:
            status = response.status_code
            if status in _TRY_AGAIN or status >= 500:
                text = f"HTTP {status}"
                raise _PassingError(text)
            if status not in ({200, 404} if form is None else {200, 400, 401}):
                return status, b""
            with _translated(server, where):
                return status, self._body(response, server, where)

    def _body(self, response: requests.Response, server: _RegistryServer, where: str) -> bytes:
        deadline = time.monotonic() + self._config.timeout_seconds
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                what = f"the {server.name} replies with more than {MAX_REPLY_BYTES:,} bytes"
                remedy = f"does {server.url_key} name a {server.name}?"
                raise TerminalError(what, where=where, remedy=remedy)
            if time.monotonic() > deadline:
                text = "its reply takes too long"
                raise _PassingError(text)
        announced = response.headers.get("Content-Length", "")
        if announced.isdecimal() and len(body) < int(announced):
            text = "its reply was cut off"
            raise _PassingError(text)
        return bytes(body)

    def _session(self) -> requests.Session:
        config = self._config
        session = requests.Session()
        session.trust_env = False
        session.headers.clear()
        session.headers.update(_HEADERS)
        session.verify = _authorities(config.ca_file, "ca_file")
        certificate = _readable(config.certificate_file, "certificate_file")
        key = _readable(config.key_file, "key_file")
        session.cert = (certificate, key) if certificate and key else certificate
        return session

    def _servers(self) -> list[_RegistryServer]:
        authorization = _authorization(self._config)
        suffix = _NATIVE if self._config.api == "apicurio" else ""
        return [_server(reveal(url), authorization, suffix) for url in self._config.urls]


class _Tokens:
    """The tokens of one OAuth client. May be used from several threads."""

    def __init__(self, config: OAuthConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._token = ""
        self._until = 0.0

    def headers(
        self, send: Callable[[_RegistryServer, Mapping[str, str]], tuple[int, bytes]], where: str
    ) -> dict[str, str]:
        """Returns the headers of a request; asks for another token before one becomes invalid."""
        config = self._config
        with self._lock:
            if time.monotonic() >= self._until:
                self._token, seconds = _issued(*send(self._endpoint(), self._form()), where)
                self._until = time.monotonic() + _USED_SHARE * seconds
            given = {
                "Authorization": f"Bearer {self._token}",
                "target-sr-cluster": config.logical_cluster,
                "Confluent-Identity-Pool-Id": config.identity_pool,
            }
        return {name: value for name, value in given.items() if value is not None}

    def forget(self) -> None:
        """Makes the next request ask for another token."""
        self._until = 0.0

    def _form(self) -> dict[str, str]:
        scope = {} if self._config.scope is None else {"scope": self._config.scope}
        return {"grant_type": "client_credentials", **scope}

    def _endpoint(self) -> _RegistryServer:
        config = self._config
        login = (quote(text, safe="") for text in (config.client_id, config.client_secret.reveal()))
        return _RegistryServer(
            config.token_url,
            {"Authorization": _basic(*login)},
            _authorities(config.ca_file, "oauth.ca_file"),
            _TokenPassingError.name,
            _TokenPassingError.url_key,
            f"{_KEY}.oauth.ca_file",
        )


def _issued(status: int, body: bytes, where: str) -> tuple[str, int]:
    """Returns the token in an endpoint's reply, and the seconds for which it is valid."""
    said = read_object(body)
    if status in {400, 401, 403}:
        word = str(said.get("error"))
        why = f"HTTP {status}: {word}" if word in _OAUTH_ERRORS else f"HTTP {status}"
        what = f"the token endpoint refused the login ({why})"
        remedy = f"renew {_KEY}.oauth.client_secret; check .client_id, .scope, .token_url"
        raise LoginRefusedError(what, where=where, remedy=remedy)
    token, kind = said.get("access_token"), str(said.get("token_type", "bearer"))
    if status != 200 or not _is_token(token) or kind.lower() != "bearer":
        what = f"the token endpoint's reply holds no bearer token (HTTP {status})"
        remedy = f"does {_KEY}.oauth.token_url name a token endpoint?"
        raise TerminalError(what, where=where, remedy=remedy)
    seconds = natural(said.get("expires_in"))
    return token, _TOKEN_SECONDS if seconds is None else seconds


def _is_token(text: object) -> TypeGuard[str]:
    """Returns whether a value is a text that a header can carry as a token."""
    return isinstance(text, str) and re.fullmatch("[!-~]+", text) is not None


def _server(url: str, authorization: str | None, suffix: str) -> _RegistryServer:
    """Returns the server of a URL; a login in the URL counts if no other is configured."""
    if not is_http(url):
        msg = "a URL is not one of http:// or https://"
        raise ConfigError(msg, where=f"{_KEY}.url", remedy="for example http://127.0.0.1:8081")
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    if authorization is None and parts.username is not None:
        authorization = _basic(unquote(parts.username), unquote(parts.password or ""))
    headers = {} if authorization is None else {"Authorization": authorization}
    return _RegistryServer(
        bare if "/apis/registry/" in f"{parts.path}/" else bare + suffix, headers
    )


def _authorization(config: SchemaRegistryConfig) -> str | None:
    if config.username is not None and config.password is not None:
        return _basic(config.username, config.password.reveal())
    if config.token is None:
        return None
    token = config.token.reveal()
    if not _is_token(token):
        msg = "the token holds characters that a header cannot"
        remedy = f"look for a line break at the end of {config.token.place}"
        raise ConfigError(msg, where=f"{_KEY}.token", remedy=remedy)
    return f"Bearer {token}"


def _basic(username: str, password: str) -> str:
    """Encodes in UTF-8, unlike the library's own function, which cannot write every password."""
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


def _proxies(url: str) -> dict[str, str]:
    """Returns the environment's proxies; none for this machine."""
    host = urlsplit(url).hostname or ""
    try:
        is_local = ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    return {} if is_local else dict(get_environ_proxies(url))


def _authorities(file: Path | None, key: str) -> str | bool:
    bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    return _readable(file, key) or bundle or True


def _readable(file: Path | None, key: str) -> str | None:
    if file is None:
        return None
    try:
        with file.open("rb"):
            return str(file)
    except OSError as error:
        msg = f"cannot read a file ({type(error).__name__})"
        raise ConfigError(msg, where=f"{_KEY}.{key}", remedy=f"check {file}") from None


@contextmanager
def _translated(server: _RegistryServer, where: str) -> Generator[None]:
    try:
        yield
    except requests.exceptions.SSLError as error:
        if any(word in str(error).lower() for word in _WRONG_TLS):
            what = f"the {server.name} refused the login (its certificate, or ours)"
            remedy = f"renew the certificate; check {server.tls_keys}"
            raise LoginRefusedError(what, where=where, remedy=remedy) from None
        text = "TLS failed"
        raise _PassingError(text) from None
    except requests.exceptions.ProxyError:
        text = "the proxy of the environment does not answer"
        raise _PassingError(text) from None
    except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
        raise _PassingError(type(error).__name__) from None
    except requests.exceptions.RequestException as error:
        msg = f"the registry's settings cannot be used ({type(error).__name__})"
        raise ConfigError(msg, where=where, remedy=f"check {_KEY}") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise _PassingError(type(error).__name__) from None


def _refusal(status: int, where: str, *, with_oauth: bool) -> CdcError:
    if status in {401, 403, 407}:
        what = f"the schema registry refused the login (HTTP {status})"
        remedy = f"renew {_KEY}.password or .token; check .username, and what they may read"
        if with_oauth:
            remedy = f"check what {_KEY}.oauth.client_id may read, and .scope, .logical_cluster, "
            remedy = f"{remedy}.identity_pool"
        return LoginRefusedError(what, where=where, remedy=remedy)
    if 300 <= status < 400:
        what = f"the schema registry's URL redirects elsewhere (HTTP {status})"
        remedy = f"write the URL that it leads to under {_KEY}.url"
    else:
        what = f"the schema registry refuses the request (HTTP {status})"
        remedy = f"does {_KEY}.url name a schema registry, and {_KEY}.api the one that it is?"
    return TerminalError(what, where=where, remedy=remedy)
