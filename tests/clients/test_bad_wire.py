# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
RoCE v2 over a wire that loses packets, carries them twice or late, and damages them (bad_wire.c):
whatever it does, data arrive once and in order, or the requester is told.
"""
import collections
import os
import pathlib
import signal
import time

import pytest

from bad_link import counter, joined
from common import TIME_LIMIT, expect_success, new_port, wait_until
from namespaces import IPV4, IPV4_GID, IPV6_GID, listens, namespaces_can_be_had, wire

PEER = pathlib.Path(__file__).with_name("wire_peer.py")

pytestmark = pytest.mark.skipif(not namespaces_can_be_had(),
                                reason="no user namespaces, or no virtual Ethernet in them")


def run_peers(hosts, case, gid=IPV4_GID):
    port = new_port()
    argv = ["/usr/bin/python3", PEER, "simhca0", gid, case, port]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    client = hosts[0].run(*argv, IPV4[1])
    return expect_success(client).stdout, expect_success(server.finish()).stdout


def counted(host):
    """What tells that packets did not come, or came twice or late."""
    names = "local_ack_timeout_err", "packet_seq_err", "out_of_sequence", "duplicate_request"
    return sum(counter(host, name) for name in names)


def damaged(report):
    """What had a wrong UDP checksum the kernel has dropped, the rest had a wrong ICRC."""
    return (sum(report["refused"].values()) +
            sum(address["dropped"] for address in report["addresses"]))


@pytest.mark.parametrize("fate, gid", [
    ({"lose": 30}, IPV4_GID), ({"repeat": 50}, IPV6_GID), ({"delay": 50}, IPV4_GID),
    ({"damage": 30}, IPV6_GID),
    ({"lose": 20, "repeat": 20, "delay": 20, "damage": 20}, IPV4_GID), ({"lose": 100}, IPV6_GID),
], ids=["lose", "repeat", "delay", "damage", "all", "lose a tenth"])
def test_arrives(bad_wire, fate, gid):
    """Writes, reads, atomics and sends, of a thousand packets and more; the counters tell."""
    with joined(bad_wire, **fate) as (hosts, _):
        assert run_peers(hosts, "many", gid)[0] == "SUCCESS\n"
        # The counters' files are as old as their lifespan says.
        wait_until(lambda: sum(map(counted, hosts)), TIME_LIMIT, "the counters tell of it")
        if "damage" in fate:
            reports = list(map(wire, hosts))
            assert sum(map(damaged, reports)) > 0, reports


@pytest.mark.parametrize("gid", [IPV4_GID, IPV6_GID])
def test_a_full_network_is_heeded(bad_wire, gid):
    """It marks packets: who gets them tells the sender, who hears of it."""
    with joined(bad_wire, mark=200) as (hosts, _):
        assert run_peers(hosts, "many", gid)[0] == "SUCCESS\n"
        for name in "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled":
            wait_until(lambda: sum(counter(host, name) for host in hosts), TIME_LIMIT, name)


# ------------------------------------------------------------------------------ fairness

NARROW = {"rate": 100, "queue": 64}
MEGABYTES = 400 if os.environ.get("SIMHCA_SOAK") == "1" else 25  # that the link carries meanwhile


def without_end(hosts, program, server_at, qps):
    port = new_port()
    argv = [program, "-F", "-x", IPV4_GID, "-p", port, "-D", 10 * TIME_LIMIT, "-q", qps]
    server = hosts[server_at].start(*argv)
    wait_until(lambda: listens(hosts[server_at], port) or not server.running, TIME_LIMIT,
               "it listens")
    return server, hosts[1 - server_at].start(*argv, IPV4[server_at])


# All of them from the first host to the second.
def writes(hosts, qps=1):
    return without_end(hosts, "ib_write_bw", 1, qps)


def reads(hosts, qps=1):
    return without_end(hosts, "ib_read_bw", 0, qps)


def tcp(hosts):
    port = new_port()
    server = hosts[1].start("iperf3", "-s", "-1", "-p", port)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    return server, hosts[0].start("iperf3", "-c", IPV4[1], "-p", port, "-C", "reno",
                                  "-t", 10 * TIME_LIMIT)


def carried(link):
    """Of each megabyte that has gone through the bucket: {QPN, or 0 for TCP: bytes}"""
    return [{int(qpn): int(size) for qpn, size in (word.split(":") for word in line.split())}
            for line in link.stdout.splitlines()[1:]]


# A program with so many QPs, and what is beside it; early: the link marks, or only loses; the least
# part of it that each of the flows gets.
FAIR = [(writes, 1, tcp, 32, 0.2), (writes, 1, writes, 32, 0.2), (reads, 1, tcp, 32, 0.1),
        (writes, 1, tcp, 64, 0.2), (writes, 4, tcp, 32, 0.08)]
if os.environ.get("SIMHCA_SOAK") == "1":
    FAIR += [(writes, 1, writes, 64, 0.2), (reads, 1, tcp, 64, 0.1), (writes, 4, tcp, 64, 0.08),
             (reads, 4, tcp, 32, 0.05), (writes, 16, tcp, 32, 0.01), (writes, 16, tcp, 64, 0.01),
             (writes, 64, tcp, 32, 0.002)]


@pytest.mark.parametrize("flow, qps, beside, early, least", FAIR)
def test_fair(bad_wire, early, flow, qps, beside, least):
    """Flows, by each of which a narrow link would be full: none of them starves."""
    with joined(bad_wire, **NARROW, early=early) as (hosts, link):
        programs = [*flow(hosts, qps), *beside(hosts)]

        def all_run():
            for program in programs:
                assert program.running, program.result()
            return True

        def flows():
            sums = collections.Counter()
            for one in carried(link):
                sums.update(one)
            return {qpn for qpn, size in sums.items() if size > 10000}

        wait_until(lambda: all_run() and len(flows()) == qps + 1, TIME_LIMIT, "all of them send")
        qpns = flows()
        begun = len(carried(link))
        wait_until(lambda: all_run() and len(carried(link)) >= begun + MEGABYTES,
                   10 * TIME_LIMIT, "the link has carried enough")
        got = {qpn: sum(one.get(qpn, 0) for one in carried(link)[begun:begun + MEGABYTES]) /
               (MEGABYTES * 1000000) for qpn in qpns}
        print(got)
        assert min(got.values()) > least, got


def test_nothing_arrives(bad_wire):
    """
    retry_cnt says how often a packet is sent again: 3 times here, and then it is over. Of three
    packets the window has room for two after the first time. From the second silence on a probe of the
    path goes before them.
    """
    with joined(bad_wire, lose=1000) as (hosts, link):
        assert run_peers(hosts, "no_receive")[0] == "RETRY_EXC_ERR\n"
        link.send(signal.SIGTERM)
        assert expect_success(link.finish()).stdout.splitlines()[1] == f"{3 + 3 * 2 + 2} 0"


@pytest.mark.parametrize("case, far", [("one_by_one", 30), ("from_far", 100)])
def test_answers_take_longer_than_the_timeout(bad_wire, case, far):
    """
    A round trip of 60 ms, and a time-out of 17; or of 200 ms, and the usual one of 67 (timeout 14): the first writes are
    repeated until it is known how long answers take, and the others are not.
    """
    with joined(bad_wire, far=far) as (hosts, _):
        assert run_peers(hosts, case)[0] == "SUCCESS\n" * 20
        names = "local_ack_timeout_err", "roce_adp_retrans"
        wait_until(lambda: counter(hosts[0], names[0]), TIME_LIMIT, "a time-out is counted")
        assert sum(counter(hosts[0], name) for name in names) < 10


# ------------------------------------------------------------------------- programs of perftest


FAR_SECONDS = 3
FAR_BYTES = 1 << 18  # 256 packets
STOPS = 10  # seconds: many times what retries by themselves would take


def gigabits(hosts, program, size, seconds=FAR_SECONDS):
    """Per second, of a program of perftest's from the first host to the second."""
    port = new_port()
    argv = [program, "-F", "-x", IPV4_GID, "-s", size, "-D", seconds, "--report_gbits", "-p", port]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(hosts[0].run(*argv, IPV4[1]))
    expect_success(server.finish())
    return next(float(line.split()[3]) for line in client.stdout.splitlines()
                if line.split()[:1] == [str(size)])


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_read_bw", "ib_send_bw"])
def test_from_far(bad_wire, program):
    """
    The same by programs, whose time-out is 14 by default, with many packets under way from the first moment: nothing is sent
    again but what was before the first answer. A time-out and one that is twice as long are just a round trip.
    """
    with joined(bad_wire, far=100) as (hosts, _):
        assert gigabits(hosts, program, FAR_BYTES >> 3, 2 * FAR_SECONDS) > 0
        assert counter(hosts[0], "local_ack_timeout_err") + counter(hosts[1], "local_ack_timeout_err") < 5
        assert counter(hosts[0], "roce_adp_retrans") + counter(hosts[1], "roce_adp_retrans") < 10


