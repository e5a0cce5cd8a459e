# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Commands that cost much, commands of the dead, and those that say they are somebody else's."""
import array
import errno
import os
import signal
import socket
import struct
import time

import pytest

from protocol import MAGIC, NUMBER, VERSION, close_all


def request(name, body=b""):
    return struct.pack("IHHII", MAGIC, VERSION, NUMBER[name], 16 + len(body), 0) + body


def test_commands_of_the_dead(daemon, neighbour):
    """What a program had sent when it ended is not carried out any more."""
    client = daemon.client()
    close_all(client.open())
    client.sock.setblocking(False)
    sent = 0
    # The daemon is stopped, so that all of it waits when the program goes.
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BlockingIOError):
            while True:
                client.sock.send(request("DEALLOC_PD", bytes(8)))
                sent += 1
        client.close()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert sent > 100
    daemon.settle(lambda: daemon.status()["devices"][0]["contexts"] <= 1)
    daemon.log_file.seek(0)
    assert daemon.log_file.read().count("DEALLOC_PD") == 0


def as_sender(sock, data, pid, fds):
    """As root, with a forged process number."""
    credentials = struct.pack("3i", pid, os.getuid(), os.getgid())
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials),
                          (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def test_in_the_name_of_the_daemon(daemon, neighbour):
    """root can send credentials with any number, the daemon's own too: its memory is not reached."""
    if os.geteuid():
        pytest.skip("needs root, to forge credentials")
    client = daemon.client()
    close_all(client.open())
    pd = client.ok(NUMBER["ALLOC_PD"])[0][:4]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    body = struct.pack("QQQ", 4096, 4096, 4096) + pd
    as_sender(client.sock, request("REG_MR", body.ljust(40, b"\0")), daemon.process.pid,
              [theirs.fileno()])
    theirs.close()
    ours.settimeout(10)
    assert struct.unpack_from("I", ours.recv(4096), 4)[0] == errno.EPERM
    time.sleep(1)
