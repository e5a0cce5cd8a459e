# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""UCX on the device: its view of it, its own benchmark, and every operation with checked data."""
import pathlib
import re
import string

import pytest

from common import Device, expect_success, is_listened_on, new_port, wait_until
from common import TIME_LIMIT
from middleware import TRANSPORTS, UCP, UCP_PARTS, compiled, expect_numbers, ucx, ucx_perftest
from rdmacm import run_both, start_listener

NOBODY_ON = ["ib"]
ITERS = 200
CLIENT_SERVER = pathlib.Path("/usr/share/doc/libucx-dev/examples/ucp_client_server.c")


@pytest.fixture(scope="module")
def ucp_check(programs):
    return compiled(programs, "ucp_check.c", "-lucp", "-lucs")


@pytest.fixture(scope="module")
def arming_device():
    """
    UCX arms a CQ and goes to sleep without looking at it again: it relies on an event for what is
    there already, as ConnectX gives it.
    """
    with Device("ethernet", "--daemon-option", "event-at-arm=yes") as device:
        yield device


def transports(text):
    """The attributes that `ucx_info -d` lists, by transport of the device."""
    found = {}
    for part in re.split(r"^#\s+Transport: ", text, flags=re.M)[1:]:
        if re.search(r"^#\s+Device: simhca0:1$", part, re.M):
            found[part.split()[0]] = dict(re.findall(r"^#\s+([^:\n]+): +(.*)$", part, re.M))
    return found


def test_info(device):
    """ucx_info finds the device, and in it what the verbs transports need."""
    found = transports(expect_success(device.run("ucx_info", "-d")).stdout)
    assert set(found) == {"rc_verbs", "ud_verbs"}
    assert found["rc_verbs"]["put_zcopy"].startswith("<= 1G"), found
    for operation in "atomic_add", "atomic_fadd", "atomic_cswap":
        assert found["rc_verbs"][operation] == "64 bit", found
    for attributes in found.values():
        assert float(re.match(r"[\d.]+", attributes["bandwidth"])[0]) > 1000, attributes
        assert "peer failure" in attributes["error handling"], attributes


