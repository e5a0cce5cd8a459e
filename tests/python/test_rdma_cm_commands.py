# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Commands of /dev/infiniband/rdma_cm that few programs use: the older ones for IP, AF_IB, options,
queries and groups; and what is written or pointed to wrongly.
"""
import ctypes
import errno
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys

import pytest
import verbs_enums as e

from rdma_cm import (
    ADDR_RESOLVED, BIND_IP, CONNECT_REQUEST, CONNECT_RESPONSE, CREATE_ID, ESTABLISHED, GET_EVENT, IB,
    INIT_QP_ATTR, JOIN_IP_MCAST, JOIN_MCAST, LEAVE_MCAST, MULTICAST_JOIN, QPNS, QUERY_ROUTE, RESOLVE_IP,
    ROUTE_RESOLVED, SET_OPTION, TCP, UDP, PORT, Refused, address, ib_address, is_ethernet,
    listener, refused)

pytestmark = pytest.mark.addresses

FLUSH_GLOBAL, FLUSH_PERSISTENT = 1 << 8, 1 << 9  # ibv_access_flags; not in each pyverbs
ID, TOS, REUSEADDR, AFONLY, ACK_TIMEOUT = 0, 0, 1, 2, 3  # RDMA_OPTION_ID and options of this level
PATH = 1, 1  # RDMA_OPTION_IB, RDMA_OPTION_IB_PATH
FLAGS = 1 | 2 | 8 | 32  # of a path record: for GMPs, primary, in both directions
INIT, RTR, RTS = 1, 2, 3

libc = ctypes.CDLL(None, use_errno=True)


def raw_gid(text):
    return bytes.fromhex(text.strip().replace(":", ""))


def gids():
    return [raw_gid((PORT / "gids" / str(i)).read_text()) for i in range(8)]


def node_guid():
    return raw_gid((PORT.parents[1] / "node_guid").read_text())


def write_from(channel, pointer, size):
    """write() as C has it: any pointer."""
    done = libc.write(channel.fd, ctypes.c_void_p(pointer), ctypes.c_size_t(size))
    if done < 0:
        raise Refused(ctypes.get_errno())
    return done


def create_command(response, ps=TCP):
    return struct.pack("<IHHQQHB5x", CREATE_ID, 24, 4, 7, response, ps, 2)


def test_bad_pointers(channel):
    """EFAULT and no signal; what would have been lost is not."""
    unmapped = 8
    page = mmap.mmap(-1, mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(page))
    assert not libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, mmap.PROT_READ)
    refused(errno.EFAULT, write_from, channel, unmapped, 32)
    for response in (0, unmapped, start, start + mmap.PAGESIZE - 2):
        refused(errno.EFAULT, os_write, channel, create_command(response))
    number = channel.create()
    assert number == channel.create() - 1, "ids were made that nobody knows of"
    channel.resolve_addr(number, address(5000))
    refused(errno.EFAULT, os_write, channel, struct.pack("<IHHQ", GET_EVENT, 8, 336, unmapped))
    assert channel.event()[:2] == (ADDR_RESOLVED, number)
    refused(errno.EFAULT, channel.command, SET_OPTION,
            struct.pack("<QIIII", unmapped, number, ID, TOS, 1))
    assert not libc.mprotect(ctypes.c_void_p(start), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)


def os_write(channel, data):
    try:
        return os.write(channel.fd, data)
    except OSError as error:
        raise Refused(error.errno) from None


def test_odd_writes(channel):
    """What is too short is refused, and what follows a command is not looked at."""
    for size in (0, 1, 5, 7, 9, 33):
        refused(errno.EINVAL, os_write, channel, b"\xff" * size)
    refused(errno.EINVAL, os_write, channel, b"\xff" * 5000)
    number = ctypes.c_uint32(77)
    command = create_command(ctypes.addressof(number))
    for size in (7, 8, 31):
        refused(errno.EINVAL, os_write, channel, command[:size])
    for size in (1, 2, 296, 297, 5000):
        number.value = 77
        assert os_write(channel, command + b"x" * size) == 32 + size
        assert number.value != 77
        channel.destroy(number.value)
    # A device that is asked so once goes on.
    channel.create()


BIND = """
import rdma_cm
channel = rdma_cm.Channel()
try:
    channel.bind(channel.create(), rdma_cm.address(1023))
except rdma_cm.Refused as refused:
    print(refused.args[0])
