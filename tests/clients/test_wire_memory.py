# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""What packets cost a daemon in memory: none is allocated for each, whatever the wire does to them."""
import contextlib

import pytest

from bad_link import joined
from common import BUILD, TIME_LIMIT, expect_success, new_port, wait_until
from middleware import compiled
from namespaces import IPV4, IPV4_GID, listens, namespaces_can_be_had, two_hosts, wire

FEW, MANY = 25, 275  # messages
LONG, SHORT = 32768, 8  # bytes; a long one is 32 packets
MOST = 0.01  # allocations for a packet

pytestmark = [
    pytest.mark.skipif(not namespaces_can_be_had(), reason="no user namespaces, or no virtual Ethernet in them"),
    pytest.mark.skipif(b"__asan_init" in (BUILD / "bin" / "simhcad").read_bytes(),
                       reason="AddressSanitizer has an allocator of its own")]


@pytest.fixture(scope="module")
def counting(programs):
    """The variables by which a daemon counts, and how many allocations there have been of both hosts."""
    library = compiled(programs, "allocations.c", "-shared", "-fPIC")
    count = programs / "count"
    count.write_bytes(bytes(8))
    return ({"LD_PRELOAD": str(library), "SIMHCA_ALLOCATIONS": str(count)},
            lambda: int.from_bytes(count.read_bytes(), "little"))


@contextlib.contextmanager
def hosts_of(bad_wire, env, fate):
    """Two hosts whose wire is as good as a virtual one is, or else has this fate."""
    with contextlib.ExitStack() as stack:
        if fate:
            yield stack.enter_context(joined(bad_wire, env=env, **fate))[0]
        else:
            yield stack.enter_context(two_hosts(1500, env=env))


def run(hosts, program, messages, *options):
    port = new_port()
    argv = [program, "-F", "-x", IPV4_GID, "-n", messages, "-p", port, *options]
    server = hosts[1].start(*argv)
    wait_until(lambda: listens(hosts[1], port) or not server.running, TIME_LIMIT, "it listens")
    expect_success(hosts[0].run(*argv, IPV4[1]))
    expect_success(server.finish())
    for host in hosts:
        host.expect_idle()


ROWS = [("ib_write_bw", LONG), ("ib_read_bw", LONG), ("ib_send_bw", LONG), ("ib_send_bw", SHORT), ("ib_write_lat", SHORT),
        ("ib_atomic_bw", None), ("ib_send_bw", LONG // 32, "-c", "UD")]

BAD = ROWS[:3]


@pytest.mark.parametrize("fate", [{}, {"lose": 20, "repeat": 20, "delay": 20, "damage": 20}], ids=["good", "bad"])
def test_nothing_is_allocated_for_a_packet(bad_wire, counting, fate):
    """A program that sends eleven times as much has its daemons allocate as much: for QPs, regions and reports."""
    env, allocated = counting
    times = 1 if fate else 4
    with hosts_of(bad_wire, env, fate) as hosts:
        run(hosts, "ib_write_bw", times * MANY, "-s", LONG)  # what is allocated once
        for program, size, *options in BAD if fate else ROWS:
            options += ["-s", size] if size else []
            counts = []
            for messages in FEW, MANY:
                before = allocated(), wire(hosts[0])["taken"] + wire(hosts[1])["taken"]
                run(hosts, program, times * messages, *options)
                counts.append((allocated() - before[0],
                               wire(hosts[0])["taken"] + wire(hosts[1])["taken"] - before[1]))
            (few, _), (many, packets) = counts
            print(program, *options, counts)
            assert packets >= times * MANY and many - few < MOST * packets, (program, options, counts)
