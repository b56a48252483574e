"""Whether a request to S3 is signed with a known key: AWS Signature Version 4, from headers.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html; moto checks none.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
from collections.abc import Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

_GIVEN = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>[^,]+), ?"
    r"SignedHeaders=(?P<names>[^,]+), ?Signature=(?P<signature>[0-9a-f]+)"
)


def is_signed(environ: MutableMapping[str, Any], key: str, secret: str) -> bool:
    """Whether the WSGI request bears the signature of this key."""
    given = _GIVEN.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    if given is None or given["key"] != key:
        return False
    signed = hmac.new(_signing_key(secret, given["scope"]), _text(environ, given).encode(),
                      hashlib.sha256)  # fmt: skip
    return hmac.compare_digest(signed.hexdigest(), given["signature"])


def _text(environ: MutableMapping[str, Any], given: re.Match[str]) -> str:
    """The string to sign."""
    path, _, query = str(environ["RAW_URI"]).partition("?")
    names = given["names"].split(";")
    headers = "".join(f"{name}:{_header(environ, name)}\n" for name in names)
    payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256") or _digest_of_body(environ)
    request = [environ["REQUEST_METHOD"], quote(unquote(path), safe="/-_.~"), _query(query),
               headers, given["names"], payload]  # fmt: skip
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    return "\n".join(["AWS4-HMAC-SHA256", environ["HTTP_X_AMZ_DATE"], given["scope"], digest])


def _digest_of_body(environ: MutableMapping[str, Any]) -> str:
    """For a request whose header does not name it: of Glue, which is no S3."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return hashlib.sha256(body).hexdigest()


def _header(environ: Mapping[str, Any], name: str) -> str:
    wsgi = name.upper().replace("-", "_")
    value = environ.get(f"HTTP_{wsgi}", environ.get(wsgi, ""))
    return " ".join(str(value).split())


def _query(text: str) -> str:
    pairs = (pair.partition("=")[::2] for pair in text.split("&") if pair)
    return "&".join(sorted(f"{_encoded(name)}={_encoded(value)}" for name, value in pairs))


def _encoded(text: str) -> str:
    return quote(unquote(text.replace("+", "%20")), safe="-_.~")


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for each in scope.split("/"):
        key = hmac.new(key, each.encode(), hashlib.sha256).digest()
    return key
