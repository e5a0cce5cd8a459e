# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
A path that loses packets of the path MTU and carries short ones, with Linux's rxe behind it: whether rxe answers what
a requester without an answer asks then, and `simhca explain` says so.
"""
import pytest

from common import SIMHCA, TIME_LIMIT, expect_success, new_port, wait_until
from namespaces import IPV4, IPV4_GID
from sides import listens

# What is longer is dropped.
POLICE = ["action", "police", "rate", "10gbit", "burst", "10m", "mtu", 1500, "conform-exceed", "drop/ok"]
WAYS = {"there": [["qdisc", "add", "dev", "eth0", "handle", "ffff:", "ingress"],
                  ["filter", "add", "dev", "eth0", "parent", "ffff:", "matchall", *POLICE]],
        "back": [["qdisc", "add", "dev", "eth0", "root", "handle", "1:", "prio"],
                 ["filter", "add", "dev", "eth0", "parent", "1:", "matchall", *POLICE]]}


@pytest.fixture
def path(sides, way):
    """Packets of the guest have a hole on their way there, or back."""
    guest = sides["rxe"]
    for words in WAYS[way]:
        expect_success(guest.run("tc", *words))
    yield sides
    print(guest.run("tc", "-s", "filter", "show", "dev", "eth0", "parent",
                    "ffff:" if way == "there" else "1:").stdout)
    expect_success(guest.run("tc", "qdisc", "del", "dev", "eth0", "ingress" if way == "there" else "root"))


# The first packet of a QP is a full one; or short messages have been before.
@pytest.mark.parametrize("way, program, options", [
    ("there", "ib_write_bw", ["-s", 65536]), ("there", "ib_write_bw", ["-a", "-n", 20]),
    ("there", "ib_send_bw", ["-s", 4096]), ("back", "ib_read_bw", ["-s", 65536]),
    ("back", "ib_read_bw", ["-a", "-n", 20])],
                         ids=["write", "write-longer", "send", "read", "read-longer"])
def test_a_hole(path, program, options):
    port = new_port()
    argv = [program, "-F", "-x", IPV4_GID, "-p", port, *options]
    server = path["rxe"].start(*argv)
    wait_until(lambda: listens(path["rxe"], port) or not server.running, TIME_LIMIT, "it listens")
    client = path["ours"].run(*argv, IPV4[1], seconds=2 * TIME_LIMIT)
    assert client.status, client
    story = expect_success(path["ours"].tool.run(SIMHCA, "explain")).stdout.rstrip().split("\n\n")[-1]
    assert f" {program}[" in story.splitlines()[0], story
    assert "(WIRE_PATH_MTU, vendor_err 119)" in story, story