else:
    print("bound")
"""


def test_privileged_ports(channel):
    """Those below 1024 take CAP_NET_BIND_SERVICE, also of root."""
    command = [sys.executable, "-c", BIND]
    without = ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]
    if os.geteuid():
        without = []
    else:
        assert subprocess.check_output(command, text=True) == "bound\n"
    assert subprocess.check_output(without + command, text=True) == f"{errno.EACCES}\n"
    channel.bind(channel.create(), address(1024))


def test_max_backlog():
    assert pathlib.Path("/proc/sys/net/rdma_ucm/max_backlog").read_text() == "1024\n"


def test_ip_commands(channel):
    """BIND_IP, RESOLVE_IP and QUERY_ROUTE, of the time before AF_IB."""
    room = address(0).ljust(28, b"\xff")
    number = channel.create()
    channel.command(BIND_IP, bytes(8) + room + struct.pack("<I", number))
    bound = struct.unpack_from("!H", channel.query(number, 0, 280), 18)[0]
    assert bound >= 1024
    refused(errno.EADDRNOTAVAIL, channel.command, BIND_IP,
            bytes(8) + address(bound).ljust(28, b"\0") + struct.pack("<I", channel.create()))
    client = channel.create()
    channel.command(RESOLVE_IP, room + address(5001).ljust(28, b"\xff") +
                    struct.pack("<II", client, 1000))
    assert channel.event()[:2] == (ADDR_RESOLVED, client)
    channel.resolve_route(client)
    route = channel.command(QUERY_ROUTE, struct.pack("<QII", 0, client, 0), 208, 0)
    assert route[:8] == node_guid()
    dgid, sgid, dlid, slid = struct.unpack_from("!16s16sHH", route, 8)
    assert dgid == sgid and sgid in gids()
    assert (dlid, slid) == (0xffff, 0xffff) if is_ethernet() else dlid == slid != 0
    src, dst = route[136:164], route[164:192]
    assert src[:2] == dst[:2] == struct.pack("<H", socket.AF_INET)
    assert dst[:8] == address(5001)[:8] and src[4:8] == dst[4:8]
    assert not any(src[8:]) and not any(dst[8:]), "what was behind an address is part of it"
    assert struct.unpack_from("<I", route, 192)[0] == 1 and route[196] == 1


def test_queries(channel):
    """Addresses, GIDs and paths; before there is a device, none of its."""
    number = channel.create()
    answer = channel.query(number, 0, 280)
    assert answer[:8] == bytes(8) and struct.unpack_from("<HH", answer, 12) == (0, 0)
    assert channel.query(number, 1, 8 + 72)[:4] == bytes(4)
    channel.resolve(number, 5002)
    answer = channel.query(number, 0, 280)
    assert answer[:8] == node_guid() and answer[8] == 1
    assert struct.unpack_from("!H", answer, 10)[0] == 0xffff
    assert struct.unpack_from("<HH", answer, 12) == (16, 16)
    assert answer[144:152] == address(5002)[:8]
    answer = channel.query(number, 2, 280)
    assert struct.unpack_from("<HH", answer, 12) == (48, 48)
    family, gid, sid = *struct.unpack_from("<H6x16s", answer, 144), \
        struct.unpack_from("!Q", answer, 168)[0]
    assert family == 27 and gid in gids() and sid == TCP << 16 | 5002
    path = channel.query(number, 1, 8 + 72)
    assert struct.unpack_from("<I", path)[0] == 1
    assert struct.unpack_from("<I", path, 8)[0] == FLAGS
    assert path[24:40] == gid == path[40:56]
    assert struct.unpack_from("!H", path, 66)[0] == 0xffff
    # Without room for the path: how many there are.
    assert struct.unpack_from("<I", channel.query(number, 1, 8))[0] == 1
    assert not any(channel.query(number, 1, 8 + 40)[8:]), "half a path"
    refused(errno.ENOSPC, channel.query, number, 1, 4)
    refused(errno.ENOSPC, channel.query, number, 0, 128)
    refused(errno.ENOSYS, channel.query, number, 4, 280)


def test_af_ib(channel, other):
    """Two ends that know GIDs and service IDs alone, with all the room for private data, on InfiniBand."""
    gid = gids()[1 if is_ethernet() else 0]
    if is_ethernet():
        refused(errno.ENODEV, channel.bind, channel.create(IB), ib_address(TCP << 16, gid=gid))
        refused(errno.ENODEV, channel.resolve_addr, channel.create(IB),
                ib_address(TCP << 16 | 5000, gid=b"\xfd" * 16))
        # An address is found, and no route.
        for to in gid, bytes(16), bytes(15) + b"\1":
            number = channel.create(IB)
            channel.resolve_addr(number, ib_address(TCP << 16 | 5000, gid=to))
            assert channel.event()[0] == ADDR_RESOLVED
            assert channel.query(number, 0, 280)[24:40] == (to if any(to) else bytes(15) + b"\1")
            refused(errno.ENODEV, channel.resolve_route, number)
        return
    number = channel.create(IB, uid=1, qp_type=2)
    channel.bind(number, ib_address(TCP << 16, 2**64 - 0x10000))
    channel.listen(number)
    sid = struct.unpack_from("!Q", channel.query(number, 2, 280), 16 + 24)[0]
    assert sid >> 16 == TCP and sid & 0xffff >= 1024
    client = other.create(IB, uid=2, qp_type=2)
    other.resolve(client, ib_address(sid, gid=gid))
    private = bytes(range(92))
    refused(errno.EINVAL, other.connect, client, next(QPNS), bytes(93))
    other.connect(client, next(QPNS), private)
    kind, request, _, _, parameters = channel.event()
    assert kind == CONNECT_REQUEST and parameters[8:100] == private and parameters[264] == 92
    src = channel.query(request, 0, 280)
    assert struct.unpack_from("<HH", src, 12) == (48, 48) and src[144 + 8:144 + 24] == gid
    channel.accept(request, 3, next(QPNS))
    assert other.event()[:2] == (CONNECT_RESPONSE, client)
    # An address that is taken, a service ID of no port space, and a GID that nobody has.
    number = channel.create(IB)
    channel.bind(number, ib_address(TCP << 16, 2**64 - 0x10000, gid))
    taken = struct.unpack_from("!Q", channel.query(number, 2, 280), 16 + 24)[0]
    refused(errno.EADDRINUSE, other.bind, other.create(IB), ib_address(taken, gid=gid))
    refused(errno.EPROTONOSUPPORT, channel.bind, channel.create(IB), ib_address(0x123456789a))
    refused(errno.ENODEV, channel.bind, channel.create(IB), ib_address(TCP << 16, gid=b"\xfd" * 16))


def test_ece(channel, other):
    """What both sides say of enhanced connection establishment reaches the other one."""
    _, port = listener(channel)
    client = other.create(uid=2)
    other.resolve(client, port)
    other.connect(client, next(QPNS), ece=(0x15b3, 0x12345))
    kind, request, _, _, parameters = channel.event()
    assert kind == CONNECT_REQUEST
    assert struct.unpack_from("<II", parameters, 308) == (0x15b3, 0x12345)
    channel.accept(request, 3, next(QPNS), ece=(0x15b4, 0x54321))
    kind, _, _, _, parameters = other.event()
    assert kind == CONNECT_RESPONSE
    assert struct.unpack_from("<II", parameters, 308) == (0x15b4, 0x54321)


def attributes(channel, number, state):
    return channel.command(INIT_QP_ATTR, struct.pack("<QII", 0, number, state), 144, 0)


@pytest.mark.parametrize("timeout", [None, 17, 0])
def test_ack_timeout(channel, other, timeout):
    """
    The option is what the QP's time-out becomes; without it, it is the path's, twice its life: half a
    second on Ethernet as of the kernel, and on InfiniBand what a subnet manager has by default. A listener's is for
    none of its requests: these have what the client's path says.
    """
    link_layer = (PORT / "link_layer").read_text(encoding="ascii").strip()
    path = {"Ethernet": 17, "InfiniBand": 19}[link_layer]
    number, port = listener(channel)
    channel.set_option(number, ID, ACK_TIMEOUT, b"\x0b")
    client = other.create(uid=2)
    if timeout is not None:
        other.set_option(client, ID, ACK_TIMEOUT, bytes([timeout]))
        refused(errno.EINVAL, other.set_option, client, ID, ACK_TIMEOUT, bytes(4))
    other.resolve(client, port)
    other.connect(client, next(QPNS))
    request = channel.event()[1]
    channel.accept(request, 3, next(QPNS))
    assert other.event()[0] == CONNECT_RESPONSE
    assert attributes(other, client, RTS)[134] == (path if timeout is None else timeout)
    assert attributes(channel, request, RTS)[134] == (timeout or path if is_ethernet() else path)
    refused(errno.EINVAL, other.set_option, other.create(UDP), ID, ACK_TIMEOUT, b"\x01")


def test_rights_of_a_qp(channel, other):
    """All of a device that knows FLUSH, as of the kernel's: librpma connects by them, and flushes."""
    _, port = listener(channel)
    client = other.create(uid=2)
    other.resolve(client, port)
    other.connect(client, next(QPNS))
    rights = (e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC |
              FLUSH_GLOBAL | FLUSH_PERSISTENT)
    for one, number in (other, client), (channel, channel.event()[1]):
        assert struct.unpack_from("<I", attributes(one, number, INIT), 36)[0] == rights


