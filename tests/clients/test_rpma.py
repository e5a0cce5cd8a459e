# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""librpma, which connects by rdma_cm: memory of a server's, written, flushed and read back."""
from common import TIME_LIMIT, expect_success, wait_until
from middleware import compiled
from releases import needs

NOBODY_ON = ["ib"]


@needs("librpma")
def test_write_flush_read(device, port):
    program = compiled(device.new_directory(), "rpma.c", "-lrpma", "-libverbs")
    server = device.start(program, "server", port)
    wait_until(lambda: "listens" in server.stdout or not server.running, TIME_LIMIT, "it listens")
    client = expect_success(device.run(program, "client", port))
    assert client.stdout == "read back\n", client
    assert expect_success(server.finish()).stdout == "listens\nwritten\n", server.result()
