"""What stands before the REST catalog: asks for a login, counts requests, loses replies.

Clients get a token for their credentials (OAuth2, ``client_credentials``), or for a token that is
valid (``token-exchange``, which Iceberg's own client refreshes by), and bear it in each request;
whoever has none is refused, and so is a token that has expired.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import secrets
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote

from cdc_assets_devstack.layout import HOST

TOKENS = "/v1/oauth/tokens"
_TABLE = re.compile(
    r"/v1/namespaces/(?P<namespace>[^/]+)/tables/(?P<table>[^/?]+)(?P<metrics>/metrics)?(\?.*)?"
)
_NOT_HANDED_ON = frozenset({"host", "connection", "authorization", "content-length",
                            "transfer-encoding", "accept-encoding"})  # fmt: skip
_KINDS = {"GET": "load", "POST": "commit", "HEAD": "look", "DELETE": "drop"}


class Lost(Enum):
    """What becomes of a reply, once the catalog has done what was asked."""

    RESET = "the connection is reset"
    BAD_GATEWAY = "502"
    GATEWAY_TIMEOUT = "504"


@dataclass(frozen=True, slots=True)
class Request:
    """One that was answered: by ``PyIceberg`` or ``Spark``, and what it asked for."""

    client: str
    kind: str
    namespace: str = ""
    table: str = ""


@dataclass
class Plan:
    """Which replies are lost: of requests of a kind, each with so much luck."""

    kinds: frozenset[str] = frozenset()
    ways: tuple[Lost, ...] = tuple(Lost)
    every: int = 0
    seen: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    def of(self, request: Request) -> Lost | None:
        """What becomes of its reply; None if it arrives."""
        if request.kind not in self.kinds or not self.every:
            return None
        self.seen += 1
        if self.seen % self.every:
            return None
        way = self.ways[self.seen // self.every % len(self.ways)]
        self.lost[f"{request.kind} of {request.client}: {way.value}"] += 1
        return way


class Front:
    """The proxy, in this process. Use as a context manager.

    Attributes:
        requests: that were let in, in their order, without those for tokens.
        refused: how many were not.
        plan: which replies are lost.
        delay_seconds: that each answer takes longer.
        token_seconds: for which a token is valid.
        expired: how many requests bore a token that was not valid any more.
    """

    def __init__(self, catalog_port: int, port: int = 0) -> None:
        self.client, self.secret = "cdc-assets", secrets.token_urlsafe(18)
        self.requests: list[Request] = []
        self.refused = 0
        self.plan = Plan()
        self.delay_seconds = 0.0
        self.token_seconds = 3600
        self.expired = 0
        self._catalog_port = catalog_port
        self._tokens: dict[str, float] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((HOST, port), _handler(self))
        self._server.daemon_threads = True

    @property
    def uri(self) -> str:
        """The catalog's, for clients."""
        return f"http://{HOST}:{self._server.server_port}"

    @property
    def credential(self) -> str:
        """A client's id and secret, as Iceberg's clients take them."""
        return f"{self.client}:{self.secret}"

    def __enter__(self) -> Front:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def counted(self) -> Iterator[list[Request]]:
        """The requests of a block, once it is over."""
        begin, found = len(self.requests), list[Request]()
        yield found
        with self._lock:
            found.extend(self.requests[begin:])

    def token_for(self, form: dict[str, list[str]], basic: str) -> str | None:
        """A new token; None for wrong credentials, or an old token that is not valid.

        Args:
            form: the request's.
            basic: its header ``Authorization``.
        """
        given = form.get("client_id", [""])[0], form.get("client_secret", [""])[0]
        told = base64.b64encode(self.credential.encode()).decode()
        is_known = given == (self.client, self.secret) or basic == f"Basic {told}"
        if not is_known and not self._is_valid(form.get("subject_token", [""])[0]):
            return None
        token = secrets.token_urlsafe(24)
        self._tokens[token] = time.monotonic() + self.token_seconds
        return token

    def admits(self, authorization: str) -> bool:
        """Whether a request bears a token that is valid."""
        token = authorization.removeprefix("Bearer ")
        is_valid = self._is_valid(token)
        self.expired += token in self._tokens and not is_valid
        return is_valid

    @property
    def tokens(self) -> int:
        """How many were given out."""
        return len(self._tokens)

    def expire(self) -> None:
        """Let all tokens that were given out expire."""
        self._tokens = dict.fromkeys(self._tokens, 0.0)

    def _is_valid(self, token: str) -> bool:
        return time.monotonic() < self._tokens.get(token, 0.0)

    def took(self, request: Request) -> Lost | None:
        """Count one that was answered; what becomes of the answer."""
        with self._lock:
            self.requests.append(request)
            return self.plan.of(request)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Hand a request on to the catalog."""
        connection = http.client.HTTPConnection(HOST, self._catalog_port, timeout=60)
        try:
            connection.request(method, path, body or None, headers)
            reply = connection.getresponse()
            kind = reply.getheader("Content-Type", "application/json")
            return Answer(reply.status, kind, reply.read())
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Answer:
    """Of the catalog."""

    status: int
    content_type: str
    body: bytes


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == TOKENS:
                self._give_token(body)
            elif not front.admits(self.headers.get("Authorization", "")):
                front.refused += 1
                self._reply(401, _error(401, "NotAuthorizedException"))
            else:
                self._hand_on(body)

        do_GET = do_POST = do_DELETE = do_HEAD = do_PUT = handle_any

        def _give_token(self, body: bytes) -> None:
            token = front.token_for(parse_qs(body.decode()), self.headers.get("Authorization", ""))
            if token is None:
                front.refused += 1
                self._reply(401, b'{"error": "invalid_client"}')
                return
            said = {
                "access_token": token,
                "token_type": "bearer",
                "expires_in": front.token_seconds,
                "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            }
            self._reply(200, json.dumps(said).encode())

        def _hand_on(self, body: bytes) -> None:
            headers = {n: v for n, v in self.headers.items() if n.lower() not in _NOT_HANDED_ON}
            time.sleep(front.delay_seconds)
            answer = front.ask(self.command, self.path, headers, body)
            match front.took(self._request()):
                case None:
                    self._reply(answer.status, answer.body, answer.content_type)
                case Lost.RESET:
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.close_connection = True
                    self.connection.close()
                case lost:
                    status = int(lost.value)
                    self._reply(status, _error(status, "ServiceFailureException"))

        def _request(self) -> Request:
            agent = self.headers.get("X-Client-Version", "")
            client = "PyIceberg" if "PyIceberg" in agent else "Spark"
            table = _TABLE.fullmatch(self.path)
            if table is None:
                return Request(client, f"{self.command} {self.path.partition('?')[0]}")
            kind = "report" if table["metrics"] else _KINDS[self.command]
            return Request(client, kind, unquote(table["namespace"]), table["table"])

        def _reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if status != 204 and self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: tests look at what was counted."""

    return Handler


def _error(code: int, type_: str) -> bytes:
    said = {"message": "not here", "type": type_, "code": code}
    return json.dumps({"error": said}).encode()
