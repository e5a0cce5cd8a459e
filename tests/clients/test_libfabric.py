# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
libfabric's verbs provider: the device is found, connected endpoints and datagrams move data, and so
do ofi_rxm over the former and ofi_rxd over the latter.
"""
import re

import pytest

from common import TIME_LIMIT, expect_success, is_listened_on, new_port, wait_until
from rdmacm import expect_no_ids

NOBODY_ON = ["ib"]
PROTOCOLS = {"verbs": {"FI_PROTO_RDMA_CM_IB_RC", "FI_PROTO_IB_UD"}, "verbs;ofi_rxm": {"FI_PROTO_RXM"},
             "verbs;ofi_rxd": {"FI_PROTO_RXD"}}


def test_info(device):
    """fi_info lists the device, with connected endpoints, datagrams, and both kinds on top of them."""
    found = expect_success(device.run("fi_info", "-p", "verbs", "-v")).stdout
    assert "simhca0" in re.findall(r"^ +name: (simhca0)$", found, re.M), found
    short = expect_success(device.run("fi_info", "-p", "verbs")).stdout
    protocols = {}
    for provider, domain, protocol in re.findall(
            r"^provider: (\S+)\n.*\n +domain: (\S+)\n(?: +.*\n)* +protocol: (\S+)$", short, re.M):
        assert domain in ("simhca0", "simhca0-dgram"), short
        protocols.setdefault(provider, set()).add(protocol)
    assert protocols == PROTOCOLS, short


@pytest.mark.parametrize("provider, endpoint, size", [
    ("verbs", "msg", 65536), ("verbs", "dgram", 2048), ("verbs;ofi_rxm", "rdm", 65536),
    ("verbs;ofi_rxd", "rdm", 65536)])
def test_pingpong(device, provider, endpoint, size):
    """Messages with checked data."""
    port = new_port()
    argv = ["fi_pingpong", "-p", provider, "-e", endpoint, "-c", "-I", 50, "-S", size]
    server = device.start(*argv, "-B", port)
    wait_until(lambda: is_listened_on(port) or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(device.run(*argv, "-P", port, "127.0.0.1"))
    expect_success(server.finish())
    assert re.search(rf"^{size // 1024}k +50 +=50 ", client.stdout, re.M), client
    expect_no_ids(device)
