"""Detects quickly that nobody listens at Spark's address.

The Connect client retries a request for many seconds, whatever the reason of its failure. gRPC
itself distinguishes a connection that fails from one that takes long.
"""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Final

import grpc

from cdc_assets.errors import UnreachableError

PATIENCE_SECONDS: Final = 1.5
"""gRPC retries after one second, so a server that comes up a moment later is found."""


def require_listener(url: str) -> None:
    """Returns once a connection is ready, or if it is not known to fail: it may still succeed.

    Args:
        url: ``sc://host:port/;name=value``.

    Raises:
        UnreachableError: if every attempt to connect failed.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    builder = DefaultChannelBuilder(url)
    states: SimpleQueue[grpc.ChannelConnectivity] = SimpleQueue()
    with builder.toChannel() as channel:
        channel.subscribe(states.put, try_to_connect=True)
        if _last_state(states) is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            msg = "Spark cannot be connected to: nobody listens, or the connection is not accepted"
            remedy = "check that the server runs, its address, and whether it wants TLS"
            raise UnreachableError(msg, where=f"Spark at {builder.endpoint}", remedy=remedy)


def _last_state(
    states: SimpleQueue[grpc.ChannelConnectivity],
) -> grpc.ChannelConnectivity | None:
    """Returns the channel's state once it is ready, or after `PATIENCE_SECONDS`."""
    state: grpc.ChannelConnectivity | None = None
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while state is not grpc.ChannelConnectivity.READY:
        try:
            state = states.get(timeout=max(0, give_up_at - time.monotonic()))
        except Empty:
            break
    return state
