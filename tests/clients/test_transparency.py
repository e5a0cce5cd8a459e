# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A program that never touches RDMA is byte for byte the same below simhca run."""
import sys

import pytest

from common import SIMHCA

PYTHON = """
import os, socket, subprocess, sys
print(sorted(os.listdir("/etc"))[:20], os.stat("/dev/null").st_rdev)
print(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        client.sendall(b"text")
        print(peer.recv(9), os.fstat(client.fileno()).st_mode, os.fstat(client.fileno()).st_rdev)
        peer.close()
print(subprocess.run(["cat", "/etc/hostname"], capture_output=True).stdout)
print("to stderr", file=sys.stderr)
sys.exit(7)
"""

COMMANDS = {
    "list": ["ls", "-ln", "/etc", "/dev/null", "/nonexistent"],
    "stat": ["stat", "-L", "-c", "%n %F %a %s %t:%T", "/etc", "/dev/null", "/sys/class/net"],
    "find": ["find", "/dev", "-maxdepth", "1", "-type", "c"],
    "copy": ["dd", "if=/dev/zero", "bs=1000", "count=3", "status=none"],
    "pipes": ["sh", "-c", "seq 1000 | sort -R --random-source=/dev/zero | md5sum; exit 3"],
    "signal": ["sh", "-c", "kill -TERM $$"],
    "python": [sys.executable, "-c", PYTHON],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_other_programs(launcher, command):
    """Output, errors and exit status are those of the command alone."""
    alone = launcher.run(*command)
    below = launcher.run(SIMHCA, "run", "--private", "--", *command)
    # The shell's way of stating a signal, where Python has a negative number.
    status = 128 - alone.status if alone.status < 0 else alone.status
    assert (below.status, below.stdout, below.stderr) == (status, alone.stdout, alone.stderr)
