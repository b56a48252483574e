"""An identity of AWS that the tests know, and whether a URL bears its signature.

Signature Version 4 in a query:
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html, computed here by
itself, so that AWS's own library is not compared with itself.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

KEY, SECRET_KEY = "AKIATESTSTESTSTESTS", "secret/key+of/tests"
_REMARK = "User-Agent"


def as_aws(patch: pytest.MonkeyPatch) -> None:
    """Make this process have the identity, and no other."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_REGION"):
        patch.delenv(name, raising=False)
    patch.setenv("AWS_ACCESS_KEY_ID", KEY)
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setenv("AWS_CONFIG_FILE", "/nowhere")


def is_signed(url: str, secret: str = SECRET_KEY) -> bool:
    """Whether a URL bears the signature of the identity; remarks behind it count for nothing."""
    parts = urlsplit(url)
    said = dict(parse_qsl(parts.query, keep_blank_values=True))
    signature, _ = said.pop("X-Amz-Signature", ""), said.pop(_REMARK, "")
    key, _, scope = said["X-Amz-Credential"].partition("/")
    query = "&".join(f"{_coded(n)}={_coded(v)}" for n, v in sorted(said.items()))
    empty = hashlib.sha256(b"").hexdigest()
    request = ["GET", parts.path, query, f"host:{parts.netloc}\n", "host", empty]
    digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", said["X-Amz-Date"], scope, digest])
    made = f"AWS4{secret}".encode()
    for each in (*scope.split("/"), text):
        made = hmac.new(made, each.encode(), hashlib.sha256).digest()
    return key == KEY and made.hex() == signature


def _coded(text: str) -> str:
    return quote(text, safe="-_.~")