def test_tos(channel, other):
    """On Ethernet it is the traffic class of the packets."""
    _, port = listener(channel)
    client = other.create(uid=2)
    other.set_option(client, ID, TOS, b"\x28")
    other.resolve(client, port)
    other.connect(client, next(QPNS))
    channel.accept(channel.event()[1], 3, next(QPNS))
    assert other.event()[0] == CONNECT_RESPONSE
    assert attributes(other, client, RTR)[40 + 22] == (0x28 if is_ethernet() else 0)


def with_option(channel, name, value=1):
    number = channel.create()
    channel.set_option(number, ID, name, struct.pack("<i", value))
    return number


def test_reused_address(channel, other):
    """Shared by all who say so; who listens has it alone. Loopback counts as any address, which is EADDRNOTAVAIL."""
    number, port = listener(channel)
    channel.destroy(number)
    first, second = with_option(channel, REUSEADDR), with_option(other, REUSEADDR)
    channel.bind(first, address(port))
    refused(errno.EADDRNOTAVAIL, other.bind, with_option(other, REUSEADDR, 0), address(port))
    other.bind(second, address(port))
    refused(errno.EADDRNOTAVAIL, other.listen, second)
    channel.destroy(first)
    refused(errno.EINVAL, other.set_option, second, ID, REUSEADDR, struct.pack("<i", 0))
    other.set_option(second, ID, REUSEADDR, struct.pack("<i", 1))
    other.listen(second)
    refused(errno.EADDRNOTAVAIL, channel.bind, with_option(channel, REUSEADDR), address(port))
    refused(errno.EINVAL, other.set_option, second, ID, REUSEADDR, bytes(2))
    for value in 0, 1:
        refused(errno.EINVAL, other.set_option, second, ID, REUSEADDR, struct.pack("<i", value))
    client = channel.create()
    channel.resolve_addr(client, address(port))
    assert channel.event()[0] == ADDR_RESOLVED
    channel.set_option(client, ID, REUSEADDR, struct.pack("<i", 1))


