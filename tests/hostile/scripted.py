# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Attacks that are written in Python: programs that have an event channel of rdma_cm at hand."""
import contextlib
import os
import subprocess
import sys

from protocol import BUILD

PROGRAM = """
import itertools, os, socket, struct, sys
import protocol
from rdma_cm import *
# Each process has QP numbers of its own: that of another one's connection would be stale.
QPNS = itertools.count(os.getpid() << 8 & 0xffff00)
# The two ends of a child's connection.
ACTIVE, PASSIVE = lambda: os.getpid() << 1 & 0xffffff, lambda: os.getpid() << 1 & 0xffffff | 1

def flood(channel, number, payloads):
    # Without a socket for the answer: nobody waits for it.
    with socket.socket(fileno=os.dup(channel.fd)) as sock:
        for payload in payloads:
            command = struct.pack("<IHH", number, len(payload), 4) + payload
            hdr = struct.pack("=IHHII", protocol.MAGIC, protocol.VERSION, 1, 32 + len(command), 0)
            sock.send(hdr + struct.pack("<QIHH", 0, 0, len(command), 0) + command)
"""


def program(daemon, code, *arguments):
    """Python with an event channel at hand; it says when it is there, and ends when it likes to."""
    return subprocess.Popen(
        [os.path.join(BUILD, "bin", "simhca"), "run", "--runtime-dir", daemon.directory, "--",
         sys.executable, "-c", PROGRAM + code, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def running(daemon, code, *arguments):
    process = program(daemon, code, *arguments)
    try:
        line = process.stdout.readline()
        assert line, f"ended with status {process.wait(10)}"
        yield process, line
    finally:
        process.kill()
        process.communicate(timeout=30)
