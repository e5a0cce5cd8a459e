# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The device as the programs show it that are there to show devices."""
import re

import pytest

from common import SIMHCA, Device, expect_success, fields, output, pingpong
from link_layers import LINK_LAYER_NAMES


def test_ibv_devices(device):
    """ibv_devices lists the device, with the GUID that sysfs has."""
    guid = output(device, "cat", "/sys/class/infiniband/simhca0/node_guid").strip()
    assert re.fullmatch("[0-9a-f]{4}(:[0-9a-f]{4}){3}", guid)
    assert output(device, "ibv_devices").split()[-2:] == ["simhca0", guid.replace(":", "")]


def test_ibv_devinfo(device):
    """ibv_devinfo -v agrees with sysfs and with what the daemon was asked for."""
    shown = fields(output(device, "ibv_devinfo", "-v"))
    sysfs = "/sys/class/infiniband/simhca0"
    assert shown["hca_id"] == "simhca0"
    assert shown["transport"] == "InfiniBand (0)"
    assert shown["state"] == "PORT_ACTIVE (4)"
    assert shown["link_layer"] == LINK_LAYER_NAMES[device.link_layer]
    assert shown["active_mtu"] == "4096 (5)"
    for name in "node_guid", "sys_image_guid", "fw_ver":
        assert shown[name] == output(device, "cat", f"{sysfs}/{name}").strip()
    assert int(shown["port_lid"]) == int(output(device, "cat", f"{sysfs}/ports/1/lid"), 16)
    gid = output(device, "cat", f"{sysfs}/ports/1/gids/0").strip()
    assert int(shown["max_qp"]) > 0 and gid.startswith("fe80:")
    assert "GID[  0]" in shown, shown


@pytest.mark.parametrize("argv", [["ibv_devinfo", "-d", "simhca1"], ["ibv_devinfo", "-i", "2"]])
def test_what_is_not_there(device, argv):
    """A device or port that does not exist is not found, and nothing crashes."""
    result = device.run(*argv)
    assert result.status != 0 and result.status > 0, result
    assert "hca_id" not in result.stdout or "port:\t2" not in result.stdout, result


@pytest.mark.parametrize("command", [["status"], ["stat"], ["qp"], ["explain"], ["trace", "-w", "-", "-c", 1]],
                         ids=lambda command: command[0])
def test_a_filter_for_what_is_not_there(device, command):
    """The tool says which devices there are, and does not show nothing, as of one where nothing happens."""
    result = device.run(SIMHCA, *command, "--device", "mlx5_0")
    assert result.status == 2 and result.stdout == "", result
    assert "--device mlx5_0: no such device; those of the daemon in " in result.stderr, result
    assert result.stderr.endswith(": simhca0\n"), result


def test_ibstat(device):
    """ibstat, which knows sysfs alone and no verbs, shows the same port."""
    shown = fields(output(device, "ibstat"))
    assert shown["State"] == "Active" and shown["Physical state"] == "LinkUp"
    assert shown["Link layer"] == LINK_LAYER_NAMES[device.link_layer]
    assert "CA 'simhca0'" in output(device, "ibstat")
    assert output(device, "ibstat", "-l") == "simhca0\n"
    guid = output(device, "cat", "/sys/class/infiniband/simhca0/node_guid")
    assert shown["Node GUID"] == "0x" + guid.strip().replace(":", "")


def test_dev_infiniband(device):
    """ls sees a character device, by the number that sysfs has for it."""
    major, minor = output(device, "cat", "/sys/class/infiniband_verbs/uverbs0/dev").split(":")
    listing = output(device, "ls", "-l", "/dev/infiniband")
    line = re.compile(rf"^crw-rw-rw- .* {major}, +{int(minor)} .* uverbs0$", re.M)
    assert line.search(listing), listing
    assert output(device, "ls", "/sys/class/infiniband") == "simhca0\n"


def test_as_in_sysfs(device):
    """Both directories of the device are links to its place below /sys/devices, and lead back."""
    place = "/sys/devices/simhca/simhca0"
    for name in "infiniband/simhca0", "infiniband_verbs/uverbs0":
        link = f"/sys/class/{name}"
        assert output(device, "readlink", link) == f"../../devices/simhca/simhca0/{name}\n"
        assert output(device, "realpath", link) == f"{place}/{name}\n"
        assert output(device, "readlink", f"{link}/device") == "../../../simhca0\n"
        assert output(device, "realpath", f"{link}/device") == place + "\n"
        assert output(device, "cat", f"{link}/device/uevent") == "DRIVER=simhca\n"


def test_gid_attributes(device):
    """The type and the interface of a GID; of an index without one, read() fails."""
    port = "/sys/class/infiniband/simhca0/ports/1/gid_attrs"
    shown = "RoCE v2" if device.link_layer == "ethernet" else "IB/RoCE v1"
    assert output(device, "cat", f"{port}/types/0") == shown + "\n"
    for name in "types", "ndevs":
        result = device.run("cat", f"{port}/{name}/7")
        assert result.status == 1 and result.stderr.endswith(": Invalid argument\n"), result


def test_hwloc(device):
    """lstopo shows the device in the machine."""
    assert 'OpenFabrics "simhca0"' in output(device, "lstopo-no-graphics", "--of", "console")


def test_two_devices(link_layer):
    """Two devices of one daemon are listed, and a connection leads from one to the other."""
    with Device(link_layer, "--devices=2") as device:
        listed = output(device, "ibv_devinfo", "-l").split()
        assert listed[0] == "2" and sorted(listed[-2:]) == ["simhca0", "simhca1"]
        guids = re.findall(r"node_guid:\s+(\S+)", output(device, "ibv_devinfo"))
        assert len(guids) == len(set(guids)) == 2
        pingpong(device, "ibv_rc_pingpong", "-c", "-d", "simhca1")
        device.expect_idle()


@pytest.mark.parametrize("mtu", [256, 1024])
def test_mtu(link_layer, mtu):
    """--mtu is the port's active MTU."""
    with Device(link_layer, f"--mtu={mtu}") as device:
        shown = fields(output(device, "ibv_devinfo"))["active_mtu"]
        assert shown.startswith(f"{mtu} ")


def test_without_simhca(launcher):
    """Outside of simhca, these programs see no such device: nothing was installed for them."""
    result = launcher.run("ibv_devices")
    assert "simhca" not in result.stdout + result.stderr, result


def test_run_has_a_device_of_its_own(launcher, link_layer):
    """simhca run --private needs nothing else to show a device."""
    result = expect_success(launcher.run(SIMHCA, "run", "--private", f"--link-layer={link_layer}",
                                         "--", "ibv_devinfo"))
    assert fields(result.stdout)["link_layer"] == LINK_LAYER_NAMES[link_layer]
    assert result.stderr == "", result