def test_so_many_share_a_port(channel, other):
    """Each is compared with all that are there, so there are not very many."""
    number, port = listener(channel)
    channel.destroy(number)
    ids = [with_option(channel, REUSEADDR) for _ in range(2048)]
    for number in ids:
        channel.bind(number, address(port))
    refused(errno.EADDRINUSE, other.bind, with_option(other, REUSEADDR), address(port))
    channel.destroy(ids.pop())
    other.bind(with_option(other, REUSEADDR), address(port))
    for number in ids:
        channel.destroy(number)


def test_one_family_only(channel, other):
    """A wildcard is for both families, unless both ids are for their own."""
    number, port = listener(channel)
    channel.destroy(number)
    any6 = struct.pack("<H", socket.AF_INET6) + struct.pack("!H", port) + bytes(24)
    first = with_option(channel, AFONLY)
    channel.bind(first, address(port, "0.0.0.0"))
    refused(errno.EADDRNOTAVAIL, other.bind, with_option(other, AFONLY, 0), any6)
    second = with_option(other, AFONLY)
    other.bind(second, any6)
    channel.listen(first)
    other.listen(second)
    refused(errno.EINVAL, other.set_option, second, ID, AFONLY, struct.pack("<i", 0))


def test_given_path(channel):
    """What ibacm found out takes the place of RESOLVE_ROUTE."""
    number = channel.create()
    record = bytearray(64)
    record[53] = 3  # service level

    def given(flags, size=72):
        channel.set_option(number, *PATH, (struct.pack("<II", flags, 0) + record)[:size])

    refused(errno.EINVAL, given, FLAGS)
    channel.resolve_addr(number, address(5003))
    assert channel.event()[0] == ADDR_RESOLVED
    refused(errno.EINVAL, given, FLAGS, 71)
    refused(errno.EINVAL, given, FLAGS & ~32)
    refused(errno.EINVAL, given, FLAGS | 4)
    given(FLAGS)
    assert channel.event()[:2] == (ROUTE_RESOLVED, number)
    assert channel.query(number, 1, 8 + 72)[16 + 53] & 0xf == 3
    refused(errno.EINVAL, given, FLAGS)


