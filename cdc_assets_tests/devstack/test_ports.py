import os
import socket

import pytest
from cdc_assets_devstack.ports import is_free, pick_free_ports, require_free

from cdc_assets.errors import TerminalError

pytestmark = pytest.mark.unit


def test_a_taken_port_is_named_with_part_and_owner():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(TerminalError) as caught:
            require_free("kafka", port)
    assert f"port {port}, which kafka needs" in str(caught.value)
    assert f"pid {os.getpid()}" in str(caught.value)
    assert "stack.ports.kafka" in str(caught.value)


def test_picked_ports_are_distinct_and_free():
    ports = pick_free_ports().as_dict().values()
    assert len(set(ports)) == len(ports)
    assert all(map(is_free, ports))
