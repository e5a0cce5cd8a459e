# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""iSCSI over RDMA: a target of tgt, a program with libiscsi, and what it has written and read."""
import os

import pytest

from common import TIME_LIMIT, expect_success, wait_until
from middleware import compiled
from rdmacm import listens

PORT = 3260  # of rdma_cm, which tgt 1.0.85 cannot be told another of
TARGET, INITIATOR = "iqn.2026-01.org.example:disk", "iqn.2026-01.org.example:reader"
SIZE = 1 << 20


@pytest.fixture
def target(device, port):
    """Its file. An iSER target of tgt lets in who is known by address and by name."""
    directory = device.new_directory()
    disk = directory / "disk"
    disk.write_bytes(bytes(2 * SIZE))
    env = {"TGT_IPC_SOCKET": str(directory / "tgtd")}

    def tgtadm(*words):
        return device.run("tgtadm", "--lld", "iser", *words, **env)

    daemon = device.start("tgtd", "-f", "--iser", "nop=off,pool_sz_mb=128", "--iscsi",
                          f"portal=127.0.0.1:{port}", **env)
    wait_until(lambda: not daemon.running or listens(device, PORT) and
               tgtadm("--op", "show", "--mode", "sys").status == 0, TIME_LIMIT, "tgtd listens")
    assert daemon.running, daemon.result()
    target = ["--mode", "target", "--tid", "1"]
    for words in (["--op", "new", *target, "-T", TARGET],
                  ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk],
                  ["--op", "bind", *target, "-I", "ALL"], ["--op", "bind", *target, "-Q", INITIATOR]):
        expect_success(tgtadm(*words))
    yield disk
    daemon.kill()  # it does not end while it has targets


@pytest.mark.skipif(os.geteuid() != 0, reason="tgtd is not tried as anybody but root")
def test_write_and_read(device, target, tmp_path):
    program = compiled(tmp_path, "iser_io.c", "-liscsi")
    source = tmp_path / "source"
    source.write_bytes(os.urandom(SIZE))
    done = device.run(program, f"iser://127.0.0.1/{TARGET}/1", INITIATOR, source)
    assert expect_success(done).stdout == "read back\n", done
    assert target.read_bytes() == source.read_bytes() + bytes(SIZE)
