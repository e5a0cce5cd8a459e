# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Which TCP ports somebody listens on, by sock_diag(7): of all sockets the kernel looks at those that listen, and disturbs
nobody. For /proc/net/tcp it walks the table of all connections, of all namespaces, which takes milliseconds.

`listening.py wait PORT`, for scripts: until somebody listens there, or for a minute. `listening.py give FD` sends, by
that socket, one that asks in the network namespace where this runs.
"""
import contextlib
import errno
import itertools
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
LISTEN = 10  # a state of TCP's: TCP_LISTEN
HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
# struct inet_diag_req_v2: family, protocol, extensions, states; then of struct inet_diag_sockid the port, and no addresses
# or interface; the cookie is INET_DIAG_NOCOOKIE.
REQUEST = struct.Struct("=BBBxI2s2x36x8s")
PORT_AT = HEADER.size + 4  # in struct inet_diag_msg
ALIGNMENT = 4
SECONDS = 60


def new_netlink():
    """It asks in the network namespace where it was made, whoever has it."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)


def netlink_in(prefix):
    """One that was made where a command with this prefix runs."""
    here, there = socket.socketpair()
    with here, there:
        subprocess.run([*prefix, "/usr/bin/python3", "-IS", __file__, "give", str(there.fileno())], check=True,
                       pass_fds=[there.fileno()])
        _, [descriptor], _, _ = socket.recv_fds(here, 1, 1)
        return socket.socket(fileno=descriptor)


def messages(netlink):
    """Of the answer to one question: the type of each, and the message with its header."""
    while True:
        data = netlink.recv(1 << 16)
        while data:
            length, kind, *_ = HEADER.unpack_from(data)
            yield kind, data[:length]
            if kind in (NLMSG_ERROR, NLMSG_DONE):
                return
            data = data[-(-length // ALIGNMENT) * ALIGNMENT:]


def ports_of(netlink, family, port):
    ask = REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << LISTEN, struct.pack("!H", port), b"\xff" * 8)
    netlink.send(HEADER.pack(HEADER.size + len(ask), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 0, 0) + ask)
    for kind, message in messages(netlink):
        if kind not in (NLMSG_ERROR, NLMSG_DONE):
            yield struct.unpack_from("!H", message, PORT_AT)[0]
            continue
        [error] = struct.unpack_from("=i", message, HEADER.size)
        # This kernel has no IPv6.
        if error and (family, -error) != (socket.AF_INET6, errno.ENOENT):
            raise OSError(-error, f"sock_diag: {os.strerror(-error)}")


def listening_ports(netlink=None, port=0):
    """All of them, or that one if it is among them; in the namespace of a netlink socket, or here."""
    with contextlib.ExitStack() as stack:
        netlink = netlink or stack.enter_context(new_netlink())
        return {one for family in (socket.AF_INET, socket.AF_INET6) for one in ports_of(netlink, family, port)}


def is_listened_on(port, netlink=None):
    return bool(listening_ports(netlink, int(port)))


_PORTS = itertools.count(20000 + os.getpid() * 61 % 8000)


def new_port():
    """A TCP port that no other test of this run has, and nobody listens on."""
    return next(port for port in _PORTS if not is_listened_on(port))


def wait_command(port):
    """For a shell."""
    return f"/usr/bin/python3 -IS {pathlib.Path(__file__).resolve()} wait {port}"


def wait(port):
    end = time.monotonic() + SECONDS
    with new_netlink() as netlink:
        while not is_listened_on(port, netlink):
            if time.monotonic() > end:
                sys.exit(f"listening.py: within {SECONDS} s nobody listens on port {port}")
            time.sleep(0.02)


def give(descriptor):
    with socket.socket(fileno=int(descriptor)) as channel, new_netlink() as netlink:
        socket.send_fds(channel, [b"\n"], [netlink.fileno()])


if __name__ == "__main__":
    {"wait": wait, "give": give}[sys.argv[1]](sys.argv[2])
