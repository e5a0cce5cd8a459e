# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""RoCE v2 between simhca and Linux's rxe, each as client and as server."""
import pathlib
import re

import pytest

from common import TIME_LIMIT, expect_latencies, expect_pingpong
from common import expect_success, new_port, wait_until
from namespaces import IPV4, IPV4_GID, IPV6, IPV6_GID
from sides import listens

CLIENTS = pathlib.Path(__file__).parent.parent / "clients"
# wire_peer.py as one text with what it imports, as the guest has none of our files.
PEER = f"""
import sys, types
sys.modules["verbs_enums"] = types.ModuleType("verbs_enums")
exec({(CLIENTS / "verbs_enums.py").read_text()!r}, vars(sys.modules["verbs_enums"]))
{(CLIENTS / "wire_peer.py").read_text()}"""
GID = {4: IPV4_GID, 6: IPV6_GID}
DEVICE = {"ours": "simhca0", "rxe": "rxe0"}
ADDRESS = {"ours": {4: IPV4[0], 6: IPV6[0]}, "rxe": {4: IPV4[1], 6: IPV6[1]}}
OTHER = {"ours": "rxe", "rxe": "ours"}

pytestmark = pytest.mark.parametrize("client", ["ours", "rxe"])
families = pytest.mark.parametrize("family", [4, 6])


def run(sides, client, argv_of, family=4, listening=None):
    """argv_of(side, port, server's address or nothing): a pair; the client's result, the server's."""
    server = OTHER[client]
    port = new_port()
    running = sides[server].start(*argv_of(server, port))
    listening = listening or (lambda host: listens(host, port))
    wait_until(lambda: listening(sides[server]) or not running.running, TIME_LIMIT, "it listens")
    result = sides[client].run(*argv_of(client, port, ADDRESS[server][family]))
    return result, running.finish()


def programs(sides, client, *argv):
    """A program that exchanges by TCP what it needs, with -p and the server's address."""
    return run(sides, client, lambda side, port, *to: [*argv, "-p", port, *to])


def cm_listens(host):
    if hasattr(host, "status"):
        return host.status()["rdma_cm"]["listeners"]
    return "LISTEN" in host.run("rdma", "resource", "show", "cm_id").stdout


def pingpong(sides, client, program, gid, *flags, size=5000, iters=100):
    for result in programs(sides, client, program, "-g", gid, "-c", "-s", size, "-n", iters,
                           *flags):
        expect_pingpong(result, size, iters)


@families
@pytest.mark.parametrize("program, mtu", [
    *(("ibv_rc_pingpong", mtu) for mtu in (256, 512, 1024, 2048, 4096)),
    ("ibv_uc_pingpong", 1024), ("ibv_srq_pingpong", 1024)])
def test_pingpong(sides, client, program, mtu, family):
    """Data are compared; the path MTU is what both are told."""
    pingpong(sides, client, program, GID[family], "-m", mtu)


@families
def test_ud_pingpong(sides, client, family):
    pingpong(sides, client, "ibv_ud_pingpong", GID[family], size=2000)


@families
@pytest.mark.parametrize("program", ["ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw"])
def test_bandwidth(sides, client, program, family):
    """Several messages under way, of 16 packets each."""
    size = 8 if "atomic" in program else 1 << 16
    flags = [] if "atomic" in program else ["-s", size]
    for result in programs(sides, client, program, "-F", "-x", GID[family], "-n", 30, *flags):
        expect_success(result)
    assert result.stdout


@pytest.mark.parametrize("program", ["ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"])
def test_latency(sides, client, program):
    result, server = programs(sides, client, program, "-F", "-x", IPV4_GID, "-n", 50)
    expect_success(server)
    expect_latencies(expect_success(result), [8 if "atomic" in program else 2], 50)


@pytest.mark.parametrize("flags", [["-c", "UD", "-s", 1000], ["-c", "UC", "-s", 1 << 14]],
                         ids=["UD", "UC"])
def test_unacknowledged(sides, client, flags):
    for result in programs(sides, client, "ib_send_lat", "-F", "-x", IPV4_GID, "-n", 50, *flags):
        expect_success(result)


@families
def test_rping(sides, client, family):
    """A connection by rdma_cm; its data are looked at, and it ends."""
    def argv_of(_side, port, *to):
        which = ["-c", "-a", *to] if to else ["-s", "-a", "0.0.0.0" if family == 4 else "::"]
        return ["rping", *which, "-p", port, "-V", "-v", "-C", 10]

    result, server = run(sides, client, argv_of, family, cm_listens)
    expect_success(server)
    assert expect_success(result).stdout.count("ping data") == 10, result


