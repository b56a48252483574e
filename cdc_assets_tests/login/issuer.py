"""A token endpoint of our own: OAuth 2.0's client credentials, tokens that are valid for seconds.

Tokens are JWTs, signed by a key that ``/keys`` publishes (RFC 7517), as Kafka's own validator of
OAUTHBEARER reads it.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"


@dataclass
class Issuer:
    """The running endpoint.

    Attributes:
        client: the id of the only client.
        secret: its secret; may be replaced while the endpoint runs.
        seconds: the validity of its tokens.
        is_down: whether it answers with an error instead.
        tokens: all that it has issued, and for what scope.
        refused: how many logins it has refused.
    """

    client: str = "cdc-assets"
    secret: str = field(default_factory=lambda: f"s3cr%+:{secrets.token_hex(8)}")
    seconds: float = 20
    is_down: bool = False
    tokens: list[tuple[str, str]] = field(default_factory=list)
    refused: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    def answer(self, authorization: str, asked: Mapping[str, list[str]]) -> tuple[int, Any]:
        """The reply to a request for a token."""
        if self.is_down:
            return 503, {"error": "temporarily_unavailable", "error_description": self.secret}
        user, _, password = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        given = {(user, password), (unquote(user), unquote(password))}  # Java does not encode them
        if (self.client, self.secret) not in given:
            self.refused += 1
            return 401, {"error": "invalid_client", "error_description": "no such client"}
        if asked.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        scope = " ".join(asked.get("scope", []))
        token = self.token(scope)
        self.tokens.append((token, scope))
        said = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.seconds)}
        return 200, said

    def token(self, scope: str = "") -> str:
        now = int(time.time())
        claims = {
            "sub": self.client, "aud": AUDIENCE, "iss": "tests",
            "iat": now, "exp": now + int(self.seconds), "jti": secrets.token_hex(4),
        }  # fmt: skip
        if scope:  # Java refuses an empty one
            claims["scope"] = scope
        header = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def keys(self) -> Any:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256",
               "n": _number(numbers.n), "e": _number(numbers.e)}  # fmt: skip
        return {"keys": [key]}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@contextmanager
def issuing(**settings: Any) -> Iterator[Issuer]:
    """Run an endpoint."""
    issuer = Issuer(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, issuer.keys())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            authorization = self.headers.get("Authorization") or ""
            self._reply(*issuer.answer(authorization, parse_qs(body)))

        def _reply(self, status: int, said: Any) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.port = server.server_port
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