def test_reads_follow_each_other(bad_wire):
    """
    A round trip of 20 ms: reads have as much under way as writes. One request for 32 packets at a time would be a
    ninth of it.
    """
    with joined(bad_wire, far=10) as (hosts, _):
        writes, reads = (gigabits(hosts, program, FAR_BYTES) for program in ("ib_write_bw", "ib_read_bw"))
        print(f"{writes} Gb/s written, {reads} read")
        assert reads > 0.5 * writes


@pytest.mark.parametrize("lose", [10, 100])
def test_a_receiver_that_stops(bad_wire, lose):
    """Its daemon says that there is no receive, for as long as it takes, and that costs no retry, whatever is lost of it."""
    port = new_port()
    argv = ["ib_send_bw", "-F", "-x", IPV4_GID, "-s", 5000, "-D", STOPS + 2, "-p", port]
    with joined(bad_wire, lose=lose) as (hosts, _):
        server = hosts[1].start(*argv)
        wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
        client = hosts[0].start(*argv, IPV4[1])
        wait_until(lambda: wire(hosts[1])["taken"] > 1000, TIME_LIMIT, "it receives")
        server.send(signal.SIGSTOP)
        time.sleep(STOPS)
        assert client.running, client.result()
        server.send(signal.SIGCONT)
        for program in client, server:
            expect_success(program.finish(10 * TIME_LIMIT))
        wait_until(lambda: counter(hosts[1], "out_of_buffer"), TIME_LIMIT, "it was without a receive")
