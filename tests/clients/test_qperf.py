# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
qperf's tests of RC, UC and UD. Without rdma_cm (-cm) it knows no GIDs, so InfiniBand only. Its
server goes on after a test; all tests of a link layer use one, on
InfiniBand as nobody.
"""
import os
import re

import pytest

from common import TIME_LIMIT, Device, device_of_nobody, expect_success, new_port, wait_until
from common import is_listened_on
from link_layers import LINK_LAYERS
from rdmacm import expect_no_ids

# A test takes a second at least, so all of them only in the long run.
LONG = bool(os.environ.get("SIMHCA_SOAK"))
LATENCIES = ["rc_lat", "rc_rdma_write_poll_lat", "uc_lat", "ud_lat"]
BANDWIDTHS = ["rc_bw", "uc_bw", "ud_bw"]
RATES = []
VERIFIED = ["ver_rc_compare_swap", "ver_rc_fetch_add"]  # these also check the values
if LONG:
    LATENCIES += ["rc_rdma_read_lat", "rc_rdma_write_lat", "uc_rdma_write_lat",
                  "uc_rdma_write_poll_lat"]
    BANDWIDTHS += ["rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_write_bw", "uc_bi_bw",
                   "uc_rdma_write_bw", "ud_bi_bw"]
    RATES += ["rc_compare_swap_mr", "rc_fetch_add_mr"]


@pytest.fixture(scope="module", params=["ib"])
def server(request):
    with (Device if request.param == "ethernet" else device_of_nobody)(request.param) as device:
        port = new_port()
        program = device.start("qperf", "-lp", port)
        wait_until(lambda: is_listened_on(port) or not program.running, TIME_LIMIT, "it listens")
        assert program.running, program.result()
        yield device, port
        program.kill()


def measure(server, test, *flags):
    """Runs one test; the values that qperf prints, by name."""
    device, port = server
    for _ in range(3):
        result = device.run("qperf", "-lp", port, "-t", 1, "-uu", *flags, "127.0.0.1", test)
        # Its server says at which port it listens before it does.
        if "RDMA CM: Event rejected" not in result.stdout:
            break
    expect_success(result)
    assert result.stderr == "", result
    assert result.stdout.startswith(f"{test}:\n"), result
    return {name: float(value.replace(",", "")) for name, value in
            re.findall(r"^ +(\w+) += +([\d.,e+-]+)", result.stdout, re.M)}


@pytest.mark.parametrize("test", LATENCIES)
def test_latency(server, test):
    values = measure(server, test)
    assert values["latency"] > 0, values


def test_polling(server):
    """-cp: without it qperf waits for events."""
    assert measure(server, "rc_lat", "-cp", 1)["latency"] > 0


@pytest.mark.parametrize("test", BANDWIDTHS)
def test_bandwidth(server, test):
    values = measure(server, test)
    assert values and all(value > 0 for value in values.values()), values
    # What an unreliable sender counts may be lost; what the receiver has was sent.
    if "send_bw" in values:
        assert values["recv_bw"] <= 1.1 * values["send_bw"], values
    else:
        assert "bw" in values, values


@pytest.mark.parametrize("test", RATES + VERIFIED)
def test_atomics(server, test):
    values = measure(server, test)
    assert values["msg_rate"] > 0, values


@pytest.mark.parametrize("server", LINK_LAYERS, indirect=True)
@pytest.mark.parametrize("test", ["rc_lat", "rc_bw", "ver_rc_compare_swap"])
def test_cm(server, test):
    """Connected by rdma_cm, of which qperf does the tests of RC."""
    device, _ = server
    values = measure(server, test, "-cm", 1)
    assert values and all(value > 0 for value in values.values()), values
    expect_no_ids(device)
