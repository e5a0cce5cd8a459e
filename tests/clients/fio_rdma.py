# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Both ends of fio's engine rdma."""
import json
import os

from common import expect_success
from rdmacm import start_listener

BLOCK = 65536
BLOCKS = 16


def run_fio(client_host, server_host, port, verb, depth, client_flags=(), server_flags=(),
            address="127.0.0.1"):
    """How both ended, and what is in their memory then, client's first."""
    argv = ["fio", "--ioengine=rdma", "--verify_state_save=0", f"--port={port}", f"--bs={BLOCK}",
            f"--size={BLOCK * BLOCKS}", f"--iodepth={depth}", "--output-format=json"]
    memory = []
    for host in client_host, server_host:
        path = host.new_directory() / "memory"
        path.write_bytes(os.urandom(BLOCK * depth))
        host.give(path)
        memory.append(path)
    server = start_listener(server_host, port, *argv, "--name=server", "--rw=read",
                            f"--mem=mmapshared:{memory[1]}", *server_flags)
    client = client_host.run(*argv, "--name=client", "--rw=write", f"--hostname={address}",
                             f"--verb={verb}", f"--mem=mmapshared:{memory[0]}", *client_flags)
    if client.status:
        server.kill()
    return client, server.finish(), [path.read_bytes() for path in memory]


def expect_bytes(result, direction):
    """Of a good end: what it says that it has moved."""
    report = result.stdout[result.stdout.index("{"):]
    moved = json.loads(report)["jobs"][0][direction]["io_bytes"]
    assert expect_success(result) and moved == BLOCK * BLOCKS, result
