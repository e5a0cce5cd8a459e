# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Without any privilege: as nobody, and in a container's namespaces."""
import errno
import os
import subprocess

import pytest

from common import AS_NOBODY, TIME_LIMIT, SIMHCA, Device, bandwidth_lines
from common import expect_bandwidths, expect_pingpong, expect_success, gid, new_port, pair_script
from common import pingpong, run_pair, wait_until
from link_layers import LINK_LAYERS
from rdmacm import expect_ending

NOBODY_ON = LINK_LAYERS

# A /dev of a few nodes and an empty /sys, as a container has them; then the command.
CONTAINER = r"""
set -e
dev=$(mktemp -d)
mount -t tmpfs tmpfs "$dev"
for node in null zero full random urandom tty; do
    : > "$dev/$node"
    mount --bind "/dev/$node" "$dev/$node"
done
mkdir -m 1777 "$dev/shm"
mount --rbind "$dev" /dev
mount -t tmpfs tmpfs /sys
exec "$@"
"""
IN_CONTAINER = ["unshare", "-Urm", "sh", "-c", CONTAINER, "sh"]

needs_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "-Ur", "true"], check=False, capture_output=True).returncode != 0,
    reason="no user namespaces in this sandbox")


@pytest.fixture
def container(launcher):
    """simhca run with its programs, below the namespaces."""
    def run(link_layer, script):
        return launcher.run(*IN_CONTAINER, SIMHCA, "run", "--private",
                            f"--link-layer={link_layer}", "--", "sh", "-c", script)
    return run


def test_is_nobody(device):
    """The tests below do run without privileges."""
    assert device.run("id", "-u").stdout != "0\n"
    status = device.run("cat", "/proc/self/status").stdout
    assert "CapEff:\t0000000000000000" in status, status
    assert os.stat(device.directory).st_uid != 0
    assert os.stat(f"/proc/{device.pid}").st_uid != 0


@pytest.mark.parametrize("flags", [["-c"], ["-e", "-c"]], ids=["polling", "events"])
def test_pingpong(device, flags):
    """ibv_rc_pingpong as nobody."""
    pingpong(device, "ibv_rc_pingpong", *flags, iters=10000)


def test_perftest(device):
    """ib_write_bw as nobody: the device reaches the memory of the programs."""
    client, server = run_pair(device, "ib_write_bw", "-F", "-n", 100)
    expect_bandwidths(expect_success(client), [65536], 100)
    expect_success(server)


def test_rping(device):
    """A connection by librdmacm as nobody, who may not have the ports of root."""
    port = new_port()
    server = device.start("rping", "-s", "-C", "3", "-V", "-p", port)
    wait_until(lambda: f":{port}" in device.tool.run(SIMHCA, "cm").stdout, TIME_LIMIT, "it listens")
    expect_ending(device.run("rping", "-c", "-a", "127.0.0.1", "-C", "3", "-V", "-p", port))
    expect_ending(server.finish())
    refused = device.run("rping", "-s", "-p", 1000)
    assert refused.status and "rdma_bind_addr: Permission denied" in refused.stderr, refused


def test_devices(device):
    """The device is shown to nobody as to root, and may be opened."""
    assert "simhca0" in expect_success(device.run("ibv_devinfo")).stdout
    expect_success(device.run("test", "-w", "/dev/infiniband/uverbs0"))


@needs_namespaces
def test_container_is_bare(launcher):
    """The namespaces of the tests below hold what they should, and not more."""
    result = expect_success(launcher.run(*IN_CONTAINER, "sh", "-c", "ls /dev /sys; id -u"))
    assert result.stdout.split() == ["/dev:", "full", "null", "random", "shm", "tty", "urandom",
                                     "zero", "/sys:", "0"], result


@needs_namespaces
def test_container_pingpong(container, link_layer):
    """Neither /dev nor /sys of the host is needed."""
    script = pair_script("ibv_rc_pingpong", *gid(link_layer), "-e", "-c", "-n", 10000)
    result = expect_success(container(link_layer, script))
    assert bandwidth_lines(result.stdout) == [str(2 * 4096 * 10000)] * 2, result
    assert "invalid data" not in result.stdout and result.stderr == "", result


@needs_namespaces
def test_container_perftest(container, link_layer):
    """The same for perftest, which looks into /sys by itself."""
    script = pair_script("ib_send_bw", "-F", "-n", 100)
    result = expect_success(container(link_layer, script))
    assert result.stdout.count("\n 65536      100  ") == 2, result


@needs_namespaces
def test_container_devices(container, link_layer):
    """The device appears in the places that are empty there."""
    result = expect_success(container(link_layer, "ls /dev/infiniband /sys/class/infiniband"))
    assert "uverbs0" in result.stdout and "simhca0" in result.stdout, result
    assert result.stderr == "", result


PYTHON = "/usr/bin/python3"
# Where the tests are nobody need not be able to read.
CONTROLLED_QKEY = """
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
context = Context(name="simhca0")
pd, cq = PD(context), CQ(context, 10)
for qkey in 0x7fffffff, 0x80000001:
    qp = QP(pd, QPInitAttr(qp_type=4, scq=cq, rcq=cq, cap=QPCap()))
    attr = QPAttr(qp_state=1, port_num=1)
    attr.qkey = qkey
    try:
        qp.modify(attr, 1 | 16 | 32 | 64)  # STATE, PKEY_INDEX, PORT, QKEY
        print("ok")
    except PyverbsRDMAError as error:
        print(error.error_code)
"""


def test_controlled_qkeys(launcher):
    """A Q_Key with the highest bit takes CAP_NET_RAW, as with the kernel."""
    run = [SIMHCA, "run", "--private", "--", PYTHON, "-c", CONTROLLED_QKEY]
    if not os.geteuid():
        assert expect_success(launcher.run(*run)).stdout.split() == ["ok", "ok"]
    nobody = AS_NOBODY if not os.geteuid() else []
    assert expect_success(launcher.run(*nobody, *run)).stdout.split() == ["ok", str(errno.EPERM)]


def test_root_and_nobody(link_layer):
    """A daemon of one user: another user's program has no access to it, and says so."""
    if os.geteuid():
        # Only root can become two users. Others have test_pingpong above, as one.
        pytest.skip("needs root, to be two users")
    with Device(link_layer) as device:
        pair = ["ibv_rc_pingpong", *gid(link_layer), "-c"]
        for result in run_pair(device, *pair):
            expect_pingpong(result, 4096, 1000)
        stranger = device.run(*AS_NOBODY, *pair)
        assert stranger.status > 0 and not bandwidth_lines(stranger.stdout), stranger
        device.expect_idle()
