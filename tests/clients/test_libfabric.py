# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
libfabric's verbs provider finds the device. Its connected endpoints, and ofi_rxm on top of them,
need rdma_cm, and so does the event queue that fi_pingpong opens for datagrams, so this is all.
"""
import re

from common import expect_success


def test_info(device):
    """fi_info lists the device, with reliable and unreliable endpoints."""
    found = expect_success(device.run("fi_info", "-p", "verbs", "-v")).stdout
    assert "simhca0" in re.findall(r"^ +name: (simhca0)$", found, re.M), found
    short = expect_success(device.run("fi_info", "-p", "verbs")).stdout
    assert "protocol: FI_PROTO_IB_UD" in short and "domain: simhca0-dgram" in short, short
