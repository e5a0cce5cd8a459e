# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
Who carries messages between programs whose pid namespaces are not the daemon's, as those of containers on a daemon
of the host: the programs themselves where they see each other, and else the daemon.
"""
import json
import subprocess

import pytest

from common import SIMHCA, TIME_LIMIT, Device, expect_success, new_port, wait_until

NEW = ["unshare", "-Urpf", "--mount-proc"]

pytestmark = pytest.mark.skipif(
    subprocess.run([*NEW, "true"], check=False, capture_output=True).returncode != 0,
    reason="no pid namespace can be made here")


@pytest.fixture
def device():
    with Device("ethernet", "--daemon-option", "fast-path=on") as made:
        yield made


def contexts(device):
    return device.status()["devices"][0]["context"]


def both_have_messages(device):
    return len(contexts(device)) == 2 and all(one["past"] for one in contexts(device))


def server_and_client(device):
    argv = ["ibv_rc_pingpong", "-g", "0", "-p", str(new_port()), "-n", "100000000"]
    return argv, [*argv, "localhost"]


def test_two_in_one_namespace(device):
    """Two programs of a container, or of two that share it (podman run --pid container:NAME)."""
    server, client = map(" ".join, server_and_client(device))
    device.start(*NEW, "sh", "-c", f"{server} & until {client}; do sleep 0.1; done")
    wait_until(lambda: device.objects()["carried"] == 2, TIME_LIMIT, "they carry messages themselves")
    assert {one["memory"] for one in contexts(device)} == {"process_vm"}


def test_two_in_two_namespaces(device):
    """Neither has a number for the other: the daemon carries all, and nobody takes that for a refusal."""
    server, client = server_and_client(device)
    device.start(*NEW, *server)
    wait_until(lambda: contexts(device), TIME_LIMIT, "the server has the device")
    device.start(*NEW, *client)
    wait_until(lambda: both_have_messages(device), TIME_LIMIT, "they talk")
    assert device.objects()["carried"] == 0
    assert not [one for one in contexts(device) if one.get("not_attached")]


def test_one_beside_the_daemon(device):
    """Who sees the other one's processes need not be seen itself: each QP's sender carries for itself."""
    server, client = server_and_client(device)
    device.start(*NEW, *server)
    wait_until(lambda: contexts(device), TIME_LIMIT, "the server has the device")
    device.start(*client)
    wait_until(lambda: device.objects()["carried"] == 1, TIME_LIMIT, "the client's messages are its own")
    wait_until(lambda: both_have_messages(device), TIME_LIMIT, "they talk")


OPENS = "import pyverbs.device as d, time; c = d.Context(name='simhca0'); time.sleep(600)"
ALLOCATES = "import pyverbs.device as d, pyverbs.pd as p; p.PD(d.Context(name='simhca0'))"


class DeviceApart(Device):
    """Whose daemon is in a pid namespace of its own, from where it sees no process outside."""

    def start_daemon(self):
        self.tool.start(*NEW, "sh", "-c", f"{SIMHCA} start {' '.join(self.options)} && exec sleep infinity")
        wait_until(lambda: self.tool.run(SIMHCA, "status").status == 0, TIME_LIMIT, "the daemon runs")
        self.env |= json.loads(self.tool.run(SIMHCA, "env", "--format", "json").stdout)


def names(device):
    return sorted(one["comm"] for one in contexts(device))


def test_rules_about_programs_that_cannot_be_seen(tmp_path):
    """Rules find them by the names that they have said, and none beside those."""
    for name in "apple", "pear", "plum":
        (tmp_path / name).symlink_to("/usr/bin/python3")
    with DeviceApart("ethernet") as device:
        device.start(tmp_path / "apple", "-c", OPENS)
        device.start(tmp_path / "pear", "-c", OPENS)
        wait_until(lambda: names(device) == ["apple", "pear"], TIME_LIMIT, "both have said their names")
        assert {one["pid"] for one in contexts(device)} == {0}
        refused = device.run(SIMHCA, "inject", "add", "kill now program=pear")
        assert refused.status == 1 and "another pid namespace" in refused.stderr, refused
        rules = "verb ALLOC_PD=ENOMEM program=plum", "fatal now program=apple"
        expect_success(device.run(SIMHCA, "inject", "add", *rules))
        wait_until(lambda: names(device) == ["pear"], TIME_LIMIT, "apple has lost the device")
        expect_success(device.run("/usr/bin/python3", "-c", ALLOCATES))
        plum = device.run(tmp_path / "plum", "-c", ALLOCATES)
        assert plum.status == 1 and "Cannot allocate memory" in plum.stderr, plum
        assert names(device) == ["pear"]
