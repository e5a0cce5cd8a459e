# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Many of everything: processes, QPs, ranks that all talk to each other. How long it takes is for
scripts/bench scale to say; here it only has to work, and to cost memory in proportion.
"""
import os
import pathlib
import subprocess

import pytest

from common import Device, expect_success, new_port, wait_until
from middleware import HERE, compiled
from namespaces import IPV4, IPV4_GID, inside, listens, namespaces_can_be_had, two_hosts
from rdmacm import expect_no_ids

LONG = bool(os.environ.get("SIMHCA_SOAK"))
SECONDS = 300
PROCESSES = 1000 if LONG else 300
RANKS = 64 if LONG else 24
FEW, MANY = (2500, 10000) if LONG else (500, 4000)
# Bytes of the daemon, its own and shared, that one idle object may cost; and the first thousand of queues, each of which
# has whole pages for itself.
MOST = {"qps": 8192, "cqs": 4096, "mrs": 1024}
PAGES = {"qps": 1024 * 4096, "cqs": 1024 * 4096, "mrs": 0}
# Of those that are gone: rows of tables, of which each is used in its turn; and 64 buffers of the wire with 64 KiB, and others.
LEFT = {"qps": 600, "packets": 6 << 20}
CONNECTIONS, CONNECTING = (10000, 100) if LONG else (500, 30)
ACROSS = 10000 if LONG else 500


@pytest.fixture(scope="module")
def scale(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("scale"), HERE.parent.parent / "bench" / "scale.c",
                    "-libverbs")


@pytest.fixture(scope="module")
def connections(tmp_path_factory):
    source = HERE.parent.parent / "bench" / "connections.c"
    return compiled(tmp_path_factory.mktemp("connections"), source, "-lrdmacm", "-libverbs")


@pytest.fixture
def ethernet():
    """A daemon of its own, for one that has had many objects keeps memory for them."""
    with Device("ethernet") as device:
        yield device


def resident(pid):
    """Bytes that a process has in memory."""
    lines = pathlib.Path("/proc", str(pid), "status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return 1024 * sum(int(values[name].split()[0]) for name in ("RssAnon", "RssShmem"))


def test_processes(ethernet, scale):
    """Each has the device open, all at once; and all of them can close it."""
    result = expect_success(ethernet.run(scale, "open", PROCESSES, seconds=SECONDS))
    assert "ready" in result.stdout.splitlines(), result
    ethernet.expect_idle()


def test_all_to_all(ethernet, scale):
    """Processes with a QP for each other one: every word of every message is checked."""
    expect_success(ethernet.run(scale, "alltoall", RANKS, seconds=SECONDS))
    ethernet.expect_idle()


@pytest.mark.parametrize("kind", MOST)
def test_objects(ethernet, scale, kind):
    """One process makes, connects and destroys thousands; the daemon's memory grows with them."""
    def cost(count):
        argv = [str(word) for word in (scale, kind, count)]
        with subprocess.Popen(argv, env=ethernet.env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == "ready":
                    grown = resident(ethernet.pid) - before
                    assert ethernet.objects()[kind] == count
                    process.stdin.close()
            assert process.wait(SECONDS) == 0 and "ready" in lines, lines
        ethernet.expect_idle()
        return grown

    expect_success(ethernet.run(scale, kind, 2))  # what a first client costs in any case
    before = resident(ethernet.pid)
    few = cost(FEW)
    many = cost(MANY)  # with what the first run had and the daemon kept
    assert many < MANY * MOST[kind] + PAGES[kind] + (1 << 20), (few, many)


# What the device promises at most of each, in queues as programs have them.
@pytest.mark.parametrize("kind", ["deep-qps", "cqs", "mapped-mrs", "mws"])
@pytest.mark.skipif(not LONG, reason="takes minutes; test_limits.c and test_mr.c have the rules")
def test_promised(ethernet, scale, kind):
    """As many as max_qp, max_cq, max_mr and max_mw say, in one process."""
    expect_success(ethernet.run(scale, kind, 65536, seconds=SECONDS))
    ethernet.expect_idle()


def test_memory_comes_back(ethernet, scale):
    """Doing it again and again costs no more than doing it once."""
    expect_success(ethernet.run(scale, "qps", FEW))
    wait_until(lambda: not ethernet.objects()["contexts"], SECONDS, "the context is gone")
    before = resident(ethernet.pid)
    for _ in range(5):
        expect_success(ethernet.run(scale, "qps", FEW))
        ethernet.expect_idle()
    assert resident(ethernet.pid) - before < FEW * MOST["qps"]


@pytest.mark.parametrize("kind, count", [("connections", CONNECTIONS), ("connecting", CONNECTING)])
def test_connections(ethernet, connections, kind, count):
    """By rdma_cm: many of one process, and many processes that connect at once."""
    result = expect_success(ethernet.run(connections, kind, count, seconds=SECONDS))
    assert "ready" in result.stdout.splitlines(), result
    ethernet.expect_idle()
    expect_no_ids(ethernet)


@pytest.mark.skipif(not namespaces_can_be_had(),
                    reason="no user namespaces, or no virtual Ethernet in them")
def test_between_hosts(scale):
    """QPs that are connected by the wire: each carries a message both ways, its data are checked."""
    def start(host, port, *to):
        argv = [*inside(host.namespace), scale, "across", ACROSS, IPV4_GID, port, *to]
        return subprocess.Popen(list(map(str, argv)), env=host.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def once(hosts, before):
        """How many bytes the daemons have more than before while they are all there."""
        port = new_port()
        with start(hosts[1], port) as server:
            wait_until(lambda: listens(hosts[1], port) or server.poll() is not None, SECONDS,
                       "it listens")
            with start(hosts[0], port, IPV4[1]) as client:
                programs = client, server
                lines = [[], []]
                for said, program in zip(lines, programs):
                    while not said or said[-1] not in ("ready", ""):
                        said.append(program.stdout.readline().strip())
                    assert said[-1] == "ready", lines
                grown = [resident(host.pid) - was for host, was in zip(hosts, before)]
                print(grown, lines)
                for host in hosts:
                    assert host.objects()["qps"] == ACROSS
                for program in programs:
                    program.stdin.close()
                for said, program in zip(lines, programs):
                    said += program.stdout.read().splitlines()
                    assert program.wait(SECONDS) == 0, lines
                print(lines)
        for host in hosts:
            host.expect_idle()
        return grown

    with two_hosts(1500) as hosts:
        for host in hosts:
            expect_success(host.run(scale, "qps", 2))  # what a first client costs in any case
        before = [resident(host.pid) for host in hosts]
        grown = once(hosts, before)
        assert max(grown) < ACROSS * MOST["qps"] + (1 << 20), grown
        once(hosts, before)  # which costs no more than doing it once
        # Memory that is free goes back when the daemon falls asleep.
        left = ACROSS * LEFT["qps"] + LEFT["packets"] + (2 << 20)
        stays = [resident(host.pid) - was for host, was in zip(hosts, before)]
        wait_until(lambda: all(resident(host.pid) - was < left for host, was in zip(hosts, before)), SECONDS // 10,
                   f"less than {left} bytes are left of {grown}, not {stays}")
        print(grown, stays, [resident(host.pid) - was for host, was in zip(hosts, before)])
