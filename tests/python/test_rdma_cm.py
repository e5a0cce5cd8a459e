# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
/dev/infiniband/rdma_cm as librdmacm writes to it: commands, their errors, and events that are
pulled. By the layouts of rdma/rdma_user_cm.h.
"""
import array
import errno
import os
import signal
import socket
import struct
import threading
import time

import pytest

from rdma_cm import (
    ADDR_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE, DISCONNECTED, ESTABLISHED, QPNS, REJECTED, TCP,
    UDP, UNREACHABLE, USER, CREATE_ID, DESTROY_ID, GET_OPTION, INIT_QP_ATTR, MIGRATE_ID,
    RESOLVE_ROUTE, SET_OPTION, WRITE_CM_EVENT, Channel, Refused, address, failures, listener, refused)

pytestmark = pytest.mark.addresses


def test_node():
    status = os.stat("/dev/infiniband/rdma_cm")
    assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (10, 58)
    with open("/sys/class/misc/rdma_cm/abi_version", encoding="ascii") as file:
        assert file.read() == "4\n"


def test_what_is_refused(channel, other):
    number = channel.create()
    refused(errno.EINVAL, channel.command, 25, bytes(8))
    refused(errno.ENOSYS, channel.command, GET_OPTION, bytes(24))
    refused(errno.EINVAL, channel.command, DESTROY_ID, bytes(4))
    refused(errno.ENOSPC, channel.command, CREATE_ID, struct.pack("<QQHB5x", 1, 0, TCP, 2), 0)
    refused(errno.ENOENT, channel.destroy, 12345)
    refused(errno.EINVAL, other.destroy, number)
    refused(errno.EINVAL, channel.create, 0x105)
    # States: nothing without an address, a route, a peer.
    refused(errno.EINVAL, channel.command, RESOLVE_ROUTE, struct.pack("<II", number, 1))
    refused(errno.EINVAL, channel.connect, number, 2)
    refused(errno.EINVAL, channel.accept, number, 1, 2)
    refused(errno.EINVAL, channel.command, INIT_QP_ATTR, struct.pack("<QII", 0, number, 1), 144, 0)
    refused(errno.ENOSYS, channel.command, SET_OPTION, struct.pack("<QIIII", 0, number, 9, 0, 0))
    refused(errno.EADDRNOTAVAIL, channel.bind, number, address(0, "192.0.2.77"))
    channel.bind(number, address())
    refused(errno.EINVAL, channel.bind, number, address())


def test_ports(channel, other):
    """A namespace of their own, one for each port space."""
    number, port = listener(channel)
    second = other.create()
    refused(errno.EADDRNOTAVAIL, other.bind, second, address(port))
    refused(errno.EADDRNOTAVAIL, other.bind, second, address(port, "0.0.0.0"))
    datagrams = other.create(UDP)
    other.bind(datagrams, address(port))
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", port))
    channel.destroy(number)
    other.bind(second, address(port))


def test_connection(channel, other):
    """From the request to the end, with private data, by both channels."""
    _, port = listener(channel)
    client, qpn = other.create(uid=2), next(QPNS)
    other.resolve(client, port)
    refused(errno.EINVAL, other.connect, client, qpn, bytes(57))
    other.connect(client, qpn, b"hello")
    kind, request, status, uid, parameters = channel.event()
    assert (kind, status, uid) == (CONNECT_REQUEST, 0, 1)
    assert parameters[8:13] == b"hello" and parameters[264] == 56
    channel.accept(request, 3, 0x123456)
    kind, number, status, uid, parameters = other.event()
    assert (kind, number, status, uid) == (CONNECT_RESPONSE, client, 0, 2)
    assert struct.unpack_from("<I", parameters)[0] == 0x123456 and parameters[264] == 196
    other.establish(client)
    assert channel.event()[:2] == (ESTABLISHED, request)
    # Two events of the client were fetched after those of its addresses.
    assert other.destroy(client) == 3
    kind, number, status, uid, _ = channel.event()
    assert (kind, number, uid) == (DISCONNECTED, request, 3)


def test_nobody_listens(channel):
    number, port = listener(channel)
    channel.destroy(number)
    client = channel.create()
    channel.resolve(client, port)
    channel.connect(client, next(QPNS))
    assert channel.event()[:3] == (REJECTED, client, 8)


def test_unknown_address(channel):
    """Nobody on this fabric has it: an event, when the time-out is over, and the id has no device then, nor an address."""
    client = channel.create()
    channel.resolve_addr(client, address(1, "192.0.2.77"), 200)
    assert not channel.readable()
    assert channel.event()[:3] == (1, client, -errno.ETIMEDOUT)
    addresses = channel.query(client, 0, 280)
    assert addresses[:8] == bytes(8) and addresses[20:24] == bytes(4), addresses
    channel.resolve(client, 1)


def test_backlog(channel, other):
    """Requests beyond it are not answered: the listener is told of two, and no client of more."""
    number, port = listener(channel, 2)
    for i in range(4):
        client = other.create(uid=10 + i)
        other.resolve(client, port)
        other.connect(client, next(QPNS))
    assert [channel.event()[0] for _ in range(2)] == [CONNECT_REQUEST] * 2
    assert not channel.readable(0.2) and not other.readable()


def test_backlog_of_datagrams(channel, other):
    """Who asks for a QP beyond it is refused at once, as by Linux: 2 is IB_SIDR_REJECT."""
    _, port = listener(channel, 1, UDP)
    clients = [other.create(UDP, uid=10 + i) for i in range(2)]
    for client in clients:
        other.resolve(client, port)
        other.connect(client, next(QPNS))
    assert other.readable(1) and other.event()[:3] == (UNREACHABLE, clients[1], 2)
    server, client = [failure for failure in failures() if failure["text"].count("backlog")][-2:]
    assert server["how"] == client["how"] == "backlog_full", (server, client)
    assert client["text"].endswith(f":{port} in port space UDP refuses, status 2: its backlog of 1 is full"), client
    assert channel.event()[0] == CONNECT_REQUEST and not channel.readable()


def test_datagrams_are_not_wanted(channel, other):
    """The story is not that nobody listens."""
    _, port = listener(channel, 1, UDP)
    client, next_one = other.create(UDP), other.create(UDP)
    other.resolve(client, port)
    other.connect(client, next(QPNS))
    kind, request, *_ = channel.event()
    assert kind == CONNECT_REQUEST
    # Its place in the backlog is another one's by now.
    other.resolve(next_one, port)
    other.connect(next_one, next(QPNS))
    assert channel.readable(10)
    channel.reject(request)
    assert other.event()[:3] == (UNREACHABLE, client, 2)
    told = failures()[-1]
    assert told["how"] == "rejected", told
    assert told["text"].endswith(f":{port} in port space UDP refuses, status 2: the peer's program does not want it"), told


def test_unfetched_requests_go(channel, other):
    """A listener is destroyed before anybody looked: its clients are rejected."""
    number, port = listener(channel)
    client = other.create(uid=2)
    other.resolve(client, port)
    other.connect(client, next(QPNS))
    assert channel.readable(5)
    assert channel.destroy(number) == 0
    assert not channel.readable()
    assert other.event()[0] == REJECTED


def test_waiting(channel):
    """poll(), O_NONBLOCK, a thread that waits while another one writes, and a signal."""
    quick = Channel(os.O_NONBLOCK)
    refused(errno.EAGAIN, quick.event)
    quick.close()
    number = channel.create()
    assert not channel.readable()
    seen = []
    thread = threading.Thread(target=lambda: seen.append(channel.event()))
    thread.start()
    time.sleep(0.1)
    assert not seen
    channel.resolve_addr(number, address(5000))
    thread.join(10)
    assert seen[0][:2] == (ADDR_RESOLVED, number)
    assert not channel.readable()

    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(Interrupted):
        channel.event()
    signal.signal(signal.SIGALRM, before)


def test_shared_descriptors(channel):
    """dup(), fork() and SCM_RIGHTS: one file, whoever writes."""
    number = channel.create()
    copy = Channel.__new__(Channel)
    copy.fd = os.dup(channel.fd)
    copy.resolve_addr(number, address(5000))
    assert channel.event()[0] == ADDR_RESOLVED
    copy.close()
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        status = 1
        try:
            _, control, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
            copy.fd = array.array("i", control[0][2])[0]
            copy.destroy(number)
            status = 0
        finally:
            os._exit(status)
    theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                             array.array("i", [channel.fd]))])
    assert os.waitpid(child, 0)[1] == 0
    refused(errno.ENOENT, channel.destroy, number)
    ours.close()
    theirs.close()


def test_killed_between_request_and_answer(channel):
    """A server dies with a request that it has fetched: the client is rejected."""
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        server = Channel()
        os.write(tell, struct.pack("<I", listener(server)[1]))
        server.event()
        signal.pause()
    port = struct.unpack("<I", os.read(ready, 4))[0]
    client = channel.create()
    channel.resolve(client, port)
    channel.connect(client, next(QPNS))
    time.sleep(0.2)
    assert not channel.readable()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert channel.event()[:3] == (REJECTED, client, 28)
    os.close(ready)
    os.close(tell)


def test_migrate(channel, other):
    """An id goes to another channel with the events that nobody has fetched."""
    number = channel.create(uid=5)
    channel.resolve_addr(number, address(5000))
    assert channel.readable()
    answer = other.command(MIGRATE_ID, struct.pack("<QII", 0, number, channel.fd), 4, 0)
    assert struct.unpack("<I", answer)[0] == 0
    assert not channel.readable() and other.readable()
    assert other.event()[:2] == (ADDR_RESOLVED, number)
    refused(errno.EINVAL, channel.destroy, number)
    refused(errno.EINVAL, other.command, MIGRATE_ID, struct.pack("<QII", 0, number, 0), 4, 0)
    assert other.destroy(number) == 1


def test_own_events(channel):
    """librdmacm's struct is longer than the kernel's."""
    number = channel.create(uid=5)
    channel.command(WRITE_CM_EVENT, struct.pack("<IIIIQ", number, 0, USER, 3, 0x1122334455667788) +
                    bytes(304))
    kind, of, status, uid, parameters = channel.event()
    assert (kind, of, status, uid) == (USER, number, 3, 5)
    assert struct.unpack_from("<Q", parameters)[0] == 0x1122334455667788
    refused(errno.EINVAL, channel.command, WRITE_CM_EVENT,
            struct.pack("<IIIIQ", number, 0, ESTABLISHED, 0, 0) + bytes(296))


@pytest.mark.time_limit(300)
def test_never_fetched(channel):
    """
    Events that nobody fetches are counted, and do no harm to others. The test and the daemon take turns 65,536 times: a
    second by themselves, and a minute beside ten others on two CPUs, where each turn may wait for a time slice.
    """
    number = channel.create(uid=5)
    event = struct.pack("<IIIIQ", number, 0, USER, 0, 0) + bytes(296)
    with pytest.raises(Refused) as caught:
        for _ in range(70000):
            channel.command(WRITE_CM_EVENT, event)
    assert caught.value.args[0] == errno.ENOMEM
    assert channel.destroy(number) == 0
    assert not channel.readable()
