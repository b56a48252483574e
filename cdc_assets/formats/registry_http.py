"""Requests from a schema registry: several URLs, with limits on time, bytes and retries.

A request is tried at each URL in turn, and again after a while where the trouble may pass (no
connection, no reply in time, 408, 429, 5xx). Redirects are not followed: they could carry a login
elsewhere. No ``.netrc`` is read: its login would replace the configured one.

No secret is shown: the text of a library's exception is never repeated, since it may contain URLs
with logins.
"""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import requests
import urllib3
from requests.utils import get_environ_proxies
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from cdc_assets.config.schema_registry import SchemaRegistryConfig, is_http
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


@dataclass(frozen=True, slots=True)
class NotThere:
    """The reply 404 of every URL that answered; ``body`` is that of the last one."""

    body: bytes


class _PassingError(Exception):
    """A failure that may pass; its text is part of our message."""


@dataclass(frozen=True, slots=True, repr=False)
class _Server:
    url: str
    headers: Mapping[str, str]


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

    @property
    def shown(self) -> str:
        """The URLs without logins."""
        return ", ".join(server.url for server in self._servers())

    def get(self, path: str, where: str) -> bytes | NotThere:
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
            what = f"the schema registry does not answer ({error})"
            remedy = f"check that it runs and that {_KEY}.url names it; known schemas stay usable"
            raise UnreachableError(what, where=where, remedy=remedy) from None

    def _round(self, path: str, where: str) -> bytes | NotThere:
        """Tries each URL once, first the one that answered last."""
        servers = self._servers()
        missing: NotThere | None = None
        passing: _PassingError | None = None
        with self._session() as session:
            for step in range(len(servers)):
                number = (self._answered + step) % len(servers)
                try:
                    found = self._ask(session, servers[number], path, where)
                except _PassingError as error:
                    passing = error
                    continue
                self._answered = number
                if not isinstance(found, NotThere):
                    return found
                missing = found
        if missing is None:
            raise passing or _PassingError("no URL")
        return missing

    def _ask(
        self, session: requests.Session, server: _Server, path: str, where: str
    ) -> bytes | NotThere:
        with _translated(where):
            response = session.get(
                f"{server.url}{path}",
                headers=server.headers,
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
            if status not in {200, 404}:
                raise _refusal(status, where)
            with _translated(where):
                body = self._body(response, where)
        return NotThere(body) if status == 404 else body

    def _body(self, response: requests.Response, where: str) -> bytes:
        deadline = time.monotonic() + self._config.timeout_seconds
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK, decode_content=False):
            body += chunk
            if len(body) > MAX_REPLY_BYTES:
                what = f"the schema registry replies with more than {MAX_REPLY_BYTES:,} bytes"
                remedy = f"does {_KEY}.url name a schema registry?"
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
        bundle = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
        session.verify = _readable(config.ca_file, "ca_file") or bundle or True
        certificate = _readable(config.certificate_file, "certificate_file")
        key = _readable(config.key_file, "key_file")
        session.cert = (certificate, key) if certificate and key else certificate
        return session

    def _servers(self) -> list[_Server]:
        authorization = _authorization(self._config)
        suffix = _NATIVE if self._config.api == "apicurio" else ""
        return [_server(reveal(url), authorization, suffix) for url in self._config.url]


def _server(url: str, authorization: str | None, suffix: str) -> _Server:
    """Returns the server of a URL; a login in the URL counts if no other is configured."""
    if not is_http(url):
        msg = "a URL is not one of http:// or https://"
        raise ConfigError(msg, where=f"{_KEY}.url", remedy="for example http://127.0.0.1:8081")
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    if authorization is None and parts.username is not None:
        authorization = _basic(unquote(parts.username), unquote(parts.password or ""))
    headers = {} if authorization is None else {"Authorization": authorization}
    return _Server(bare if "/apis/registry/" in f"{parts.path}/" else bare + suffix, headers)


def _authorization(config: SchemaRegistryConfig) -> str | None:
    if config.username is not None and config.password is not None:
        return _basic(config.username, config.password.reveal())
    if config.token is None:
        return None
    token = config.token.reveal()
    if not (token.isascii() and token.isprintable()) or " " in token:
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
def _translated(where: str) -> Generator[None]:
    try:
        yield
    except requests.exceptions.SSLError as error:
        if any(word in str(error).lower() for word in _WRONG_TLS):
            what = "the schema registry refused the login (its certificate, or ours)"
            remedy = f"renew the certificate; check {_KEY}.ca_file, .certificate_file, .key_file"
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


def _refusal(status: int, where: str) -> CdcError:
    if status in {401, 403, 407}:
        what = f"the schema registry refused the login (HTTP {status})"
        remedy = f"renew {_KEY}.password or .token; check .username, and what they may read"
        return LoginRefusedError(what, where=where, remedy=remedy)
    if 300 <= status < 400:
        what = f"the schema registry's URL redirects elsewhere (HTTP {status})"
        remedy = f"write the URL that it leads to under {_KEY}.url"
    else:
        what = f"the schema registry refuses the request (HTTP {status})"
        remedy = f"does {_KEY}.url name a schema registry, and {_KEY}.api the one that it is?"
    return TerminalError(what, where=where, remedy=remedy)