def perftest(device, *flags, iters=ITERS, **env):
    """Both sides of ucx_perftest; the client's last line is numbers that make sense."""
    port = new_port()
    argv = [*ucx_perftest(), "-f", "-q", "-p", port, "-n", iters, "-w", 20, *flags]
    server = device.start(*argv, **env)
    wait_until(lambda: is_listened_on(port) or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(device.run(*argv, "127.0.0.1", **env))
    expect_success(server.finish())
    assert "ERROR" not in client.stdout + client.stderr, client
    expect_numbers(client, iters)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("flags", UCP.values(), ids=UCP)
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_ucp_perftest(device, transport, flags):
    """The high-level operations, each over each transport."""
    perftest(device, *flags, **ucx(transport))


UCT = {
    "rc-am": ("rc_verbs", ["-t", "am_lat", "-s", 32]),
    "rc-am-bcopy": ("rc_verbs", ["-t", "am_bw", "-s", 4000, "-D", "bcopy"]),
    "rc-am-zcopy": ("rc_verbs", ["-t", "am_bw", "-s", 4000, "-D", "zcopy"]),
    "rc-put": ("rc_verbs", ["-t", "put_lat", "-s", 32]),
    "rc-put-zcopy": ("rc_verbs", ["-t", "put_bw", "-s", 100000, "-D", "zcopy"]),
    "rc-get-bcopy": ("rc_verbs", ["-t", "get", "-s", 4000, "-D", "bcopy"]),
    "rc-get-zcopy": ("rc_verbs", ["-t", "get", "-s", 100000, "-D", "zcopy"]),
    "rc-add": ("rc_verbs", ["-t", "add_mr", "-s", 8]),
    "rc-fadd": ("rc_verbs", ["-t", "fadd", "-s", 8]),
    "rc-cswap": ("rc_verbs", ["-t", "cswap", "-s", 8]),
    "ud-am": ("ud_verbs", ["-t", "am_lat", "-s", 32]),
    "ud-am-bcopy": ("ud_verbs", ["-t", "am_bw", "-s", 4000, "-D", "bcopy"]),
    "ud-am-zcopy": ("ud_verbs", ["-t", "am_bw", "-s", 4000, "-D", "zcopy"]),
}


@pytest.mark.parametrize("transport, flags", UCT.values(), ids=UCT)
@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_uct_perftest(device, transport, flags):
    """The transports by themselves: here atomics are the device's own."""
    perftest(device, "-d", "simhca0:1", "-x", transport, *flags)


SLEEP = {
    "tag": ["-t", "tag_lat", "-s", 64],
    "tag-rendezvous": ["-t", "tag_lat", "-s", 300000],
    "am": ["-t", "ucp_am_lat", "-s", 64],
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("flags", SLEEP.values(), ids=SLEEP)
def test_wakeup_perftest(arming_device, transport, flags):
    """
    -E sleep: nothing is polled, completion events wake both sides. (No put_bw: its server sleeps
    until it has been written to, and a write raises no event there.)
    """
    perftest(arming_device, *flags, "-E", "sleep", iters=50, **ucx(transport))
    arming_device.expect_idle()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_data(device, ucp_check, transport):
    """Each kind of operation, with sizes from one byte to a mebibyte, and every byte checked."""
    result = expect_success(device.run(ucp_check, "poll", **ucx(transport)))
    assert result.stdout.splitlines() == UCP_PARTS, result


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_wakeup_data(arming_device, ucp_check, transport):
    """The same, asleep between the events."""
    result = expect_success(arming_device.run(ucp_check, "sleep", **ucx(transport)))
    assert result.stdout.splitlines() == UCP_PARTS, result
    arming_device.expect_idle()


def test_transport_is_used(device, ucp_check):
    """UCX says itself that it goes by the device, for everything."""
    result = expect_success(device.run(ucp_check, "poll", UCX_LOG_LEVEL="info", **ucx("rc")))
    lanes = re.findall(r"cfg(?:\[\d+\]:|#\d+) (.*)", result.stdout + result.stderr)
    assert lanes, result
    for lane in " ".join(lanes).split():
        assert re.fullmatch(r"\w+\((rc_verbs|ud_verbs)/simhca0:1\)", lane), result


@pytest.fixture(scope="module")
def client_server(programs):
    """UCX's own example of a listener."""
    if not CLIENT_SERVER.exists():
        pytest.skip("dpkg has been told to leave out documentation, and the example with it")
    return compiled(programs, CLIENT_SERVER, "-w", "-lucp", "-lucs")


def test_rdmacm(device, port, client_server):
    """
    One server, two clients that connect by rdma_cm. Neither end waits for the other when it closes
    its endpoint, and the later one may fail to, which is no failure of the example's.
    """
    env = {**ucx("rc"), "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"}
    argv = [client_server, "-p", port, "-c", "tag", "-i", 5, "-s", 2000]
    server = start_listener(device, port, "stdbuf", "-oL", *argv, **env)
    for number in 1, 2:
        client = expect_success(device.run(*argv, "-a", "127.0.0.1", **env))
        wait_until(lambda: server.stdout.count("Waiting for connection") > number
                   or not server.running, TIME_LIMIT, "the server has done with it")
        assert server.running and "ERROR" not in client.stdout + client.stderr, client
        assert "ERROR" not in server.stdout + server.stderr, server.result()
    server.kill()
    # Of each client's five messages it prints the first and the last.
    letters = string.ascii_uppercase * 100
    assert server.stdout.count(f"\n{letters[:1999]}.\n") == 4, server.result()


STREAMS = 5


def test_rdmacm_streams(device, port, programs):
    """
    Clients that connect by rdma_cm, one after the other, to a server that waits for each to close:
    every byte is checked, and both sides come to a good end.
    """
    program = compiled(programs, "ucp_stream.c", "-lucp", "-lucs")
    env = {**ucx("rc"), "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"}
    server, client = run_both(device, port, [program, port, STREAMS],
                              [program, port, STREAMS, "127.0.0.1"], **env)
    assert server.stdout.splitlines() == [f"client {number + 1} has closed"
                                          for number in range(STREAMS)], server
    assert "ERROR" not in str(server) + str(client), f"{server}\n{client}"
