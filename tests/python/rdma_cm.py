# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""An event channel of rdma_cm, as librdmacm uses it: by the layouts of rdma/rdma_user_cm.h."""
import ctypes
import errno
import itertools
import json
import os
import pathlib
import select
import socket
import struct

CREATE_ID, DESTROY_ID, LISTEN, CONNECT, ACCEPT, REJECT = 0, 1, 7, 6, 8, 9
BIND_IP, RESOLVE_IP, RESOLVE_ROUTE, QUERY_ROUTE, INIT_QP_ATTR = 2, 3, 4, 5, 11
GET_EVENT, GET_OPTION, SET_OPTION, JOIN_IP_MCAST, LEAVE_MCAST = 12, 13, 14, 16, 17
MIGRATE_ID, QUERY, BIND, RESOLVE_ADDR, JOIN_MCAST, WRITE_CM_EVENT = 18, 19, 20, 21, 22, 24
DISCONNECT, NOTIFY, RESOLVE_IB_SERVICE = 10, 15, 23
IPOIB, TCP, UDP, IB = 0x002, 0x106, 0x111, 0x13F
ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, CONNECT_REQUEST, CONNECT_RESPONSE = 0, 1, 2, 4, 5
UNREACHABLE, TIMEWAIT_EXIT, INTERNAL = 7, 15, 19
REJECTED, ESTABLISHED, DISCONNECTED, MULTICAST_JOIN, USER = 8, 9, 10, 12, 18
AF_IB = 27
PORT = pathlib.Path("/sys/class/infiniband/simhca0/ports/1")


# Of QPs that do not exist. None is used twice: where its connection has not ended it would be stale.
QPNS = itertools.count(0x10000)


class Refused(Exception):
    """A command failed with this errno."""


def is_ethernet():
    return (PORT / "link_layer").read_text() == "Ethernet\n"


def address(port=0, host="127.0.0.1"):
    return struct.pack("<H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + \
        bytes(8)


def ib_address(service_id, mask=2**64 - 1, gid=bytes(16)):
    """struct sockaddr_ib"""
    return struct.pack("<H", AF_IB) + struct.pack("!HI16sQQQ", 0xffff, 0, gid, service_id, mask, 0)


class Channel:
    """An event channel, as a file."""

    def __init__(self, flags=0):
        self.fd = os.open("/dev/infiniband/rdma_cm", os.O_RDWR | os.O_CLOEXEC | flags)

    def close(self):
        os.close(self.fd)

    def command(self, number, payload, out=0, response_at=None):
        response = ctypes.create_string_buffer(max(out, 8))
        if response_at is not None:
            payload = bytearray(payload)
            struct.pack_into("<Q", payload, response_at, ctypes.addressof(response))
        written = struct.pack("<IHH", number, len(payload), out) + bytes(payload)
        try:
            assert os.write(self.fd, written) == len(written)
        except OSError as error:
            raise Refused(error.errno) from None
        return response.raw[:out]

    def create(self, ps=TCP, uid=7, qp_type=2):
        answer = self.command(CREATE_ID, struct.pack("<QQHB5x", uid, 0, ps, qp_type), 4, 8)
        return struct.unpack("<I", answer)[0]

    def destroy(self, number):
        return struct.unpack("<I", self.command(DESTROY_ID, struct.pack("<QII", 0, number, 0), 4,
                                                0))[0]

    def bind(self, number, addr):
        self.command(BIND, struct.pack("<IHH", number, len(addr), 0) + addr.ljust(128, b"\0"))

    def listen(self, number, backlog=8):
        self.command(LISTEN, struct.pack("<II", number, backlog))

    def query(self, number, what, out):
        """What: 0 addresses, 1 paths, 2 GIDs."""
        return self.command(QUERY, struct.pack("<QII", 0, number, what), out, 0)

    def set_option(self, number, level, name, value):
        buffer = ctypes.create_string_buffer(value, len(value))
        self.command(SET_OPTION, struct.pack("<QIIII", ctypes.addressof(buffer), number, level, name,
                                             len(value)))

    def resolve_addr(self, number, dst, timeout=1000):
        self.command(RESOLVE_ADDR, struct.pack("<IIHHI", number, timeout, 0, len(dst), 0) +
                     bytes(128) + dst.ljust(128, b"\0"))

    def resolve(self, number, to):
        """to: a port of the loopback address, or an address"""
        self.resolve_addr(number, address(to) if isinstance(to, int) else to)
        assert self.event()[0] == ADDR_RESOLVED
        self.resolve_route(number)

    def resolve_route(self, number):
        self.command(RESOLVE_ROUTE, struct.pack("<II", number, 1000))
        assert self.event()[0] == ROUTE_RESOLVED

    def parameters(self, qpn, private=b"", numbers=(1, 1, 0, 7, 7), qkey=0):
        """numbers: responder resources, initiator depth, flow control, retries, retries after RNR"""
        return struct.pack("<II", qpn, qkey) + private.ljust(256, b"\0") + \
            struct.pack("<8B", len(private), 0, *numbers, 1)

    def connect(self, number, qpn, private=b"", ece=(0, 0), **more):
        self.command(CONNECT, self.parameters(qpn, private, **more) +
                     struct.pack("<IIII", number, 0, *ece))

    def accept(self, number, uid, qpn, ece=(0, 0), **more):
        self.command(ACCEPT, struct.pack("<Q", uid) + self.parameters(qpn, **more) +
                     struct.pack("<IIII", number, 0, *ece))

    def reject(self, number, private=b"", reason=0):
        self.command(REJECT, struct.pack("<IBBxx", number, len(private), reason) +
                     private.ljust(256, b"\0"))

    def disconnect(self, number):
        self.command(DISCONNECT, struct.pack("<I", number))

    def notify(self, number, event):
        self.command(NOTIFY, struct.pack("<II", number, event))

    def establish(self, number):
        """The active side has seen the response."""
        self.command(ACCEPT, bytes(280) + struct.pack("<IIII", number, 0, 0, 0))

    def event(self):
        """Its type, id, status, uid and parameters."""
        uid, number, kind, status = struct.unpack_from(
            "<QIIi", answer := self.command(GET_EVENT, bytes(8), 336, 0))
        return kind, number, status, uid, answer[20:]

    def readable(self, timeout=0):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(timeout * 1000))


def refused(number, function, *args):
    try:
        function(*args)
    except Refused as refusal:
        assert refusal.args[0] == number, errno.errorcode[refusal.args[0]]
    else:
        raise AssertionError("it was not refused")
    # Those that the library itself refuses are not among them.
    assert all(failure["text"] for failure in failures() if failure.get("errno") == number)


def failures():
    """What the daemon says of this process's failures, the oldest one first."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(os.environ["SIMHCA_RUNTIME_DIR"] + "/control")
        control.send(b'{"cmd": "explain"}')
        _, fds, _, _ = socket.recv_fds(control, 4096, 1)
        with os.fdopen(fds[0]) as file:
            return [failure for failure in json.load(file)["failures"] if failure["pid"] == os.getpid()]


def listener(channel, backlog=8, ps=TCP):
    """An id that listens, and its port."""
    number = channel.create(ps, uid=1)
    channel.bind(number, address())
    channel.listen(number, backlog)
    return number, struct.unpack_from("!H", channel.query(number, 0, 280), 18)[0]
