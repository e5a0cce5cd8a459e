# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Ceph over RDMA: a monitor and an OSD, and an object put and got."""
import os
import shutil

import pytest

from common import TIME_LIMIT, expect_success, new_port, wait_until
from link_layers import ONE_LINK_LAYER

NOBODY_ON = ["ethernet"]
SIZE = 4 << 20  # bytes
FSID, OSD = "5c1d1b4e-7f0a-4d2e-9a39-0d0c8b6f3a51", "0b7d43a2-6a1c-4f5b-8a0e-51c7d2f6e9b4"
PORT = "/sys/class/infiniband/simhca0/ports/1"

pytestmark = [
    pytest.mark.skipif(not all(map(shutil.which, ("ceph", "ceph-mon", "ceph-osd", "rados"))),
                       reason="ceph-mon, ceph-osd or ceph-common is not installed"),
    pytest.mark.parametrize("module_device", ONE_LINK_LAYER, indirect=True)]

# Ceph 16 sizes its buffers for a storage server, and warns of what it may not lock of them. Its
# second messenger protocol is left out, as it would open a port more.
CONFIGURATION = """
[global]
fsid = {fsid}
mon_host = v1:127.0.0.1:{monitor}
public_network = 127.0.0.0/8
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
keyring = {directory}/keyring
ms_type = async+rdma
ms_public_type = async+rdma
ms_cluster_type = async+rdma
ms_bind_msgr2 = false
ms_bind_port_min = {osd}
ms_bind_port_max = {last}
ms_async_rdma_device_name = simhca0
ms_async_rdma_local_gid = {gid}
ms_async_rdma_receive_queue_len = 512
ms_async_rdma_receive_buffers = 2048
ms_async_rdma_send_buffers = 256
ms_async_rdma_buffer_size = 16384
mon_data = {directory}/mon
mon_allow_pool_size_one = true
osd_data = {directory}/osd
osd_objectstore = memstore
memstore_device_bytes = 268435456
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
run_dir = {directory}
admin_socket = {directory}/$name.asok
log_file = {directory}/$name.log
"""


class Cluster:
    """One monitor and one OSD."""

    def __init__(self, device):
        self.device = device
        self.directory = device.new_directory()
        self.conf = self.directory / "ceph.conf"
        monitor = new_port()
        self.conf.write_text(CONFIGURATION.format(
            directory=self.directory, fsid=FSID, gid=self.gid(), monitor=monitor,
            osd=monitor + 1000, last=monitor + 1999))
        for name in "mon", "osd":
            (self.directory / name).mkdir()
            device.give(self.directory / name)
        (self.directory / "keyring").touch()
        monmap = self.directory / "monmap"
        self.run("monmaptool", "--create", "--fsid", FSID, "--addv", "a",
                 f"[v1:127.0.0.1:{monitor}]", monmap)
        self.run("ceph-mon", "-i", "a", "--mkfs", "--monmap", monmap)
        self.monitor = self.start("ceph-mon", "-i", "a")
        self.command("mon", "stat")
        self.command("osd", "new", OSD)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", OSD)
        self.osd = self.start("ceph-osd", "-i", "0")
        wait_until(self.osd_is_up, TIME_LIMIT, "the OSD is up")
        self.command("osd", "pool", "create", "data", "1", "1")

    def command(self, *words):
        """
        What the monitor is asked may come before ceph has learned the cluster's fsid: the monitor
        refuses that (EPERM), as it does all just after its election. ceph asks again, then.
        """
        answers = []

        def is_obeyed():
            answers.append(self.device.run("ceph", "-c", self.conf, *words))
            return "Error EPERM" not in answers[-1].stderr

        wait_until(is_obeyed, TIME_LIMIT, "the monitor obeys")
        assert answers[-1].status == 0, f"{answers[-1]}\n{self.log()}"

    def osd_is_up(self):
        """It ends if its first command reaches the monitor before it has learned the cluster's fsid."""
        if not self.osd.running:
            self.osd = self.start("ceph-osd", "-i", "0")
        return "1 up" in self.device.run("ceph", "-c", self.conf, "osd", "stat").stdout

    def gid(self):
        """Ceph takes no index."""
        index = 1 if self.device.link_layer == "ethernet" else 0  # 1: 127.0.0.1
        return self.read(f"gids/{index}")

    def read(self, name):
        return expect_success(self.device.run("cat", f"{PORT}/{name}")).stdout.strip()

    def start(self, program, *words):
        return self.device.start(program, "-c", self.conf, "-f", *words)

    def run(self, program, *words):
        result = self.device.run(program, "-c", self.conf, *words)
        assert result.status == 0, f"{result}\n{self.log()}"
        return result

    def sent(self):
        """Bytes that the port has sent, which is both ends'; the tree learns of them later."""
        return 4 * int(self.read("counters/port_xmit_data"))

    def log(self):
        return "\n".join(path.read_text(errors="replace")[-4000:]
                         for path in self.directory.glob("*.log"))


def test_put_and_get(device):
    """What comes back is what was put, and each way its bytes are the device's."""
    cluster = Cluster(device)
    written, read = cluster.directory / "written", cluster.directory / "read"
    written.write_bytes(os.urandom(SIZE))
    cluster.run("rados", "-p", "data", "put", "object", written)
    cluster.run("rados", "-p", "data", "get", "object", read)
    assert read.read_bytes() == written.read_bytes()
    # All else is small: about 200 KB until there is a pool.
    wait_until(lambda: cluster.sent() > 2 * SIZE, 10, "the port has sent the object twice")
