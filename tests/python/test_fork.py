# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Processes that fork: children use what they have inherited, their parents go on."""
import os
import signal
import struct
import time

from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.pd import PD

from harness import PAGE, READ, SEND, WRITE, Device, Memory, Side, connect, pattern, poll_ok


def in_child(work):
    """Runs work() in a child; its pid. Exit status 0 if it returned, 1 if it raised."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.alarm(30)
        work()
        status = 0
    except BaseException:  # pylint: disable=broad-except
        import traceback
        traceback.print_exc()
    finally:
        os._exit(status)


def succeeded(child):
    return os.waitpid(child, 0)[1] == 0


def test_control_path_of_both(ctx, pd):
    """Children and parent make and destroy objects of one context at the same time."""

    def churn():
        for _ in range(200):
            memory = Memory(PAGE)
            mr = MR(pd, PAGE, 7, address=memory.addr)
            assert mr.lkey
            mr.close()
            memory.close()
            CQ(ctx, 10).close()
            PD(ctx).close()
            ctx.query_port(1)

    children = [in_child(churn) for _ in range(4)]
    churn()
    assert all([succeeded(child) for child in children])
    churn()


def test_keys_of_children_differ(pd):
    """What a child registers has a key of its own; it is the child's memory, not the parent's."""
    reader, writer = os.pipe()

    def register():
        memory = Memory(PAGE)
        mr = MR(pd, PAGE, 7, address=memory.addr)
        os.write(writer, struct.pack('I', mr.rkey))

    children = [in_child(register) for _ in range(5)]
    assert all([succeeded(child) for child in children])
    keys = struct.unpack('5I', os.read(reader, 20))
    assert len(set(keys)) == 5


def test_memory_of_a_child(pair):
    """The peer writes to and reads from a region that a child registered in the inherited PD."""
    client, server = pair()
    shared = Memory(PAGE)  # copied by fork, so both have this address
    to_parent, to_child = os.pipe(), os.pipe()

    def serve():
        mr = MR(server.pd, PAGE, 15, address=shared.addr)
        shared.write(pattern(64, 3))
        os.write(to_parent[1], struct.pack('I', mr.rkey))
        assert os.read(to_child[0], 1) == b'x'
        assert shared.read(100, 1000) == pattern(100, 4)
        mr.close()
        os.write(to_parent[1], b'done')

    child = in_child(serve)
    rkey = struct.unpack('I', os.read(to_parent[0], 4))[0]
    client.send(READ, client.region.sge(0, 64), to=(shared.addr, rkey))
    poll_ok(client.scq)
    assert client.region.read(64) == pattern(64, 3)
    client.region.write(pattern(100, 4))
    client.send(WRITE, client.region.sge(0, 100), to=(shared.addr + 1000, rkey))
    poll_ok(client.scq)
    os.write(to_child[1], b'x')
    assert os.read(to_parent[0], 4) == b'done'
    assert succeeded(child)
    assert shared.read(PAGE) == bytes(PAGE)
    shared.close()


def test_parent_goes_on(pair):
    """Traffic of the parent is not disturbed by children that come and go."""
    client, server = pair()
    for turn in range(30):
        child = in_child(lambda: None)
        data = pattern(5000, turn)
        client.region.write(data)
        server.recv()
        client.send(SEND, client.region.sge(0, 5000))
        poll_ok(client.scq)
        poll_ok(server.rcq)
        assert server.region.read(5000) == data
        assert succeeded(child)


def test_memory_written_after_fork(pair):
    """After a fork the device still reaches the parent's pages, whoever has copied them."""
    client, server = pair()
    server.region.write(pattern(PAGE, 1))
    reader, writer = os.pipe()
    child = in_child(lambda: os.read(reader, 1))
    server.region.write(pattern(PAGE, 2))  # copy on write: the parent's page is another one now
    client.region.write(pattern(100, 5))
    client.send(WRITE, client.region.sge(0, 100), to=server.region.at(2000))
    client.send(READ, client.region.sge(PAGE, PAGE), to=server.region.at())
    poll_ok(client.scq, 2)
    expected = bytearray(pattern(PAGE, 2))
    expected[2000:2100] = pattern(100, 5)
    assert server.region.read(PAGE) == expected == client.region.read(PAGE, PAGE)
    os.write(writer, b'x')
    assert succeeded(child)


def test_child_with_its_own_context():
    """A child opens the device for itself and talks to its parent."""
    first, second = os.pipe(), os.pipe()
    server = Side()

    def talk():
        client = Side()
        client.attributes['timeout'] = 14
        os.write(first[1], struct.pack('I', client.qp.qp_num))
        peer = struct.unpack('I', os.read(second[0], 4))[0]
        client.to_init()
        client.to_rtr(client, dest_qp_num=peer)
        client.to_rts()
        client.region.write(pattern(10000))
        client.send(SEND, client.region.sge(0, 10000))
        poll_ok(client.scq)
        client.close()

    child = in_child(talk)
    peer = struct.unpack('I', os.read(first[0], 4))[0]
    server.to_init()
    server.recv()
    server.to_rtr(server, dest_qp_num=peer)
    server.to_rts()
    os.write(second[1], struct.pack('I', server.qp.qp_num))
    assert poll_ok(server.rcq).byte_len == 10000
    assert succeeded(child)
    assert server.region.read(10000) == pattern(10000)
    server.close()


def test_child_that_closes_everything():
    """A child closing an inherited descriptor, or ending, leaves the parent's context alive."""
    device = Device()
    child = in_child(lambda: os.close(device.ctx.cmd_fd))
    assert succeeded(child)
    time.sleep(0.05)
    device.no_event(0.01)
    PD(device.ctx).close()
    device.close()


def test_fork_in_traffic(side):
    """Forks while messages are under way."""
    client, server = side(), side()
    connect(client, server)
    for turn in range(20):
        for number in range(32):
            server.recv(server.region.sge(100 * number, 100))
            client.send(SEND, client.region.sge(100 * number, 100))
        child = in_child(lambda: None)
        poll_ok(client.scq, 32)
        poll_ok(server.rcq, 32)
        assert succeeded(child)


def test_queues_of_parent_and_children():
    """
    Who makes many queues has mapped the memory of the next ones, and so has a child. Which of them gets it
    for a queue, the device says.
    """
    device = Device()
    pd = PD(device.ctx)

    def exchange(seed):
        sides = [Side(device=device, pd=pd, size=256) for _ in range(24)]
        pairs = list(zip(sides[::2], sides[1::2]))
        for number, (one, other) in enumerate(pairs):
            connect(one, other)
            one.region.write(pattern(200, seed + number))
            other.recv()
            one.send(SEND, one.region.sge(0, 200))
        for number, (one, other) in enumerate(pairs):
            poll_ok(one.scq)
            poll_ok(other.rcq)
            assert other.region.read(200) == pattern(200, seed + number)
        for one in sides:
            one.close()

    exchange(0)
    children = [in_child(lambda seed=seed: exchange(seed)) for seed in (100, 200)]
    exchange(300)
    assert all([succeeded(child) for child in children])
    exchange(400)
    pd.close()
    device.close()
