"""A proxy before a Spark Connect server that asks for a header, as EMR's and Databricks' do.

Who shows the present pass is let through, with the server's own token; others are refused. All
methods are passed on as streams of bytes, which is how gRPC sends each kind of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from cdc_assets_devstack.spark_server import SparkEndpoint

HEADER = "x-gateway-pass"
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
              ("grpc.enable_http_proxy", 0)]  # fmt: skip
_HOP = ("user-agent", "authorization", HEADER)


@dataclass
class Gateway:
    """The running proxy.

    Attributes:
        passes: all that were given out; the last one is valid.
        refused: how many calls were refused.
        served: how many calls were let through.
        port: where it listens.
        is_down: whether the function that gives passes fails.
    """

    passes: list[str] = field(default_factory=list)
    refused: int = 0
    served: int = 0
    port: int = 0
    is_down: bool = False

    def hook(self) -> dict[str, Any]:
        """What an operator's function returns: address and header of one session."""
        if self.is_down:
            raise OSError(self.passes[-1])
        self.passes.append(secrets.token_urlsafe(18) + "=;/")
        return {"url": f"sc://localhost:{self.port}", "headers": {HEADER: self.passes[-1]}}

    def rotate(self) -> None:
        """Let no pass be valid that was given out."""
        self.passes.append("")


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, gateway: Gateway, channel: grpc.Channel, token: str) -> None:
        self._gateway, self._channel, self._token = gateway, channel, token

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method

        def passed(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            given = dict(context.invocation_metadata())
            if not given.get(HEADER) or given[HEADER] != self._gateway.passes[-1]:
                self._gateway.refused += 1
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "the pass is not valid")
            self._gateway.served += 1
            more = [(name, text) for name, text in given.items() if name not in _HOP]
            call = self._channel.stream_stream(method)(
                requests, metadata=[*more, ("authorization", f"Bearer {self._token}")]
            )
            context.add_callback(call.cancel)
            try:
                yield from call
                context.set_trailing_metadata(call.trailing_metadata() or ())
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())  # type: ignore[attr-defined]
                context.abort(error.code(), error.details())  # type: ignore[attr-defined]

        return grpc.stream_stream_rpc_method_handler(passed)


@contextmanager
def before(server: SparkEndpoint) -> Iterator[Gateway]:
    """Run it."""
    gateway = Gateway()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", _UNLIMITED) as channel:
        proxy = grpc.server(ThreadPoolExecutor(32), options=_UNLIMITED)
        proxy.add_generic_rpc_handlers((_Handlers(gateway, channel, server.token),))
        gateway.port = proxy.add_insecure_port("127.0.0.1:0")
        proxy.start()
        try:
            yield gateway
        finally:
            proxy.stop(1).wait()
