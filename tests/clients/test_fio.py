# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""fio's engine rdma: its server's memory is what it writes to, reads from, or sends to."""
import functools

import pytest

from common import expect_success
from fio_rdma import BLOCKS, expect_bytes, run_fio

NOBODY_ON = ["ib"]


@pytest.fixture
def fio(device, port):
    return functools.partial(run_fio, device, device, port)


@pytest.mark.pairs("module_device", "verb", "depth")
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
