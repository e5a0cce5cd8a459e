# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""fio's engine rdma: its server's memory is what it writes to, reads from, or sends to."""
import json
import os

import pytest

from common import expect_success
from rdmacm import start_listener

NOBODY_ON = ["ib"]
BLOCK = 65536
BLOCKS = 16


@pytest.fixture
def fio(device, port):
    """Runs both ends; how they ended, and what is in their memory then, client's first."""
    directory = device.new_directory()
    memory = [directory / "client", directory / "server"]

    def run(verb, depth, client_flags=(), server_flags=()):
        argv = ["fio", "--ioengine=rdma", "--verify_state_save=0", f"--port={port}", f"--bs={BLOCK}",
                f"--size={BLOCK * BLOCKS}", f"--iodepth={depth}", "--output-format=json"]
        for path in memory:
            path.write_bytes(os.urandom(BLOCK * depth))
            device.give(path)
        server = start_listener(device, port, *argv, "--name=server", "--rw=read",
                                f"--mem=mmapshared:{memory[1]}", *server_flags)
        client = device.run(*argv, "--name=client", "--rw=write", "--hostname=127.0.0.1",
                            f"--verb={verb}", f"--mem=mmapshared:{memory[0]}", *client_flags)
        if client.status:
            server.kill()
        return client, server.finish(), [path.read_bytes() for path in memory]

    return run


def expect_bytes(result, direction):
    """Of a good end: what it says that it has moved."""
    report = result.stdout[result.stdout.index("{"):]
    moved = json.loads(report)["jobs"][0][direction]["io_bytes"]
    assert expect_success(result) and moved == BLOCK * BLOCKS, result


@pytest.mark.parametrize("depth", [1, BLOCKS])
@pytest.mark.parametrize("verb", ["write", "read"])
def test_one_sided(fio, verb, depth):
    """
    RDMA writes or reads. Each is of a random block of the server's; if there is one only, both have
    the same in the end.
    """
    client, server, memory = fio(verb, depth)
    expect_bytes(client, "write")
    expect_success(server)
    assert depth > 1 or memory[0] == memory[1]


def test_send(fio):
    """Each message has its number and a checksum, which the receiver verifies."""
    client, server, memory = fio("send", BLOCKS, ["--verify=crc32c", "--do_verify=0"],
                                 ["--verify=crc32c"])
    expect_bytes(client, "write")
    expect_bytes(server, "read")
    assert memory[0] == memory[1]


@pytest.mark.parametrize("module_device", ["ethernet"], indirect=True)
def test_send_of_something_else(fio):
    """It does verify."""
    client, server, _ = fio("send", BLOCKS, [], ["--verify=crc32c"])
    expect_success(client)
    assert server.status and "verify: bad magic header" in server.stderr, server
