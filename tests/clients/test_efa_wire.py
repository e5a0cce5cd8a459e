# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""--model efa --wire roce: SRD and UD between two hosts, by libefa, libfabric and perftest as Debian has them."""
import json
import pathlib
import re
import signal
import time

import pytest

from bad_link import joined
from captures import Tracer
from common import TIME_LIMIT, SIMHCA, cpu_ticks, expect_success, new_port, wait_until
from middleware import run_efa_rdm
from namespaces import IPV4, listens, namespaces_can_be_had, two_hosts, wire

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(), reason="no user namespaces, or no virtual Ethernet in them")

EFA = "--model=efa"
GIDS = [f"0000:0000:0000:0000:0000:ffff:0a63:000{host}" for host in (1, 2)]
PEERS = """\
send 0 ok
send 1 ok
send 33 ok
send 3000 ok
send 8192 ok
read ok
rkey 7
past the end 7
QPN 9
qkey 9
too long 11
nobody 15
immediate ok
"""
EXPLAINED = [("KEY_UNKNOWN", 7), ("KEY_PAST_END", 7), ("NO_RESPONSE", 9), ("QKEY_MISMATCH", 9), ("RECV_TOO_SHORT", 11),
             ("NO_RESPONSE", 15)]


@pytest.fixture(scope="module")
def module_hosts():
    with two_hosts(1500, EFA) as hosts:
        yield hosts


@pytest.fixture
def hosts(module_hosts):
    yield module_hosts
    for host in module_hosts:
        host.kill_programs()
        host.expect_idle()


def test_peers(hosts, tmp_path):
    """Data, statuses, why they are; all of it in a capture."""
    script = pathlib.Path(__file__).with_name("efa_hosts.py")
    tracer = Tracer(hosts[0], tmp_path / "capture")
    server = hosts[1].start("/usr/bin/python3", "-u", script, GIDS[0])
    wait_until(lambda: "\n" in server.stdout or not server.running, TIME_LIMIT, "it tells its address")
    client = hosts[0].start("/usr/bin/python3", "-u", script, GIDS[1], *server.stdout.split()[:3])
    wait_until(lambda: client.stdout == PEERS or not client.running, TIME_LIMIT, "all is done")
    time.sleep(0.1)
    before = cpu_ticks(hosts[0].pid)
    time.sleep(1)
    assert cpu_ticks(hosts[0].pid) - before <= 2, "a device uses the CPU that has nothing under way"
    passed = wire(hosts[0])
    peer = passed["peers"][GIDS[1]]
    assert peer["qps"] >= 1 and peer["sent"] > 10 and peer["received"] > 10 and not peer["lost"], passed
    assert {entry["pid"] for entry in passed["connections"]} == {client.pid}
    assert f"peer {GIDS[1]} qps {peer['qps']} sent " in expect_success(hosts[0].tool.run(SIMHCA, "wire")).stdout
    client.send(signal.SIGUSR1)
    client = expect_success(client.finish())
    assert client.stdout == PEERS, (client, server.result())
    assert expect_success(server.finish()).stdout.endswith("done\n")
    tracer.end()
    told = json.loads(expect_success(hosts[0].run(SIMHCA, "explain", "--json")).stdout)["failures"]
    assert [(failure["reason"], failure["vendor_err"]) for failure in told] == EXPLAINED
    shown = expect_success(hosts[0].run("tshark", "-r", tracer.path, "-T", "fields", "-e", "infiniband.bth.opcode")).stdout
    assert set(shown.split()) == {"192"}, shown
    assert not any(wire(hosts[1])["refused"].values())


@pytest.mark.parametrize("flags, size", [(["-c", "SRD"], 8192), (["-c", "UD", "-Q", 1], 64)])
def test_perftest(hosts, flags, size):
    port = new_port()
    argv = ["ib_send_bw", "-F", "-x", 0, "-n", 50, "-s", size, "-p", port, *flags]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    for result in hosts[0].run(*argv, IPV4[1]), server.finish():
        assert re.search(rf"^ {size} +50 ", expect_success(result).stdout, re.M), result


def test_libfabric(hosts, tmp_path):
    """Tagged messages, reads and writes, checked byte for byte."""
    run_efa_rdm(*reversed(hosts), tmp_path)


def test_bad_network(bad_wire, tmp_path):
    """Of packets that are lost, come twice or late, or are damaged, nothing shows."""
    with joined(bad_wire, lose=30, repeat=30, delay=30, damage=30, options=[EFA]) as (hosts, _):
        run_efa_rdm(*reversed(hosts), tmp_path)