@pytest.mark.parametrize("program", ["ucmatose", "udaddy"])
def test_rdma_cm(sides, client, program):
    def argv_of(_side, port, *to):
        options = ["-p", port] if program == "ucmatose" else []
        return [program, *options, *(["-s", *to] if to else [])]

    for result in run(sides, client, argv_of, 4, cm_listens):
        assert "return status 0" in expect_success(result).stdout


# What the requester is told, by who answers if that makes a difference: rxe takes a message that
# is longer than the receive for an error of its own (the specification: an invalid request).
VERDICTS = {
    "all_good": ["SUCCESS"] * 4,
    "wrong_key": ["REM_ACCESS_ERR"],
    "outside": ["REM_ACCESS_ERR"],
    "no_right": ["REM_ACCESS_ERR"],
    "misaligned_atomic": ["REM_INV_REQ_ERR"],
    "too_long": {"ours": ["REM_INV_REQ_ERR"], "rxe": ["REM_OP_ERR"]},
    "no_receive": ["RNR_RETRY_EXC_ERR"],
    "late_receive": ["SUCCESS"],
    "nobody": ["RETRY_EXC_ERR"],
    "invalidated": ["SUCCESS", "SUCCESS", "REM_ACCESS_ERR"],
}


def peers(sides, client, case):
    def argv_of(side, port, *to):
        return ["/usr/bin/python3", "-c", PEER, DEVICE[side], IPV4_GID, case, port, *to]

    return run(sides, client, argv_of)


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict(sides, client, case):
    """Errors and remote invalidation: the requester's completions."""
    expected = VERDICTS[case]
    if isinstance(expected, dict):
        expected = expected[OTHER[client]]
    result, server = peers(sides, client, case)
    assert not result.status and not server.status, (result.stderr, server.stderr)
    assert result.stdout.split() == expected, (result.stderr, server.stderr)


@pytest.mark.new
@pytest.mark.parametrize("case", ["atomic_write", "misaligned_write"])
def test_atomic_write(sides, client, case):
    """What it wrote is read back; 8 bytes are written at addresses that 8 divides."""
    expected = ["SUCCESS"] * 4 if case == "atomic_write" else ["REM_INV_REQ_ERR"]
    result, server = peers(sides, client, case)
    assert not result.status and not server.status, (result.stderr, server.stderr)
    assert result.stdout.split() == expected, (result.stderr, server.stderr)


@pytest.mark.new
@pytest.mark.parametrize("case", ["flush", "no_flush"])
def test_flush(sides, client, case):
    """Of a range and of a region; by rxe's own ICRC (--wire-rxe-flush), or none would be heard."""
    expected = ["SUCCESS"] + (["SUCCESS"] * 2 if case == "flush" else ["REM_INV_REQ_ERR"])
    result, server = peers(sides, client, case)
    assert not result.status and not server.status, (result.stderr, server.stderr)
    assert result.stdout.split() == expected, (result.stderr, server.stderr)


@pytest.fixture
def bad_network(sides):
    """The guest's queues lose, repeat and hold back packets, of both directions."""
    guest = sides["rxe"]
    netem = ["netem", "loss", "3%", "duplicate", "3%", "reorder", "95%", "delay", "2ms"]
    for words in (["modprobe", "ifb", "numifbs=1"], ["ip", "link", "set", "ifb0", "up"],
                  ["tc", "qdisc", "add", "dev", "eth0", "root", *netem],
                  ["tc", "qdisc", "add", "dev", "ifb0", "root", *netem],
                  ["tc", "qdisc", "add", "dev", "eth0", "handle", "ffff:", "ingress"],
                  ["tc", "filter", "add", "dev", "eth0", "parent", "ffff:", "matchall", "action",
                   "mirred", "egress", "redirect", "dev", "ifb0"]):
        expect_success(guest.run(*words))
    yield sides
    for device, which in ("eth0", "root"), ("eth0", "ingress"), ("ifb0", "root"):
        guest.run("tc", "qdisc", "del", "dev", device, which)


def test_bad_network(bad_network, client, request):
    """All of it arrives, once and in order."""
    if client == "rxe" and request.node.callspec.params["image"] == "trixie":
        pytest.skip("a repeated ACK of a write, between the responses of a read, ends rxe's QP")
    result, server = peers(bad_network, client, "many")
    assert not result.status and not server.status, (result.stderr, server.stderr)
    dropped = bad_network["rxe"].run("tc", "-s", "qdisc", "show").stdout
    assert re.search(r"dropped [1-9]", dropped), dropped


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_bandwidth_of_a_bad_network(bad_network, client, program):
    for result in programs(bad_network, client, program, "-F", "-x", IPV4_GID, "-n", 20,
                           "-s", 1 << 15):
        expect_success(result)
