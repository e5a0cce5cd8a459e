# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
libfabric's verbs provider finds the device, and ofi_rxd runs over its datagrams. Its connected
endpoints, and ofi_rxm on top of them, need rdma_cm, and so does the event queue that fi_pingpong
opens for datagrams.
"""
import re

from common import PATIENCE, expect_success, listening_ports, new_port, wait_until


def test_info(device):
    """fi_info lists the device, with reliable and unreliable endpoints."""
    found = expect_success(device.run("fi_info", "-p", "verbs", "-v")).stdout
    assert "simhca0" in re.findall(r"^ +name: (simhca0)$", found, re.M), found
    short = expect_success(device.run("fi_info", "-p", "verbs")).stdout
    assert "protocol: FI_PROTO_IB_UD" in short and "domain: simhca0-dgram" in short, short


def test_rxd(device):
    """Reliable messages, by libfabric over datagrams, with checked data."""
    port = new_port()
    argv = ["fi_pingpong", "-p", "verbs;ofi_rxd", "-e", "rdm", "-c", "-I", 50, "-S", 65536]
    server = device.start(*argv, "-B", port)
    wait_until(lambda: port in listening_ports() or not server.running, PATIENCE, "it listens")
    client = expect_success(device.run(*argv, "-P", port, "127.0.0.1"))
    expect_success(server.finish())
    assert re.search(r"^64k +50 ", client.stdout, re.M), client
