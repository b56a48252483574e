"""An S3 that takes only requests that are signed with its key: moto's, kept in memory.

``python -m cdc_assets_tests.elsewhere.s3 PORT``, with key and secret in the environment.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from cdc_assets_devstack import environment
from cdc_assets_devstack.layout import HOST, StackLayout
from cdc_assets_devstack.part import Part
from cdc_assets_devstack.process import Command

from cdc_assets_tests.elsewhere.signed import is_signed

BUCKET = "lake"
REGION = "us-east-1"
KEY_VARIABLE = "CDC_ASSETS_TESTS_S3_KEY"
SECRET_VARIABLE = "CDC_ASSETS_TESTS_S3_SECRET"
_ACCOUNT = "123456789012"

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class S3(Part):
    """The server, with one bucket. What it holds goes when it stops."""

    name = "s3"
    inherits = environment.PYTHON

    def __init__(self, layout: StackLayout, port: int) -> None:
        super().__init__(layout)
        self._port = port

    @property
    def port(self) -> int:
        return self._port

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @cached_property
    def key(self) -> str:
        """The access key's id."""
        return f"AK{secrets.token_hex(8).upper()}"

    @cached_property
    def secret(self) -> str:
        return secrets.token_hex(20)

    @property
    def environment_of_clients(self) -> dict[str, str]:
        """For clients of AWS that find endpoint and key in their environment."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_DEFAULT_REGION": REGION, "AWS_ENDPOINT_URL": self.endpoint}  # fmt: skip

    def prepare(self) -> None:
        """Nothing: it has no files."""

    def command(self) -> Command:
        argv = [sys.executable, "-m", "cdc_assets_tests.elsewhere.s3", str(self.port)]
        settings = {KEY_VARIABLE: self.key, SECRET_VARIABLE: self.secret}
        # It would wait for its clients, which keep their connections.
        return Command(argv, env=self.environment(settings), stop_signal=signal.SIGKILL)

    def ready(self) -> bool:
        """Whether it refuses whoever has no key."""
        try:
            with urllib.request.urlopen(f"{self.endpoint}/{BUCKET}", timeout=2):  # noqa: S310
                return False
        except urllib.error.HTTPError as refused:
            return refused.code == 403
        except OSError:
            return False


def checked(app: Wsgi, key: str, secret: str) -> Wsgi:
    """The same for signed requests; others are refused. Writes come one after the other, as in S3:
    moto looks whether an object is the one that a request names, and then replaces it."""
    writes = threading.Lock()

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if is_signed(environ, key, secret):
            with writes if environ["REQUEST_METHOD"] == "PUT" else nullcontext():
                return app(environ, start)
        start("403 Forbidden", [("Content-Type", "application/xml")])
        return [b"<Error><Code>SignatureDoesNotMatch</Code></Error>"]

    return answer


def main() -> None:
    """Serve until it is stopped."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import WSGIRequestHandler, run_simple

    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    s3_backends[_ACCOUNT]["aws"].create_bucket(BUCKET, REGION)
    app = DomainDispatcherApplication(create_backend_app)
    key, secret = os.environ[KEY_VARIABLE], os.environ[SECRET_VARIABLE]
    run_simple(HOST, int(sys.argv[1]), checked(app, key, secret), threaded=True)


if __name__ == "__main__":
    main()