def join_ip(channel, number, group, uid=9):
    payload = struct.pack("<QQ", 0, uid) + group.ljust(28, b"\0") + struct.pack("<I", number)
    return struct.unpack("<I", channel.command(JOIN_IP_MCAST, payload, 4, 0))[0]


def join(channel, number, group, flags=0, uid=9):
    payload = struct.pack("<QQIHH", 0, uid, number, len(group), flags) + group.ljust(128, b"\0")
    return struct.unpack("<I", channel.command(JOIN_MCAST, payload, 4, 0))[0]


def leave(channel, handle):
    return struct.unpack("<I", channel.command(LEAVE_MCAST, struct.pack("<QII", 0, handle, 0), 4, 0))[0]


@pytest.mark.parametrize("function", [join_ip, join])
def test_groups(channel, other, function):
    """Joining ends in an event of the group; leaving takes it back."""
    group = address(0, "239.1.2.3")
    number = channel.create(UDP, uid=5)
    refused(errno.EINVAL, function, channel, number, group)
    channel.bind(number, address())
    handle = function(channel, number, group)
    kind, of, status, uid, parameters = channel.event()
    assert (kind, of, status, uid) == (MULTICAST_JOIN, handle, 0, 9)
    qpn, qkey, dgid = struct.unpack_from("<II16s", parameters)
    assert (qpn, qkey) == (0xffffff, 0x01234567)
    assert dgid == (bytes(10) + b"\xff\xff\xef\1\2\3" if is_ethernet()
                    else b"\xff\x12\x40\1\xff\xff" + bytes(6) + b"\x0f\1\2\3")
    second = function(channel, number, address(0, "239.1.2.4"), uid=10)
    assert leave(channel, handle) == 1 and leave(channel, second) == 0
    assert not channel.readable()
    third = function(channel, number, group)
    refused(errno.EINVAL, leave, other, third)
    refused(errno.ENOENT, leave, channel, 12345)
    # The groups of an id go with it, and its own count has nothing of theirs that was given back.
    assert channel.event()[1] == third
    assert channel.destroy(number) == 1
    refused(errno.ENOENT, leave, channel, third)
    stream = channel.create(TCP)
    channel.bind(stream, address())
    refused(errno.EINVAL, function, channel, stream, group)


def test_join_flags(channel):
    number = channel.create(UDP, uid=5)
    channel.bind(number, address())
    join(channel, number, address(0, "239.1.2.3"), 1)
    refused(errno.EINVAL, join, channel, number, address(0, "239.1.2.3"), 2)
    refused(errno.EINVAL, join, channel, number, b"")
    if is_ethernet():
        refused(errno.EINVAL, join, channel, number, address(0, "0.0.0.0"))


def test_datagrams(channel, other):
    """A UD id's partner: QP number and Q_Key come with the answer, and that is all there is."""
    _, port = listener(channel, ps=UDP)
    client = other.create(UDP, uid=2)
    other.resolve(client, port)
    refused(errno.EINVAL, other.connect, client, next(QPNS), bytes(181))
    other.connect(client, next(QPNS), bytes(range(180)))
    kind, request, _, _, parameters = channel.event()
    assert kind == CONNECT_REQUEST and parameters[40:220] == bytes(range(180))
    assert struct.unpack_from("<I", channel.query(request, 1, 8 + 72)) == (0,)  # paths
    assert struct.unpack_from("<I", other.query(client, 1, 8 + 72)) == (1,)
    channel.accept(request, 3, 0x4321)
    kind, number, status, _, parameters = other.event()
    assert (kind, number, status) == (ESTABLISHED, client, 0)
    assert struct.unpack_from("<II", parameters) == (0x4321, 0x01234567)
    assert not channel.readable()
